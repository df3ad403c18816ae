"""``tf.compat.v1.layers``: functions that build a Keras layer and call it.

Arguments follow tensorflow/python/keras/legacy_tf_layers/; ``kwargs`` go to the Keras layer.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax

from muster._keras import keras
from muster.compat.ops._arrays import ArrayLike, as_array
from muster.program import add_penalty

Activation: TypeAlias = str | Callable[[jax.Array], jax.Array] | None
Regularizer: TypeAlias = str | Callable[[jax.Array], jax.Array] | None
Size: TypeAlias = int | Sequence[int]


def dense(
    inputs: ArrayLike,
    units: int,
    activation: Activation = None,
    use_bias: bool = True,
    *,
    activity_regularizer: Regularizer = None,
    **kwargs: Any,
) -> jax.Array:
    """Apply a dense layer to (batch, …, features), which gives (batch, …, units)."""
    layer = keras.layers.Dense(units, activation, use_bias, **_for_keras(kwargs))
    return _regularized(layer, inputs, activity_regularizer)


def conv2d(
    inputs: ArrayLike,
    filters: int,
    kernel_size: Size,
    strides: Size = (1, 1),
    padding: str = "valid",
    data_format: str = "channels_last",
    dilation_rate: Size = (1, 1),
    activation: Activation = None,
    *,
    activity_regularizer: Regularizer = None,
    **kwargs: Any,
) -> jax.Array:
    """Apply a 2D convolution to (batch, height, width, channels), which gives ``filters`` channels."""
    layer = keras.layers.Conv2D(
        filters,
        kernel_size,
        strides,
        padding,
        data_format=data_format,
        dilation_rate=dilation_rate,
        activation=activation,
        **_for_keras(kwargs),
    )
    return _regularized(layer, inputs, activity_regularizer)


def max_pooling2d(
    inputs: ArrayLike, pool_size: Size, strides: Size, padding: str = "valid", name: str | None = None
) -> jax.Array:
    """Take the maximum of each window of (batch, height, width, channels)."""
    return _applied(keras.layers.MaxPooling2D(pool_size, strides, padding, name=name), inputs)


def average_pooling2d(
    inputs: ArrayLike, pool_size: Size, strides: Size, padding: str = "valid", name: str | None = None
) -> jax.Array:
    """Take the mean of each window of (batch, height, width, channels)."""
    return _applied(keras.layers.AveragePooling2D(pool_size, strides, padding, name=name), inputs)


def flatten(inputs: ArrayLike, name: str | None = None) -> jax.Array:
    """Reshape (batch, …) to (batch, size)."""
    return _applied(keras.layers.Flatten(name=name), inputs)


def dropout(
    inputs: ArrayLike,
    rate: float = 0.5,
    seed: int | None = None,
    training: bool = False,
    name: str | None = None,
) -> jax.Array:
    """If ``training``, set a fraction ``rate`` of the values to 0, and divide the others by ``1 - rate``."""
    return _applied(keras.layers.Dropout(rate, seed=seed, name=name), inputs, training=training)


def batch_normalization(
    inputs: ArrayLike,
    axis: int = -1,
    momentum: float = 0.99,
    epsilon: float = 1e-3,
    center: bool = True,
    scale: bool = True,
    training: bool = False,
    **kwargs: Any,
) -> jax.Array:
    """Normalize each channel. The step updates the moving averages itself, without ``UPDATE_OPS``."""
    layer = keras.layers.BatchNormalization(
        axis, momentum, epsilon, center=center, scale=scale, **_for_keras(kwargs)
    )
    return _applied(layer, inputs, training=training)


def _applied(layer: keras.Layer, inputs: ArrayLike, **kwargs: Any) -> jax.Array:
    outputs: jax.Array = layer(as_array(inputs), **kwargs)
    return outputs


def _regularized(layer: keras.Layer, inputs: ArrayLike, activity_regularizer: Regularizer) -> jax.Array:
    """Apply a layer, and collect the mean penalty of its outputs as a regularization loss.

    Raises:
        TraceError: There is a regularizer, and no model_fn is being traced.

    Source: tensorflow/python/keras/legacy_tf_layers/base.py, ``Layer.add_loss``. The losses of Keras layers
    are not collected there either.
    """
    outputs = _applied(layer, inputs)
    if activity_regularizer is not None:
        penalty = keras.regularizers.get(activity_regularizer)(outputs) / outputs.shape[0]
        add_penalty(f"{layer.path}/ActivityRegularizer", penalty)
    return outputs


def _for_keras(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that Keras has, too.

    Raises:
        ValueError: The arguments ask for the variables of an earlier layer.
    """
    if kwargs.pop("reuse", None):
        raise ValueError(
            "reuse=True is not available: build one Keras layer, such as tf.keras.layers.Dense, and call it "
            "twice."
        )
    return kwargs
