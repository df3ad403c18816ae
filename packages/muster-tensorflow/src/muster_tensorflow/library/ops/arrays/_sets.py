"""``tf.sets``: set operations on rows, computed on the host; and more of ``tf.sparse``."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster.data import SparseTensor
from muster.distribute import IndexedSlices
from muster_tensorflow.library.ops._arrays import Array, ArrayLike, as_array
from muster_tensorflow.library.ops._operation import operation
from muster_tensorflow.library.ops._parameters import takes
from muster_tensorflow.library.ops.control._needs_values import known


def _rows(values: Any, what: str) -> tuple[tuple[int, ...], dict[tuple[int, ...], set[Any]]]:
    """Return the shape of all axes but the last one, and the values of each row there."""
    if isinstance(values, SparseTensor):
        places, flat = known(values.plain_indices, what), known(values.plain_values, what)
        found: dict[tuple[int, ...], set[Any]] = {}
        for place, value in zip(places.tolist(), flat.tolist(), strict=True):
            found.setdefault(tuple(place[:-1]), set()).add(value)
        return tuple(values.shape[:-1]), found
    array = known(as_array(values), what)
    outer = array.shape[:-1]
    return outer, {place: set(array[place].tolist()) for place in np.ndindex(outer)}


def _dtype_of(values: Any) -> Any:
    return (values.plain_values if isinstance(values, SparseTensor) else as_array(values)).dtype


def _combined(a: Any, b: Any, combine: Callable[[set[Any], set[Any]], set[Any]], what: str) -> SparseTensor:
    (outer, left), (_, right) = _rows(a, what), _rows(b, what)
    made = {
        place: sorted(combine(left.get(place, set()), right.get(place, set()))) for place in np.ndindex(outer)
    }
    indices = [(*place, number) for place, row in made.items() for number in range(len(row))]
    width = max(map(len, made.values()), default=0)
    values = np.array([each for row in made.values() for each in row], _dtype_of(a))
    return SparseTensor(np.array(indices, np.int64).reshape(len(values), -1), values, (*outer, width))


@operation
def set_difference(a: Any, b: Any, aminusb: bool = True, validate_indices: bool = True) -> SparseTensor:
    """Return the values of each row of ``a`` that are not in that of ``b``, in order; or the other way round.

    Args:
        a: An array or a sparse tensor; the last axis is a set.
        b: The other one.
        aminusb: Whether values of ``a`` are returned.
        validate_indices: Unused.

    Raises:
        TraceError: A compiled function or a step computes them.
    """
    first, second = (a, b) if aminusb else (b, a)
    return _combined(first, second, lambda x, y: x - y, "tf.sets.difference")


@operation
def set_intersection(a: Any, b: Any, validate_indices: bool = True) -> SparseTensor:
    """Return the values that each row of ``a`` and of ``b`` have, in order."""
    return _combined(a, b, lambda x, y: x & y, "tf.sets.intersection")


@operation
def set_union(a: Any, b: Any, validate_indices: bool = True) -> SparseTensor:
    """Return the values that each row of ``a`` or of ``b`` has, in order."""
    return _combined(a, b, lambda x, y: x | y, "tf.sets.union")


@operation
def set_size(a: SparseTensor, validate_indices: bool = True) -> Array:
    """Return how many different values each row of a sparse tensor has."""
    outer, found = _rows(a, "tf.sets.size")
    sizes = np.zeros(outer, np.int32)
    for place, row in found.items():
        sizes[place] = len(row)
    return sizes


@operation
def sparse_mask(a: IndexedSlices, mask_indices: ArrayLike, name: str | None = None) -> IndexedSlices:
    """Return rows without those of some indices."""
    indices = known(as_array(a.indices), "tf.sparse.mask")
    kept = np.flatnonzero(~np.isin(indices, known(as_array(mask_indices), "tf.sparse.mask")))
    return IndexedSlices(as_array(a.values)[kept], indices[kept], a.dense_shape)


def _segments(name: str, how: str) -> Callable[..., Array]:
    def reduce(
        data: ArrayLike,
        indices: ArrayLike,
        segment_ids: ArrayLike,
        name: str | None = None,
        num_segments: int | None = None,
        sparse_gradient: bool = False,
    ) -> Array:
        ids = jnp.asarray(as_array(segment_ids))
        count = num_segments
        if count is None:
            numbers = known(ids, f"{label} without num_segments")
            count = int(numbers[-1]) + 1 if len(numbers) else 0
        rows = jnp.take(jnp.asarray(as_array(data)), jnp.asarray(as_array(indices)), axis=0)
        total = jax.ops.segment_sum(rows, ids, int(count))
        counts = jax.ops.segment_sum(jnp.ones(ids.shape, total.dtype), ids, int(count))
        counts = jnp.maximum(counts, 1).reshape(-1, *(1,) * (total.ndim - 1))
        return total if how == "sum" else total / (counts if how == "mean" else jnp.sqrt(counts))

    label = reduce.__name__ = reduce.__qualname__ = name
    reduce.__doc__ = f"Return the {how} of the rows at some indices, for each run of equal segment ids."
    return operation(reduce)


sparse_segment_sum = _segments("sparse_segment_sum", "sum")
sparse_segment_mean = _segments("sparse_segment_mean", "mean")
sparse_segment_sqrt_n = _segments("sparse_segment_sqrt_n", "sqrt_n")


_IN_NEW_ORDER = "data indices segment_ids num_segments name sparse_gradient"
segment_sum = takes(sparse_segment_sum, _IN_NEW_ORDER)
segment_mean = takes(sparse_segment_mean, _IN_NEW_ORDER)
segment_sqrt_n = takes(sparse_segment_sqrt_n, _IN_NEW_ORDER)
