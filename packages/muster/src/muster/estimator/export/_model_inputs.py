"""Find the arguments of an exported model: features, labels, and arrays that the host computes of them."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import jax

from muster.data import ComputedPlaceholder, HostPlaceholder, Placeholder
from muster.estimator._estimator_spec import ModeKeys
from muster.estimator._words import WordNumbers
from muster.estimator.export._made_features import MadeFeatures, made_features
from muster.estimator.export._supervised_receivers import AnyReceiver, SupervisedInputReceiver
from muster.estimator.loop._batch import StepBatch
from muster.estimator.loop._host_part import HostPart, OnHost, given_key
from muster.estimator.loop._setup import EstimatorSetup
from muster.feature_column import ColumnPlaceholder, FeatureColumn, HostNeeded, host_columns, leaf_keys
from muster.saved_model import Feature, symbolic_arguments

_log = logging.getLogger(__name__)

# How often a model_fn is traced until all of its columns are known.
_TRACES = 10
_LABELS = "labels"
_SOURCES = "receiver"


@dataclass(frozen=True, kw_only=True)
class ModelInputs:
    """Holds the arguments of an exported model, and where they come from.

    Attributes:
        arguments: The arguments of its computation by key, with symbols for free sizes.
        given_batch: Returns the batch of a model_fn without what the host computes, given arguments by key.
        columns: What the host computes of features.
        rows: The argument with a zero for each row, or None.
        given: What the host takes, by key: features, and labels under keys of their own; and what others are
            made of.
        made: Makes other features of these on the host; None for none.
        for_own_code: The features of a model_fn that reads them itself, by key; none for others.
        has_text: Whether there is text among them.
        batch_keys: Their keys in the batch.
        own_code: What the host computes of them; None for nothing.
        computed: The arguments that are of that.
        host: Shows the batch to the model_fn.
        passable: The features that an answer may pass on as a request has them, by their names for
            predictions.
    """

    arguments: Mapping[str, jax.ShapeDtypeStruct]
    given_batch: Callable[[Mapping[str, Any]], StepBatch]
    columns: Sequence[FeatureColumn]
    rows: str | None
    given: Mapping[str, Placeholder]
    made: MadeFeatures | None
    for_own_code: Mapping[str, Placeholder]
    batch_keys: Mapping[str, str]
    has_text: bool = False
    own_code: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    computed: tuple[str, ...] = ()
    host: HostPart = field(default_factory=HostPart)
    passable: Mapping[str, tuple[str, Placeholder]] = field(default_factory=dict)

    def batch(self, arguments: Mapping[str, Any]) -> StepBatch:
        """Return the batch of a model_fn, given arguments by key."""
        given = {key: value for key, value in arguments.items() if key not in self.computed}
        batch = self.given_batch(given)._replace(computed={key: arguments[key] for key in self.computed})
        return self.host.widened(batch)

    def features(self, inputs: Mapping[str, Placeholder]) -> dict[str, Feature]:
        """Return where all that the host takes comes from, given what a request fills.

        Raises:
            ValueError: It does not come from there.
        """
        return {key: _feature(key, each, inputs) for key, each in self.given.items()}

    def passing(self, keys: Collection[str]) -> Self:
        """Return the same inputs, which have the features that answers pass on."""
        more = {key: each for key, each in self.passable.values() if key in keys}
        plain = {key: each for key, each in more.items() if not isinstance(each, HostPlaceholder)}
        return replace(self, given={**plain, **self.given})


def model_inputs(setup: EstimatorSetup, receiver: AnyReceiver, mode: ModeKeys) -> ModelInputs:
    """Return what a model computes with, given what a receiver has.

    Raises:
        ValueError: A feature is missing, or of a kind that the model cannot take; or a label is.
    """
    _check_features(receiver.named_features, setup.columns_read)
    return _inputs(setup, receiver, mode)


def with_columns(
    setup: EstimatorSetup,
    receiver: AnyReceiver,
    mode: ModeKeys,
    look: Callable[[EstimatorSetup, StepBatch], object],
) -> EstimatorSetup:
    """Return a model that knows the columns of its model_fn, if the receiver has what only columns take.

    It does not know them where it was trained on numbers, which columns take in a step.

    Args:
        setup: The model.
        receiver: What it is to take.
        mode: The mode.
        look: Traces a model on a batch.
    """
    features = receiver.named_features.values()
    if setup.columns_read is not None or all(_is_for_steps(each) or _is_text(each) for each in features):
        return setup
    host = HostPart()
    learning = replace(setup, host=host)
    for _ in range(_TRACES):
        inputs = _inputs(learning, receiver, mode)
        batch = inputs.batch(inputs.arguments)
        known = {key: each for key, each in batch.features.items() if not isinstance(each, OnHost)}
        try:
            with host.asking():
                look(learning, batch._replace(features=known))
        except HostNeeded as needed:
            if host.add(needed.columns):
                continue
        except Exception as exc:
            _log.debug("Columns of the model_fn cannot be told: %s", exc)
        break
    return learning if host.columns else setup


def _inputs(setup: EstimatorSetup, receiver: AnyReceiver, mode: ModeKeys) -> ModelInputs:
    features = receiver.named_features
    labels = setup.numeric_labels(receiver.labels) if isinstance(receiver, SupervisedInputReceiver) else None
    named = _named_labels(labels)
    _check_labels(named, features)
    of_columns = [each for each in features.values() if isinstance(each, ColumnPlaceholder)]
    columns = host_columns((*(setup.columns_read or ()), *(each.column for each in of_columns)))
    passed = {key: each for key, each in features.items() if not isinstance(each, ColumnPlaceholder)}
    # A model without columns reads how many rows there are; to evaluate, perhaps weights, too.
    reads_features = setup.columns_read != () or mode != ModeKeys.PREDICT
    steps = {key: each for key, each in passed.items() if reads_features and _is_for_steps(each)}
    reads_texts = setup.columns_read is None and not of_columns
    texts = {key: each for key, each in passed.items() if reads_texts and _is_text(each)}
    rows = next(iter(features)) if setup.columns_read == () and not steps else None
    computed = {key: each for key, each in steps.items() if isinstance(each, ComputedPlaceholder)}
    sources = {
        source: f"{_SOURCES}/{number}"
        for number, source in enumerate(
            {source: None for each in computed.values() for source in each.sources}
        )
    }
    of_host = {key for column in columns for key in leaf_keys(column)}
    for each in of_columns:
        passed = each.features | passed
    given = {key: _of_host(each) for key, each in passed.items() if key in of_host} | texts
    single = not isinstance(receiver.features, Mapping)
    batch_keys = {key: "features" if single else f"features[{key!r}]" for key in features}

    def batch(arguments: Mapping[str, Any]) -> StepBatch:
        left = {*named, *sources.values()}
        own = {key: value for key, value in arguments.items() if key not in left}
        own |= {key: OnHost(batch_keys[key]) for key in texts}
        for key, each in computed.items():
            own[key] = _computed(each, [arguments[sources[source]] for source in each.sources])
        own_labels = {key.removeprefix(f"{_LABELS}/"): arguments[key] for key in named}
        return StepBatch(
            next(iter(own.values())) if single else own,
            own_labels if isinstance(labels, Mapping) else own_labels.get(_LABELS),
            given={} if single else {key: OnHost(given_key(key)) for key in features},
        )

    read = {key: each for key, each in steps.items() if key not in computed}
    for_own_code = read | texts if reads_texts else {}
    read |= {name: source for source, name in sources.items()} | named
    given, made = made_features(given | read)
    return ModelInputs(
        arguments=symbolic_arguments(read, columns, rows),
        given_batch=batch,
        columns=columns,
        rows=rows,
        given=given,
        made=made,
        for_own_code=for_own_code,
        batch_keys={key: batch_keys[key] for key in for_own_code},
        has_text=bool(texts),
        passable={
            name: (key, each)
            for key, each in features.items()
            if not isinstance(each, ColumnPlaceholder | ComputedPlaceholder | WordNumbers)
            and each.shape is not None
            for name in (batch_keys[key], given_key(key))
        },
    )


def _computed(feature: ComputedPlaceholder, values: list[Any]) -> Any:
    if any(isinstance(value, jax.ShapeDtypeStruct) for value in values):
        return jax.eval_shape(lambda *arrays: feature.compute(arrays), *values)
    return feature.compute(values)


def _of_host(feature: Placeholder) -> Placeholder:
    """Return what the host reads for a feature; it computes what the receiver computes of its tensors."""
    if isinstance(feature, HostPlaceholder | ComputedPlaceholder) and feature.column_of is not None:
        return feature.column_of
    if isinstance(feature, ComputedPlaceholder):
        return HostPlaceholder(feature.dtype, feature.shape, feature.call, feature.number)
    return feature


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
        if columns is None and not (_is_for_steps(each) or _is_text(each)):
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


def _is_text(feature: Placeholder) -> bool:
    return feature.shape is not None and feature.dtype.kind == "U"


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
