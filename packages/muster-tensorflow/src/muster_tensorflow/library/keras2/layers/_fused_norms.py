"""Keras 2's moving variance of images: batch normalization of four or five axes counts values less one.

TensorFlow normalizes images by a fused kernel, which returns the variance of a sample, n / (n - 1) times that
of the batch. It moves the average of variances by the former, and normalizes by the latter.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax

from muster import keras
from muster_tensorflow.patches import change, wrap

# The axes of channels that the kernel takes, by the number of axes of the inputs.
_AXES = {4: (1, 3), 5: (1, 4)}


def _taking_fused(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``BatchNormalization.__init__``, so that it takes ``fused``: False is for any other kernel."""

    @functools.wraps(original)
    def init(self: Any, *args: Any, fused: bool | None = None, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        self.fused = fused

    return init


def _is_fused(layer: Any, inputs: Any) -> bool:
    rank = len(inputs.shape)
    return (
        layer.fused is not False
        and not layer.renorm
        and layer.compute_dtype != "float64"
        and layer.axis % rank in _AXES.get(rank, ())
    )


def _moving_as_fused(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``BatchNormalization.call``.

    Source: keras/src/layers/normalization/batch_normalization.py of Keras 2.15,
    ``BatchNormalizationBase._fused_batch_norm``; tensorflow/core/kernels/fused_batch_norm_op.cc.
    """

    @functools.wraps(original)
    def call(self: Any, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        if not (training and self.trainable) or mask is not None or not _is_fused(self, inputs):
            return original(self, inputs, training=training, mask=mask)
        values = keras.ops.cast(inputs, keras.backend.result_type(inputs.dtype, "float32"))
        count = math.prod(values.shape) // values.shape[self.axis]
        mean, variance = self._moments(values, None)
        sample = variance * (count / jax.core.max_dim(count - 1, 1))  # of an exported batch, too
        for average, new in ((self.moving_mean, mean), (self.moving_variance, sample)):
            old = keras.ops.cast(average, values.dtype)
            average.assign(old * self.momentum + new * (1.0 - self.momentum))
        scale, offset = (
            None if each is None else keras.ops.cast(each, values.dtype) for each in (self.gamma, self.beta)
        )
        normalized = keras.ops.batch_normalization(
            values, mean, variance, self.axis, offset, scale, self.epsilon
        )
        return keras.ops.cast(normalized, self.compute_dtype)

    return call


def patch() -> None:
    """Let batch normalization move its averages so."""
    norm = keras.layers.BatchNormalization
    change(norm, "fused", None)  # of layers made before
    wrap(norm, "__init__", _taking_fused)
    wrap(norm, "call", _moving_as_fused)
