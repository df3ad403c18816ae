"""Exporting the model of an Estimator: what `Estimator.export_saved_model` does."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from muster.checkpoint import Checkpoint
from muster.data import Placeholder
from muster.estimator._estimator_spec import EstimatorSpec, ExportOutput
from muster.estimator._mode_keys import ModeKeys
from muster.estimator._model_fn import call_model_fn
from muster.estimator._words import Words
from muster.estimator.export._receivers import (
    AnyReceiver,
    ReceiverFn,
    ServingInputReceiver,
    TensorServingInputReceiver,
)
from muster.estimator.export._signatures import plan_signatures, values_of
from muster.estimator.loop._batches import Batch
from muster.estimator.loop._setup import ModelSetup
from muster.estimator.loop._tracing import PREDICTIONS
from muster.feature_column import ColumnPlaceholder, FeatureColumn, host_columns, leaf_keys
from muster.saved_model import (
    Computation,
    Feature,
    Output,
    SignatureToSave,
    any_number_of_rows,
    save,
    symbolic_arguments,
    trace,
)

_EXTRA = "assets.extra"


class _Shapes(NamedTuple):
    example: Batch
    share: str = "what is exported"


class _Exported(NamedTuple):
    """A traced model.

    Attributes:
        computation: All that it answers.
        outputs: The outputs of the model_fn, by name.
        answers: Of each of them, the computation's outputs by the names of the answers.
    """

    computation: Computation
    outputs: Mapping[str, ExportOutput]
    answers: Mapping[str, Mapping[str, Output]]


def export(
    setup: ModelSetup,
    checkpoint: Checkpoint | None,
    export_dir: str,
    serving_input_receiver_fn: ReceiverFn,
    assets_extra: Mapping[str, str | os.PathLike[str]] | None,
) -> None:
    """Write the model of an Estimator as a saved model.

    Args:
        setup: The Estimator's model and config.
        checkpoint: Its weights; None for those that it is warm-started from.
        export_dir: The folder to write.
        serving_input_receiver_fn: Returns what requests fill.
        assets_extra: Files to copy into the folder ``assets.extra``: their paths by those that they get
            there.

    Raises:
        TypeError: The function returns something else than a receiver.
        ValueError: The features do not fit the model, or there is no signature.
        SavedModelError: The model cannot be exported, or not be written.
    """
    receiver = _called(serving_input_receiver_fn)
    given = receiver.named_features
    _check_features(given, setup.columns)
    computed = [each for each in given.values() if isinstance(each, ColumnPlaceholder)]
    columns = host_columns((*(setup.columns or ()), *(each.column for each in computed)))
    rows = next(iter(given)) if setup.columns == () else None
    passed = {key: each for key, each in given.items() if not isinstance(each, ColumnPlaceholder)}
    steps = {key: each for key, each in passed.items() if rows is None and _is_for_steps(each)}
    arguments = symbolic_arguments(steps, columns, rows)
    exported = _traced(setup, checkpoint, isinstance(receiver, TensorServingInputReceiver), arguments)
    plans = plan_signatures(
        exported.outputs, receiver.receiver_tensors, receiver.receiver_tensors_alternatives
    )
    needed = {key for column in columns for key in leaf_keys(column)} | steps.keys()
    for each in computed:
        passed = each.features | passed
    features = {key: each for key, each in passed.items() if key in needed}
    signatures = {
        name: SignatureToSave(
            method_name=plan.method_name,
            inputs=plan.inputs,
            outputs=exported.answers[plan.output],
            computation=exported.computation,
            features={key: _feature(key, each, plan.inputs) for key, each in features.items()},
            columns=columns,
            rows=rows,
        )
        for name, plan in plans.items()
    }
    extra = {os.path.join(_EXTRA, name): source for name, source in (assets_extra or {}).items()}
    save(export_dir, signatures, extra)


def receiver_for_predictions(receivers: Mapping[str, ReceiverFn]) -> ReceiverFn:
    """Return the function for the mode PREDICT.

    Raises:
        ValueError: There is none, or one for another mode.
    """
    others = [str(mode) for mode in receivers if mode != ModeKeys.PREDICT]
    if others or not receivers:
        raise ValueError(
            f"A model is exported in the mode {str(ModeKeys.PREDICT)!r}, to predict, and not in {others}: to "
            "train and to evaluate, use the program and its checkpoints."
        )
    return receivers[ModeKeys.PREDICT]


def _called(serving_input_receiver_fn: ReceiverFn) -> AnyReceiver:
    if not callable(serving_input_receiver_fn):
        raise TypeError(
            f"serving_input_receiver_fn must be a function, got {serving_input_receiver_fn!r}. "
            "build_parsing_serving_input_receiver_fn(feature_spec) returns one."
        )
    receiver = serving_input_receiver_fn()
    if not isinstance(receiver, ServingInputReceiver | TensorServingInputReceiver):
        raise TypeError(f"serving_input_receiver_fn must return a ServingInputReceiver, got {receiver!r}.")
    return receiver


def _check_features(features: Mapping[str, Placeholder], columns: Sequence[FeatureColumn] | None) -> None:
    """Check that a model gets the features that it reads.

    Raises:
        ValueError: One is missing, or is of a kind that the model cannot take.
    """
    missing = {key for column in columns or () for key in leaf_keys(column)} - features.keys()
    if missing:
        raise ValueError(
            f"The model reads the features {sorted(missing)}, which serving_input_receiver_fn does not give. "
            f"It gives: {', '.join(sorted(features)) or 'none'}."
        )
    for key, each in features.items():
        if columns is None and not _is_for_steps(each):
            raise ValueError(
                f"The feature {key} is {'sparse' if each.shape is None else 'text'}, and a model_fn computes "
                "with arrays of numbers. Leave it out, or let columns take it: "
                "transform_features(features, feature_columns)."
            )


def _is_for_steps(feature: Placeholder) -> bool:
    return feature.shape is not None and feature.dtype.kind in "biufcV"


def _traced(
    setup: ModelSetup, checkpoint: Checkpoint | None, single: bool, arguments: Mapping[str, Any]
) -> _Exported:
    """Trace a model_fn on the shapes of requests.

    Args:
        setup: The model.
        checkpoint: Its weights.
        single: Whether the model_fn takes one array rather than a dict.
        arguments: The features, with symbols for free sizes.
    """

    def batch(features: Mapping[str, Any]) -> Batch:
        return Batch(next(iter(features.values())) if single else dict(features), None)

    def model_fn(features: Any, labels: Any, mode: ModeKeys, params: Any, config: Any) -> EstimatorSpec:
        spec = call_model_fn(setup.model_fn, features, labels, mode, params, config)
        _, values = _answers(spec.export_outputs or {})
        return spec._replace(predictions=values)

    with any_number_of_rows():
        tracing = dataclasses.replace(setup, model_fn=model_fn)
        program, state = tracing.trace(ModeKeys.PREDICT, _Shapes(batch(arguments)), checkpoint)

    def answer(weights: Mapping[str, Any], features: Mapping[str, Any]) -> dict[str, Any]:
        _, outputs = program.step(dict(weights), batch(features))
        values = outputs[PREDICTIONS]
        return {name: each.ids if isinstance(each, Words) else each for name, each in values.items()}

    outputs = program.static.export_outputs or {}
    return _Exported(trace(answer, state, arguments), outputs, _answers(outputs)[0])


def _answers(outputs: Mapping[str, ExportOutput]) -> tuple[dict[str, dict[str, Output]], dict[str, Any]]:
    """Return where the answers of each output are found among values, and these, each once."""
    names: dict[int, str] = {}
    answers: dict[str, dict[str, Output]] = {}
    values: dict[str, Any] = {}
    for signature, output in outputs.items():
        try:
            found = values_of(output)
        except ValueError:
            continue  # `plan_signatures` says why it is left out
        answers[signature] = {}
        for key, value in found.items():
            name = names.setdefault(id(value), f"{signature}/{key}")
            values[name] = value
            answers[signature][key] = Output(name, value.vocabulary if isinstance(value, Words) else None)
    return answers, values


def _feature(key: str, placeholder: Placeholder, inputs: Mapping[str, Placeholder]) -> Feature:
    """Return where a feature comes from, given what a request fills."""
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
