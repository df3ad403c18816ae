"""Sums, means and largest values of segments, and counts of integers."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster_tensorflow.library.ops._arrays import Array, ArrayLike, DTypeLike, as_array
from muster_tensorflow.library.ops._operation import operation as as_operation
from muster_tensorflow.library.ops.control._needs_values import NeedsValuesError


@as_operation
def unsorted_segment_sum(
    data: ArrayLike, segment_ids: ArrayLike, num_segments: int, name: str | None = None
) -> jax.Array:
    """Add the values of each segment; ids are numbers of segments, negative ones are left out.

    Args:
        data: Values of shape (\\*S, \\*rest).
        segment_ids: Integers of shape S.
        num_segments: How many segments there are.
        name: Unused.

    Returns:
        Of shape (num_segments, \\*rest).

    Source: tensorflow/python/ops/math_ops.py, ``unsorted_segment_sum``.
    """
    return jax.ops.segment_sum(*_flat(data, segment_ids), num_segments)


@as_operation
def unsorted_segment_max(
    data: ArrayLike, segment_ids: ArrayLike, num_segments: int, name: str | None = None
) -> jax.Array:
    """Take the largest value of each segment, of an empty one the smallest of the dtype."""
    values, ids = _flat(data, segment_ids)
    found = jax.ops.segment_max(values, ids, num_segments)
    if not jnp.issubdtype(values.dtype, jnp.floating):
        return found
    least = -jnp.nextafter(jnp.asarray(jnp.inf, values.dtype), jnp.zeros((), values.dtype))
    return jnp.where(found == -jnp.inf, least, found)


@as_operation
def unsorted_segment_min(
    data: ArrayLike, segment_ids: ArrayLike, num_segments: int, name: str | None = None
) -> jax.Array:
    """Take the smallest value of each segment, of an empty one the largest of the dtype."""
    values, ids = _flat(data, segment_ids)
    found = jax.ops.segment_min(values, ids, num_segments)
    if not jnp.issubdtype(values.dtype, jnp.floating):
        return found
    most = jnp.nextafter(jnp.asarray(jnp.inf, values.dtype), jnp.zeros((), values.dtype))
    return jnp.where(found == jnp.inf, most, found)


@as_operation
def unsorted_segment_prod(
    data: ArrayLike, segment_ids: ArrayLike, num_segments: int, name: str | None = None
) -> jax.Array:
    """Multiply the values of each segment; an empty one gives 1."""
    return jax.ops.segment_prod(*_flat(data, segment_ids), num_segments)


@as_operation
def unsorted_segment_sqrt_n(
    data: ArrayLike, segment_ids: ArrayLike, num_segments: int, name: str | None = None
) -> jax.Array:
    """Add the values of each segment, and divide by the root of their number."""
    values, ids = _flat(data, segment_ids)
    counts = jax.ops.segment_sum(jnp.ones(len(ids), values.dtype), ids, num_segments)
    total = jax.ops.segment_sum(values, ids, num_segments)
    return total / jnp.sqrt(jnp.maximum(counts, 1)).reshape(-1, *(1,) * (total.ndim - 1))


@as_operation
def unsorted_segment_mean(
    data: ArrayLike, segment_ids: ArrayLike, num_segments: int, name: str | None = None
) -> jax.Array:
    """Take the mean of each segment, of an empty one 0."""
    values, ids = _flat(data, segment_ids)
    counts = jax.ops.segment_sum(jnp.ones(len(ids), values.dtype), ids, num_segments)
    total = jax.ops.segment_sum(values, ids, num_segments)
    return total / jnp.maximum(counts, 1).reshape(-1, *(1,) * (total.ndim - 1))


def _flat(data: ArrayLike, segment_ids: ArrayLike) -> tuple[jax.Array, jax.Array]:
    values, ids = jnp.asarray(as_array(data)), jnp.asarray(as_array(segment_ids))
    return values.reshape(-1, *values.shape[ids.ndim :]), ids.ravel()


def _sorted(unsorted: Callable[..., jax.Array], what: str) -> Callable[..., jax.Array]:
    def operation(data: ArrayLike, segment_ids: ArrayLike, name: str | None = None) -> jax.Array:
        ids = as_array(segment_ids)
        if isinstance(ids, jax.core.Tracer):
            raise NeedsValuesError(
                f"tf.math.segment_{what} takes the number of segments from its ids, which a compiled step "
                f"does not know: use tf.math.unsorted_segment_{what} with num_segments."
            )
        count = int(np.max(ids, initial=-1)) + 1
        made = unsorted(data, ids, count)
        if what not in ("max", "min"):
            return made
        there = np.isin(np.arange(count), ids).reshape(-1, *(1,) * (made.ndim - 1))
        return jnp.where(there, made, 0)

    operation.__name__ = operation.__qualname__ = f"segment_{what}"
    rest = "; empty ones give 0" if what in ("max", "min") else ""
    operation.__doc__ = (
        f"Do as ``unsorted_segment_{what}``, with as many segments as the largest id says{rest}."
    )
    return as_operation(operation)


segment_sum = _sorted(unsorted_segment_sum, "sum")
segment_mean = _sorted(unsorted_segment_mean, "mean")
segment_max = _sorted(unsorted_segment_max, "max")
segment_min = _sorted(unsorted_segment_min, "min")
segment_prod = _sorted(unsorted_segment_prod, "prod")


@as_operation
def bincount(
    arr: ArrayLike,
    weights: ArrayLike | None = None,
    minlength: int | None = None,
    maxlength: int | None = None,
    dtype: DTypeLike = np.int32,
    name: str | None = None,
    axis: int | None = None,
    binary_output: bool = False,
) -> Array:
    """Count how often each integer comes, or add its weights.

    Args:
        arr: Integers of at least 0.
        weights: A weight for each; None counts.
        minlength: The least length of the result, which else ends with the largest integer.
        maxlength: The length at which the result is cut; in a step, the length.
        dtype: The dtype of counts.
        name: Unused.
        axis: -1 counts in each row; None or 0 in all of them.
        binary_output: Whether to say by 1 that an integer comes, however often.

    Raises:
        ValueError: The axis is another one.
        TraceError: A step computes the integers, and there is no ``maxlength``.

    Source: tensorflow/python/ops/bincount_ops.py, ``bincount``.
    """
    values = as_array(arr)
    if isinstance(values, jax.core.Tracer):
        if maxlength is None:
            raise NeedsValuesError("tf.math.bincount needs maxlength in a step, whose shapes are fixed.")
        length = maxlength
    else:
        length = max(int(np.max(values, initial=-1)) + 1, minlength or 0)
        length = length if maxlength is None else min(length, maxlength)
    if axis not in (None, 0, -1):
        raise ValueError(f"tf.math.bincount counts along axis 0 or -1, got {axis}.")
    ids = jnp.asarray(values)
    each: Any = jnp.ones(ids.shape, jax.dtypes.canonicalize_dtype(dtype)) if weights is None else weights
    each = jnp.asarray(as_array(each))
    if axis == -1 and ids.ndim > 1:
        counts = jax.vmap(lambda row, added: jax.ops.segment_sum(added, row, length))(ids, each)
    else:
        counts = jax.ops.segment_sum(each.ravel(), ids.ravel(), length)
    return (counts != 0).astype(counts.dtype) if binary_output else counts


@as_operation
def confusion_matrix(
    labels: ArrayLike,
    predictions: ArrayLike,
    num_classes: int | None = None,
    weights: ArrayLike | None = None,
    dtype: DTypeLike = np.int32,
    name: str | None = None,
) -> jax.Array:
    """Count predictions of each class, the columns, for labels of each class, the rows.

    A last axis of size 1, which only one of them has, is dropped.

    Raises:
        ValueError: A label or a prediction is no class.
        TraceError: A step computes them, and there is no ``num_classes``.

    Source: tensorflow/python/ops/confusion_matrix.py, ``confusion_matrix``.
    """
    rows, columns = (each.astype(np.int32) for each in map(as_array, (labels, predictions)))
    if rows.ndim == columns.ndim + 1 and rows.shape[-1] == 1:
        rows = rows[..., 0]
    elif columns.ndim == rows.ndim + 1 and columns.shape[-1] == 1:
        columns = columns[..., 0]
    are_known = not any(isinstance(each, jax.core.Tracer) for each in (rows, columns))
    if num_classes is None:
        if not are_known:
            raise NeedsValuesError(
                "tf.math.confusion_matrix needs num_classes in a step, whose shapes are fixed."
            )
        num_classes = max(int(np.max(rows, initial=-1)), int(np.max(columns, initial=-1))) + 1
    for what, classes in (("labels", rows), ("predictions", columns)) if are_known else ():
        if classes.size and not 0 <= int(classes.min()) <= int(classes.max()) < num_classes:
            raise ValueError(f"{what} are not all among the {num_classes} classes from 0: {classes}.")
    kind = jax.dtypes.canonicalize_dtype(dtype)
    each = jnp.ones(rows.shape, kind) if weights is None else jnp.asarray(as_array(weights), kind)
    return jnp.zeros((num_classes, num_classes), kind).at[rows, columns].add(each)
