"""Serving input receivers: the inputs of exported models, and the features made of them."""

import copy
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np

from muster.data import Placeholder, RaggedTensor, SparseTensor, TensorSpec, parse_example

SINGLE_FEATURE = "feature"
SINGLE_RECEIVER = "input"
_EXAMPLES = "examples"

Tensors: TypeAlias = Mapping[str, Placeholder]


class _Receiver(NamedTuple):
    features: Any
    receiver_tensors: dict[str, Placeholder]
    receiver_tensors_alternatives: dict[str, dict[str, Placeholder]] | None


class ServingInputReceiver(_Receiver):
    """Describes the inputs of an exported model, and the features that are made of them.

    Args:
        features: The features of the model_fn by key: `Placeholder` s of the receiver, or what
            `muster.data.parse_example` made of one. A single one gets the key ``"feature"``.
        receiver_tensors: The `Placeholder` s that a request fills, by name; a single one is called
            ``"input"``.
        receiver_tensors_alternatives: Other ways to ask, by name: placeholders, of which features are among.

    Raises:
        ValueError: One of them is missing, or something else.

    Source: ``ServingInputReceiver`` (tensorflow_estimator/python/estimator/export/export.py).
    """

    __slots__ = ()

    def __new__(cls, features: Any, receiver_tensors: Any, receiver_tensors_alternatives: Any = None) -> Self:
        if not isinstance(features, Mapping):
            features = {SINGLE_FEATURE: features}
        require_placeholders("feature", features)
        return super().__new__(
            cls, dict(features), *_checked(receiver_tensors, receiver_tensors_alternatives)
        )

    @property
    def named_features(self) -> dict[str, Placeholder]:
        """The features by their keys."""
        features: dict[str, Placeholder] = self.features
        return features


class TensorServingInputReceiver(_Receiver):
    """Describes the inputs of an exported model whose model_fn takes one array as its features.

    Args:
        features: A `Placeholder` of the receiver.
        receiver_tensors: As for `ServingInputReceiver`.
        receiver_tensors_alternatives: As for `ServingInputReceiver`.

    Raises:
        ValueError: As for `ServingInputReceiver`, or there are several features.

    Source: ``TensorServingInputReceiver`` (tensorflow_estimator/python/estimator/export/export.py).
    """

    __slots__ = ()

    def __new__(cls, features: Any, receiver_tensors: Any, receiver_tensors_alternatives: Any = None) -> Self:
        require_placeholders("feature", {SINGLE_FEATURE: features})
        return super().__new__(cls, features, *_checked(receiver_tensors, receiver_tensors_alternatives))

    @property
    def named_features(self) -> dict[str, Placeholder]:
        """The feature by a key."""
        return {SINGLE_FEATURE: self.features}


def build_raw_serving_input_receiver_fn(
    features: Mapping[str, Any], default_batch_size: int | None = None
) -> Callable[[], ServingInputReceiver]:
    """Return a function for ``export_saved_model``: the model is given its features as they are.

    Args:
        features: By key, an array of a batch, or a `TensorSpec`: it says the dtype and the shape, whose first
            size does not count. Of a sparse or ragged tensor, requests have an array, with empty text, -1 or
            0.0 in empty places.
        default_batch_size: How many examples a request has; None for any number.

    Raises:
        ValueError: A feature has no axis of examples.

    Source: ``build_raw_serving_input_receiver_fn``
    (tensorflow_estimator/python/estimator/export/export.py).

    Example:
        ```python
        regressor = muster.estimator.LinearRegressor([muster.feature_column.numeric_column("x")], "runs/raw")
        regressor.train(lambda: Dataset.from_tensor_slices(({"x": np.ones(4)}, np.ones(4))).batch(4))
        spec = muster.data.TensorSpec([None], np.float32)
        receiver_fn = muster.estimator.build_raw_serving_input_receiver_fn({"x": spec})
        folder = regressor.export_saved_model("exported", receiver_fn)
        predict = muster.saved_model.load(folder).signatures["predict"]
        assert predict(x=np.ones(2, np.float32))["predictions"].shape == (2, 1)
        ```
    """
    specs = specs_of(features)

    def serving_input_receiver_fn() -> ServingInputReceiver:
        placeholders = placeholders_of(specs, default_batch_size)
        return ServingInputReceiver(placeholders, placeholders)

    return serving_input_receiver_fn


def build_parsing_serving_input_receiver_fn(
    feature_spec: Mapping[str, Any], default_batch_size: int | None = None
) -> Callable[[], ServingInputReceiver]:
    """Return a function for ``export_saved_model``: the model is given serialized Examples as ``examples``.

    Args:
        feature_spec: What to read of them, as for `muster.data.parse_example`.
        default_batch_size: How many a request has; None for any number.

    Source: ``build_parsing_serving_input_receiver_fn``
    (tensorflow_estimator/python/estimator/export/export.py).
    """
    specs = copy.copy(feature_spec)

    def serving_input_receiver_fn() -> ServingInputReceiver:
        examples = Placeholder(str, (default_batch_size,), "input_example_tensor")
        return ServingInputReceiver(parse_example(examples, specs), {_EXAMPLES: examples})

    return serving_input_receiver_fn


def _checked(tensors: Any, alternatives: Any) -> tuple[Any, Any]:
    if alternatives is not None:
        if not isinstance(alternatives, Mapping):
            raise ValueError(f"receiver_tensors_alternatives must be a dict: {alternatives}.")
        alternatives = {name: checked_tensors(each) for name, each in alternatives.items()}
    return checked_tensors(tensors), alternatives


def checked_tensors(tensors: Any) -> dict[str, Placeholder]:
    """Return what a request fills by name.

    Raises:
        ValueError: It is missing, or something else than placeholders.
    """
    if not isinstance(tensors, Mapping):
        tensors = {SINGLE_RECEIVER: tensors}
    require_placeholders("receiver_tensor", tensors)
    return dict(tensors)


def require_placeholders(what: str, tensors: Mapping[Any, Any]) -> None:
    """Check that values are placeholders, with text for keys.

    Args:
        what: What they are, for messages, such as ``"feature"``.
        tensors: The values by key.

    Raises:
        ValueError: One of them is not.
    """
    for key, value in tensors.items():
        if value is None and len(tensors) == 1:
            raise ValueError(f"{what}s must be defined.")
        if not isinstance(key, str):
            raise ValueError(f"{what} keys must be strings: {key}.")
        if not isinstance(value, Placeholder):
            raise ValueError(
                f"{what} {key} must be a Tensor, got {value!r}. Give a muster.data.Placeholder "
                "(TensorFlow 1's placeholder), or use build_raw_serving_input_receiver_fn."
            )


def specs_of(batch: Mapping[str, Any]) -> dict[str, TensorSpec]:
    """Return the shapes and dtypes of a batch, of arrays or of what is known of them.

    Raises:
        ValueError: One of them has no axis of examples.
    """
    return {key: _spec_of(key, value) for key, value in batch.items()}


def placeholders_of(specs: Mapping[str, TensorSpec], batch_size: int | None) -> dict[str, Placeholder]:
    """Return placeholders for batches of a size; None for any."""
    return {
        key: Placeholder(spec.dtype, (batch_size, *(spec.shape or ())[1:]), key)
        for key, spec in specs.items()
    }


def _spec_of(key: str, value: Any) -> TensorSpec:
    if isinstance(value, SparseTensor):
        value = TensorSpec([None] * len(value.shape), value.dtype)
    if isinstance(value, RaggedTensor):
        value = TensorSpec(value.shape, value.dtype)
    spec = value if isinstance(value, TensorSpec) else TensorSpec(np.shape(value), np.asarray(value).dtype)
    if not spec.shape:
        raise ValueError(f"{key} must have an axis of examples, got the shape {spec.shape}.")
    return spec
