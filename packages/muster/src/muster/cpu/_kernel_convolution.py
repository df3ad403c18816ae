"""Convolutions by oneDNN, features last, of one or two spatial dimensions, and their gradients."""

import math
import os
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from muster.cpu._convolution_shapes import Convolution, Sizes
from muster.cpu._kernels import call, computes

Computation = Callable[[jax.Array, jax.Array], jax.Array]

LEAST_PRODUCTS = 2**22
"""Convolutions with fewer multiplications stay with XLA."""
LEAST_FEATURES = 3
"""With fewer input features XLA computes a convolution in one loop with what follows it, which is faster."""
_FORWARD, _INPUT_GRADIENT, _KERNEL_GRADIENT = range(3)


def by_onednn(
    conv: Convolution,
    dilation: Sizes,
    lhs: jax.core.ShapedArray,
    rhs: jax.core.ShapedArray,
    depthwise: bool = False,
) -> Computation | None:
    """Return how oneDNN computes a convolution of float32, or None if it does not.

    Args:
        conv: The convolution; it is a gradient if the operands' dimensions or the dilation say so.
        dilation: Of ``lhs``, one entry for each spatial dimension.
        lhs: The aval of the images, or of the gradient of the result.
        rhs: The aval of the kernel, or of the gradient of the result.
        depthwise: Whether each feature is a group, else all are one.
    """
    last = lhs.ndim - 1
    plain = (0, last, *range(1, last))
    exchanged = (last, 0, *range(1, last))
    images = tuple(lhs.shape[dim] for dim in conv.lhs_spec[2:])
    batch, features = (lhs.shape[dim] for dim in conv.lhs_spec[:2])
    outputs, _ = (rhs.shape[dim] for dim in conv.rhs_spec[:2])
    products = math.prod(rhs.shape) * batch * math.prod(images if max(dilation) > 1 else conv.positions)
    if depthwise and conv.lhs_spec == exchanged:
        products //= batch
    of_one = math.prod(conv.window) == 1 or math.prod(conv.positions) == 1  # products of matrices
    inputs = batch if conv.lhs_spec == exchanged else min(features, outputs)
    if len(images) > 2 or of_one or inputs < LEAST_FEATURES or products < LEAST_PRODUCTS:
        return None
    low = tuple(sides[0] for sides in conv.padding)
    shape = (batch, *conv.positions, outputs)
    spec_of = partial(_spec, depthwise)
    if conv.lhs_spec == conv.out_spec == plain:
        if max(dilation) == 1:
            spec = spec_of(_FORWARD, batch, images, features, conv.positions, outputs,
                         conv.window, conv.strides, conv.dilation, low)  # fmt: skip
            return partial(_forward, conv, spec, shape) if spec else None
        if max(conv.strides) == 1:
            before = tuple(
                (size - 1) * by - sides
                for size, by, sides in zip(conv.window, conv.dilation, low, strict=True)
            )
            spec = spec_of(_INPUT_GRADIENT, batch, conv.positions, outputs, images, features,
                         conv.window, dilation, conv.dilation, before)  # fmt: skip
            return partial(_input_gradient, conv, spec, shape) if spec else None
    if conv.lhs_spec == conv.rhs_spec == exchanged and max(dilation) == 1:
        # Batch and features of both have changed places, and so have window and positions.
        spec = spec_of(_KERNEL_GRADIENT, features, images, batch, conv.window, outputs,
                     conv.positions, conv.dilation, conv.strides, low)  # fmt: skip
        return (
            partial(_kernel_gradient, conv, spec, (*conv.positions, 1 if depthwise else batch, outputs))
            if spec
            else None
        )
    return None


def _spec(
    depthwise: bool, kind: int, batch: int, images: Sizes, features: int, results: Sizes, outputs: int,
    window: Sizes, strides: Sizes, dilation: Sizes, before: Sizes,
) -> tuple[int, ...] | None:  # fmt: skip
    """Return the sizes of a convolution, or of that whose gradient is meant, if oneDNN computes it.

    It divides the images among the threads, so each is to have one.
    """
    after = tuple(
        (count - 1) * stride + (size - 1) * by + 1 - image - low
        for count, stride, size, by, image, low in zip(
            results, strides, window, dilation, images, before, strict=True
        )
    )
    if min(before) < 0 or any(high <= -stride for high, stride in zip(after, strides, strict=True)):
        return None
    sizes = [_two(each, missing) for each, missing in (
        (images, 1), (results, 1), (window, 1), (strides, 1), (dilation, 1), (before, 0), (after, 0)
    )]  # fmt: skip
    image, result, kernel, *others = sizes
    further = *(n for each in others for n in each), int(depthwise)
    spec = kind, batch, *image, features, *result, outputs, *kernel, *further
    return spec if computes("convolution", spec) and batch >= _threads() else None


def _threads() -> int:
    """Return how many threads XLA has."""
    return len(os.sched_getaffinity(0))


def _two(sizes: Sizes, missing: int) -> Sizes:
    """Put a first spatial dimension before the only one."""
    return sizes if len(sizes) == 2 else (missing, *sizes)


def _forward(conv: Convolution, spec: Sizes, shape: Sizes, lhs: jax.Array, rhs: jax.Array) -> jax.Array:
    outputs, inputs, *window = conv.rhs_spec
    return _call(spec, shape, lhs, lax.transpose(rhs, (*window, inputs, outputs)))


def _input_gradient(
    conv: Convolution, spec: Sizes, shape: Sizes, lhs: jax.Array, rhs: jax.Array
) -> jax.Array:
    inputs, outputs, *window = conv.rhs_spec
    kernel = lax.transpose(rhs, (*window, inputs, outputs))
    return _call(spec, shape, lhs, lax.rev(kernel, range(len(window))))


def _kernel_gradient(
    conv: Convolution, spec: Sizes, shape: Sizes, lhs: jax.Array, rhs: jax.Array
) -> jax.Array:
    found = _call(spec, shape, lhs, rhs)
    rank = found.ndim
    return conv.result(lax.transpose(found, (rank - 2, rank - 1, *range(rank - 2))))


def _call(spec: Sizes, shape: Sizes, *operands: jax.Array) -> jax.Array:
    (found,) = call("convolution", spec, [jax.ShapeDtypeStruct(shape, jnp.float32)], *operands)
    return found
