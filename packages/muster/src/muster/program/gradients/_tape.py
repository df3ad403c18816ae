"""``GradientTape``: records operations for gradients, in steps and in eager code."""

import contextlib
import functools
import itertools
import logging
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster._errors import GradientError, TraceError
from muster._keras import keras
from muster.program.gradients import _tape_variables
from muster.program.gradients._gradients import nested_gradients, opening
from muster.program.gradients._shard_gradients import shard_gradients
from muster.program.gradients._stopped import StoppedParts
from muster.program.gradients._tape_record import Pullback, TapeRecord
from muster.program.gradients._tape_trace import TapeTrace, hide_from, show_to
from muster.program.variables._variable_scope import VariableScope, current_scope
from muster.program.variables._variable_shards import whole_of, whole_variables

_log = logging.getLogger(__name__)

_STEPS_UNTIL_HINT = 50
_steps = itertools.count(1)


class GradientTape:
    """Computes gradients of what is computed in its ``with`` block.

    In eager code values in the block are numbers, to be printed or compared. The tape notes each operation on
    variables, once they are read, and on arrays that it watches; `gradient` goes back through them. Gradients
    with respect to anything on which the target does not depend are None, as in TensorFlow.

    In code that muster traces (a model_fn, a ``function``, a ``train_step``) there is nothing to note and
    nothing to watch: what is computed in the block has gradients with respect to any variable or array of the
    step, but for what `stop_recording` leaves out. They are zeros for a source on which the target does not
    depend.

    Args:
        persistent: Whether gradients may be asked for more than once.
        watch_accessed_variables: Whether trainable variables are watched when they are read; in eager code.

    Source: tensorflow/python/eager/backprop.py, ``GradientTape``.

    Example:
        ```python
        weight = keras.Variable(3.0)
        with muster.GradientTape() as tape:
            loss = weight * weight
        assert float(tape.gradient(loss, weight)) == 6
        ```
    """

    def __init__(self, persistent: bool = False, watch_accessed_variables: bool = True) -> None:
        self._persistent = persistent
        self._used = False
        self._record: TapeRecord | None = None  # None in a step
        self._trace: TapeTrace | None = None  # None while nothing is noted
        self._watches_variables = watch_accessed_variables
        self._watched: tuple[Any, ...] = ()  # the variables, once the record is forgotten
        self._scope: VariableScope | None = None  # of the step
        self._read: dict[int, Any] = {}  # the variables that the step has read in the block
        self._opened: Any = None  # where it was opened in the step
        self._stopped = StoppedParts()  # of the step

    def __enter__(self) -> "GradientTape":
        self._scope = current_scope()
        if self._scope is not None:
            self._scope.bindings.read_by.append(self._read)
            self._opened = opening()
        else:
            if self._trace is not None:
                raise ValueError("Tape is still recording, This can happen if you try to re-enter it.")
            if self._record is None:
                self._record = TapeRecord(self._watches_variables)
            self._begin(self._record)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        if self._scope is not None:
            bindings = self._scope.bindings
            bindings.read_by = [each for each in bindings.read_by if each is not self._read]

    def _begin(self, record: TapeRecord) -> None:
        _tape_variables.begin()
        self._trace = show_to(record)

    def _end(self) -> None:
        if self._trace is not None and self._record is not None:
            hide_from(self._record, self._trace)
            self._trace = None
            _tape_variables.end()

    def watch(self, tensor: Any) -> None:
        """Note operations on arrays or variables from now on, in eager code; elsewhere do nothing.

        Args:
            tensor: A JAX array, a variable, or a structure of them.

        Raises:
            TypeError: Something else is among them, such as a NumPy array, which is copied at each use.
        """
        if self._record is None:
            return
        for leaf in map(whole_of, _leaves(tensor)):
            if not isinstance(leaf, jax.Array | keras.Variable):
                raise TypeError(
                    f"A tape watches JAX arrays and variables, got {type(leaf).__name__}: {leaf!r}. Convert "
                    "it first, with jax.numpy.asarray or tf.constant, and compute with the result."
                )
            self._record.watch(leaf)

    def gradient(
        self, target: Any, sources: Any, output_gradients: Any = None, unconnected_gradients: Any = "none"
    ) -> Any:
        """Compute the gradients of the sum of a target's elements.

        Args:
            target: An array or a structure of arrays.
            sources: A variable or array, or a structure of them.
            output_gradients: Weights of the target's elements in that sum, in the target's structure.
            unconnected_gradients: ``"zero"`` for zeros, where the target does not depend on a source, instead
                of None; also TensorFlow's ``tf.UnconnectedGradients``.

        Returns:
            Gradients in the structure of ``sources``, each of its source's shape and dtype.

        Raises:
            GradientError: In a step, the target has no floating-point dtype. In eager code gradients are None
                then, with a warning, as in TensorFlow.
            RuntimeError: This is the second call, and the tape is not persistent.
        """
        if self._record is None:
            self._use()
            with self._stopped.interrupted() as inside:
                weighted = _weighted(target, output_gradients)
                return nested_gradients(weighted, sources, self._opened, self._stopped.ends(), inside)
        record = self._use_record()
        given, structure = _flattened(sources)
        leaves = whole_variables(given)
        pairs = [pair for pair in _targets(target, output_gradients, record) if _has_gradients(pair[0])]
        grads = _gradients(
            record, [t for t, _ in pairs], leaves, lambda pullback: pullback([w for _, w in pairs])
        )
        if is_zero(unconnected_gradients):
            grads = [_zeros(s) if g is None else g for g, s in zip(grads, leaves, strict=True)]
        if any(isinstance(leaf, keras.Variable) for leaf in leaves) and next(_steps) == _STEPS_UNTIL_HINT:
            _log.warning(
                "This program has asked an eager GradientTape for gradients %d times. Put the step into a "
                "function with the decorator muster.function (tf.function) to have it compiled: it is much "
                "faster.",
                _STEPS_UNTIL_HINT,
            )
        self._forget_if_done()
        return jax.tree.unflatten(structure, shard_gradients(given, leaves, grads))

    def jacobian(
        self,
        target: Any,
        sources: Any,
        unconnected_gradients: Any = "none",
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
    ) -> Any:
        """Compute the derivatives of each element of a target, in eager code.

        Args:
            target: An array, of shape T.
            sources: A variable or array, or a structure of them.
            unconnected_gradients: As for `gradient`.
            parallel_iterations: Unused.
            experimental_use_pfor: Unused.

        Returns:
            Arrays of the shapes ``(*T, *shape of the source)``, in the structure of ``sources``.

        Raises:
            TraceError: The tape was opened in a step.
        """
        record = self._eager_record("jacobian")
        leaves, structure = _flattened(sources)
        target = _floating_target(target, record)
        basis = jnp.eye(target.size, dtype=target.dtype).reshape(target.size, *target.shape)

        def rows(pullback: Pullback) -> list[Any]:
            return jax.vmap(lambda row: pullback([row]))(basis)

        grads = [
            (jnp.zeros((*target.shape, *s.shape), s.dtype) if is_zero(unconnected_gradients) else None)
            if g is None
            else g.reshape(*target.shape, *g.shape[1:])
            for g, s in zip(_gradients(record, [target], leaves, rows), leaves, strict=True)
        ]
        self._forget_if_done()
        return jax.tree.unflatten(structure, grads)

    def batch_jacobian(
        self,
        target: Any,
        source: Any,
        unconnected_gradients: Any = "none",
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
    ) -> Any:
        """Compute the derivatives of each example's target by the same example's source, in eager code.

        Args:
            target: An array of shape ``(examples, *T)``; each example's depends on its own source alone.
            source: An array of shape ``(examples, *S)``.
            unconnected_gradients: As for `gradient`.
            parallel_iterations: Unused.
            experimental_use_pfor: Unused.

        Returns:
            An array of shape ``(examples, *T, *S)``; None if the target does not depend on the source.

        Raises:
            TraceError: The tape was opened in a step.
            ValueError: They have different numbers of examples.
        """
        record = self._eager_record("batch_jacobian")
        target = _floating_target(target, record)
        if not target.ndim or not source.ndim or target.shape[0] != source.shape[0]:
            raise ValueError(
                "batch_jacobian needs a target and a source with the same first axis, got the shapes "
                f"{tuple(target.shape)} and {tuple(source.shape)}."
            )
        each = math.prod(target.shape[1:])
        basis = jnp.eye(each, dtype=target.dtype).reshape(each, 1, *target.shape[1:])

        def rows(pullback: Pullback) -> list[Any]:
            return jax.vmap(lambda row: pullback([jnp.broadcast_to(row, target.shape)]))(basis)

        shape = (*target.shape, *source.shape[1:])
        [found] = _gradients(record, [target], [source], rows)
        if found is not None:
            found = jnp.moveaxis(found, 0, 1).reshape(shape)
        elif is_zero(unconnected_gradients):
            found = jnp.zeros(shape, source.dtype)
        self._forget_if_done()
        return found

    @contextlib.contextmanager
    def stop_recording(self) -> Iterator[None]:
        """Note nothing meanwhile: what is computed passes no gradient on.

        This does nothing in the body of a loop or branch of a step, if the tape is open around it, and in
        steps that ``run_functions_eagerly`` or ``run_eagerly`` runs uncompiled.

        Raises:
            ValueError: The tape is not open, or has stopped already.
        """
        if self._record is None:
            with self._stopped_in_step():
                yield
            return
        if self._trace is None:
            raise ValueError(
                "A tape that is not open has nothing to stop: use it inside of its `with` block."
            )
        self._end()
        try:
            yield
        finally:
            self._begin(self._record)

    @contextlib.contextmanager
    def _stopped_in_step(self) -> Iterator[None]:
        if self._scope is None or self._scope.mode.eager is not None:
            yield
            return
        if self._stopped.is_inside:
            raise ValueError("The tape has stopped recording already, in the `with` block around.")
        self._stopped.begin()
        try:
            yield
        finally:
            self._stopped.end()

    def reset(self) -> None:
        """Forget what has been noted and watched so far."""
        if self._record is not None:
            self._record.forget()
        self._used, self._watched = False, ()
        self._read.clear()
        self._stopped.forget()
        if self._scope is not None:
            self._opened = opening()

    def watched_variables(self) -> tuple[Any, ...]:
        """Return the trainable variables that were read in the block, in this order."""
        if self._record is None:
            return tuple(each for each in self._read.values() if each.trainable)
        return self._watched or tuple(self._record.watched_variables())

    def _use(self) -> None:
        if self._used and not self._persistent:
            raise RuntimeError(
                "A non-persistent GradientTape can only be used to compute one set of gradients (or "
                "jacobians). Build it with persistent=True."
            )
        self._used = True

    def _use_record(self) -> TapeRecord:
        self._use()
        if not self._persistent:
            self._end()
        return self._record  # type: ignore[return-value]

    def _eager_record(self, method: str) -> TapeRecord:
        if self._record is None:
            raise TraceError(
                f"GradientTape.{method} works in eager code. In a step, use jax.jacobian of a function, or "
                "take the gradients of single elements."
            )
        return self._use_record()

    def _forget_if_done(self) -> None:
        if not self._persistent and self._record is not None:
            self._watched = self.watched_variables()
            self._record.forget()


def _leaves(structure: Any) -> list[Any]:
    return jax.tree.leaves(structure, is_leaf=_is_variable)


def _flattened(sources: Any) -> tuple[list[Any], Any]:
    return jax.tree.flatten(sources, is_leaf=_is_variable)


def _is_variable(value: Any) -> bool:
    return isinstance(value, keras.Variable)


def _targets(target: Any, weights: Any, record: TapeRecord) -> list[tuple[Any, Any]]:
    """Return the arrays of a target, each with its weights."""
    leaves = _leaves(target)
    arrays = [record.arrays_of(leaf)[-1:] if _is_variable(leaf) else [leaf] for leaf in leaves]
    targets = [array[0] if array else leaf.value for array, leaf in zip(arrays, leaves, strict=True)]
    given = [None] * len(leaves) if weights is None else jax.tree.leaves(weights, is_leaf=lambda w: w is None)
    return [
        (
            each,
            jnp.ones_like(each)
            if weight is None
            else jnp.broadcast_to(jnp.asarray(weight, each.dtype), each.shape),
        )
        for each, weight in zip(targets, given, strict=True)
    ]


def _is_floating(target: Any) -> bool:
    return bool(jnp.issubdtype(jnp.result_type(target), jnp.inexact))


def _has_gradients(target: Any) -> bool:
    """Return whether a target's dtype allows gradients; warn if it does not."""
    if not _is_floating(target):
        _log.warning(
            "A target of gradients has dtype %s and shape %s; only floating-point values have gradients. "
            "Cast what it is computed from first.",
            jnp.result_type(target),
            np.shape(target),
        )
    return _is_floating(target)


def _floating_target(target: Any, record: TapeRecord) -> Any:
    """Return the array of a target, which must allow gradients."""
    [(array, _)] = _targets(target, None, record)
    if not _is_floating(array):
        raise GradientError(
            f"A target of derivatives has dtype {jnp.result_type(array)} and shape {np.shape(array)}; only "
            "floating-point values have derivatives. Cast what it is computed from first."
        )
    return array


def _weighted(target: Any, weights: Any) -> Any:
    """Return the target of a step whose sum has these weights."""
    if weights is None:
        return target
    arrays = [each.value if _is_variable(each) else each for each in _leaves(target)]
    given = jax.tree.leaves(weights, is_leaf=lambda w: w is None)
    return [
        each if w is None else each * jax.lax.stop_gradient(jnp.asarray(w))
        for each, w in zip(arrays, given, strict=True)
    ]


def _gradients(
    record: TapeRecord, targets: Sequence[Any], sources: Sequence[Any], call: Callable[[Pullback], list[Any]]
) -> list[Any]:
    """Return for each source the sum of the derivatives by all arrays it has been; None if there are none."""
    versions = [record.arrays_of(source) for source in sources]
    found = iter(call(record.pullback(targets, [array for each in versions for array in each])))
    grads = []
    for source, each in zip(sources, versions, strict=True):
        parts = [part for part in itertools.islice(found, len(each)) if part is not None]
        total = functools.reduce(operator.add, parts) if parts else None
        if total is not None and isinstance(source, keras.Variable):
            total = total.astype(source.dtype)  # a variable elsewhere is read as it is cast
        grads.append(total)
    return grads


def _zeros(source: Any) -> jax.Array:
    return jnp.zeros(np.shape(source), source.dtype)


def is_zero(unconnected: Any) -> bool:
    """Return whether to return zeros for unconnected sources, by a word or TensorFlow's enumeration."""
    word = getattr(unconnected, "value", unconnected)
    if word not in ("none", "zero"):
        raise ValueError(f'unconnected_gradients must be "none" or "zero", got {unconnected!r}.')
    return bool(word == "zero")
