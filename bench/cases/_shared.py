"""What the cases share: initial weights, and what a training step has to compute and to move."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

_FLOAT_BYTES = 4


def start(seed, scale=None):
    """Return an initializer for Keras 2 and 3 that is a plain function of the shape for everyone else.

    Args:
        seed: the same values come of the same seed, in every library.
        scale: standard deviation; None takes 1 / sqrt(fan-in), all axes but the last being "in".
    """

    def initial(shape, dtype=None, **_):
        deviation = 1 / math.sqrt(math.prod(shape[:-1])) if scale is None else scale
        return np.random.default_rng(seed).standard_normal(tuple(shape), np.float32) * np.float32(deviation)

    return initial


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layer:
    """A layer's forward pass over one batch, in numbers; elementwise work counts as fused into it.

    Attributes:
        multiply_adds: of the forward pass.
        inputs: floats that it reads.
        outputs: floats that it writes.
        weights: floats of its weights that the batch touches.
        trains_input: whether the gradient goes further back than this layer.
    """

    multiply_adds: int = 0
    inputs: int = 0
    outputs: int
    weights: int = 0
    trains_input: bool = True


def conv(batch, size, channels, filters, kernel=3, stride=1, padding="same", trains_input=True):
    """A convolution over square images of ``size`` pixels."""
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
    """A fully connected layer."""
    return Layer(
        multiply_adds=batch * units_in * units,
        inputs=batch * units_in,
        outputs=batch * units,
        weights=units_in * units,
        trains_input=trains_input,
    )


def embedding(rows, units):
    """A look-up of ``rows`` rows of a table, counted as if they were all different."""
    return Layer(outputs=rows * units, weights=rows * units, trains_input=False)


def step_cost(layers: Sequence[Layer]) -> tuple[int, int]:
    """Return the multiply-adds and the bytes of one training step with SGD, at the least.

    The backward pass computes the gradient of the weights and, but for first layers, that of the inputs, each
    as dear as the forward pass. Every array is moved once for each pass that needs it: the forward pass reads
    inputs and weights and writes outputs; the backward pass reads inputs, weights and the outputs' gradients,
    and writes those of inputs and weights; the update reads weights and gradients and writes weights. What a
    cache keeps from one pass to the next moves faster than that.
    """
    multiply_adds = floats = 0
    for layer in layers:
        further = layer.trains_input
        multiply_adds += (3 if further else 2) * layer.multiply_adds
        floats += (3 if further else 2) * layer.inputs + 2 * layer.outputs
        floats += (6 if further else 5) * layer.weights
    return multiply_adds, floats * _FLOAT_BYTES
