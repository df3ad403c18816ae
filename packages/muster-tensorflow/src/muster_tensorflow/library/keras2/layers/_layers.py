"""Keras 2's spellings on Keras' metrics and layers, such as ``reset_states`` and ``add_weight("name", …)``.

What Keras 3 takes means what it meant. ``RandomCrop`` crops in any step.
"""

import contextlib
import functools
import inspect
from collections.abc import Callable, ValuesView
from typing import Any

import jax
import numpy as np

from muster import keras
from muster_tensorflow.library.keras2.layers._branches import rewriting
from muster_tensorflow.library.ops.arrays._tensor_shape import TensorShape
from muster_tensorflow.patches import change, wrap
from muster_tensorflow.programs.v2._tensor_kinds import get_current_name_scope
from muster_tensorflow.programs.v2._variable import VariableAggregation

# Keras 2's order of arguments.
_LAYER = ("name", "shape", "dtype", "initializer", "regularizer", "trainable", "constraint")
_METRIC = ("name", "shape", "aggregation", "synchronization", "initializer", "dtype")

# Arguments of Keras 2's ``add_weight`` that say how a graph or a runtime holds the variable.
_WITHOUT_MEANING = (
    "synchronization",
    "use_resource",
    "partitioner",
    "collections",
    "caching_device",
    "layout",
)


def _named_first(original: Callable[..., Any], order: tuple[str, ...], *unused: str) -> Callable[..., Any]:
    """Wrap ``add_weight``, so that it takes arguments in Keras 2's order, where the name is the first.

    A shape may be one number, that of a vector.

    Args:
        original: The method.
        order: The arguments.
        *unused: Those that Keras 3 does not have.
    """

    @functools.wraps(original)
    def add_weight(self: Any, *args: Any, **kwargs: Any) -> Any:
        if args and (args[0] is None or isinstance(args[0], str)):
            kwargs.update(zip(order, args, strict=False))
            args = ()
        for name in unused:
            kwargs.pop(name, None)
        if (autocast := kwargs.pop("experimental_autocast", None)) is not None:
            kwargs["autocast"] = autocast
        if isinstance(aggregation := kwargs.get("aggregation"), VariableAggregation):
            kwargs["aggregation"] = aggregation.name.lower()
        if args and isinstance(args[0], int):
            args = ((args[0],), *args[1:])
        elif isinstance(kwargs.get("shape"), int):
            kwargs["shape"] = (kwargs["shape"],)
        return original(self, *args, **kwargs)

    return add_weight


def _calling_each_other(original: Callable[[Any], None]) -> tuple[Callable[[Any], None], ...]:
    """Make metrics' ``reset_state`` and ``reset_states``: each calls the other where a class overrides it."""

    @functools.wraps(original)
    def reset_state(self: Any) -> None:
        if type(self).reset_states is reset_states:
            original(self)
        else:
            self.reset_states()

    def reset_states(self: Any) -> None:
        """Set all variables to 0, or as ``reset_state`` does."""
        if type(self).reset_state is reset_state:
            original(self)
        else:
            self.reset_state()

    return reset_state, reset_states


def _of_any_deviation(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``GaussianNoise.__init__``: noise may be as wide as a program wants, and not 1 at most."""

    @functools.wraps(original)
    def init(self: Any, stddev: Any, seed: Any = None, **kwargs: Any) -> None:
        original(self, min(stddev, 1), seed, **kwargs)
        self.stddev = stddev

    return init


def _of_one_size(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``InputLayer.__init__``: a single number is the shape of a vector, as in ``Input(3)``."""

    @functools.wraps(original)
    def init(self: Any, shape: Any = None, batch_size: Any = None, dtype: Any = None, **kwargs: Any) -> None:
        # Keras reads this signature, and cannot tell *args.
        is_ragged = bool(kwargs.pop("ragged", False))
        if is_ragged and dtype is not None and keras.backend.standardize_dtype(dtype) == "string":
            raise ValueError(
                "Input(ragged=True) has numbers here: rows of text become those in Dataset.map, by the layer "
                "that takes them."
            )
        shape = (shape,) if isinstance(shape, int) else shape
        original(self, shape=shape, batch_size=batch_size, dtype=dtype, **kwargs)
        self.ragged = is_ragged  # see _ragged_models

    return init


def _of_integers(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap a layer's ``__init__``: sizes may be integers of NumPy's, or arrays', as in Keras 2."""

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *map(_integer, args), **{name: _integer(value) for name, value in kwargs.items()})

    init.__signature__ = inspect.signature(original)  # type: ignore[attr-defined]  # Keras reads it
    return init


def _of_any_number(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``Dense.__init__``: its size may also be a float, as in Keras 2."""

    @functools.wraps(original)
    def init(self: Any, units: Any, activation: Any = None, use_bias: bool = True, **kwargs: Any) -> None:
        # Keras reads this signature, and cannot tell *args.
        original(self, int(units), activation=activation, use_bias=use_bias, **kwargs)

    return init


def _of_most_tokens(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``CategoryEncoding.__init__``: ``max_tokens`` is an older name of ``num_tokens``."""

    @functools.wraps(original)
    def init(
        self: Any, num_tokens: Any = None, output_mode: str = "multi_hot", sparse: bool = False, **kwargs: Any
    ) -> None:
        original(self, kwargs.pop("max_tokens", num_tokens), output_mode=output_mode, sparse=sparse, **kwargs)

    return init


def _called_for_shapes(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``Lambda.compute_output_spec``, which asks no function whose ``output_shape`` is given.

    In a call that asks for shapes a layer learns that its function draws random numbers.
    """

    @functools.wraps(original)
    def compute_output_spec(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self._output_shape is not None:
            with contextlib.suppress(Exception):  # it may be a function of values alone
                rewriting(keras.src.backend.compute_output_spec)(self.call, *args, **kwargs)
        return original(self, *args, **kwargs)

    return compute_output_spec


def _integer(value: Any) -> Any:
    if isinstance(value, jax.core.Tracer):
        return value
    is_array = isinstance(value, jax.Array | np.ndarray) and value.ndim == 0 and value.dtype.kind in "iu"
    return int(value) if is_array or isinstance(value, np.integer) else value


def _of_inputs(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``get_initial_state`` of recurrent layers and cells, which Keras 2 passes the input."""

    @functools.wraps(original)
    def get_initial_state(
        self: Any, inputs: Any = None, batch_size: Any = None, dtype: object = None
    ) -> list[Any]:
        if batch_size is None:
            batch_size = inputs.shape[0] if getattr(inputs, "shape", ()) else inputs
        states: list[Any] = original(self, batch_size=batch_size)
        return states

    return get_initial_state


def _cropping(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``RandomCrop.transform_images``.

    It cannot slice at a place that a compiled step draws; and where it is not training, images keep their
    size, although the layer says that they have another.
    """

    @functools.wraps(original)
    def transform_images(self: Any, images: Any, transformation: Any, training: bool = True) -> Any:
        top, left = transformation
        if not training:
            images = keras.ops.cast(images, self.compute_dtype)
            size = self.height, self.width
            return keras.preprocessing.image.smart_resize(images, size, data_format=self.data_format)
        if not isinstance(top, jax.core.Tracer):
            return original(self, images, transformation, training=training)
        starts, sizes = [0] * len(images.shape), list(images.shape)
        starts[self.height_axis], starts[self.width_axis] = top, left
        sizes[self.height_axis], sizes[self.width_axis] = self.height, self.width
        return keras.ops.slice(keras.ops.cast(images, self.compute_dtype), starts, sizes)

    return transform_images


def _of_both_sides(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``RandomContrast.__init__``: a factor of one number lowers the contrast as well as raising it.

    A pair is that of the lower and the upper one, in this order, which Keras 3 sorts.
    """

    @functools.wraps(original)
    def init(self: Any, factor: Any, value_range: Any = (0, 255), seed: Any = None, **kwargs: Any) -> None:
        lower, upper = factor if isinstance(factor, list | tuple) else (factor, factor)
        if not 0 <= lower <= 1 or upper < 0:
            raise ValueError(
                "factor is a number from 0 to 1, by which contrast is lowered and raised at most, or a pair "
                f"of them, got {factor!r}."
            )
        original(self, 0.0, value_range, seed, **kwargs)
        self.factor = (lower, upper)

    return init


def _computing_floats(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``transform_images`` of a layer that would compute with the integers of images, which overflow."""

    @functools.wraps(original)
    def transform_images(self: Any, images: Any, *args: Any, **kwargs: Any) -> Any:
        return original(self, self.backend.cast(images, self.compute_dtype), *args, **kwargs)

    return transform_images


def _of_views(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the call of merging layers: they take the values of a dict, as in ``Add()(x.values())``."""

    @functools.wraps(original)
    def call(self: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        return original(self, list(inputs) if isinstance(inputs, ValuesView) else inputs, *args, **kwargs)

    return call


def _of_one_axis(original: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Wrap ``KerasTensor.__getitem__``, which takes ``x[:1, :]`` and not ``x[:1]``."""

    @functools.wraps(original)
    def getitem(self: Any, key: Any) -> Any:
        return original(self, key if isinstance(key, int | tuple | list) else (key,))

    return getitem


def _in_small_letters(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``__init__`` of pooling layers: ``padding`` may be ``"SAME"``, as in layers of convolutions."""

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        self.padding = self.padding.lower()

    return init


def _of_size_two(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``__init__`` of average pooling: its size is two by default, as that of max pooling is."""
    size, *others = list(inspect.signature(original).parameters.values())[1:]

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        if not args:
            kwargs.setdefault(size.name, 2)
        original(self, *args, **kwargs)

    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = [own, size.replace(default=2), *others]
    init.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # Keras reads it
    return init


def _as_tensor_shapes(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap what gives ``build`` its shapes: layers of programs get those with ``as_list()`` and ``value``."""

    @functools.wraps(original)
    def shapes_for(target_fn: Any, shapes_dict: Any, *args: Any, **kwargs: Any) -> Any:
        found = original(target_fn, shapes_dict, *args, **kwargs)
        if found is None or target_fn.__module__.startswith("keras."):
            return found
        return {name: _as_tensor_shape(shape) for name, shape in found.items()}

    return shapes_for


def _from_tensor_shapes(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``build_from_config``, by which a layer that is loaded is built, in the same way."""

    @functools.wraps(original)
    def build_from_config(self: Any, config: Any) -> None:
        original(self, config if type(self).__module__.startswith("keras.") else _as_tensor_shape(config))

    return build_from_config


def _as_add_weight(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``add_variable``: with a name first, or no initializer, it is Keras 2's ``add_weight``."""

    @functools.wraps(original)
    def add_variable(self: Any, *args: Any, **kwargs: Any) -> Any:
        is_old = isinstance(args[0], str) if args else "initializer" not in kwargs
        return (self.add_weight if is_old else functools.partial(original, self))(*args, **kwargs)

    return add_variable


def _as_tensor_shape(shape: Any) -> Any:
    if isinstance(shape, dict):
        return {name: _as_tensor_shape(each) for name, each in shape.items()}
    if isinstance(shape, list | tuple) and any(isinstance(each, list | tuple) for each in shape):
        return type(shape)(map(_as_tensor_shape, shape))
    return TensorShape(shape) if isinstance(shape, list | tuple) else shape


def _merge_state(self: Any, metrics: Any) -> None:
    """Add what other metrics of the class have seen."""
    for metric in metrics:
        for own, other in zip(self.variables, metric.variables, strict=True):
            own.assign_add(other.value)


def _submodules(layer: Any) -> tuple[Any, ...]:
    """All layers in it."""
    return tuple(layer._flatten_layers(include_self=False))


def _losses_for(self: Any, inputs: Any) -> list[Any]:
    """Return the penalties of the layer's weights, if ``inputs`` is None; else its other losses.

    Source: tensorflow/python/keras/engine/base_layer.py of TensorFlow 2.4, ``Layer.get_losses_for``.
    """
    penalties = [each.regularizer(each) for each in self.trainable_variables if each.regularizer is not None]
    losses = list(self.losses)
    return penalties if inputs is None else losses[: len(losses) - len(penalties)]


def _no_updates(self: Any, *inputs: Any) -> list[Any]:
    """Return nothing: what a layer assigns is part of each call, as in TensorFlow 2."""
    return []


def _name_scope(self: Any) -> str:
    """Return the name of the scope of what the layer does.

    Source: keras/src/engine/base_layer.py of Keras 2.15, ``Layer._name_scope``.
    """
    scope = get_current_name_scope()
    return f"{scope}/{self.name}/" if scope else f"{self.name}/"


def _call(self: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the inputs: what a layer does whose class says nothing else.

    Source: keras/engine/base_layer.py, ``Layer.call``.
    """
    return inputs


def _apply(self: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
    """Call the layer."""
    return self(inputs, *args, **kwargs)


def patch() -> None:
    """Give Keras' metrics and layers the names."""
    metric, layer = keras.metrics.Metric, keras.layers.Layer
    change(layer, "call", _call)
    reset_state, reset_states = _calling_each_other(metric.reset_state)
    change(metric, "reset_state", reset_state)
    change(metric, "reset_states", reset_states)
    change(metric, "merge_state", _merge_state)
    change(metric, "add_weight", _named_first(metric.add_weight, _METRIC, "aggregation", "synchronization"))
    change(keras.layers.InputLayer, "input", property(lambda self: self.output))  # what Keras 3 has is empty
    wrap(keras.layers.InputLayer, "__init__", _of_one_size)
    wrap(keras.layers.GaussianNoise, "__init__", _of_any_deviation)
    wrap(keras.layers.Dense, "__init__", _of_any_number)
    wrap(keras.layers.Lambda, "compute_output_spec", _called_for_shapes)
    wrap(keras.layers.CategoryEncoding, "__init__", _of_most_tokens)
    for name in ("AveragePooling1D", "AveragePooling2D", "AveragePooling3D"):
        averaging = getattr(keras.layers, name)
        wrap(averaging, "__init__", _of_size_two)
    for kind in vars(keras.layers).values():
        if (
            isinstance(kind, type)
            and issubclass(kind, layer)
            and kind is not layer
            and "__init__" in vars(kind)
        ):
            wrap(kind, "__init__", _of_integers)
    merge = keras.layers.Concatenate.__mro__[1]  # what Add, Concatenate and others derive from
    wrap(merge, "__call__", _of_views)
    change(layer, "submodules", property(_submodules))
    change(layer, "name_scope", _name_scope)
    change(layer, "get_losses_for", _losses_for)
    change(layer, "get_updates_for", _no_updates)
    change(layer, "apply", _apply)
    pooling = keras.layers.MaxPooling1D.__mro__[1]  # what AveragePooling2D and others derive from
    wrap(pooling, "__init__", _in_small_letters)
    change(layer, "add_weight", _named_first(layer.add_weight, _LAYER, *_WITHOUT_MEANING))
    wrap(layer, "add_variable", _as_add_weight)
    wrap(layer, "build_from_config", _from_tensor_shapes)
    of_layers = keras.src.layers.layer
    wrap(of_layers, "update_shapes_dict_for_target_fn", _as_tensor_shapes)
    for name in ("RNN", "LSTMCell", "GRUCell", "SimpleRNNCell", "StackedRNNCells"):
        recurrent = getattr(keras.layers, name)
        wrap(recurrent, "get_initial_state", _of_inputs)

    wrap(keras.KerasTensor, "__getitem__", _of_one_axis)

    for name in ("Resizing", "RandomBrightness", "RandomContrast"):
        images = getattr(keras.layers, name)
        wrap(images, "transform_images", _computing_floats)
    contrast = keras.layers.RandomContrast
    wrap(contrast, "__init__", _of_both_sides)

    crop = keras.layers.RandomCrop
    wrap(crop, "transform_images", _cropping)
