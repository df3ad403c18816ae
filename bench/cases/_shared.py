"""Helpers of the cases: initial weights, and the arithmetic and memory traffic of a training step."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

_FLOAT_BYTES = 4


def start(seed, scale=None):
    """Return an initializer for Keras 2 and 3, which other libraries call with a shape alone.

    Args:
        seed: The seed, from which every library gets equal values.
        scale: The standard deviation; None takes 1 / sqrt(fan-in), all axes but the last being "in".
    """

    def initial(shape, dtype=None, **_):
        deviation = 1 / math.sqrt(math.prod(shape[:-1])) if scale is None else scale
        return np.random.default_rng(seed).standard_normal(tuple(shape), np.float32) * np.float32(deviation)

    return initial


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layer:
    """The cost of a layer's forward pass over one batch; elementwise work counts as fused into it.

    Attributes:
        multiply_adds: The multiply-adds of the forward pass.
        inputs: The number of floats that it reads.
        outputs: The number of floats that it writes.
        weights: The number of weights that the batch uses.
        trains_input: Whether the gradient goes back beyond this layer.
    """

    multiply_adds: int = 0
    inputs: int = 0
    outputs: int
    weights: int = 0
    trains_input: bool = True


def conv(batch, size, channels, filters, kernel=3, stride=1, padding="same", trains_input=True):
    """Return the cost of a convolution over square images of ``size`` pixels."""
    out = size // stride if padding == "same" else size - kernel + 1
    weights = kernel * kernel * channels * filters
    return Layer(
        multiply_adds=batch * out * out * weights,
        inputs=batch * size * size * channels,
        outputs=batch * out * out * filters,
        weights=weights,
        trains_input=trains_input,
    )


def dense(batch, units_in, units, trains_input=True):
    """Return the cost of a fully connected layer."""
    return Layer(
        multiply_adds=batch * units_in * units,
        inputs=batch * units_in,
        outputs=batch * units,
        weights=units_in * units,
        trains_input=trains_input,
    )


def embedding(rows, units):
    """Return the cost of looking up ``rows`` rows of a table, all counted as different."""
    return Layer(outputs=rows * units, weights=rows * units, trains_input=False)


def step_cost(layers: Sequence[Layer]) -> tuple[int, int]:
    """Return the least multiply-adds and bytes that a training step with SGD needs.

    The backward pass computes the gradients of the weights and, except in first layers, those of the inputs,
    each at the cost of the forward pass. Every array is moved once for each pass that needs it: the forward
    pass reads inputs and weights and writes outputs; the backward pass reads inputs, weights and the outputs'
    gradients, and writes those of inputs and weights; the update reads weights and gradients and writes
    weights. Arrays that a cache keeps between passes move faster than that.
    """
    multiply_adds = floats = 0
    for layer in layers:
        further = layer.trains_input
        multiply_adds += (3 if further else 2) * layer.multiply_adds
        floats += (3 if further else 2) * layer.inputs + 2 * layer.outputs
        floats += (6 if further else 5) * layer.weights
    return multiply_adds, floats * _FLOAT_BYTES


def colour_images(count):
    """Return random images, float32 of shape (count, 32, 32, 3), and labels by the colour added to them."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, count).astype(np.int32)
    images = rng.standard_normal((count, 32, 32, 3), np.float32)
    images += rng.standard_normal((10, 1, 1, 3), np.float32)[labels]
    return images, labels
