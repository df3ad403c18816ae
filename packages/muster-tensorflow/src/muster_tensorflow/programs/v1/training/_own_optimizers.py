"""``tf.compat.v1.train.Optimizer``, the base class of optimizers that programs define."""

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from typing import Any

import jax

from muster import gradients, keras
from muster.distribute import get_replica_context
from muster.extend import current_scope
from muster.program import TrainOp, replica_weight, trainable_variables
from muster_tensorflow.library.ops._arrays import as_array
from muster_tensorflow.programs.v1.variables._variables import get_variable

GATE_NONE, GATE_OP, GATE_GRAPH = range(3)
"""The orders of gradient computations in a graph; unused, since XLA orders them."""


class Optimizer:
    """Base class for optimizers of a program's own, which define ``apply_gradients``, or ``_apply_dense``.

    A subclass with ``_apply_dense(gradient, variable)``, or ``_resource_apply_dense``, may have
    ``_create_slots(variables)``, ``_prepare()`` and ``_finish(operations, name)``, too. They are called in
    TensorFlow's order, on the mean of the replicas' gradients, as `minimize` of other optimizers takes it.

    Args:
        use_locking: Unused.
        name: The optimizer's name.

    Raises:
        ValueError: There is no name.

    Source: tensorflow/python/training/optimizer.py, ``Optimizer``.
    """

    GATE_NONE, GATE_OP, GATE_GRAPH = GATE_NONE, GATE_OP, GATE_GRAPH

    def __init__(self, use_locking: bool, name: str) -> None:
        if not name:
            raise ValueError("Must specify the optimizer name")
        self._name = name
        self._in_eager_code: dict[tuple[int | None, str], keras.Variable] = {}

    def get_name(self) -> str:
        """Return the optimizer's name."""
        return self._name

    def minimize(
        self,
        loss: jax.Array,
        global_step: keras.Variable | None = None,
        var_list: Iterable[keras.Variable] | None = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: int | None = None,
        colocate_gradients_with_ops: bool = False,
        name: str | None = None,
    ) -> Any:
        """Take one step against the gradients of a loss.

        Args:
            loss: A floating-point array of shape (), per replica.
            global_step: The variable to count up by one, or None.
            var_list: The variables to train; None takes all trainable ones that were created so far.
            gate_gradients: Accepted, and so is how a graph adds gradients, and where: XLA decides.
            aggregation_method: Accepted.
            colocate_gradients_with_ops: Accepted.
            name: For ``apply_gradients``.
        """
        pairs = self.compute_gradients(loss, var_list=var_list)
        return self.apply_gradients(pairs, global_step=global_step, name=name)

    def compute_gradients(
        self,
        loss: jax.Array,
        var_list: Iterable[keras.Variable] | None = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: int | None = None,
        colocate_gradients_with_ops: bool = False,
    ) -> list[tuple[jax.Array, keras.Variable]]:
        """Return the gradients of a loss.

        Args:
            loss: A floating-point array of shape (), per replica.
            var_list: The variables; None takes all trainable ones that were created so far.
            gate_gradients: Accepted, as by `minimize`.
            aggregation_method: Accepted.
            colocate_gradients_with_ops: Accepted.

        Returns:
            Pairs of a gradient and its variable. A variable that the loss does not depend on has a gradient
            of zeros, where TensorFlow's has None.
        """
        variables = trainable_variables() if var_list is None else list(var_list)
        return list(zip(gradients(loss, variables), variables, strict=True))

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[jax.Array | None, keras.Variable]],
        global_step: keras.Variable | None = None,
        name: str | None = None,
    ) -> Any:
        """Take one step against gradients, by the methods that a subclass defines.

        Args:
            grads_and_vars: Pairs of a gradient and its variable; None leaves the variable as it is.
            global_step: The variable to count up by one, or None.
            name: The name of what is returned.

        Raises:
            NotImplementedError: The subclass does not say how a variable changes.
            ValueError: There are no gradients.
        """
        kind = type(self)
        defined = [each for each in ("_apply_dense", "_resource_apply_dense") if hasattr(kind, each)]
        if not defined:
            raise NotImplementedError(
                f"{kind.__name__} defines neither apply_gradients(grads_and_vars, global_step, name), nor "
                "_apply_dense(gradient, variable), which assign new values to the variables."
            )
        pairs = [(gradient, variable) for gradient, variable in grads_and_vars if gradient is not None]
        if not pairs:
            raise ValueError("No gradients provided for any variable.")
        changed = [variable for _, variable in pairs]
        means, context, scope = [gradient for gradient, _ in pairs], get_replica_context(), current_scope()
        if context is not None and scope is not None:  # by the rows of each, as `minimize` does
            means = context.all_reduce("SUM", [gradient * replica_weight() for gradient in means])
        self._create_slots(changed)
        with nullcontext() if scope is None else scope.assignments.in_sync():
            self._prepare()
            update = getattr(self, defined[0])
            operations = [update(*pair) for pair in zip(means, changed, strict=True)]
            finished = self._finish(operations, name or self._name)
            if global_step is not None:
                global_step.assign_add(1)
        return finished

    def _create_slots(self, var_list: Sequence[keras.Variable]) -> None:
        """Create what is kept for each variable; a subclass calls `_zeros_slot`."""

    def _prepare(self) -> None:
        """Compute what all updates use."""

    def _finish(self, update_ops: Sequence[Any], name_scope: str) -> Any:
        """Do what comes after the updates."""
        return TrainOp(name_scope)

    def _zeros_slot(self, var: keras.Variable, slot_name: str, op_name: str) -> keras.Variable:
        """Return what is kept for a variable by a name, at first zeros of its shape."""
        return self._get_or_make_slot_with_initializer(
            var, keras.initializers.Zeros(), var.shape, var.dtype, slot_name, op_name
        )

    def _get_or_make_slot(
        self, var: keras.Variable, val: Any, slot_name: str, op_name: str
    ) -> keras.Variable:
        """Return what is kept for a variable by a name, at first a value."""
        return self._get_or_make_slot_with_initializer(var, val, None, None, slot_name, op_name)

    def _get_or_make_slot_with_initializer(
        self, var: keras.Variable, initializer: Any, shape: Any, dtype: Any, slot_name: str, op_name: str
    ) -> keras.Variable:
        """Return what is kept for a variable by a name; at first what an initializer gives."""
        slots = self._kept()
        if (found := slots.get((id(var), slot_name))) is None:
            name = f"{var.op.name}/{op_name}"
            taken = sum(owner == id(var) for owner, _ in slots)
            found = slots[id(var), slot_name] = get_variable(
                f"{name}_{taken}" if taken else name, shape, dtype, initializer, trainable=False
            )
        return found

    def get_slot(self, var: keras.Variable, name: str) -> keras.Variable | None:
        """Return what is kept for a variable by a name, None if there is nothing."""
        return self._kept().get((id(var), name))

    def _create_non_slot_variable(
        self, initial_value: Any, name: str, colocate_with: object = None
    ) -> keras.Variable:
        """Return a variable that the optimizer keeps by a name, at first a value."""
        kept = self._kept()
        if (None, name) not in kept:
            kept[None, name] = get_variable(name, initializer=as_array(initial_value), trainable=False)
        return kept[None, name]

    def _get_non_slot_variable(self, name: str, graph: object = None) -> keras.Variable | None:
        """Return a variable that the optimizer keeps by a name, None if there is none."""
        return self._kept().get((None, name))

    def _call_if_callable(self, param: Any) -> Any:
        """Return what a function returns, and anything else as it is."""
        return param() if callable(param) else param

    def _kept(self) -> dict[tuple[int | None, str], keras.Variable]:
        """Return the variables that it keeps: each trace of a model_fn has its own."""
        scope = current_scope()
        if scope is None:
            return self._in_eager_code
        kept: dict[Any, Any] = scope.shared.setdefault(("tensorflow 1", "slots"), {})
        found: dict[tuple[int | None, str], keras.Variable] = kept.setdefault(id(self), {})
        return found
