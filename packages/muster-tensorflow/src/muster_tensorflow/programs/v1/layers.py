"""``tf.compat.v1.layers``: Keras' layers with TensorFlow 1's arguments, and functions that build them.

Arguments and their order follow tensorflow/python/keras/legacy_tf_layers/. What a layer has no initializer or
regularizer of its own for, it takes from ``tf.compat.v1.variable_scope``.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, TypeAlias

import jax

from muster import keras
from muster.extend import active_scope, current_scope, standing_in
from muster.program import add_penalty, updates_held_back
from muster_tensorflow.library.ops._arrays import ArrayLike, as_array
from muster_tensorflow.library.ops._value_names import name_value, numbered, snake_case
from muster_tensorflow.programs.v1.variables._layer_scopes import (
    automatic_name,
    name_weights,
    scope_of_layer,
)
from muster_tensorflow.programs.v1.variables._variables import (
    ask_getters,
    get_variable_scope,
    has_getters,
    is_kept,
    note_made,
    shared,
    variable_scope,
)

Regularizer: TypeAlias = str | Callable[[jax.Array], jax.Array] | None

_ENDS = (
    "bias_regularizer",
    "activity_regularizer",
    "kernel_constraint",
    "bias_constraint",
    "trainable",
    "name",
)
_WEIGHTS = ("use_bias", "kernel_initializer", "bias_initializer", "kernel_regularizer", *_ENDS)
_WINDOWS = ("filters", "kernel_size", "strides", "padding", "data_format")
_SEPARABLE = (
    *_WINDOWS,
    *("dilation_rate", "depth_multiplier", "activation", "use_bias"),
    *("depthwise_initializer", "pointwise_initializer", "bias_initializer"),
    *("depthwise_regularizer", "pointwise_regularizer", "bias_regularizer", "activity_regularizer"),
    *("depthwise_constraint", "pointwise_constraint", "bias_constraint", "trainable", "name"),
)
_POOLING = ("pool_size", "strides", "padding", "data_format", "name")
_NORMALIZATION = (
    *("axis", "momentum", "epsilon", "center", "scale", "beta_initializer", "gamma_initializer"),
    *("moving_mean_initializer", "moving_variance_initializer", "beta_regularizer", "gamma_regularizer"),
    *("beta_constraint", "gamma_constraint"),
)


class _AnyLayer(type(keras.layers.Layer)):  # type: ignore[misc]  # keras is untyped
    """Lets all layers be those that programs ask ``isinstance`` of."""

    def __instancecheck__(cls, instance: object) -> bool:
        return (
            isinstance(instance, keras.layers.Layer) if cls is Layer else super().__instancecheck__(instance)
        )


class Layer(keras.layers.Layer, metaclass=_AnyLayer):  # type: ignore[misc]  # keras is untyped
    """The base of a program's own layers, which find variables by name in a scope of their own.

    Args:
        trainable: Whether its variables are trained.
        name: Its name; by default its class's, and a number if there is one of this name in the scope.
        kwargs: As of Keras' layers.
    """

    def __init__(self, trainable: bool = True, name: str | None = None, **kwargs: Any) -> None:
        super().__init__(trainable=trainable, name=name, **_for_keras(kwargs))
        self._given_name = name

    def build(self, input_shape: Any) -> None:
        """Note that it is built: what its `call` makes is made there, in its one first run."""
        self.built = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the layer in its scope."""
        with scope_of_layer(self, snake_case(type(self).__name__), self._given_name):
            return super().__call__(*args, **kwargs)


def _layer(layer: Any, order: Sequence[str], **defaults: Any) -> Any:
    """Make a class of a Keras layer that takes the arguments of TensorFlow 1 in their order."""
    has_weights = any(argument.endswith("_initializer") for argument in order)

    class Ordered(layer):  # type: ignore[misc]  # keras is untyped
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            given = dict(zip(order, args, strict=False))
            if len(args) > len(order) or given.keys() & kwargs.keys():
                raise TypeError(
                    f"{layer.__name__} takes the arguments {', '.join(order)}, each once; got {len(args)} "
                    f"without names, and {', '.join(kwargs)}."
                )
            super().__init__(**_for_keras({**defaults, **given, **kwargs}))
            self._given_name = {**given, **kwargs}.get("name")

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            if not is_kept():
                same = _in_scope(self, snake_case(layer.__name__), self._given_name) if has_weights else self
                return same(*args, **kwargs) if same is not self else super().__call__(*args, **kwargs)
            name = self._given_name or automatic_name(snake_case(layer.__name__)) or ""
            outputs = super().__call__(*args, **kwargs)
            name_weights(self, name)
            return outputs

    Ordered.__name__ = Ordered.__qualname__ = layer.__name__
    Ordered.__doc__ = f"``keras.layers.{layer.__name__}`` with the arguments {', '.join(order)}."
    return Ordered


def _in_scope(layer: keras.Layer, base: str, given: str | None) -> keras.Layer:
    """Return the layer whose variables a layer has that is called: itself, or the one that the scope reuses.

    In a model_fn, a layer has those of the scope that it is called in first.

    Args:
        layer: The layer.
        base: What layers of its class are called.
        given: Its own name; None for the next one of the scope.

    Raises:
        ValueError: The scope reuses layers, and there is none of this name.

    Source: tensorflow/python/keras/legacy_tf_layers/base.py, ``Layer._set_scope``.
    """
    scope = current_scope()
    if scope is None:
        return layer
    key = ("tensorflow 1 layer", id(layer))
    if key not in scope.shared:
        found, name = layer, given or automatic_name(base)
        if name is not None and get_variable_scope().reuse:
            found = shared("layers", name, lambda: layer)
        elif name is not None:
            note_made("layers", name, layer)
        if found is layer and name is not None and not layer.built:
            layer.name = name
        scope.shared[key] = (found, layer)  # which keeps its id
    kept: keras.Layer = scope.shared[key][0]
    return kept


def _for_keras(given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that Keras has, with the defaults of the scope around the call."""
    scope = get_variable_scope()
    kept = {key: value for key, value in given.items() if key not in ("_reuse", "_scope")}
    if scope.initializer is not None:
        for key in ("kernel_initializer", "depthwise_initializer", "pointwise_initializer"):
            if key in kept and kept[key] is None:
                kept[key] = scope.initializer
    for key in ("filters", "units"):
        if isinstance(kept.get(key), float):
            kept[key] = int(kept[key])
    if scope.constraint is not None:
        for key, value in kept.items():
            if key.endswith("_constraint") and value is None:
                kept[key] = scope.constraint
    if scope.regularizer is not None:
        for key, value in kept.items():
            if key.endswith("_regularizer") and key != "activity_regularizer" and value is None:
                kept[key] = scope.regularizer
    return kept


_KERNEL: dict[str, Any] = {
    **{"kernel_initializer": None, "kernel_regularizer": None, "bias_regularizer": None},
    **{"kernel_constraint": None, "bias_constraint": None},
}
_PARTS: dict[str, Any] = {
    **{f"{part}_initializer": None for part in ("depthwise", "pointwise")},
    **{f"{part}_regularizer": None for part in ("depthwise", "pointwise", "bias")},
    **{f"{part}_constraint": None for part in ("depthwise", "pointwise", "bias")},
}
_LAST: dict[str, Any] = {"data_format": "channels_last"}
_CONVOLUTION = (*_WINDOWS, "dilation_rate", "activation", *_WEIGHTS)
_TRANSPOSED = (*_WINDOWS, "activation", *_WEIGHTS)

Dense = _layer(keras.layers.Dense, ("units", "activation", *_WEIGHTS), **_KERNEL)
Conv1D = _layer(keras.layers.Conv1D, _CONVOLUTION, **_KERNEL, **_LAST)
Conv2D = _layer(keras.layers.Conv2D, _CONVOLUTION, **_KERNEL, **_LAST)
Conv3D = _layer(keras.layers.Conv3D, _CONVOLUTION, **_KERNEL, **_LAST)
Conv2DTranspose = _layer(keras.layers.Conv2DTranspose, _TRANSPOSED, **_KERNEL, **_LAST)
Conv3DTranspose = _layer(keras.layers.Conv3DTranspose, _TRANSPOSED, **_KERNEL, **_LAST)
SeparableConv1D = _layer(keras.layers.SeparableConv1D, _SEPARABLE, **_PARTS, **_LAST)
SeparableConv2D = _layer(keras.layers.SeparableConv2D, _SEPARABLE, **_PARTS, **_LAST)
MaxPooling1D = _layer(keras.layers.MaxPooling1D, _POOLING, **_LAST)
MaxPooling2D = _layer(keras.layers.MaxPooling2D, _POOLING, **_LAST)
MaxPooling3D = _layer(keras.layers.MaxPooling3D, _POOLING, **_LAST)
AveragePooling1D = _layer(keras.layers.AveragePooling1D, _POOLING, **_LAST)
AveragePooling2D = _layer(keras.layers.AveragePooling2D, _POOLING, **_LAST)
AveragePooling3D = _layer(keras.layers.AveragePooling3D, _POOLING, **_LAST)
Dropout = _layer(keras.layers.Dropout, ("rate", "noise_shape", "seed", "name"), rate=0.5)
Flatten = _layer(keras.layers.Flatten, ("data_format", "name"))


class _HeldBatchNormalization(keras.layers.BatchNormalization):  # type: ignore[misc]  # keras is untyped
    """Normalizes batches; in a model_fn, its averages move if the code runs ``UPDATE_OPS``."""

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> jax.Array:
        with updates_held_back():
            outputs: jax.Array = super().call(inputs, training=training, mask=mask)
        return outputs


_HeldBatchNormalization.__name__ = "BatchNormalization"
BatchNormalization = _layer(
    _HeldBatchNormalization,
    (*_NORMALIZATION, *("renorm", "renorm_clipping", "renorm_momentum", "fused", "trainable"), "name"),
    beta_regularizer=None,
    gamma_regularizer=None,
)


def function_of(layer: Any, name: str) -> Callable[..., jax.Array]:
    """Make the function that builds a layer and calls it, with the layer's arguments after ``inputs``."""

    def apply(
        inputs: ArrayLike,
        *args: Any,
        reuse: Any = None,
        activity_regularizer: Regularizer = None,
        **kwargs: Any,
    ) -> jax.Array:
        with _below_scopes(kwargs) as named:
            built = _built(layer, args, named, reuse)
            return _regularized(built, inputs, activity_regularizer)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"Build a `{layer.__name__}` of the arguments after ``inputs``, and call it."
    return apply


@contextmanager
def _below_scopes(kwargs: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Enter the scopes that a layer's name begins with, and give the arguments with the rest of it."""
    *scopes, last = [part for part in (kwargs.get("name") or "").split("/") if part] or [None]
    with variable_scope("/".join(scopes)) if scopes else nullcontext():
        yield kwargs if last is None else {**kwargs, "name": last}


def _built(layer: Any, args: Sequence[Any], kwargs: dict[str, Any], reuse: Any) -> keras.Layer:
    """Build a layer; with ``reuse``, of the call or of the scope around it, take the one of the same name.

    Raises:
        ValueError: A layer is to be used again that has no name, or that does not exist.
    """
    name, reuse = kwargs.get("name"), reuse or get_variable_scope().reuse
    if name is None and (name := automatic_name(snake_case(layer.__name__))) is not None:
        kwargs = {**kwargs, "name": name}
    if not reuse:
        built = layer(*args, **kwargs)
        if name is not None:
            note_made("layers", name, built)
        return built
    if name is None:
        raise ValueError(
            f"A layer is found again by its name: give tf.layers.{layer.__name__} a name, or build one layer "
            "and call it twice."
        )
    return shared("layers", name, lambda: layer(*args, **kwargs), reuse)


dense = function_of(Dense, "dense")
conv1d = function_of(Conv1D, "conv1d")
conv2d = function_of(Conv2D, "conv2d")
conv3d = function_of(Conv3D, "conv3d")
conv2d_transpose = function_of(Conv2DTranspose, "conv2d_transpose")
conv3d_transpose = function_of(Conv3DTranspose, "conv3d_transpose")
separable_conv1d = function_of(SeparableConv1D, "separable_conv1d")
separable_conv2d = function_of(SeparableConv2D, "separable_conv2d")
max_pooling1d = function_of(MaxPooling1D, "max_pooling1d")
max_pooling2d = function_of(MaxPooling2D, "max_pooling2d")
max_pooling3d = function_of(MaxPooling3D, "max_pooling3d")
average_pooling1d = function_of(AveragePooling1D, "average_pooling1d")
average_pooling2d = function_of(AveragePooling2D, "average_pooling2d")
average_pooling3d = function_of(AveragePooling3D, "average_pooling3d")


def flatten(inputs: ArrayLike, name: str | None = None, data_format: str = "channels_last") -> jax.Array:
    """Reshape (batch, …) to (batch, size)."""
    with _below_scopes({"name": name}) as named:
        return _applied(Flatten(data_format, **named), inputs)


def dropout(
    inputs: ArrayLike,
    rate: float = 0.5,
    noise_shape: Sequence[int | None] | None = None,
    seed: int | None = None,
    training: bool = False,
    name: str | None = None,
) -> jax.Array:
    """If ``training``, set a fraction ``rate`` of the values to 0, and divide the others by ``1 - rate``."""

    with _below_scopes({"name": name}) as named:

        def make() -> Any:
            return Dropout(rate, noise_shape, seed=seed, **named)

        kept = is_kept()  # then its generator goes on
        layer = shared("layers", named["name"] or automatic_name("dropout") or "", make) if kept else make()
        return _applied(layer, inputs, training=training)


def batch_normalization(
    inputs: ArrayLike, *args: Any, training: bool = False, reuse: Any = None, **kwargs: Any
) -> jax.Array:
    """Normalize each channel. In a model_fn, the moving averages move if the code runs ``UPDATE_OPS``.

    The arguments after ``inputs`` are those of `BatchNormalization`.

    Source: tensorflow/python/keras/engine/base_layer_v1.py, ``Layer.add_update``; the layers of ``tf.layers``
    put their updates into the collection.
    """
    with _below_scopes(kwargs) as named:
        return _applied(_built(BatchNormalization, args, named, reuse), inputs, training=training)


def _applied(layer: keras.Layer, inputs: ArrayLike, **kwargs: Any) -> jax.Array:
    inputs = as_array(inputs)
    with _as_getters_say(layer, tuple(inputs.shape)):
        outputs: jax.Array = layer(inputs, **kwargs)
    if isinstance(outputs, jax.Array):
        scope = numbered(layer.name)
        for operation in _last_operations(layer):
            name_value(f"{scope}/{operation}", outputs)
    return outputs


@contextmanager
def _as_getters_say(layer: keras.Layer, shape: tuple[int, ...]) -> Iterator[None]:
    """Let a layer compute with what the getters of the scope return for its variables."""
    if not has_getters():
        yield
        return
    if not layer.built:
        layer.build(shape)
    others = ask_getters(layer.weights)
    with standing_in(active_scope("custom_getter"), others) if others else nullcontext():
        yield


def _last_operations(layer: keras.Layer) -> list[str]:
    """Return how TensorFlow names the operation that computes a layer's outputs."""
    activation = getattr(layer, "activation", None)
    name = getattr(activation, "__name__", "linear")
    if name != "linear":
        return ["".join(part.capitalize() for part in name.split("_"))]
    return ["BiasAdd"] if getattr(layer, "use_bias", False) else []


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
