"""TensorFlow's operations that take, mask, sort, repeat and reorder values."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from muster.distribute import get_strategy, in_cross_replica_context
from muster.program import is_tracing_batch
from muster_tensorflow.library.ops._arrays import (
    Array,
    ArrayLike,
    Axis,
    DTypeLike,
    apply,
    array_module,
    as_array,
    as_axis,
    is_size,
)
from muster_tensorflow.library.ops._operation import operation
from muster_tensorflow.library.ops.arrays._chosen import choose
from muster_tensorflow.library.ops.control._needs_values import NeedsValuesError
from muster_tensorflow.library.ops.math._math import cast

Direction = Literal["ASCENDING", "DESCENDING"]


@operation
def sequence_mask(
    lengths: ArrayLike, maxlen: int | None = None, dtype: DTypeLike = np.bool_, name: str | None = None
) -> Array:
    """Return a mask of the first values of each sequence: shape S of lengths gives (\\*S, maxlen).

    Args:
        lengths: The lengths, integers.
        maxlen: The size of the last axis; None is the largest length, which must be known: not in a step.
        dtype: The dtype of the mask.
        name: Unused.

    Raises:
        TraceError: ``maxlen`` is None, and the lengths are values of a compiled function or of a step.

    Source: tensorflow/python/ops/array_ops.py, ``sequence_mask``.
    """
    sizes = as_array(lengths)
    if maxlen is None:
        _refuse_traced("tf.sequence_mask without maxlen", sizes)
        maxlen = int(np.max(sizes, initial=0))
    places = jnp.arange(maxlen) if is_size(maxlen) else np.arange(maxlen)
    return cast(apply("expand_dims", sizes, axis=-1) > places, dtype)


@operation
def boolean_mask(
    tensor: ArrayLike, mask: ArrayLike, axis: int | None = None, name: str = "boolean_mask"
) -> Any:
    """Return the values at which a mask is True: in the step of a model_fn, rows for losses and sums.

    Args:
        tensor: Values, of shape (\\*before, \\*S, \\*after).
        mask: Booleans of shape S.
        axis: The number of axes before those of the mask; None is 0.
        name: Unused.

    Raises:
        TraceError: A compiled function, or the step of a model's own, computes the mask: shapes are fixed
            there. So they are in a model_fn and in the code of several replicas, where the result has all
            rows: see `Chosen`.

    Source: tensorflow/python/ops/array_ops.py, ``boolean_mask``.
    """
    chosen = as_array(mask)
    if isinstance(chosen, jax.core.Tracer) and not axis and (is_tracing_batch() or _is_one_of_replicas()):
        return choose(jnp.asarray(as_array(tensor)), chosen)
    _refuse_traced("tf.boolean_mask", chosen)
    places: Any = (*(slice(None),) * (axis or 0), np.asarray(chosen, bool))
    return as_array(tensor)[places]


def _is_one_of_replicas() -> bool:
    """Return whether a replica's code is traced beside that of others: it cannot run uncompiled instead."""
    return not in_cross_replica_context() and get_strategy().num_replicas_in_sync > 1


def _refuse_traced(what: str, value: Array) -> None:
    if isinstance(value, jax.core.Tracer):
        raise NeedsValuesError(
            f"{what} gives an array whose shape depends on values, but the shapes of a compiled step are "
            "fixed. Do it in the input function, or keep all values and weigh them by the mask: tf.where, "
            "or the weights of a loss."
        )


@operation
def gather_nd(params: ArrayLike, indices: ArrayLike, batch_dims: int = 0, name: str | None = None) -> Array:
    """Take values or slices: the last axis of ``indices`` counts along the axes of ``params``.

    Args:
        params: Values of shape (\\*batch, \\*S).
        indices: Integers of shape (\\*batch, \\*T, axes).
        batch_dims: How many leading axes both have in common.
        name: Unused.

    Source: tensorflow/python/ops/array_ops.py, ``gather_nd``.
    """
    values, places = as_array(params), as_array(indices)
    batch = np.ogrid[tuple(slice(size) for size in values.shape[:batch_dims])] if batch_dims else []
    spread = [each.reshape(*each.shape, *(1,) * (places.ndim - 1 - batch_dims)) for each in batch]
    along = apply("moveaxis", places, source=-1, destination=0)
    xp = array_module(values, places)
    found: Array = xp.asarray(values)[(*spread, *along)]
    return found


@operation
def scatter_nd(
    indices: ArrayLike, updates: ArrayLike, shape: Sequence[int], name: str | None = None
) -> Array:
    """Add values to zeros of a shape: the last axis of ``indices`` counts along its axes.

    Source: tensorflow/python/ops/array_ops.py, ``scatter_nd``.
    """
    values = jnp.asarray(as_array(updates))
    return jnp.zeros(tuple(int(size) for size in shape), values.dtype).at[_places(indices)].add(values)


@operation
def tensor_scatter_nd_update(
    tensor: ArrayLike, indices: ArrayLike, updates: ArrayLike, name: str | None = None
) -> Array:
    """Return a copy with other values or slices at ``indices``, whose last axis counts along the axes."""
    return jnp.asarray(as_array(tensor)).at[_places(indices)].set(as_array(updates))


@operation
def tensor_scatter_nd_sub(
    tensor: ArrayLike, indices: ArrayLike, updates: ArrayLike, name: str | None = None
) -> Array:
    """Return a copy with values subtracted at ``indices``, whose last axis counts along the axes."""
    return jnp.asarray(as_array(tensor)).at[_places(indices)].add(-as_array(updates))


@operation
def tensor_scatter_nd_max(
    tensor: ArrayLike, indices: ArrayLike, updates: ArrayLike, name: str | None = None
) -> Array:
    """Return a copy with the larger of both values at ``indices``."""
    return jnp.asarray(as_array(tensor)).at[_places(indices)].max(as_array(updates))


@operation
def tensor_scatter_nd_min(
    tensor: ArrayLike, indices: ArrayLike, updates: ArrayLike, name: str | None = None
) -> Array:
    """Return a copy with the smaller of both values at ``indices``."""
    return jnp.asarray(as_array(tensor)).at[_places(indices)].min(as_array(updates))


@operation
def tensor_scatter_nd_add(
    tensor: ArrayLike, indices: ArrayLike, updates: ArrayLike, name: str | None = None
) -> Array:
    """Return a copy with values added at ``indices``, whose last axis counts along the axes."""
    return jnp.asarray(as_array(tensor)).at[_places(indices)].add(as_array(updates))


def _places(indices: ArrayLike) -> tuple[jax.Array, ...]:
    return tuple(jnp.moveaxis(jnp.asarray(as_array(indices)), -1, 0))


@operation
def slice_(
    input_: ArrayLike, begin: Iterable[ArrayLike], size: Iterable[int], name: str | None = None
) -> Array:
    """Return a part of an array: on each axis ``size`` values from ``begin`` on; -1 is all that follow.

    Raises:
        TraceError: A size is a value of a compiled function or of a step, or -1 where the start is one.

    Source: tensorflow/python/ops/array_ops.py, ``slice``.
    """
    value: Any = as_array(input_)
    starts: list[Any] = list(begin)
    sizes: list[Any] = list(size)
    if any(isinstance(each, jax.core.Tracer) for each in sizes):
        raise NeedsValuesError("tf.slice needs sizes that are known: Python's numbers, or those of a shape.")
    if any(isinstance(each, jax.core.Tracer) for each in starts):
        known = [
            full - int(start) if count == -1 else int(count)
            for start, count, full in zip(starts, sizes, value.shape, strict=True)
            if count != -1 or not isinstance(start, jax.core.Tracer)
        ]
        if len(known) < len(sizes):
            raise NeedsValuesError("tf.slice needs a size, other than -1, where a step computes the start.")
        return jax.lax.dynamic_slice(jnp.asarray(value), starts, known)
    part: Array = value[
        tuple(
            slice(int(start), None if count == -1 else int(start) + int(count))
            for start, count in zip(starts, sizes, strict=True)
        )
    ]
    return part


@operation
def reverse(tensor: ArrayLike, axis: Axis, name: str | None = None) -> Array:
    """Reverse the order of the values along axes."""
    return apply("flip", as_array(tensor), axis=as_axis(axis))


@operation
def roll(input: ArrayLike, shift: int | Sequence[int], axis: Axis, name: str | None = None) -> Array:
    """Move values along axes; those that leave at the end come back at the start."""
    return apply("roll", as_array(input), shift=shift, axis=as_axis(axis))


@operation
def sort(
    values: ArrayLike, axis: int = -1, direction: Direction = "ASCENDING", name: str | None = None
) -> Array:
    """Sort values along an axis."""
    ordered = apply("sort", as_array(values), axis=axis)
    return apply("flip", ordered, axis=axis) if _descending(direction) else ordered


@operation
def argsort(
    values: ArrayLike,
    axis: int = -1,
    direction: Direction = "ASCENDING",
    stable: bool = False,
    name: str | None = None,
) -> Array:
    """Return the indices that sort values along an axis, int32; equal values keep their order."""
    value = as_array(values)
    if _descending(direction):
        # Reversed before and after, so that equal values keep their order.
        order = _stable_order(apply("flip", value, axis=axis), axis)
        places = value.shape[axis] - 1 - apply("flip", order, axis=axis)
    else:
        places = _stable_order(value, axis)
    return cast(places, np.int32)


def _stable_order(value: Array, axis: int) -> Array:
    stable: Any = {"kind": "stable"} if array_module(value) is np else {"stable": True}
    return apply("argsort", value, axis=axis, **stable)


def _descending(direction: str) -> bool:
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ValueError(f"The direction is 'ASCENDING' or 'DESCENDING', got {direction!r}.")
    return direction == "DESCENDING"


@operation
def searchsorted(
    sorted_sequence: ArrayLike,
    values: ArrayLike,
    side: Literal["left", "right"] = "left",
    out_type: DTypeLike = np.int32,
    name: str | None = None,
) -> Array:
    """Return where values belong in a sequence that is sorted along its last axis."""
    ordered, found = as_array(sorted_sequence), as_array(values)
    if ordered.ndim == 1:
        return cast(apply("searchsorted", ordered, found, side=side), out_type)
    search = jnp.vectorize(lambda one, many: jnp.searchsorted(one, many, side), signature="(n),(m)->(m)")
    return cast(search(ordered, found), out_type)


@operation
def repeat(input: ArrayLike, repeats: ArrayLike, axis: int | None = None, name: str | None = None) -> Array:
    """Repeat each value along an axis; without one, those of the flattened array."""
    counts = repeats if isinstance(repeats, int) else np.asarray(as_array(repeats))
    return apply("repeat", as_array(input), repeats=counts, axis=axis)


@operation
def meshgrid(*args: ArrayLike, indexing: Literal["xy", "ij"] = "xy", name: str | None = None) -> list[Array]:
    """Return the coordinates of the points of a grid, an array for each axis."""
    return list(array_module(*args).meshgrid(*map(as_array, args), indexing=indexing))


@operation
def linspace(start: ArrayLike, stop: ArrayLike, num: int, name: str | None = None, axis: int = 0) -> Array:
    """Return ``num`` numbers from ``start`` to ``stop``, along a new axis; of integers in float64."""
    first, last = as_array(start), as_array(stop)
    kind: Any = first.dtype if first.dtype.kind == "f" else np.float64
    return cast(apply("linspace", first, last, num=num, axis=axis), kind)


class Unique(NamedTuple):
    """The result of `unique`."""

    y: Array
    idx: Array


class UniqueWithCounts(NamedTuple):
    """The result of `unique_with_counts`."""

    y: Array
    idx: Array
    count: Array  # type: ignore[assignment]  # tuple's method


@operation
def unique(x: ArrayLike, out_idx: DTypeLike = np.int32, name: str | None = None) -> "Unique":
    """Return the different values in the order in which they come, and the place of each value among them.

    Raises:
        TraceError: The values are those of a compiled function or of a step, whose shapes are fixed.

    Source: tensorflow/python/ops/array_ops.py, ``unique``.
    """
    values = as_array(x)
    _refuse_traced("tf.unique", values)
    found, first, places = np.unique(np.asarray(values), return_index=True, return_inverse=True)
    order = np.argsort(first)
    return Unique(found[order], np.argsort(order)[places].astype(out_idx))


@operation
def unique_with_counts(
    x: ArrayLike, out_idx: DTypeLike = np.int32, name: str | None = None
) -> "UniqueWithCounts":
    """Return what `unique` does, and how often each value comes."""
    found, places = unique(x, out_idx)
    return UniqueWithCounts(found, places, np.bincount(places, minlength=len(found)).astype(out_idx))
