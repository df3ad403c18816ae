"""Convert a batch of an input_fn to the inputs, labels and weights of a Keras model."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from muster._keras import keras

_UNNAMED = re.compile(r"(keras_tensor|input_layer|input)(_\d+)?")  # in Keras 2 and 3
_FEATURES, _SAMPLE_WEIGHTS = "features", "sample_weights"


class KerasBatch(NamedTuple):
    """A batch as ``Model.fit`` gives it to a model.

    Attributes:
        x: The inputs, in the structure that the model takes.
        y: The labels, in the structure of its outputs; None without labels.
        sample_weight: The weights of examples; None without.
    """

    x: Any
    y: Any
    sample_weight: Any


def keras_batch(model: Any, features: Any, labels: Any) -> KerasBatch:
    """Return a batch of an input_fn as a model takes it.

    Args:
        model: The Keras model.
        features: The features: by the names of the model's inputs, in their order, or in a dictionary with
            ``features`` and ``sample_weights``.
        labels: The labels: by the names of the model's outputs, or in their order.

    Raises:
        KeyError: The names are others than the model's.
        ValueError: There are more or fewer than the model has inputs.

    Source: ``_convert_estimator_io_to_keras`` (tensorflow_estimator/python/estimator/keras_lib.py).
    """
    sample_weight = None
    if isinstance(features, Mapping) and set(features) == {_FEATURES, _SAMPLE_WEIGHTS}:
        features, sample_weight = features[_FEATURES], features[_SAMPLE_WEIGHTS]
    return KerasBatch(
        _inputs(model, features),
        _by_output(model, "labels", labels),
        _by_output(model, _SAMPLE_WEIGHTS, sample_weight),
    )


def output_names(model: Any) -> list[str] | None:
    """Return the names of a model's outputs, as TensorFlow has them; None if it does not tell.

    They are the names of the layers that make the outputs, or the keys of a dictionary of outputs.
    """
    if isinstance(model, keras.Sequential):
        return [model.layers[-1].name] if model.layers else None
    names: Sequence[str] | None = getattr(model, "output_names", None)
    if names is None:
        return None
    outputs = model.output
    return sorted(outputs) if isinstance(outputs, dict) else _unique(names)


def named_outputs(model: Any, outputs: Any) -> dict[str, Any]:
    """Return a model's outputs by name."""
    if isinstance(outputs, dict):
        return {name: outputs[name] for name in sorted(outputs)}
    flat = keras.tree.flatten(outputs)
    names = output_names(model)
    if names is None or len(names) != len(flat):
        names = [f"output_{number}" for number in range(1, len(flat) + 1)]
    return dict(zip(names, flat, strict=True))


def _inputs(model: Any, features: Any) -> Any:
    taken = getattr(model, "inputs", None)
    if not taken:
        return features
    names = [each.name for each in taken]
    if isinstance(model, keras.Sequential) and isinstance(features, Mapping):
        names = input_keys(model, features)[:1] or names
    if isinstance(features, Mapping):
        flat = _by_name("features", features, "input", names)
    else:
        flat = keras.tree.flatten(features)
        if len(flat) != len(names):
            raise ValueError(
                f"The input_fn gives {len(flat)} features, and the Keras model has {len(names)} inputs: "
                f"{', '.join(names)}."
            )
    return flat[0] if isinstance(model, keras.Sequential) else keras.tree.pack_sequence_as(model.input, flat)


def input_keys(model: Any, given: Iterable[str]) -> list[str]:
    """Return those of some keys that are names of a Sequential model's input.

    These are its own, and those of Keras 2: ``dense_input`` by the first layer, or, of an input without a
    name, ``input_1``, whatever the number.
    """
    own = model.inputs[0].name
    names, unnamed = {own, f"{model.layers[0].name}_input"}, _UNNAMED.fullmatch(own)
    return [key for key in given if key in names or (unnamed and _UNNAMED.fullmatch(str(key)))]


def _by_output(model: Any, what: str, values: Any) -> Any:
    """Return labels or weights in the structure of a model's outputs."""
    names = output_names(model)
    if not isinstance(values, Mapping) or names is None or isinstance(getattr(model, "output", 0), dict):
        return values
    flat = _by_name(what, values, "output", names)
    return flat if len(flat) > 1 else flat[0]


def _by_name(what: str, values: Mapping[str, Any], side: str, names: list[str]) -> list[Any]:
    if set(values) != set(names):
        raise KeyError(
            f"The {what} that the input_fn returns do not have the names of the Keras model's {side}s. "
            f"Expected: {', '.join(names)}. Got: {', '.join(map(str, values))}."
        )
    return [values[name] for name in names]


def _unique(names: Sequence[str]) -> list[str]:
    """Return names, with a number after those of further outputs of one layer."""
    unique: list[str] = []
    for name in names:
        candidate, number = name, 1
        while candidate in unique:
            candidate, number = f"{name}_{number}", number + 1
        unique.append(candidate)
    return unique
