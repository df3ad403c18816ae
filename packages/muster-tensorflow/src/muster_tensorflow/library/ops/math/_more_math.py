"""More operations of ``tf`` and ``tf.math``: division towards zero, casts, samples, and eigenvalues."""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from muster_tensorflow.library.ops._arrays import (
    Array,
    ArrayLike,
    DTypeLike,
    apply,
    array_module,
    as_array,
    as_arrays,
    is_traced,
)
from muster_tensorflow.library.ops._operation import operation
from muster_tensorflow.library.ops.control._needs_values import NeedsValuesError
from muster_tensorflow.library.ops.random._stateless import key_of


class ApproxTopK(NamedTuple):
    """The largest values, or the smallest, and where they are; `approx_top_k` returns it."""

    values: Any
    indices: Any


@operation
def saturate_cast(value: ArrayLike, dtype: DTypeLike, name: str | None = None) -> Array:
    """Convert to another dtype; what is outside of its range becomes its least or largest number."""
    values, kind = as_array(value), np.dtype(dtype)
    own = np.dtype(values.dtype)
    if kind.kind in "iuf" and own.kind in "iuf":
        limits: Any = np.iinfo(kind) if kind.kind in "iu" else np.finfo(kind)
        least: Any = np.iinfo(own) if own.kind in "iu" else np.finfo(own)
        if limits.min > least.min or limits.max < least.max:
            low, high = max(limits.min, least.min), min(limits.max, least.max)
            most = own.type(high)
            if own.kind == "f" and float(most) > high:
                most = np.nextafter(most, own.type(0))
            values = apply("clip", values, own.type(low), most)
    return as_array(values, kind)


@operation
def truncatediv(x: ArrayLike, y: ArrayLike, name: str | None = None) -> Array:
    """Divide, and round towards zero."""
    left, right = as_arrays(x, y)
    xp = array_module(left, right)
    if np.result_type(getattr(left, "dtype", type(left))).kind == "f":
        return xp.trunc(left / right)
    return (left - xp.fmod(left, right)) // right


@operation
def truncatemod(x: ArrayLike, y: ArrayLike, name: str | None = None) -> Array:
    """Return what a division that rounds towards zero leaves: its sign is that of ``x``."""
    return apply("fmod", *as_arrays(x, y))


@operation
def reciprocal_no_nan(x: ArrayLike, name: str | None = None) -> Array:
    """Return ``1 / x``, and 0 where x is 0."""
    value = as_array(x)
    xp = array_module(value)
    return xp.where(value == 0, value * 0, 1 / xp.where(value == 0, value * 0 + 1, value))


@operation
def approx_top_k(
    operand: ArrayLike,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    is_max_k: bool = True,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
    name: str | None = None,
) -> ApproxTopK:
    """Return the ``k`` largest values along an axis, of which TPUs find a share of ``recall_target``."""
    select = jax.lax.approx_max_k if is_max_k else jax.lax.approx_min_k
    found = select(
        jnp.asarray(as_array(operand)),
        int(k),
        reduction_dimension,
        recall_target,
        reduction_input_size_override,
        aggregate_to_topk,
    )
    return ApproxTopK(*found)


@operation
def approx_max_k(
    operand: ArrayLike,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
    name: str | None = None,
) -> ApproxTopK:
    """Return the ``k`` largest values along an axis; arguments as for `approx_top_k`."""
    options = (reduction_dimension, recall_target, True, reduction_input_size_override, aggregate_to_topk)
    return approx_top_k(operand, k, *options)


@operation
def approx_min_k(
    operand: ArrayLike,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
    name: str | None = None,
) -> ApproxTopK:
    """Return the ``k`` smallest values along an axis; arguments as for `approx_top_k`."""
    options = (reduction_dimension, recall_target, False, reduction_input_size_override, aggregate_to_topk)
    return approx_top_k(operand, k, *options)


@operation
def sobol_sample(
    dim: int, num_results: int, skip: int = 0, dtype: DTypeLike = np.float32, name: str | None = None
) -> Array:
    """Return points of Sobol's sequence, after the first: shape (num_results, dim), from 0 to 1."""
    sequence = scipy.stats.qmc.Sobol(int(dim), scramble=False)
    sequence.fast_forward(int(skip) + 1)
    return np.asarray(sequence.random(int(num_results))).astype(dtype)


def timestamp(name: str | None = None) -> np.float64:
    """Return the seconds since 1970, in eager code.

    Raises:
        NeedsValuesError: Code is being traced, which would take the time once.
    """
    if is_traced():
        raise NeedsValuesError("A compiled step has no clock: call tf.timestamp outside of it.")
    return np.float64(time.time())  # noqa: TID251  # it is for dates


@operation
def parallel_stack(values: Sequence[ArrayLike], name: str = "parallel_stack") -> Array:
    """Stack arrays of one shape along a new first axis."""
    arrays = [as_array(each) for each in values]
    return array_module(*arrays).stack(arrays)


@operation
def guarantee_const(input: ArrayLike, name: str | None = None) -> Array:
    """Return the values: XLA finds out itself what is constant."""
    return as_array(input)


@operation
def random_index_shuffle(
    index: ArrayLike, seed: ArrayLike, max_index: int, rounds: int = 4, name: str | None = None
) -> Array:
    """Return the places of indices, from 0 to ``max_index``, in a permutation that a seed says.

    The permutation is JAX's, not TensorFlow's, and takes memory for all indices.

    Args:
        index: Integers of any shape.
        seed: Three integers.
        max_index: The largest index.
        rounds: Unused.
        name: Unused.
    """
    words = jnp.asarray(as_array(seed)).reshape(3)
    key = jax.random.fold_in(key_of(words[:2]), words[2])
    places = jax.random.permutation(key, int(max_index) + 1)
    return jnp.take(places, jnp.asarray(as_array(index)))


def required_space_to_batch_paddings(
    input_shape: ArrayLike,
    block_shape: ArrayLike,
    base_paddings: ArrayLike | None = None,
    name: str | None = None,
) -> tuple[Array, Array]:
    """Return what ``tf.space_to_batch`` must pad axes with so that blocks divide them, and what to crop."""
    sizes, blocks = (np.asarray(as_array(each), np.int32) for each in (input_shape, block_shape))
    base = np.zeros((len(sizes), 2), np.int32) if base_paddings is None else np.asarray(base_paddings)
    more = -(sizes + base.sum(1)) % blocks
    paddings = np.stack([base[:, 0], base[:, 1] + more], 1).astype(np.int32)
    return paddings, np.stack([np.zeros_like(more), more], 1).astype(np.int32)


@operation
def extract_volume_patches(
    input: ArrayLike, ksizes: Sequence[int], strides: Sequence[int], padding: str, name: str | None = None
) -> Array:
    """Return patches of volumes: (batch, planes, rows, columns, values of a patch).

    Args:
        input: Of shape (batch, depth, height, width, channels).
        ksizes: ``[1, depth, height, width, 1]`` of patches.
        strides: ``[1, planes, rows, columns, 1]`` from one patch to the next.
        padding: ``"VALID"`` or ``"SAME"``.
        name: Unused.
    """
    values = jnp.asarray(as_array(input))
    channels, sizes = values.shape[-1], tuple(map(int, ksizes[1:4]))
    patches = jax.lax.conv_general_dilated_patches(
        jnp.moveaxis(values, -1, 1),
        sizes,
        tuple(map(int, strides[1:4])),
        padding,
        precision=jax.lax.Precision.HIGHEST,
    )
    batch, _, *places = patches.shape
    split = patches.reshape(batch, channels, int(np.prod(sizes)), *places)
    return split.transpose(0, 3, 4, 5, 2, 1).reshape(batch, *places, -1).astype(values.dtype)
