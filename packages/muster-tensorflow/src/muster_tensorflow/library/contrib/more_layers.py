"""``tf.contrib.layers`` and ``tf.contrib.slim``: separable convolutions, and norms of groups.

Source: tensorflow/contrib/layers/python/layers/layers.py and normalization.py of TensorFlow 1.15.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from muster_tensorflow.library.contrib import named_weights
from muster_tensorflow.library.contrib.layers import Function, finished, format_of
from muster_tensorflow.library.contrib.named_outputs import layer
from muster_tensorflow.library.contrib.named_weights import name_of
from muster_tensorflow.library.ops._arrays import ArrayLike, as_array
from muster_tensorflow.library.ops.nn._layers_of_nn import bias_add
from muster_tensorflow.library.ops.nn._more_layers_of_nn import depthwise_conv2d
from muster_tensorflow.library.ops.nn._nn import moments
from muster_tensorflow.programs.v1.variables._variables import get_variable, variable_scope


@layer
def separable_convolution2d(
    inputs: ArrayLike,
    num_outputs: int | None,
    kernel_size: int | Sequence[int],
    depth_multiplier: int = 1,
    stride: int | Sequence[int] = 1,
    padding: str = "SAME",
    data_format: str = "NHWC",
    rate: int | Sequence[int] = 1,
    activation_fn: Function = jax.nn.relu,
    normalizer_fn: Function = None,
    normalizer_params: dict[str, Any] | None = None,
    weights_initializer: Any = "glorot_uniform",
    pointwise_initializer: Any = None,
    weights_regularizer: Any = None,
    biases_initializer: Any = "zeros",
    biases_regularizer: Any = None,
    reuse: Any = None,
    variables_collections: object = None,
    outputs_collections: object = None,
    trainable: bool = True,
    scope: str | None = None,
) -> jax.Array:
    """Apply filters to each channel alone, then mix the channels, then do as ``conv2d``.

    Args:
        inputs: Float, shape (batch, height, width, channels).
        num_outputs: The number of channels of the outputs; None to mix none.
        kernel_size: Of the filters.
        depth_multiplier: The number of filters of each channel.
        stride: How far the filters move.
        padding: ``SAME`` or ``VALID``.
        data_format: ``NHWC`` or ``NCHW``.
        rate: The dilation of the filters.
        activation_fn: Applied at the end; None for none.
        normalizer_fn: Normalizes in place of biases; None for none.
        normalizer_params: Its arguments.
        weights_initializer: Of the filters.
        pointwise_initializer: Of the weights that mix; None for that of the filters.
        weights_regularizer: Of both.
        biases_initializer: Of the biases; None for no biases.
        biases_regularizer: Of the biases.
        reuse: Whether to take the layer that has this scope's name already.
        variables_collections: Unused.
        outputs_collections: Of the model_fn, to which the outputs are added; one, or several.
        trainable: Whether the layer is trained.
        scope: The name of the layer.
    """
    has_biases = normalizer_fn is None and biases_initializer is not None
    name = name_of(scope, "SeparableConv2d")
    if num_outputs is not None:
        outputs = named_weights.separable_conv2d(
            inputs,
            num_outputs,
            kernel_size,
            stride,
            padding.lower(),
            dilation_rate=rate,
            depth_multiplier=depth_multiplier,
            use_bias=has_biases,
            depthwise_initializer=weights_initializer,
            pointwise_initializer=pointwise_initializer or weights_initializer,
            bias_initializer=biases_initializer,
            depthwise_regularizer=weights_regularizer,
            pointwise_regularizer=weights_regularizer,
            bias_regularizer=biases_regularizer,
            trainable=trainable,
            name=name,
            reuse=reuse,
            **format_of(data_format),
        )
        return finished(outputs, normalizer_fn, normalizer_params, activation_fn, name, reuse)
    values = jnp.asarray(as_array(inputs))
    channels = values.shape[1 if data_format == "NCHW" else -1]
    height, width = kernel_size if isinstance(kernel_size, list | tuple) else (kernel_size, kernel_size)
    with variable_scope(name, reuse=reuse):
        filters = get_variable(
            "depthwise_weights",
            [height, width, channels, depth_multiplier],
            initializer=weights_initializer,
            regularizer=weights_regularizer,
            trainable=trainable,
        )
        outputs = depthwise_conv2d(values, filters, stride, padding, data_format, rate)
        if has_biases:
            biases = get_variable(
                "biases",
                [channels * depth_multiplier],
                initializer=biases_initializer,
                regularizer=biases_regularizer,
                trainable=trainable,
            )
            outputs = bias_add(outputs, biases, data_format)
    return finished(outputs, normalizer_fn, normalizer_params, activation_fn, name, reuse)


separable_conv2d = separable_convolution2d


@layer
def group_norm(
    inputs: ArrayLike,
    groups: int = 32,
    channels_axis: int = -1,
    reduction_axes: Sequence[int] = (-3, -2),
    center: bool = True,
    scale: bool = True,
    epsilon: float = 1e-6,
    activation_fn: Function = None,
    param_initializers: dict[str, Any] | None = None,
    reuse: Any = None,
    variables_collections: object = None,
    outputs_collections: object = None,
    trainable: bool = True,
    scope: str | None = None,
    mean_close_to_zero: bool = False,
) -> jax.Array:
    """Normalize groups of channels of each example, over some axes (Wu and He, "Group Normalization", 2018).

    Args:
        inputs: Float, with an axis of examples first.
        groups: The number of groups, which divides that of channels.
        channels_axis: The axis of channels.
        reduction_axes: The other axes that share a mean.
        center: Whether to add a variable ``beta``.
        scale: Whether to multiply by a variable ``gamma``.
        epsilon: Added to the variance.
        activation_fn: Applied at the end; None for none.
        param_initializers: Those of ``beta`` and ``gamma``.
        reuse: Whether to take the variables that are there already.
        variables_collections: Unused.
        outputs_collections: Of the model_fn, to which the outputs are added; one, or several.
        trainable: Whether the variables are trained.
        scope: The name of the layer.
        mean_close_to_zero: Unused: the variance is computed in the same way.

    Raises:
        ValueError: The groups do not divide the channels, or the axes are given twice.
    """
    values = jnp.asarray(as_array(inputs))
    axis = channels_axis % values.ndim
    reduced = [each % values.ndim for each in reduction_axes]
    channels = values.shape[axis]
    if groups > channels or channels % groups:
        raise ValueError(f"{channels} channels are not divided by {groups} groups.")
    if axis in reduced:
        raise ValueError(f"reduction_axes {tuple(reduction_axes)} has the axis of channels, {channels_axis}.")
    grouped = values.reshape(*values.shape[:axis], groups, channels // groups, *values.shape[axis + 1 :])
    axes = [each + (each > axis) for each in reduced] + [axis + 1]
    mean, variance = moments(grouped, axes, None, True)
    outputs = ((grouped - mean) * jax.lax.rsqrt(variance + epsilon)).reshape(values.shape)
    initializers = {"beta": "zeros", "gamma": "ones"} | (param_initializers or {})
    with variable_scope(scope, "GroupNorm", reuse=reuse):
        outputs = _by_channel(outputs, axis, center, scale, initializers, trainable)
    return outputs if activation_fn is None else activation_fn(outputs)


@layer
def instance_norm(
    inputs: ArrayLike,
    center: bool = True,
    scale: bool = True,
    epsilon: float = 1e-6,
    activation_fn: Function = None,
    param_initializers: dict[str, Any] | None = None,
    reuse: Any = None,
    variables_collections: object = None,
    outputs_collections: object = None,
    trainable: bool = True,
    data_format: str = "NHWC",
    scope: str | None = None,
) -> jax.Array:
    """Normalize each channel of each example (Ulyanov et al., "Instance Normalization", 2016).

    Arguments are those of `group_norm`.
    """
    values = jnp.asarray(as_array(inputs))
    axis = 1 if data_format == "NCHW" else values.ndim - 1
    axes = [each for each in range(1, values.ndim) if each != axis]
    mean, variance = moments(values, axes, None, True)
    outputs = (values - mean) * jax.lax.rsqrt(variance + epsilon)
    initializers = {"beta": "zeros", "gamma": "ones"} | (param_initializers or {})
    with variable_scope(scope, "InstanceNorm", reuse=reuse):
        outputs = _by_channel(outputs, axis, center, scale, initializers, trainable)
    return outputs if activation_fn is None else activation_fn(outputs)


def _by_channel(
    values: jax.Array, axis: int, center: bool, scale: bool, initializers: dict[str, Any], trainable: bool
) -> jax.Array:
    """Multiply by a variable ``gamma``, and add ``beta``, which have a value for each channel."""
    shape = [values.shape[axis] if each == axis else 1 for each in range(values.ndim)]

    def variable(name: str) -> jax.Array:
        made = get_variable(name, [values.shape[axis]], initializer=initializers[name], trainable=trainable)
        return jnp.reshape(made.value, shape)

    if scale:
        values = values * variable("gamma")
    return values + variable("beta") if center else values
