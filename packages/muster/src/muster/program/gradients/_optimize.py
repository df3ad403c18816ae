"""Train inside a step: apply gradients with a Keras optimizer."""

import contextlib
import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import jax

from muster._errors import GradientError
from muster._keras import keras
from muster.keras_hooks import wrap, wrap_in_scopes
from muster.program._indexed_slices import IndexedSlices, dense_gradient
from muster.program.gradients._gradients import gradients
from muster.program.gradients._optimizers_of_steps import counter_of, in_this_step
from muster.program.gradients._shard_gradients import whole_gradients
from muster.program.passes._gradient_markers import sum_gradients
from muster.program.passes._served import as_marked, mark_pushed
from muster.program.variables._held_updates import HeldOperation
from muster.program.variables._variable_scope import VariableScope, active_scope, current_scope
from muster.program.variables._variable_shards import whole_variables
from muster.program.variables.keras_internals import is_stateless, setting_of_every_step


@dataclass(frozen=True)
class TrainOp:
    """The result of ``minimize``: a model_fn returns it as ``EstimatorSpec.train_op``.

    Attributes:
        name: The optimizer's name.
    """

    name: str


@dataclass(frozen=True, eq=False)
class HeldStep(TrainOp, HeldOperation):
    """A step of an optimizer that waits until the code of a model_fn runs it, or returns it.

    Attributes:
        take: Takes the step, at its first call.
    """

    take: Any

    @property
    def has_run(self) -> bool:  # type: ignore[override]
        """True if it is part of the model_fn's step."""
        return self.take.cache_info().currsize > 0  # type: ignore[no-any-return]

    def run(self) -> None:
        """Take the step, once."""
        self.take()


def get_or_create_global_step() -> Any:
    """Return the variable that counts training steps: ``keras.Variable``, int32, shape ().

    Raises:
        TraceError: Called outside of a model_fn.

    Source: tensorflow/python/training/training_util.py, ``get_or_create_global_step``; there it is int64.

    Example:
        ```python
        def model_fn(features, labels, mode):
            loss = keras.ops.mean((keras.layers.Dense(1)(features) - labels) ** 2)
            step = muster.get_or_create_global_step()
            muster.name_output("steps before this one", step)  # for a LoggingTensorHook
            train_op = muster.minimize(keras.optimizers.SGD(0.1), loss, step)
            return muster.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

        data = np.ones((8, 4), np.float32), np.ones((8, 1), np.float32)
        muster.estimator.Estimator(model_fn, "runs/counted").train(lambda: data, steps=2)
        assert muster.checkpoint.latest_checkpoint("runs/counted").endswith("-2")
        ```
    """
    scope = active_scope("get_or_create_global_step")
    if scope.global_step is None:
        scope.global_step = keras.Variable(
            0, dtype="int32", trainable=False, aggregation="only_first_replica", name="global_step"
        )
    return scope.global_step


def trainable_variables() -> list[Any]:
    """Return the trainable variables that the step being traced has created so far.

    Raises:
        TraceError: Called outside of a model_fn.

    Source: tensorflow/python/ops/variables.py, ``trainable_variables``.
    """
    scope = active_scope("trainable_variables")
    return [v for spec, v in scope.bindings.table.pairs if v.trainable and not spec.local]


def add_penalty(path: str, value: jax.Array) -> None:
    """Register a penalty, such as a regularization loss, in the step that is being traced.

    It is not added to any loss by itself: code that composes the loss asks for the penalties.

    Args:
        path: The name of what it penalizes.
        value: A float array of shape (), per replica.

    Raises:
        TraceError: Called outside of a model_fn.
    """
    active_scope("add_penalty").penalties.append((path, value))


def penalties() -> list[tuple[str, jax.Array]]:
    """Return the (path, value) pairs of all penalties of the step that is being traced, so far.

    Raises:
        TraceError: Called outside of a model_fn.
    """
    return list(active_scope("penalties").penalties)


def minimize(
    optimizer: Any,
    loss: jax.Array,
    global_step: Any = None,
    var_list: Iterable[Any] | None = None,
    *,
    loss_reduction: Literal["mean", "sum"] = "mean",
    held: bool = False,
) -> TrainOp:
    """Minimize a loss by one step of a Keras optimizer.

    Loss scaling (``keras.optimizers.LossScaleOptimizer``, ``loss_scale_factor``) is applied.

    Args:
        optimizer: A ``keras.optimizers.Optimizer``; a model_fn takes a copy of one built outside of it. A
            step may use several, on different variables.
        loss: A floating-point array of shape (), per replica.
        global_step: The variable to increment, or None.
        var_list: The variables to train; None takes every trainable one that was created so far.
        loss_reduction: Whether to minimize the mean or the sum of the replicas' losses.
        held: Whether the step is taken only if the code runs it, in a scope that holds steps back.

    Returns:
        The train_op for an EstimatorSpec.

    Raises:
        GradientError: There is nothing to train.
        TraceError: Called outside of a step.
        TypeError: The optimizer is not one of Keras'.

    Source: tensorflow/python/training/optimizer.py, ``Optimizer.minimize``, which takes the reduction from
    the last loss that was computed.

    Example:
        ```python
        def model_fn(features, labels, mode):
            loss = keras.ops.mean((keras.layers.Dense(1)(features) - labels) ** 2)
            step = muster.get_or_create_global_step()
            train_op = muster.minimize(keras.optimizers.Adam(0.01), loss, step)
            return muster.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)
        ```
    """
    scope = active_scope("minimize")
    _require_optimizer(optimizer)
    optimizer = in_this_step(optimizer)
    variables = trainable_variables() if var_list is None else whole_variables(list(var_list))
    if not variables:
        raise GradientError(
            "There are no variables to train: none that was created so far is trainable."
            if var_list is None
            else "There are no variables to train: var_list is empty."
        )
    _build(optimizer, variables)

    def take() -> None:
        replicas = scope.replicas
        share = replicas.weight if replicas is not None and loss_reduction == "mean" else 1
        grads = gradients(optimizer.scale_loss(loss) * share, variables)
        if replicas is not None:
            *grads, total = sum_gradients(replicas, [*grads, scope.read(loss) * share])  # in one collective
            scope.assignments.note_reduced(loss, total)
        with scope.assignments.in_sync():
            optimizer.apply(grads, variables)

    return _taken(scope, optimizer, take, global_step, held)


def apply_gradients(
    optimizer: Any,
    grads_and_vars: Iterable[tuple[jax.Array | None, Any]],
    global_step: Any = None,
    *,
    skip_gradients_aggregation: bool = False,
    held: bool = False,
) -> TrainOp:
    """Add gradients over the replicas, and apply them by one step of a Keras optimizer.

    Args:
        optimizer: A ``keras.optimizers.Optimizer``; a model_fn takes a copy of one built outside of it.
        grads_and_vars: Pairs of a gradient, of its variable's shape, and a variable. If the optimizer
            scales the loss, these are gradients of the scaled loss.
        global_step: The variable to increment, or None.
        skip_gradients_aggregation: Whether to apply the gradients as they are. They must be the same on all
            replicas, as the result of an ``all_reduce`` is: else the replicas' variables drift apart.
        held: As of `minimize`.

    Returns:
        The train_op for an EstimatorSpec.

    Raises:
        TraceError: Called outside of a step.
        TypeError: The optimizer is not one of Keras'.

    Source: tensorflow/python/training/optimizer.py, ``Optimizer.apply_gradients``.

    Example:
        ```python
        def model_fn(features, labels, mode):
            layer = keras.layers.Dense(1)
            loss = keras.ops.mean((layer(features) - labels) ** 2)
            gradients = muster.gradients(loss, layer.trainable_variables)
            clipped = [keras.ops.clip(each, -1, 1) for each in gradients]
            step = muster.get_or_create_global_step()
            pairs = zip(clipped, layer.trainable_variables)
            train_op = muster.apply_gradients(keras.optimizers.SGD(0.1), pairs, step)
            return muster.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

        data = np.ones((8, 4), np.float32), np.ones((8, 1), np.float32)
        muster.estimator.Estimator(model_fn, "runs/clipped").train(lambda: data, steps=1)
        ```
    """
    scope = active_scope("apply_gradients")
    _require_optimizer(optimizer)
    optimizer = in_this_step(optimizer)
    pairs = list(grads_and_vars)
    if held:
        _build(optimizer, [v for _, v in pairs])

    def take() -> None:
        with scope.assignments.in_sync() if skip_gradients_aggregation else contextlib.nullcontext():
            optimizer.apply([g for g, _ in pairs], [v for _, v in pairs])

    return _taken(scope, optimizer, take, global_step, held)


def _taken(
    scope: VariableScope, optimizer: Any, take: Callable[[], None], global_step: Any, held: bool
) -> TrainOp:
    """Take an optimizer's step, and increment the global step, if there is one; or hold both back."""
    if global_step is not None and not isinstance(global_step, keras.Variable):
        raise TypeError(
            f"global_step must be the variable of get_or_create_global_step(), got {global_step!r}."
        )

    def both() -> None:
        take()
        if global_step is not None:
            with scope.assignments.in_sync():
                scope.assignments.increment(global_step)

    return train_op_of(optimizer.name, both, held=held)


def train_op_of(name: str, take: Callable[[], None], *, held: bool) -> TrainOp:
    """Return the train_op of what a function does in the step that is being traced.

    Args:
        name: Its name.
        take: The function, which is called now; or once the code runs the train_op, if that is held back.
        held: Whether it is held back in a scope that holds steps back.

    Raises:
        TraceError: No program is being traced.
    """
    once, steps = functools.cache(take), active_scope("train_op_of").steps
    if held and steps is not None:
        step = HeldStep(name, once)
        steps.append(step)
        return step
    once()
    return TrainOp(name)


def _apply_scaled(
    read: Callable[[Any], jax.Array], optimizer: Any, grads: list[jax.Array | None], variables: list[Any]
) -> None:
    """Apply gradients of a scaled loss. Keras' own way assigns inside of a branch, which JAX traces."""
    _build(optimizer, variables)
    before = [read(v) for v in variables], [read(v) for v in optimizer.variables]
    after = optimizer.stateless_apply(before[1], grads, before[0])
    for variable, value in zip((*variables, *optimizer.variables), (*after[0], *after[1]), strict=True):
        variable.assign(value)


def _build(optimizer: Any, variables: list[Any]) -> None:
    if not optimizer.built:
        with keras.name_scope(optimizer.name, caller=optimizer):
            optimizer.build(variables)


def _require_optimizer(optimizer: Any) -> None:
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise TypeError(
            "The optimizer must be a keras.optimizers.Optimizer, got "
            f"{type(optimizer).__name__}: {optimizer!r}."
        )


def _in_steps(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``Optimizer.apply``: inside of a step it applies the sums of all replicas' gradients."""

    def apply(self: Any, grads: Sequence[Any], trainable_variables: Any = None) -> Any:
        scope = current_scope()
        if in_this_step(self) is not self:
            return in_this_step(self).apply(grads, trainable_variables)
        grads, trainable_variables = _whole(grads, trainable_variables)
        variables = self._trainable_variables if trainable_variables is None else trainable_variables
        if any(isinstance(grad, IndexedSlices) for grad in grads):
            grads = [dense_gradient(grad, v.shape) for grad, v in zip(grads, variables, strict=True)]
        if scope is None:
            return original(self, grads, trainable_variables)
        for variable in trainable_variables or ():
            if not isinstance(variable, keras.Variable):
                raise TypeError(
                    f"An optimizer needs pairs (gradient, variable), in this order; it got {variable!r} as a "
                    "variable."
                )
        if scope.replicas is not None and not scope.assignments.is_in_sync:
            sums = iter(sum_gradients(scope.replicas, [grad for grad in grads if grad is not None]))
            grads = [None if grad is None else next(sums) for grad in grads]
        settings = [setting_of_every_step(self, v) for _, v in zip(grads, variables, strict=False)]
        grads = mark_pushed(grads, settings)
        with scope.assignments.in_sync(), as_marked():
            if isinstance(self, keras.optimizers.LossScaleOptimizer) and trainable_variables is not None:
                _apply_scaled(scope.read, self, list(grads), list(trainable_variables))
            else:
                original(self, grads, trainable_variables)
        counter = counter_of(self)
        if counter is not None:
            with scope.assignments.in_sync():
                scope.assignments.increment(counter)
        return None

    return apply


def _marked_before_branches(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``LossScaleOptimizer.stateless_apply``, which applies gradients inside of a branch."""

    def stateless_apply(self: Any, optimizer_variables: Any, grads: Sequence[Any], variables: Any) -> Any:
        if current_scope() is None:
            return original(self, optimizer_variables, grads, variables)
        marked = mark_pushed(grads)
        with as_marked():
            return original(self, optimizer_variables, marked, variables)

    return stateless_apply


def _with_tensorflows_arguments(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``Optimizer.apply_gradients``: it takes TensorFlow's arguments for summed gradients.

    Source: tensorflow/python/keras/optimizers, ``skip_gradients_aggregation``, and before it
    ``experimental_aggregate_gradients``.
    """

    def apply_gradients(
        self: Any,
        grads_and_vars: Iterable[tuple[jax.Array | None, Any]],
        name: str | None = None,
        skip_gradients_aggregation: bool = False,
        experimental_aggregate_gradients: bool = True,
    ) -> Any:
        pairs = list(grads_and_vars)
        if not pairs:
            return None  # like TensorFlow's; Keras fails
        scope = current_scope()
        skips = skip_gradients_aggregation or not experimental_aggregate_gradients
        with scope.assignments.in_sync() if skips and scope is not None else contextlib.nullcontext():
            return original(in_this_step(self), pairs)

    return apply_gradients


def _whole(grads: Sequence[Any], variables: Any) -> tuple[Sequence[Any], Any]:
    """Return the arguments of ``apply`` with those of the shards of a variable joined."""
    return (grads, None) if variables is None else whole_gradients(grads, list(variables))


def _joining_shards(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``Optimizer.apply``: the shards of a variable are trained as one."""

    def apply(self: Any, grads: Sequence[Any], trainable_variables: Any = None) -> Any:
        return original(self, *_whole(grads, trainable_variables))

    return apply


def _scaled_in_eager_code(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``LossScaleOptimizer.apply``: Keras' own raises an error in eager code."""

    def apply(self: Any, grads: Sequence[Any], trainable_variables: Any = None) -> Any:
        if is_stateless():
            return original(self, grads, trainable_variables)
        grads, trainable_variables = _whole(grads, trainable_variables)
        variables = self._trainable_variables if trainable_variables is None else trainable_variables
        return _apply_scaled(operator.attrgetter("value"), self, list(grads), list(variables))

    return apply


wrap(keras.optimizers.Optimizer, "apply", _joining_shards)
wrap(keras.optimizers.LossScaleOptimizer, "apply", _scaled_in_eager_code)
wrap(keras.optimizers.Optimizer, "apply_gradients", _with_tensorflows_arguments)
wrap_in_scopes(keras.optimizers.Optimizer, "apply", _in_steps)
wrap_in_scopes(keras.optimizers.LossScaleOptimizer, "apply", _in_steps)
wrap_in_scopes(keras.optimizers.LossScaleOptimizer, "stateless_apply", _marked_before_branches)
