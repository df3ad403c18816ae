"""Export an Estimator's model, for `Estimator.export_saved_model`."""

import dataclasses
import logging
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from muster._arrays import AnyArray
from muster._errors import DatasetError, SavedModelError
from muster._paths import local_path
from muster.checkpoint import Checkpoint, close_files
from muster.distribute.engine import is_hashed, with_tables, without_tables
from muster.distribute.input import Position, StepInput
from muster.estimator._estimator_spec import EstimatorSpec, ExportOutput, ModeKeys
from muster.estimator._model_fn import call_model_fn
from muster.estimator._words import Words
from muster.estimator.export._model_inputs import ModelInputs, model_inputs, with_columns
from muster.estimator.export._own_code import PassedOn, with_own_code
from muster.estimator.export._receivers import ServingInputReceiver, TensorServingInputReceiver
from muster.estimator.export._signatures import plan_signatures, values_of
from muster.estimator.export._supervised_outputs import outputs_of
from muster.estimator.export._supervised_receivers import AnyReceiver, ReceiverFn, SupervisedInputReceiver
from muster.estimator.loop._batch import StepBatch
from muster.estimator.loop._host_part import HostPart
from muster.estimator.loop._setup import EstimatorSetup
from muster.program import name_output
from muster.saved_model import Computation, Output, SignatureToSave, any_number_of_rows, save, trace

_log = logging.getLogger(__name__)

_EXTRA = "assets.extra"


class _Shapes(StepInput):
    """Has shapes to trace with, and no batches."""

    share = "what is exported"

    def __init__(self, example: StepBatch) -> None:
        self.example = example

    def __next__(self) -> Any:
        raise StopIteration

    def position(self, steps: int | None = None) -> Position:
        return Position()


class _Exported(NamedTuple):
    """A traced model.

    Attributes:
        computation: All that it answers.
        outputs: The outputs of the model_fn, by name.
        answers: Of each of them, the outputs by the names of the answers: the computation's, or the host's.
        inputs: What it computes with, and what the host does.
    """

    computation: Computation
    outputs: Mapping[str, ExportOutput]
    answers: Mapping[str, Mapping[str, Output]]
    inputs: ModelInputs


def export(
    setup: EstimatorSetup,
    checkpoint: Checkpoint | None,
    export_dir: str,
    receiver_fns: Mapping[ModeKeys, ReceiverFn],
    assets_extra: Mapping[str, str | os.PathLike[str]] | None,
) -> None:
    """Write the model of an Estimator as a saved model.

    Args:
        setup: The Estimator's model and config.
        checkpoint: Its weights; None for those that it is warm-started from.
        export_dir: The folder to write.
        receiver_fns: By mode, functions that return what requests fill.
        assets_extra: Files to copy into the folder ``assets.extra``: their paths by those that they get
            there.

    Raises:
        TypeError: A function returns something else than a receiver.
        ValueError: The features do not fit the model, or there are two signatures of one name.
        SavedModelError: The model cannot be exported, or not be written.
    """
    extra = {os.path.join(_EXTRA, name): local_path(source) for name, source in (assets_extra or {}).items()}
    signatures: dict[str, SignatureToSave] = {}
    weights: dict[str, AnyArray] = {}
    # As in TensorFlow, variables that the modes share have the values of the first of them.
    try:
        for mode in (ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT):
            if mode not in receiver_fns:
                continue
            found = _signatures(setup, checkpoint, mode, receiver_fns[mode], weights)
            if taken := sorted(signatures.keys() & found.keys()):
                raise ValueError(
                    f"The export_outputs are called {taken}, as the signatures to train and to evaluate are. "
                    "Give them other names, or export this mode by itself."
                )
            signatures |= found
        save(export_dir, signatures, extra)
    finally:
        close_files(without_tables(weights).values())


def receivers_by_mode(receiver_fns: Mapping[str, ReceiverFn]) -> dict[ModeKeys, ReceiverFn]:
    """Return functions that return receivers by their modes.

    Raises:
        ValueError: There are none, or a key is no mode.
    """
    unknown = [mode for mode in receiver_fns if mode not in tuple(ModeKeys)]
    if unknown or not receiver_fns:
        raise ValueError(
            f"No valid modes for exporting found. Got {list(receiver_fns)}. "
            f"There are {', '.join(repr(str(mode)) for mode in ModeKeys)}."
        )
    return {ModeKeys(mode): receiver_fn for mode, receiver_fn in receiver_fns.items()}


def _signatures(
    setup: EstimatorSetup,
    checkpoint: Checkpoint | None,
    mode: ModeKeys,
    receiver_fn: ReceiverFn,
    weights: dict[str, AnyArray],
) -> dict[str, SignatureToSave]:
    """Return the signatures of a model in a mode, by name.

    Args:
        setup: The model.
        checkpoint: Its weights.
        mode: The mode.
        receiver_fn: Returns what requests fill.
        weights: The weights of other modes, to which those of this one are added.
    """
    receiver = _called(receiver_fn, mode)

    def look(of: EstimatorSetup, batch: StepBatch) -> None:
        with any_number_of_rows():
            of.trace(mode, _Shapes(batch), checkpoint)

    setup = with_columns(setup, receiver, mode, look)
    inputs = model_inputs(setup, receiver, mode)
    try:
        if inputs.has_text:
            exported = _traced_with_own_code(setup, checkpoint, mode, inputs, weights)
        else:
            exported = _traced_with_numbers(setup, checkpoint, mode, inputs, weights)
    except KeyError as exc:
        given = (
            ", ".join(sorted(receiver.features)) if isinstance(receiver.features, Mapping) else "one tensor"
        )
        exc.add_note(
            f"serving_input_receiver_fn gives the features: {given}. Should the model_fn read others, let it "
            "return these, too."
        )
        raise
    inputs = exported.inputs
    plans = plan_signatures(
        exported.outputs, receiver.receiver_tensors, receiver.receiver_tensors_alternatives
    )
    return {
        name: SignatureToSave(
            method_name=plan.method_name,
            inputs=plan.inputs,
            outputs=exported.answers[plan.output],
            computation=exported.computation,
            features=inputs.features(plan.inputs),
            columns=inputs.columns,
            rows=inputs.rows,
            made=inputs.made,
            own_code=inputs.own_code,
        )
        for name, plan in plans.items()
    }


def _called(receiver_fn: ReceiverFn, mode: ModeKeys) -> AnyReceiver:
    if not callable(receiver_fn):
        raise TypeError(
            f"serving_input_receiver_fn must be a function, got {receiver_fn!r}. "
            "build_parsing_serving_input_receiver_fn(feature_spec) returns one."
        )
    receiver = receiver_fn()
    if isinstance(receiver, ServingInputReceiver | TensorServingInputReceiver):
        return receiver
    if isinstance(receiver, SupervisedInputReceiver) and mode != ModeKeys.PREDICT:
        return receiver
    wanted = "" if mode == ModeKeys.PREDICT else "SupervisedInputReceiver or "
    raise TypeError(
        f"serving_input_receiver_fn must return a {wanted}ServingInputReceiver in the mode {str(mode)!r}, "
        f"got {receiver!r}."
    )


def _traced_with_numbers(
    setup: EstimatorSetup,
    checkpoint: Checkpoint | None,
    mode: ModeKeys,
    inputs: ModelInputs,
    weights: dict[str, AnyArray],
) -> _Exported:
    """Trace a model_fn of numbers; if it makes text of some, as it does of keys, the host is to do so."""
    try:
        return _traced(setup, checkpoint, mode, inputs, weights)
    except DatasetError:
        if not inputs.for_own_code:
            raise
        for keeps_integers in (True, False):
            try:
                return _traced_with_own_code(
                    setup, checkpoint, mode, inputs, weights, keeps_integers=keeps_integers
                )
            except Exception as exc:
                _log.debug("The host cannot do it, either: %s", exc)
        raise


def _traced_with_own_code(
    setup: EstimatorSetup,
    checkpoint: Checkpoint | None,
    mode: ModeKeys,
    inputs: ModelInputs,
    weights: dict[str, AnyArray],
    *,
    keeps_integers: bool = False,
) -> _Exported:
    """Trace a model_fn that reads text on the shapes of requests, and find out what the host computes."""

    def look(batch: StepBatch, host: HostPart) -> None:
        dataclasses.replace(setup, host=host).trace(mode, _Shapes(batch), checkpoint)

    failures: list[Exception] = []
    for ways in with_own_code(inputs, look, keeps_integers=keeps_integers):
        own = dataclasses.replace(setup, host=ways.host)
        try:
            exported = _traced(own, checkpoint, mode, ways, weights)
        except Exception as exc:
            failures.append(exc)
            continue
        if ways.host.work.learn():
            raise SavedModelError(
                "The model_fn computes with text otherwise in each trace, so that what it needs of the host "
                "is not known. Let it call functions with the same arguments each time."
            )
        return exported
    raise failures[0]


def _traced(
    setup: EstimatorSetup,
    checkpoint: Checkpoint | None,
    mode: ModeKeys,
    inputs: ModelInputs,
    weights: dict[str, AnyArray],
) -> _Exported:
    """Trace a model_fn on the shapes of requests."""
    outputs: dict[str, ExportOutput] = {}
    answers: dict[str, dict[str, Output]] = {}
    passed = PassedOn(inputs)

    def model_fn(features: Any, labels: Any, mode: ModeKeys, params: Any, config: Any) -> EstimatorSpec:
        spec = call_model_fn(setup.model_fn, features, labels, mode, params, config)
        outputs.update(outputs_of(spec))
        answers.update(_named_answers(outputs, passed))
        return spec

    with any_number_of_rows():
        tracing = dataclasses.replace(setup, model_fn=model_fn)
        program, state = tracing.trace(mode, _Shapes(inputs.batch(inputs.arguments)), checkpoint)
    if mode == ModeKeys.TRAIN and (hashed := [v.path for v in program.variables if is_hashed(v.shape)]):
        raise SavedModelError(
            f"{hashed[0]} is of a hashed table, which an export cannot train. Leave out the mode 'train'."
        )
    state.update((path, value) for path, value in weights.items() if path in state)
    # Metrics begin anew: their variables are constants, and not among the weights.
    fresh: dict[str, Any] = {v.path: state.pop(v.path) for v in program.variables if v.local}
    weights.update(state)
    names = {output.name for own in answers.values() for output in own.values() if output.spec is None}

    def answer(weights: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
        return program.compute_outputs(names, {**fresh, **with_tables(weights)}, inputs.batch(arguments))

    computation = trace(answer, without_tables(state), inputs.arguments)
    return _Exported(computation, outputs, answers, passed.added())


def _named_answers(outputs: Mapping[str, ExportOutput], passed: PassedOn) -> dict[str, dict[str, Output]]:
    """Give the answers of each output names by which they leave the step; each value has one.

    Args:
        outputs: The outputs of the model_fn, by name.
        passed: Knows the values that the host has, which do not leave the step.
    """
    names: dict[int, str] = {}
    answers: dict[str, dict[str, Output]] = {}
    for signature, output in outputs.items():
        try:
            found = values_of(output)
        except ValueError:
            continue  # `plan_signatures` says why it is left out
        answers[signature] = {}
        for key, value in found.items():
            if (of_host := passed.output(key, value)) is not None:
                answers[signature][key] = of_host
                continue
            ids, words = (value.ids, value.vocabulary) if isinstance(value, Words) else (value, None)
            if id(value) not in names:
                names[id(value)] = name_output(f"{signature}/{key}", ids).name
            answers[signature][key] = Output(names[id(value)], words)
    return answers
