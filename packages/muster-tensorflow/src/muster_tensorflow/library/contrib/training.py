"""Training steps of ``tf.contrib``: ``optimize_loss``, ``create_train_op``, ``clip_gradients_by_norm``."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from muster.program import get_or_create_global_step, run_updates
from muster_tensorflow.library.ops.math._math import clip_by_global_norm, clip_by_norm, global_norm
from muster_tensorflow.programs.v1._collections import GraphKeys
from muster_tensorflow.programs.v1._step import get_collection
from muster_tensorflow.programs.v1._summary import histogram as summary_histogram
from muster_tensorflow.programs.v1._summary import scalar as summary_scalar
from muster_tensorflow.programs.v1.training import _optimizers
from muster_tensorflow.programs.v1.training._own_optimizers import Optimizer

OPTIMIZERS: dict[str, Callable[..., Optimizer]] = {
    "Adagrad": _optimizers.AdagradOptimizer,
    "Adam": _optimizers.AdamOptimizer,
    "Ftrl": _optimizers.FtrlOptimizer,
    "Momentum": lambda learning_rate: _optimizers.MomentumOptimizer(learning_rate, momentum=0.9),
    "RMSProp": _optimizers.RMSPropOptimizer,
    "SGD": _optimizers.GradientDescentOptimizer,
}
"""The optimizers that `optimize_loss` knows by a name."""

OPTIMIZER_SUMMARIES = ("learning_rate", "loss", "gradients", "gradient_norm", "global_gradient_norm")
"""The summaries that `optimize_loss` can write."""

_GLOBAL_STEP = object()


def optimize_loss(
    loss: jax.Array,
    global_step: Any,
    learning_rate: Any,
    optimizer: Any,
    gradient_noise_scale: None = None,
    gradient_multipliers: None = None,
    clip_gradients: float | None = None,
    learning_rate_decay_fn: Callable[[Any, Any], Any] | None = None,
    update_ops: Iterable[Any] | None = None,
    variables: Iterable[Any] | None = None,
    name: str | None = None,
    summaries: Sequence[str] | None = None,
    colocate_gradients_with_ops: bool = False,
    increment_global_step: bool = True,
) -> jax.Array:
    """Take one step of an optimizer, and return the loss, which serves as ``train_op``.

    Args:
        loss: A floating-point array of shape (), per replica.
        global_step: The global step; None takes it.
        learning_rate: A number or a value of the step; None if the optimizer has one.
        optimizer: One of `OPTIMIZERS`, a class, a function of the learning rate, or an optimizer.
        gradient_noise_scale: Only None.
        gradient_multipliers: Only None.
        clip_gradients: The largest norm of all gradients together; None for any.
        learning_rate_decay_fn: Takes the learning rate and the global step, returns the learning rate.
        update_ops: The updates to run before the step; None takes all of ``UPDATE_OPS``.
        variables: The variables to train; None takes all.
        name: Unused.
        summaries: What to write, of `OPTIMIZER_SUMMARIES`; None for ``loss``, ``learning_rate`` and
            ``global_gradient_norm``.
        colocate_gradients_with_ops: Unused.
        increment_global_step: Whether to count the step.

    Raises:
        ValueError: There is no such optimizer or summary, or gradients are to be multiplied or noisy.

    Source: tensorflow/contrib/layers/python/layers/optimizers.py, ``optimize_loss``.
    """
    if gradient_noise_scale is not None or gradient_multipliers is not None:
        raise ValueError(
            "optimize_loss takes no gradient_noise_scale and no gradient_multipliers: leave them out."
        )
    written = ("loss", "learning_rate", "global_gradient_norm") if summaries is None else tuple(summaries)
    if unknown := [each for each in written if each not in OPTIMIZER_SUMMARIES]:
        raise ValueError(
            f"Summaries should be one of [{', '.join(OPTIMIZER_SUMMARIES)}], you provided {unknown[0]}."
        )
    run_updates(get_collection(GraphKeys.UPDATE_OPS) if update_ops is None else update_ops)
    step = get_or_create_global_step() if global_step is None else global_step
    rate = learning_rate
    if rate is not None and learning_rate_decay_fn is not None:
        rate = learning_rate_decay_fn(rate, step)
    made = _made(optimizer, rate)
    if "learning_rate" in written and rate is not None and not callable(rate):
        summary_scalar("learning_rate", rate)
    if "loss" in written:
        summary_scalar("loss", loss)
    pairs = made.compute_gradients(loss, variables)
    norms = "gradient_norm" in written or "global_gradient_norm" in written
    if norms:
        summary_scalar("global_norm/gradient_norm", global_norm([gradient for gradient, _ in pairs]))
    if clip_gradients is not None:
        clipped, norm = clip_by_global_norm([gradient for gradient, _ in pairs], clip_gradients)
        pairs = list(zip(clipped, [variable for _, variable in pairs], strict=True))
        if norms:
            summary_scalar("global_norm/clipped_gradient_norm", jnp.minimum(norm, clip_gradients))
    for gradient, variable in pairs:
        if gradient is not None and "gradients" in written:
            summary_histogram(f"gradients/{variable.path}", gradient)
        if gradient is not None and "gradient_norm" in written:
            summary_scalar(f"gradient_norm/{variable.path}", global_norm([gradient]))
    run_updates([made.apply_gradients(pairs, step if increment_global_step else None)])
    return jnp.asarray(loss)


def create_train_op(
    total_loss: jax.Array,
    optimizer: Any,
    global_step: Any = _GLOBAL_STEP,
    update_ops: Iterable[Any] | None = None,
    variables_to_train: Iterable[Any] | None = None,
    transform_grads_fn: Callable[[list[tuple[Any, Any]]], Iterable[tuple[Any, Any]]] | None = None,
    summarize_gradients: bool = False,
    gate_gradients: object = None,
    aggregation_method: object = None,
    colocate_gradients_with_ops: bool = False,
    check_numerics: bool = True,
) -> jax.Array:
    """Take one step of an optimizer, and return the loss, which serves as ``train_op``.

    Args:
        total_loss: A floating-point array of shape (), per replica.
        optimizer: An optimizer of ``tf.train``.
        global_step: The variable to count up by one; by default the global step, None for none.
        update_ops: The updates to run before the step; None takes all of ``UPDATE_OPS``.
        variables_to_train: The variables to train; None takes all.
        transform_grads_fn: Takes pairs of a gradient and its variable, and returns such pairs.
        summarize_gradients: Unused.
        gate_gradients: Unused.
        aggregation_method: Unused.
        colocate_gradients_with_ops: Unused.
        check_numerics: Unused: a training says which step's loss is not finite.

    Source: tensorflow/contrib/training/python/training/training.py, ``create_train_op``.
    """
    run_updates(get_collection(GraphKeys.UPDATE_OPS) if update_ops is None else update_ops)
    step = get_or_create_global_step() if global_step is _GLOBAL_STEP else global_step
    pairs = optimizer.compute_gradients(total_loss, variables_to_train)
    if transform_grads_fn is not None:
        pairs = list(transform_grads_fn(pairs))
    run_updates([optimizer.apply_gradients(pairs, step)])
    return jnp.asarray(total_loss)


def create_slim_train_op(
    total_loss: jax.Array,
    optimizer: Any,
    global_step: Any = _GLOBAL_STEP,
    update_ops: Iterable[Any] | None = None,
    variables_to_train: Iterable[Any] | None = None,
    clip_gradient_norm: float = 0,
    summarize_gradients: bool = False,
    gate_gradients: object = None,
    aggregation_method: object = None,
    colocate_gradients_with_ops: bool = False,
    gradient_multipliers: Mapping[Any, float] | None = None,
    check_numerics: bool = True,
) -> jax.Array:
    """Do as `create_train_op`.

    Args:
        total_loss: See there, and so are the others.
        optimizer: As there.
        global_step: As there.
        update_ops: As there.
        variables_to_train: As there.
        clip_gradient_norm: The largest norm of each gradient; 0 for any.
        summarize_gradients: As there.
        gate_gradients: As there.
        aggregation_method: As there.
        colocate_gradients_with_ops: As there.
        gradient_multipliers: Variables or their names -> what to multiply their gradients by, before that.
        check_numerics: As there.

    Source: tensorflow/contrib/slim/python/slim/learning.py, ``create_train_op``.
    """

    def transformed(pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        if gradient_multipliers:
            pairs = multiply_gradients(pairs, gradient_multipliers)
        return clip_gradient_norms(pairs, clip_gradient_norm) if clip_gradient_norm > 0 else pairs

    return create_train_op(
        total_loss, optimizer, global_step, update_ops, variables_to_train, transform_grads_fn=transformed
    )


def clip_gradient_norms(
    gradients_to_variables: Iterable[tuple[Any, Any]], max_norm: float
) -> list[tuple[Any, Any]]:
    """Return pairs of a gradient and its variable, each gradient with at most this norm.

    Source: tensorflow/contrib/training/python/training/training.py, ``clip_gradient_norms``.
    """
    return [
        (gradient if gradient is None else clip_by_norm(gradient, max_norm), variable)
        for gradient, variable in gradients_to_variables
    ]


def clip_gradient_norms_fn(max_norm: float) -> Callable[[Iterable[tuple[Any, Any]]], list[tuple[Any, Any]]]:
    """Return a ``transform_grads_fn`` for `create_train_op` that does `clip_gradient_norms`."""
    return lambda pairs: clip_gradient_norms(pairs, max_norm)


def multiply_gradients(
    grads_and_vars: Iterable[tuple[Any, Any]], gradient_multipliers: Mapping[Any, float]
) -> list[tuple[Any, Any]]:
    """Return pairs of a gradient and its variable, some gradients multiplied.

    Args:
        grads_and_vars: The pairs.
        gradient_multipliers: Variables, or their names -> what to multiply their gradients by.

    Raises:
        ValueError: There is no multiplier, or a variable that has one has no gradient.

    Source: tensorflow/contrib/training/python/training/training.py, ``multiply_gradients``.
    """
    if not gradient_multipliers:
        raise ValueError("gradient_multipliers is empty: leave it out, or say what to multiply.")
    factors = {getattr(each, "path", each): factor for each, factor in gradient_multipliers.items()}
    multiplied = []
    for gradient, variable in grads_and_vars:
        if variable.path in factors:
            if gradient is None:
                raise ValueError(f"Requested multiple of `None` gradient: {variable.path} has none.")
            gradient = gradient * factors[variable.path]
        multiplied.append((gradient, variable))
    return multiplied


def _made(optimizer: Any, rate: Any) -> Any:
    if isinstance(optimizer, str):
        if optimizer not in OPTIMIZERS:
            raise ValueError(
                f"Optimizer name should be one of [{', '.join(OPTIMIZERS)}], you provided {optimizer}."
            )
        return OPTIMIZERS[optimizer](rate)
    if callable(optimizer):
        return optimizer(rate) if rate is not None else optimizer()
    return optimizer


class _Clipped:
    """An optimizer of a program's own that limits the norm of all gradients together."""

    def __init__(self, optimizer: Any, clip_norm: float) -> None:
        self._optimizer = optimizer
        self._clip_norm = clip_norm

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """Return the gradients of a loss, as they are."""
        pairs: list[tuple[Any, Any]] = self._optimizer.compute_gradients(*args, **kwargs)
        return pairs

    def apply_gradients(self, grads_and_vars: Iterable[tuple[Any, Any]], *args: Any, **kwargs: Any) -> Any:
        """Limit gradients, and apply them."""
        pairs = list(grads_and_vars)
        clipped, _ = clip_by_global_norm([gradient for gradient, _ in pairs], self._clip_norm)
        variables = [variable for _, variable in pairs]
        return self._optimizer.apply_gradients(zip(clipped, variables, strict=True), *args, **kwargs)

    def minimize(self, loss: Any, global_step: Any = None, var_list: Any = None, **unused: Any) -> Any:
        """Take one step against the limited gradients of a loss."""
        return self.apply_gradients(self.compute_gradients(loss, var_list), global_step)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._optimizer, name)


def clip_gradients_by_norm(optimizer: Any, clip_norm: float) -> Any:
    """Return an optimizer that limits the norm of all gradients together: of their mean over the replicas.

    Source: tensorflow/contrib/estimator/python/estimator/extenders.py, ``clip_gradients_by_norm``, which
    limits those of each replica.
    """
    if isinstance(optimizer, _optimizers.KerasBacked):
        return optimizer.clipped(clip_norm)
    return _Clipped(optimizer, clip_norm)
