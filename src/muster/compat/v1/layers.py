"""``tf.compat.v1.layers``: functions that build a Keras layer and call it.

Arguments follow tensorflow/python/keras/legacy_tf_layers/; those not named here go to the Keras layer.
"""

from typing import Any

from muster._keras import keras
from muster.compat.ops._arrays import Array, ArrayLike, as_array
from muster.program import add_penalty


def dense(
    inputs: ArrayLike,
    units: int,
    activation: Any = None,
    use_bias: bool = True,
    *,
    activity_regularizer: Any = None,
    **kwargs: Any,
) -> Array:
    """A densely connected layer."""
    layer = keras.layers.Dense(units, activation, use_bias, **_for_keras(kwargs))
    return _regularized(layer, inputs, activity_regularizer)


def conv2d(
    inputs: ArrayLike,
    filters: int,
    kernel_size: Any,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str = "channels_last",
    dilation_rate: Any = (1, 1),
    activation: Any = None,
    *,
    activity_regularizer: Any = None,
    **kwargs: Any,
) -> Array:
    """A convolution over two axes."""
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
    inputs: ArrayLike, pool_size: Any, strides: Any, padding: str = "valid", name: str | None = None
) -> Array:
    """The largest of each window."""
    return keras.layers.MaxPooling2D(pool_size, strides, padding, name=name)(as_array(inputs))


def average_pooling2d(
    inputs: ArrayLike, pool_size: Any, strides: Any, padding: str = "valid", name: str | None = None
) -> Array:
    """The mean of each window."""
    return keras.layers.AveragePooling2D(pool_size, strides, padding, name=name)(as_array(inputs))


def flatten(inputs: ArrayLike, name: str | None = None) -> Array:
    """All axes but the first made one."""
    return keras.layers.Flatten(name=name)(as_array(inputs))


def dropout(
    inputs: ArrayLike,
    rate: float = 0.5,
    seed: int | None = None,
    training: bool = False,
    name: str | None = None,
) -> Array:
    """Zeros in the place of a part of the values while training, the others scaled up."""
    return keras.layers.Dropout(rate, seed=seed, name=name)(as_array(inputs), training=training)


def batch_normalization(
    inputs: ArrayLike,
    axis: int = -1,
    momentum: float = 0.99,
    epsilon: float = 1e-3,
    center: bool = True,
    scale: bool = True,
    training: bool = False,
    **kwargs: Any,
) -> Array:
    """Values normalised over the batch. The averages are updated in the step; no UPDATE_OPS are needed."""
    layer = keras.layers.BatchNormalization(
        axis, momentum, epsilon, center=center, scale=scale, **_for_keras(kwargs)
    )
    return layer(as_array(inputs), training=training)


def _regularized(layer: Any, inputs: ArrayLike, activity_regularizer: Any) -> Array:
    """Call a layer, and collect the penalty of its output, a mean over the batch, as a regularization loss.

    Raises:
        TraceError: if there is a regularizer, outside of a model_fn.

    Source: tensorflow/python/keras/legacy_tf_layers/base.py, ``Layer.add_loss``. The losses of Keras layers
    are not collected there either.
    """
    outputs = layer(as_array(inputs))
    if activity_regularizer is not None:
        penalty = keras.regularizers.get(activity_regularizer)(outputs) / outputs.shape[0]
        add_penalty(f"{layer.path}/ActivityRegularizer", penalty)
    return outputs


def _for_keras(kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments that Keras has too.

    Raises:
        ValueError: if a layer's variables shall be used a second time.
    """
    if kwargs.pop("reuse", None):
        raise ValueError(
            "reuse=True is not available: build one Keras layer, such as tf.keras.layers.Dense, and call it "
            "twice."
        )
    return kwargs
