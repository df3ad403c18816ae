"""``tf.contrib.layers`` and ``tf.contrib.slim``: layers, whose outputs are rectified by default.

Source: tensorflow/contrib/layers/python/layers/layers.py.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from muster.program import held_updates, run_updates
from muster_tensorflow.library.contrib import named_weights
from muster_tensorflow.library.contrib.named_outputs import layer
from muster_tensorflow.library.contrib.named_weights import name_of
from muster_tensorflow.library.ops._arrays import ArrayLike, as_array
from muster_tensorflow.library.ops.arrays._shape import one_hot
from muster_tensorflow.library.ops.nn._layers_of_nn import bias_add as _bias_add
from muster_tensorflow.library.ops.nn._nn import embedding_lookup, moments
from muster_tensorflow.programs.v1 import layers
from muster_tensorflow.programs.v1.variables._variables import get_variable, variable_scope

Function = Callable[..., Any] | None


@layer
def fully_connected(
    inputs: ArrayLike,
    num_outputs: int,
    activation_fn: Function = jax.nn.relu,
    normalizer_fn: Function = None,
    normalizer_params: dict[str, Any] | None = None,
    weights_initializer: Any = "glorot_uniform",
    weights_regularizer: Any = None,
    biases_initializer: Any = "zeros",
    biases_regularizer: Any = None,
    reuse: Any = None,
    variables_collections: object = None,
    outputs_collections: object = None,
    trainable: bool = True,
    scope: str | None = None,
) -> jax.Array:
    """Multiply by weights, and add biases or normalize, then apply a function.

    Args:
        inputs: Float, shape (batch, …, size).
        num_outputs: The size of the outputs.
        activation_fn: Applied at the end; None for none.
        normalizer_fn: Normalizes in place of biases; None for none.
        normalizer_params: Its arguments.
        weights_initializer: Of the weights.
        weights_regularizer: Of the weights.
        biases_initializer: Of the biases; None for no biases.
        biases_regularizer: Of the biases.
        reuse: Whether to take the layer that has this scope's name already.
        variables_collections: Unused.
        outputs_collections: Of the model_fn, to which the outputs are added; one, or several.
        trainable: Whether the layer is trained.
        scope: The name of the layer.
    """
    name = name_of(scope, "fully_connected")
    outputs = named_weights.dense(
        inputs,
        num_outputs,
        use_bias=normalizer_fn is None and biases_initializer is not None,
        kernel_initializer=weights_initializer,
        bias_initializer=biases_initializer,
        kernel_regularizer=weights_regularizer,
        bias_regularizer=biases_regularizer,
        trainable=trainable,
        name=name,
        reuse=reuse,
    )
    return finished(outputs, normalizer_fn, normalizer_params, activation_fn, name, reuse)


def linear(inputs: ArrayLike, num_outputs: int, **kwargs: Any) -> jax.Array:
    """Do as `fully_connected`, without a function at the end."""
    return fully_connected(inputs, num_outputs, **{"activation_fn": None, **kwargs})


def relu(inputs: ArrayLike, num_outputs: int, **kwargs: Any) -> jax.Array:
    """Do as `fully_connected`."""
    return fully_connected(inputs, num_outputs, **kwargs)


def _convolved(
    inputs: ArrayLike,
    num_outputs: int,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] = 1,
    padding: str = "SAME",
    data_format: str | None = None,
    rate: int | Sequence[int] = 1,
    activation_fn: Function = jax.nn.relu,
    normalizer_fn: Function = None,
    normalizer_params: dict[str, Any] | None = None,
    weights_initializer: Any = "glorot_uniform",
    weights_regularizer: Any = None,
    biases_initializer: Any = "zeros",
    biases_regularizer: Any = None,
    reuse: Any = None,
    variables_collections: object = None,
    outputs_collections: object = None,
    trainable: bool = True,
    scope: str | None = None,
    conv_dims: int | None = None,
) -> jax.Array:
    """Apply a convolution, and add biases or normalize, then apply a function; as `fully_connected`.

    Raises:
        ValueError: The inputs have another number of axes than ``conv_dims`` and two, or than 3 to 5.
    """
    rank = as_array(inputs).ndim
    if rank - 2 not in ((1, 2, 3) if conv_dims is None else (conv_dims,)):
        wanted = "3, 4 or 5" if conv_dims is None else conv_dims + 2
        raise ValueError(f"Convolution expects input with rank {wanted}, got {rank}.")
    convolve = (named_weights.conv1d, named_weights.conv2d, named_weights.conv3d)[rank - 3]
    name = name_of(scope, "Conv")
    outputs = convolve(
        inputs,
        num_outputs,
        kernel_size,
        stride,
        padding.lower(),
        dilation_rate=rate,
        use_bias=normalizer_fn is None and biases_initializer is not None,
        kernel_initializer=weights_initializer,
        bias_initializer=biases_initializer,
        kernel_regularizer=weights_regularizer,
        bias_regularizer=biases_regularizer,
        trainable=trainable,
        name=name,
        reuse=reuse,
        **format_of(data_format),
    )
    return finished(outputs, normalizer_fn, normalizer_params, activation_fn, name, reuse)


def _convolution(name: str, conv_dims: int | None) -> Callable[..., jax.Array]:
    """Make the function of some number of dimensions; None asks the inputs."""
    of_dimensions: Callable[..., jax.Array] = functools.partial(_convolved, conv_dims=conv_dims)

    @functools.wraps(_convolved)
    def convolve(*args: Any, **kwargs: Any) -> jax.Array:
        return of_dimensions(*args, **kwargs)

    convolve.__name__ = convolve.__qualname__ = name
    return layer(convolve)


# Their own names are TensorFlow's, too: `repeat` and `stack` name layers by them.
convolution = _convolution("convolution", None)
conv1d = _convolution("convolution1d", 1)
conv2d = _convolution("convolution2d", 2)
conv3d = _convolution("convolution3d", 3)


@layer
def convolution2d_transpose(
    inputs: ArrayLike,
    num_outputs: int,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] = 1,
    padding: str = "SAME",
    data_format: str | None = None,
    activation_fn: Function = jax.nn.relu,
    normalizer_fn: Function = None,
    normalizer_params: dict[str, Any] | None = None,
    weights_initializer: Any = "glorot_uniform",
    weights_regularizer: Any = None,
    biases_initializer: Any = "zeros",
    biases_regularizer: Any = None,
    reuse: Any = None,
    variables_collections: object = None,
    outputs_collections: object = None,
    trainable: bool = True,
    scope: str | None = None,
) -> jax.Array:
    """Apply a transposed 2D convolution, as `conv2d` does."""
    name = name_of(scope, "Conv2d_transpose")
    outputs = named_weights.conv2d_transpose(
        inputs,
        num_outputs,
        kernel_size,
        stride,
        padding.lower(),
        use_bias=normalizer_fn is None and biases_initializer is not None,
        kernel_initializer=weights_initializer,
        bias_initializer=biases_initializer,
        kernel_regularizer=weights_regularizer,
        bias_regularizer=biases_regularizer,
        trainable=trainable,
        name=name,
        reuse=reuse,
        **format_of(data_format),
    )
    return finished(outputs, normalizer_fn, normalizer_params, activation_fn, name, reuse)


conv2d_transpose = convolution2d_transpose


@layer
def max_pool2d(
    inputs: ArrayLike,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] = 2,
    padding: str = "VALID",
    data_format: str | None = None,
    outputs_collections: object = None,
    scope: str | None = None,
) -> jax.Array:
    """Return the largest value of each window."""
    return layers.max_pooling2d(inputs, kernel_size, stride, padding.lower(), **format_of(data_format))


@layer
def avg_pool2d(
    inputs: ArrayLike,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] = 2,
    padding: str = "VALID",
    data_format: str | None = None,
    outputs_collections: object = None,
    scope: str | None = None,
) -> jax.Array:
    """Return the mean of each window."""
    return layers.average_pooling2d(inputs, kernel_size, stride, padding.lower(), **format_of(data_format))


@layer
def batch_norm(
    inputs: ArrayLike,
    decay: float = 0.999,
    center: bool = True,
    scale: bool = False,
    epsilon: float = 0.001,
    activation_fn: Function = None,
    param_initializers: dict[str, Any] | None = None,
    param_regularizers: dict[str, Any] | None = None,
    updates_collections: object = "update_ops",
    is_training: bool = True,
    reuse: Any = None,
    variables_collections: object = None,
    outputs_collections: object = None,
    trainable: bool = True,
    batch_weights: None = None,
    fused: bool | None = None,
    data_format: str = "NHWC",
    zero_debias_moving_mean: bool = False,
    scope: str | None = None,
    renorm: bool = False,
    renorm_clipping: dict[str, float] | None = None,
    renorm_decay: float = 0.99,
    adjustment: None = None,
) -> jax.Array:
    """Normalize each channel, without a scale unless told; as ``tf.layers.batch_normalization``.

    Inputs of the shape (batch, channels), too, are normalized as images are: the moving variance is that of a
    sample.

    In a model_fn the moving averages move if the code runs the updates of the collection
    ``updates_collections``, which `optimize_loss` does with ``UPDATE_OPS``; if it is None, they move at once.

    Raises:
        ValueError: There are weights or an adjustment, or the first moving mean is to be corrected.

    Source: tensorflow/contrib/layers/python/layers/layers.py, ``batch_norm`` and ``_fused_batch_norm``.
    """
    if batch_weights is not None or zero_debias_moving_mean or adjustment is not None:
        raise ValueError(
            "batch_norm takes no batch_weights, no zero_debias_moving_mean and no adjustment: leave them out."
        )
    values = jnp.asarray(as_array(inputs))
    as_images = values.ndim == 2 and fused is not False and not renorm
    given = {f"{key}_initializer": value for key, value in (param_initializers or {}).items()}
    given |= {f"{key}_regularizer": value for key, value in (param_regularizers or {}).items()}
    before = set(held_updates())
    outputs = layers.batch_normalization(
        values[:, None, None, :] if as_images else values,
        axis=1 if data_format == "NCHW" and not as_images else -1,
        momentum=decay,
        epsilon=epsilon,
        center=center,
        scale=scale,
        training=is_training,
        trainable=trainable,
        name=name_of(scope, "BatchNorm"),
        reuse=reuse,
        fused=fused,
        renorm=renorm,
        renorm_clipping=renorm_clipping,
        renorm_momentum=renorm_decay,
        **given,
    )
    outputs = outputs[:, 0, 0] if as_images else outputs
    if updates_collections is None:
        run_updates(each for each in held_updates() if each not in before)
    return outputs if activation_fn is None else activation_fn(outputs)


@layer
def layer_norm(
    inputs: ArrayLike,
    center: bool = True,
    scale: bool = True,
    activation_fn: Function = None,
    reuse: Any = None,
    variables_collections: object = None,
    outputs_collections: object = None,
    trainable: bool = True,
    begin_norm_axis: int = 1,
    begin_params_axis: int = -1,
    scope: str | None = None,
) -> jax.Array:
    """Normalize each example over all axes from ``begin_norm_axis`` on.

    ``beta`` and ``gamma`` have the shape of the inputs from ``begin_params_axis`` on.
    """
    values = jnp.asarray(as_array(inputs))
    axes = tuple(range(begin_norm_axis % values.ndim, values.ndim))
    shape = values.shape[begin_params_axis % values.ndim :]
    with variable_scope(scope, "LayerNorm", reuse=reuse):
        mean, variance = moments(values, axes, None, True)
        values = (values - mean) * jax.lax.rsqrt(variance + 1e-12)
        if scale:
            values = values * get_variable("gamma", shape, initializer="ones", trainable=trainable).value
        if center:
            values = values + get_variable("beta", shape, initializer="zeros", trainable=trainable).value
    return values if activation_fn is None else activation_fn(values)


@layer
def dropout(
    inputs: ArrayLike,
    keep_prob: float = 0.5,
    noise_shape: Any = None,
    is_training: bool = True,
    outputs_collections: object = None,
    scope: str | None = None,
    seed: int | None = None,
) -> jax.Array:
    """In training keep a fraction of the values, and scale them."""
    return layers.dropout(inputs, 1 - keep_prob, noise_shape, seed, is_training)


@layer
def flatten(inputs: ArrayLike, outputs_collections: object = None, scope: str | None = None) -> jax.Array:
    """Reshape (batch, …) to (batch, size)."""
    return layers.flatten(inputs)


@layer
def one_hot_encoding(
    labels: ArrayLike,
    num_classes: int,
    on_value: float = 1.0,
    off_value: float = 0.0,
    outputs_collections: object = None,
    scope: str | None = None,
) -> Any:
    """Return a vector for each label."""
    return one_hot(labels, num_classes, on_value, off_value)


@layer
def bias_add(
    inputs: ArrayLike,
    activation_fn: Function = None,
    initializer: Any = "zeros",
    regularizer: Any = None,
    reuse: Any = None,
    variables_collections: object = None,
    outputs_collections: object = None,
    trainable: bool = True,
    data_format: str = "NHWC",
    scope: str | None = None,
) -> jax.Array:
    """Add biases to channels, then apply a function."""
    values = jnp.asarray(as_array(inputs))
    with variable_scope(scope, "BiasAdd", reuse=reuse):
        biases = get_variable(
            "biases",
            [values.shape[1 if data_format == "NCHW" else -1]],
            initializer=initializer,
            regularizer=regularizer,
            trainable=trainable,
        )
    outputs = _bias_add(values, biases, data_format)
    return outputs if activation_fn is None else activation_fn(outputs)


def softmax(logits: ArrayLike, scope: str | None = None) -> jax.Array:
    """Return probabilities along the last axis."""
    return jax.nn.softmax(jnp.asarray(as_array(logits)))


def unit_norm(inputs: ArrayLike, dim: int, epsilon: float = 1e-7, scope: str | None = None) -> jax.Array:
    """Divide by the length along an axis."""
    values = jnp.asarray(as_array(inputs))
    return values / jnp.sqrt(epsilon + jnp.sum(values**2, dim, keepdims=True))


def embed_sequence(
    ids: ArrayLike,
    vocab_size: int | None = None,
    embed_dim: int | None = None,
    unique: bool = False,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    scope: str | None = None,
    reuse: Any = None,
) -> jax.Array:
    """Return rows of a table for ids.

    Raises:
        ValueError: The size of the table is not given.
    """
    if vocab_size is None or embed_dim is None:
        raise ValueError("Must specify vocab size and embedding dimension when not reusing.")
    with variable_scope(scope, "EmbedSequence", reuse=reuse):
        table = get_variable(
            "embeddings",
            [vocab_size, embed_dim],
            initializer=initializer,
            regularizer=regularizer,
            trainable=trainable,
        )
    return embedding_lookup(table, ids)


def stack(inputs: Any, layer: Callable[..., Any], stack_args: Sequence[Any], **kwargs: Any) -> Any:
    """Apply a layer once for each of some arguments, each time to what came before.

    The layers are in a scope: ``fc/fc_1``, ``fc/fc_2`` of the scope ``fc``.
    """
    each = [arguments if isinstance(arguments, list | tuple) else [arguments] for arguments in stack_args]
    return _in_turn(inputs, layer, each, "Stack", **kwargs)


def repeat(inputs: Any, repetitions: int, layer: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Apply a layer several times with the same arguments, in a scope as those of `stack`."""
    return _in_turn(inputs, layer, [args] * repetitions, "Repeat", **kwargs)


def _in_turn(
    inputs: Any,
    layer: Callable[..., Any],
    arguments: Sequence[Sequence[Any]],
    default_name: str,
    scope: str | None = None,
    **kwargs: Any,
) -> Any:
    """Apply a layer once for each tuple of arguments, each time to what came before.

    Source: tensorflow/contrib/layers/python/layers/layers.py, ``repeat`` and ``stack``.
    """
    name = scope or getattr(layer, "__name__", default_name.lower())
    with variable_scope(name_of(scope, default_name)):
        for number, each in enumerate(arguments):
            inputs = layer(inputs, *each, scope=f"{name}_{number + 1}", **kwargs)
    return inputs


def finished(
    outputs: jax.Array,
    normalizer: Function,
    params: dict[str, Any] | None,
    activation: Function,
    name: str,
    reuse: Any,
) -> jax.Array:
    """Apply what a layer of some name ends with. What normalizes has variables in the layer's scope."""
    if normalizer is not None:
        with variable_scope(name, reuse=reuse):
            outputs = normalizer(outputs, **(params or {}))
    return outputs if activation is None else activation(outputs)


def format_of(data_format: str | None) -> dict[str, Any]:
    """Return the argument for the format that ``tf.layers`` takes."""
    return {"data_format": "channels_first" if (data_format or "").startswith("NC") else "channels_last"}
