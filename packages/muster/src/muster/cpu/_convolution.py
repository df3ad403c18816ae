"""Convolutions and their gradients, which are convolutions, too: ``lax.conv_general_dilated_p``.

XLA's CPU compiler calls libraries for them, which are fast in the middle of a network, but slow at its ends:
with few input features, few output features or a window of one position, and for the gradients of such
kernels. The bounds here are from measurements on one x86 core with AVX2, and those of
``_by_row`` on two with AVX-512.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from muster.cpu._convolution_shapes import Convolution, Sizes, pad
from muster.cpu._depthwise import depthwise
from muster.cpu._kernel_convolution import by_onednn

MAX_PRODUCTS = 9
"""``_by_product`` is chosen up to so many products per output element."""
MAX_PRODUCTS_FEW_OUTPUTS = 27
FEW_OUTPUTS = 16
"""With at most so many output features, which XLA computes without a library, the bound is the second one."""
HALF_AS_MANY_OUTPUTS = 8
CACHED = 10 * 2**20
LARGE = 64 * 2**20
"""``_by_row`` is chosen up to so many bytes of results: ``CACHED``, which the processor's cache holds, with
up to ``FEW_OUTPUTS`` output features, and ``LARGE`` with up to half as many."""
FEW_INPUTS = 4
"""Up to so many input features the gradient of a kernel is one product of matrices."""
MAX_POSITIONS = 49
"""Above so many positions in a kernel the program would be large, and its compilation slow."""


def convolution(
    lhs: jax.core.ShapedArray,
    rhs: jax.core.ShapedArray,
    *,
    window_strides: Sizes,
    padding: Sequence[tuple[int, int]],
    lhs_dilation: Sizes,
    rhs_dilation: Sizes,
    dimension_numbers: lax.ConvDimensionNumbers,
    feature_group_count: int,
    batch_group_count: int,
    precision: lax.PrecisionLike,
    preferred_element_type: jax.typing.DTypeLike | None,
    out_sharding: jax.sharding.Sharding | None,
    **_: object,
) -> Callable[[jax.Array, jax.Array], jax.Array] | None:
    """Choose how to compute ``conv_general_dilated``; see ``Chooser``.

    The arguments are the primitive's. In the gradient of a kernel, ``lhs`` has batch and feature exchanged,
    and ``rhs`` is the gradient of the result.

    Args:
        lhs: The aval of the images.
        rhs: The aval of the kernel.
        window_strides: One entry for each spatial dimension.
        padding: One entry for each spatial dimension. It may be negative, as in gradients of kernels whose
            strides leave out the image's end.
        lhs_dilation: One entry for each spatial dimension.
        rhs_dilation: One entry for each spatial dimension.
    """
    lhs_spec, rhs_spec, out_spec = map(tuple, dimension_numbers)
    if (
        lhs.dtype != jnp.float32
        or rhs.dtype != jnp.float32
        or preferred_element_type not in (None, jnp.float32)
        or out_sharding is not None
        or 0 in (*lhs.shape, *rhs.shape)
    ):
        return None
    window = tuple(rhs.shape[dim] for dim in rhs_spec[2:])
    inner = [(lhs.shape[dim] - 1) * d + 1 for dim, d in zip(lhs_spec[2:], lhs_dilation, strict=True)]
    free = [
        size + sum(sides) - ((w - 1) * by + 1)
        for size, sides, w, by in zip(inner, padding, window, rhs_dilation, strict=True)
    ]
    if any(size < 0 for size in free):
        return None
    conv = Convolution(
        lhs_spec=lhs_spec, rhs_spec=rhs_spec, out_spec=out_spec, window=window,
        positions=tuple(size // s + 1 for size, s in zip(free, window_strides, strict=True)),
        strides=tuple(window_strides), dilation=tuple(rhs_dilation), padding=tuple(padding),
        precision=precision,
    )  # fmt: skip
    if feature_group_count != 1 or batch_group_count != 1:
        operands = conv, tuple(lhs_dilation), lhs, rhs
        groups = {feature_group_count: lhs.shape[lhs_spec[1]], batch_group_count: lhs.shape[lhs_spec[0]]}
        if groups.get(rhs.shape[rhs_spec[0]]) == rhs.shape[rhs_spec[0]]:
            if (found := by_onednn(*operands, depthwise=True)) is not None:
                return found
        return depthwise(*operands, feature_group_count, batch_group_count)
    if (found := by_onednn(conv, tuple(lhs_dilation), lhs, rhs)) is not None:
        return found
    if any(d > 1 for d in lhs_dilation):
        if math.prod(window) == 1 and all(s == 1 for s in window_strides):
            return partial(_dilated_input, conv, tuple(lhs_dilation))
        undilated = all(by == 1 for by in (*window_strides, *rhs_dilation))
        if undilated and math.prod(window) > math.prod(conv.positions):
            return partial(_exchanged, conv, tuple(lhs_dilation))
        return None
    batch, inputs = (lhs.shape[dim] for dim in lhs_spec[:2])
    products, outputs = inputs * math.prod(window), rhs.shape[rhs_spec[0]]
    positions = math.prod(conv.positions)
    if math.prod(window) == 1 and not any(map(any, padding)):
        return partial(_one_window_position, conv)
    if positions == 1 or (
        batch <= FEW_INPUTS and positions <= MAX_POSITIONS and math.prod(window) > positions
    ):
        return partial(_by_output, conv)
    if (
        products <= (MAX_PRODUCTS_FEW_OUTPUTS if outputs <= FEW_OUTPUTS else MAX_PRODUCTS)
        and out_spec[1] == len(out_spec) - 1
    ):
        return partial(_by_product, conv)
    if (dim := _dimension_of_rows(conv, lhs, outputs)) is not None:
        return partial(_by_row, conv, dim)
    if lhs_spec[0] == len(lhs_spec) - 1 and math.prod(window) > MAX_POSITIONS:
        return partial(_kernel_gradient, conv)
    return None


def _one_window_position(conv: Convolution, lhs: jax.Array, rhs: jax.Array) -> jax.Array:
    """Compute a convolution with a window of one position: a product of matrices."""
    return conv.result(_dot(conv, conv.at_window(lhs, (0,) * len(conv.window)), rhs))


def _dilated_input(conv: Convolution, dilation: Sizes, lhs: jax.Array, rhs: jax.Array) -> jax.Array:
    """Compute the same for a dilated input: zeros between the inputs become zeros between the results."""
    found = _dot(conv, lhs, rhs)
    around = [(low, high, d - 1) for (low, high), d in zip(conv.padding, dilation, strict=True)]
    return conv.result(lax.pad(found, jnp.zeros((), found.dtype), [(0, 0, 0), (0, 0, 0), *around]))


def _exchanged(conv: Convolution, dilation: Sizes, lhs: jax.Array, rhs: jax.Array) -> jax.Array:
    """Compute the gradient of a transposed convolution's kernel like that of a convolution with strides.

    Images and the gradient of the result change places, so that the window is dilated, not the input, for
    which XLA has no library. Each position is found at the other end of its dimension.
    """
    images = [lhs.shape[dim] for dim in conv.lhs_spec[2:]]
    padding = []
    for size, count, last, (low, _), by in zip(
        conv.window, conv.positions, images, conv.padding, dilation, strict=True
    ):
        before = count - 1 - low
        padding.append((before, count - before - size + (last - 1) * by))
    batch, feature, *spatial = conv.out_spec
    found = lax.conv_general_dilated(
        rhs, lhs, window_strides=conv.strides, padding=padding, rhs_dilation=dilation,
        dimension_numbers=lax.ConvDimensionNumbers(conv.rhs_spec, conv.lhs_spec, (feature, batch, *spatial)),
        precision=conv.precision,
    )  # fmt: skip
    return lax.rev(found, spatial)


def _dot(conv: Convolution, lhs: jax.Array, rhs: jax.Array) -> jax.Array:
    """Return the product for a window of one position, with dimensions batch, feature and positions."""
    kernel = lax.squeeze(rhs, conv.rhs_spec[2:])
    contracted = int(conv.rhs_spec[1] > conv.rhs_spec[0])
    found = lax.dot_general(
        lhs, kernel, (((conv.lhs_spec[1],), (contracted,)), ((), ())), precision=conv.precision
    )
    kept = [dim for dim in range(lhs.ndim) if dim != conv.lhs_spec[1]]
    return lax.transpose(
        found, [kept.index(conv.lhs_spec[0]), lhs.ndim - 1, *map(kept.index, conv.lhs_spec[2:])]
    )


def _by_output(conv: Convolution, lhs: jax.Array, rhs: jax.Array) -> jax.Array:
    """Compute one product of matrices, of the inputs under the window at each of its few positions."""
    lhs = conv.padded(lhs)
    inputs = [conv.at_output(lhs, p) for p in itertools.product(*map(range, conv.positions))]
    # One of them is not stacked: XLA would transpose it.
    several = len(inputs) > 1
    contracted = tuple(several + dim for dim in conv.lhs_spec[1:]), conv.rhs_spec[1:]
    stacked = jnp.stack(inputs) if several else inputs[0]
    found = lax.dot_general(stacked, rhs, (contracted, ((), ())), precision=conv.precision)
    found = lax.transpose(found, (1, 2, 0)) if several else found
    return conv.result(found.reshape(*found.shape[:2], *conv.positions))


def _by_product(conv: Convolution, lhs: jax.Array, rhs: jax.Array) -> jax.Array:
    """Compute elementwise, so that XLA fuses it with a following bias and activation."""
    lhs = conv.padded(lhs)
    rank = lhs.ndim
    shape = [0] * rank
    batch, feature, *spatial = conv.out_spec
    shape[batch], shape[feature] = lhs.shape[conv.lhs_spec[0]], rhs.shape[conv.rhs_spec[0]]
    for dim, size in zip(spatial, conv.positions, strict=True):
        shape[dim] = size
    kernel = lax.transpose(rhs, (*conv.rhs_spec[2:], conv.rhs_spec[1], conv.rhs_spec[0]))
    inputs = range(lhs.shape[conv.lhs_spec[1]])
    without_inputs = [dim for dim in range(rank) if dim != conv.lhs_spec[1]]
    to = [conv.out_spec[conv.lhs_spec.index(dim)] for dim in without_inputs]

    def product(w: Sizes, i: int) -> jax.Array:
        factor = lax.index_in_dim(conv.at_window(lhs, w), i, conv.lhs_spec[1], keepdims=False)
        return lax.broadcast_in_dim(factor, shape, to) * lax.broadcast_in_dim(kernel[*w, i], shape, [feature])

    first, *others = itertools.product(itertools.product(*map(range, conv.window)), inputs)
    return sum((product(w, i) for w, i in others), start=product(*first))


def _dimension_of_rows(conv: Convolution, lhs: jax.core.ShapedArray, outputs: int) -> int | None:
    """Return the first spatial dimension along which ``_by_row`` may divide the window, or None."""
    batch, inputs = (lhs.shape[dim] for dim in conv.lhs_spec[:2])
    products, positions = inputs * math.prod(conv.window), math.prod(conv.positions)
    if (
        outputs > FEW_OUTPUTS
        or conv.lhs_spec != conv.out_spec
        or conv.lhs_spec[1] != lhs.ndim - 1
        or math.prod(conv.window) > positions
    ):
        return None
    for dim, (rows, stride) in enumerate(zip(conv.window, conv.strides, strict=True)):
        size = lhs.shape[conv.lhs_spec[2 + dim]]
        needed = batch * positions // conv.positions[dim] * size * rows * outputs * lhs.dtype.itemsize
        if (
            1 < rows < min(math.prod(conv.window), MAX_POSITIONS)
            and stride == 1
            and needed <= (LARGE if outputs <= HALF_AS_MANY_OUTPUTS else CACHED)
            # Else the rows would be summed by ``_by_product``, more slowly.
            and (products > rows * MAX_PRODUCTS_FEW_OUTPUTS or rows * outputs > FEW_OUTPUTS)
            and all(-size < start < conv.positions[dim] for start in conv.row_starts(dim))
        ):
            return dim
    return None


def _by_row(conv: Convolution, dim: int, lhs: jax.Array, rhs: jax.Array) -> jax.Array:
    """Compute the window's rows as kernels with separate outputs, and add these at their offsets.

    XLA's library takes as long for 8 output features as for 16, and a third longer for 32.
    """
    outputs, inputs, *window = conv.rhs_spec
    row = window.pop(dim)
    kernel = lax.transpose(rhs, (*window, inputs, row, outputs))
    rows = kernel.shape[-2]
    kernel = jnp.expand_dims(kernel.reshape(*kernel.shape[:-2], -1), dim)
    padding = [(0, 0) if d == dim else sides for d, sides in enumerate(conv.padding)]
    last = lhs.ndim - 1
    numbers = lax.ConvDimensionNumbers(conv.lhs_spec, (last, last - 1, *range(last - 1)), conv.out_spec)
    found = lax.conv_general_dilated(
        lhs, kernel, window_strides=conv.strides, padding=padding, rhs_dilation=conv.dilation,
        dimension_numbers=numbers, precision=conv.precision,
    )  # fmt: skip
    first, *others = (
        _moved(part, conv.lhs_spec[2 + dim], start, conv.positions[dim])
        for part, start in zip(jnp.split(found, rows, last), conv.row_starts(dim), strict=True)
    )
    return sum(others, start=first)


def _kernel_gradient(conv: Convolution, lhs: jax.Array, rhs: jax.Array) -> jax.Array:
    """Compute the gradient of a large kernel as JAX does, from transposed images.

    The transposition itself is fast. But XLA would also compute what the images come from in the transposed
    order, slowly. A barrier prevents that; the compiler's options make XLA keep the barrier.
    """
    lhs = lax.optimization_barrier(lhs)
    channels_last = (0, lhs.ndim - 1, *range(1, lhs.ndim - 1))
    numbers = lax.ConvDimensionNumbers(
        channels_last, (lhs.ndim - 1, lhs.ndim - 2, *range(lhs.ndim - 2)), channels_last
    )
    batch, feature, *spatial = conv.lhs_spec
    outputs, inputs, *window = conv.rhs_spec
    found = lax.conv_general_dilated(
        lax.transpose(lhs, (batch, *spatial, feature)),
        lax.transpose(rhs, (*window, inputs, outputs)),
        window_strides=conv.strides, padding=conv.padding, rhs_dilation=conv.dilation,
        dimension_numbers=numbers, precision=conv.precision,
    )  # fmt: skip
    return conv.result(jnp.moveaxis(found, -1, 1))


def _moved(x: jax.Array, dim: int, start: int, size: int) -> jax.Array:
    """Shift ``x`` by ``start`` along a dimension, cut off or filled with zeros to ``size``."""
    kept = lax.slice_in_dim(x, max(-start, 0), min(size - start, x.shape[dim]), axis=dim)
    return pad(kept, {dim: (max(start, 0), max(size - start - x.shape[dim], 0))})
