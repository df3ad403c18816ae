"""``tf.autodiff.ForwardAccumulator``: forward-mode derivatives (JVPs)."""

import threading
from types import TracebackType
from typing import Any

import jax
import jax.numpy as jnp

from muster._errors import GradientError
from muster._keras import keras
from muster.program.gradients import _tape_variables
from muster.program.gradients._tape import is_zero
from muster.program.gradients._tape_record import TapeRecord
from muster.program.gradients._tape_trace import TapeTrace, hide_from, show_to
from muster.program.variables._variable_scope import current_scope

_open = threading.local()


def accumulates_here() -> bool:
    """Return whether this thread is in the block of a `ForwardAccumulator`."""
    return getattr(_open, "count", 0) > 0


class ForwardAccumulator:
    """Computes Jacobian-vector products of what is computed in its ``with`` block.

    Args:
        primals: Arrays or variables, or a structure of them, that the results depend on.
        tangents: The change of each of them, in their structure.

    Raises:
        TypeError: A primal is neither, such as a NumPy array, which is copied at each use.
        ValueError: Primals and tangents differ in structure or shapes, or a primal comes twice.

    Source: tensorflow/python/eager/forwardprop.py, ``ForwardAccumulator``.
    """

    def __init__(self, primals: Any, tangents: Any) -> None:
        self._primals, structure = jax.tree.flatten(primals, is_leaf=_is_variable)
        given, other = jax.tree.flatten(tangents, is_leaf=_is_variable)
        if str(structure) != str(other):
            raise ValueError(f"Primals and tangents need one structure, got {structure} and {other}.")
        if len({*map(id, self._primals)}) < len(self._primals):
            raise ValueError("A primal comes twice: add up its tangents.")
        self._tangents = [jnp.asarray(each) for each in given]
        for primal, tangent in zip(self._primals, self._tangents, strict=True):
            if not isinstance(primal, jax.Array | keras.Variable):
                raise TypeError(
                    f"Primals are JAX arrays and variables, got {type(primal).__name__}: {primal!r}. Convert "
                    "it first, with jax.numpy.asarray or tf.constant, and compute with the result."
                )
            if tuple(primal.shape) != tangent.shape:
                raise ValueError(
                    f"A tangent has its primal's shape {tuple(primal.shape)}, got {tangent.shape}."
                )
        self._record = TapeRecord(watches_variables=False)
        self._trace: TapeTrace | None = None

    def __enter__(self) -> "ForwardAccumulator":
        if self._trace is not None:
            raise ValueError("The accumulator is recording already.")
        self._record.of_step = current_scope() is not None
        for primal in self._primals:
            self._record.watch(primal)
        _tape_variables.begin()
        self._trace = show_to(self._record)
        _open.count = getattr(_open, "count", 0) + 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._trace is not None:
            _open.count -= 1
            hide_from(self._record, self._trace)
            self._trace = None
            _tape_variables.end()

    def jvp(self, primals: Any, unconnected_gradients: Any = "none") -> Any:
        """Return how results change as the primals do.

        Args:
            primals: The results: arrays or variables, in any structure.
            unconnected_gradients: ``"zero"`` for zeros, where a result depends on no primal, instead of None;
                also TensorFlow's ``tf.UnconnectedGradients``.

        Returns:
            The changes, in the structure of the results.

        Raises:
            GradientError: In a step, the results are gradients of a tape.
        """
        targets, structure = jax.tree.flatten(primals, is_leaf=_is_variable)
        pairs = [
            (array, tangent.astype(array.dtype))
            for primal, tangent in zip(self._primals, self._tangents, strict=True)
            for array in self._record.arrays_of(primal)
        ]
        arrays = [
            (self._record.arrays_of(each) or [each.value])[-1] if _is_variable(each) else each
            for each in targets
        ]
        try:
            changes = self._record.pushforward(arrays, [a for a, _ in pairs], [t for _, t in pairs])
        except NotImplementedError as exc:
            raise GradientError(
                "In a step a ForwardAccumulator cannot go through gradients of a tape. Use the two in eager "
                "code, or one accumulator in another."
            ) from exc
        if is_zero(unconnected_gradients):
            changes = [
                jnp.zeros_like(array) if change is None else change
                for array, change in zip(arrays, changes, strict=True)
            ]
        return jax.tree.unflatten(structure, changes)


def _is_variable(value: Any) -> bool:
    return isinstance(value, keras.Variable)
