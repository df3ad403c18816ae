"""Supervised input receivers: the inputs of models that are exported to train or to evaluate, labels too."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self, TypeAlias

import jax

from muster.data import Dataset, Placeholder, TensorSpec
from muster.estimator.export._receivers import (
    SINGLE_FEATURE,
    SINGLE_RECEIVER,
    ServingInputReceiver,
    TensorServingInputReceiver,
    checked_tensors,
    placeholders_of,
    require_placeholders,
    specs_of,
)

_SINGLE_LABEL = "label"


class _SupervisedReceiver(NamedTuple):
    features: Any
    labels: Any
    receiver_tensors: dict[str, Placeholder]


class SupervisedInputReceiver(_SupervisedReceiver):
    """Describes the inputs of a model that is exported to train or to evaluate.

    Args:
        features: The features of the model_fn, as for `ServingInputReceiver`; a single one stays one.
        labels: Its labels: likewise. For text there is `Head.numeric_labels`.
        receiver_tensors: The `Placeholder` s that a request fills, by name; a single one is called
            ``"input"``.

    Raises:
        ValueError: One of them is missing, or something else.

    Source: ``SupervisedInputReceiver`` (tensorflow_estimator/python/estimator/export/export.py).
    """

    __slots__ = ()

    def __new__(cls, features: Any, labels: Any, receiver_tensors: Any) -> Self:
        require_placeholders("feature", _named(features, SINGLE_FEATURE))
        require_placeholders("label", _named(labels, _SINGLE_LABEL))
        return super().__new__(cls, features, labels, checked_tensors(receiver_tensors))

    @property
    def named_features(self) -> dict[str, Placeholder]:
        """The features by their keys."""
        return _named(self.features, SINGLE_FEATURE)

    @property
    def receiver_tensors_alternatives(self) -> None:
        """Other ways to ask: none."""
        return None


AnyReceiver: TypeAlias = ServingInputReceiver | TensorServingInputReceiver | SupervisedInputReceiver
ReceiverFn: TypeAlias = Callable[[], AnyReceiver]


def build_raw_supervised_input_receiver_fn(
    features: Any, labels: Any, default_batch_size: int | None = None
) -> Callable[[], SupervisedInputReceiver]:
    """Return a function for ``export_saved_model``: the model is given features and labels as they are.

    Args:
        features: As for `build_raw_serving_input_receiver_fn`; or a single array, which requests call
            ``"input"``.
        labels: Likewise; requests call a single array ``"label"``.
        default_batch_size: How many examples a request has; None for any number.

    Raises:
        ValueError: Features and labels have a key in common, or one of them has no axis of examples.

    Source: ``build_raw_supervised_input_receiver_fn``
    (tensorflow_estimator/python/estimator/export/export.py).
    """
    own, of_labels = specs_of(_named(features, SINGLE_RECEIVER)), specs_of(_named(labels, _SINGLE_LABEL))
    one, one_label = not isinstance(features, Mapping), not isinstance(labels, Mapping)
    if overlap := own.keys() & of_labels.keys():
        raise ValueError(
            f"Features and labels must have distinct keys. Found overlapping keys: {sorted(overlap)}. "
            "Write a function that returns a SupervisedInputReceiver."
        )

    def supervised_input_receiver_fn() -> SupervisedInputReceiver:
        made = placeholders_of(own, default_batch_size)
        made_labels = placeholders_of(of_labels, default_batch_size)
        return SupervisedInputReceiver(
            next(iter(made.values())) if one else made,
            next(iter(made_labels.values())) if one_label else made_labels,
            made | made_labels,
        )

    return supervised_input_receiver_fn


def build_supervised_input_receiver_fn_from_input_fn(
    input_fn: Callable[..., Any], **input_fn_args: Any
) -> Callable[[], SupervisedInputReceiver]:
    """Return a function for ``export_saved_model``: the model is given what an input_fn returns.

    Args:
        input_fn: Called once; returns a Dataset of ``(features, labels)``, or one such element.
        **input_fn_args: What it is called with.

    Raises:
        ValueError: It returns something else, or as for `build_raw_supervised_input_receiver_fn`.

    Source: ``build_supervised_input_receiver_fn_from_input_fn``
    (tensorflow_estimator/python/estimator/export/export.py).
    """
    element = input_fn(**input_fn_args)
    if isinstance(element, Dataset):
        element = _element(element)
    if not isinstance(element, tuple) or len(element) != 2:
        raise ValueError(f"input_fn must return (features, labels), or a Dataset of them, got {element!r}.")
    return build_raw_supervised_input_receiver_fn(*element)


def _element(dataset: Dataset) -> Any:
    """Return the specs of a dataset's elements; the first element if their shapes are not known."""
    spec = dataset.element_spec
    leaves = jax.tree.leaves(spec)
    if all(isinstance(leaf, TensorSpec) and leaf.shape is not None for leaf in leaves):
        return spec
    with dataset.iterator() as elements:
        return next(elements, spec)


def _named(tensors: Any, single: str) -> dict[str, Any]:
    return dict(tensors) if isinstance(tensors, Mapping) else {single: tensors}
