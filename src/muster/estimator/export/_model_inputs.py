"""Find the arguments of an exported model: features, labels, and what the host makes of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from muster.data import Placeholder
from muster.estimator._mode_keys import ModeKeys
from muster.estimator._words import WordNumbers
from muster.estimator.export._supervised_receivers import AnyReceiver, SupervisedInputReceiver
from muster.estimator.loop._batches import Batch
from muster.estimator.loop._setup import ModelSetup
from muster.feature_column import ColumnPlaceholder, FeatureColumn, host_columns, leaf_keys
from muster.saved_model import Feature, symbolic_arguments

_LABELS = "labels"


@dataclass(frozen=True, kw_only=True)
class ModelInputs:
    """Holds the arguments of an exported model, and where they come from.

    Attributes:
        arguments: The arguments of its computation by key, with symbols for free sizes.
        batch: Returns the batch of a model_fn, given arguments by key.
        columns: What the host computes of features.
        rows: The argument with a zero for each row, or None.
        given: What the host takes, by key: features, and labels under keys of their own.
    """

    arguments: Mapping[str, jax.ShapeDtypeStruct]
    batch: Callable[[Mapping[str, Any]], Batch]
    columns: Sequence[FeatureColumn]
    rows: str | None
    given: Mapping[str, Placeholder]

    def features(self, inputs: Mapping[str, Placeholder]) -> dict[str, Feature]:
        """Return where all that the host takes comes from, given what a request fills.

        Raises:
            ValueError: It does not come from there.
        """
        return {key: _feature(key, each, inputs) for key, each in self.given.items()}


def model_inputs(setup: ModelSetup, receiver: AnyReceiver, mode: ModeKeys) -> ModelInputs:
    """Return what a model computes with, given what a receiver has.

    Raises:
        ValueError: A feature is missing, or of a kind that the model cannot take; or a label is.
    """
    features = receiver.named_features
    _check_features(features, setup.columns)
    labels = setup.numeric_labels(receiver.labels) if isinstance(receiver, SupervisedInputReceiver) else None
    named = _named_labels(labels)
    _check_labels(named, features)
    computed = [each for each in features.values() if isinstance(each, ColumnPlaceholder)]
    columns = host_columns((*(setup.columns or ()), *(each.column for each in computed)))
    passed = {key: each for key, each in features.items() if not isinstance(each, ColumnPlaceholder)}
    # A model without columns reads how many rows there are; to evaluate, perhaps weights, too.
    reads_features = setup.columns != () or mode != ModeKeys.PREDICT
    steps = {key: each for key, each in passed.items() if reads_features and _is_for_steps(each)}
    rows = next(iter(features)) if setup.columns == () and not steps else None
    needed = {key for column in columns for key in leaf_keys(column)} | steps.keys()
    for each in computed:
        passed = each.features | passed
    single = not isinstance(receiver.features, Mapping)

    def batch(arguments: Mapping[str, Any]) -> Batch:
        own = {key: value for key, value in arguments.items() if key not in named}
        own_labels = {key.removeprefix(f"{_LABELS}/"): arguments[key] for key in named}
        return Batch(
            next(iter(own.values())) if single else own,
            own_labels if isinstance(labels, Mapping) else own_labels.get(_LABELS),
        )

    return ModelInputs(
        arguments=symbolic_arguments({**steps, **named}, columns, rows),
        batch=batch,
        columns=columns,
        rows=rows,
        given={key: each for key, each in passed.items() if key in needed} | named,
    )


def _named_labels(labels: Any) -> dict[str, Placeholder]:
    """Return labels under keys that tell them from features."""
    if isinstance(labels, Mapping):
        return {f"{_LABELS}/{key}": each for key, each in labels.items()}
    return {} if labels is None else {_LABELS: labels}


def _check_features(features: Mapping[str, Placeholder], columns: Sequence[FeatureColumn] | None) -> None:
    missing = {key for column in columns or () for key in leaf_keys(column)} - features.keys()
    if missing:
        raise ValueError(
            f"The model reads the features {sorted(missing)}, which serving_input_receiver_fn does not give. "
            f"It gives: {', '.join(sorted(features)) or 'none'}."
        )
    for key, each in features.items():
        if columns is None and not _is_for_steps(each):
            raise ValueError(
                f"The feature {key} is {_kind(each)}, and a model_fn computes with arrays of numbers. Leave "
                "it out, or let columns take it: transform_features(features, feature_columns)."
            )


def _check_labels(labels: Mapping[str, Placeholder], features: Mapping[str, Placeholder]) -> None:
    for key, each in labels.items():
        if not _is_for_steps(each):
            raise ValueError(
                f"What {key} names is {_kind(each)}, and a model_fn computes with arrays of numbers. Of text "
                "a head with a label_vocabulary makes numbers: head.numeric_labels(labels)."
            )
        if key in features:
            raise ValueError(f"A feature is called {key!r}, as labels are in an export. Give it another key.")


def _is_for_steps(feature: Placeholder) -> bool:
    return feature.shape is not None and feature.dtype.kind in "biufcV"


def _kind(feature: Placeholder) -> str:
    return "sparse" if feature.shape is None else "text"


def _feature(key: str, placeholder: Placeholder, inputs: Mapping[str, Placeholder]) -> Feature:
    """Return where a feature comes from, given what a request fills."""
    if isinstance(placeholder, WordNumbers):
        text = _feature(key, placeholder.text, inputs)
        return Feature(text.input, text.parse, placeholder.vocabulary)
    names = {each: name for name, each in inputs.items()}
    if placeholder in names:
        return Feature(names[placeholder])
    parsed = placeholder.parsed
    if parsed is None or parsed.examples not in names:
        raise ValueError(
            f"The feature {key} is neither one of the receiver's tensors, {sorted(inputs)}, nor parsed of "
            "one."
        )
    return Feature(names[parsed.examples], (parsed.key, parsed.spec))
