"""``tf.quantization.fake_quant_*``: round values to a few bits, for quantization-aware training."""

import jax
import jax.numpy as jnp

from muster_tensorflow.library.ops._arrays import Array, ArrayLike, as_array
from muster_tensorflow.library.ops._operation import operation


@operation
def fake_quant_with_min_max_vars(
    inputs: ArrayLike,
    min: ArrayLike,
    max: ArrayLike,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Array:
    """Round numbers to those that integers stand for in a range, whose ends are moved so that 0 is one.

    Args:
        inputs: The numbers.
        min: The lower end of the range, of shape ().
        max: The upper end, likewise.
        num_bits: How many bits the integers have, from 2 to 16.
        narrow_range: Whether the smallest of these is 1 rather than 0.
        name: Unused.

    Returns:
        The numbers; gradients pass those inside of the range, and reach the ends of it for others.

    Source: tensorflow/core/kernels/fake_quant_ops_functor.h.
    """
    if not 2 <= num_bits <= 16:
        raise ValueError(f"num_bits must be between 2 and 16, inclusive, got {num_bits}.")
    values, low, high = (jnp.asarray(as_array(each), "float32") for each in (inputs, min, max))
    least, most = float(narrow_range), float(2**num_bits - 1)
    fixed_low, fixed_high = jax.lax.stop_gradient((low, high))
    width = fixed_high - fixed_low
    scale = jnp.where(width == 0, 1.0, width) / (most - least)
    zero = least - fixed_low / scale
    zero = jnp.clip(jnp.sign(zero) * jnp.floor(jnp.abs(zero) + 0.5), least, most)
    first, last = (least - zero) * scale, (most - zero) * scale
    inside = jnp.clip(values, first, last)
    rounded = jnp.floor((inside - first) / scale + 0.5) * scale + first
    # What gradients see: the numbers themselves, or the end that they lie behind.
    seen = jnp.where(values < first, low, jnp.where(values > last, high, values))
    made = seen + jax.lax.stop_gradient(rounded - seen)
    return jnp.where((fixed_low == 0) & (fixed_high == 0), 0.0, made)


@operation
def fake_quant_with_min_max_vars_per_channel(
    inputs: ArrayLike,
    min: ArrayLike,
    max: ArrayLike,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Array:
    """Do as `fake_quant_with_min_max_vars`, with a range of shape (d,) for the last axis of the numbers."""
    return fake_quant_with_min_max_vars(inputs, min, max, num_bits, narrow_range)


@operation
def fake_quant_with_min_max_args(
    inputs: ArrayLike,
    min: float = -6,
    max: float = 6,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Array:
    """Do as `fake_quant_with_min_max_vars`, with a range of two numbers."""
    return fake_quant_with_min_max_vars(inputs, min, max, num_bits, narrow_range)
