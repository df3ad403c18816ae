"""The cases of ``hooks.json``: what TensorFlow's hooks did, as data."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from itertools import islice, repeat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hooks_departures import DEPARTURES
from hooks_fakes import Counter, FakeClock, RecordingWriter, TraceHook

import muster
import muster.estimator as estimator_package
from muster._keras import keras
from muster.checkpoint import write_checkpoint
from muster.data import Dataset
from muster.estimator import (
    CheckpointSaverHook,
    CheckpointSaverListener,
    Estimator,
    EstimatorSpec,
    FinalOpsHook,
    InMemoryEvaluatorHook,
    LoggingTensorHook,
    ModeKeys,
    NanTensorHook,
    ProfilerHook,
    SecondOrStepTimer,
    StepCounterHook,
    SummarySaverHook,
    make_early_stopping_hook,
    make_stop_at_checkpoint_step_hook,
)
from muster.estimator.hooks._early_stopping import read_eval_metrics
from muster.estimator.hooks._stop import StopAfterNEvalsHook
from muster.estimator.hooks._waiting import StopAtCheckpointStepHook
from muster.program import Output
from muster.summary import EventFileWriter, read_events
from recorded import cases, check_error, check_same, decode, unused

_LOOPS = (
    "StopAtStepHook",
    "CheckpointSaverHook",
    "StepCounterHook",
    "NanTensorHook",
    "LoggingTensorHook",
    "SummarySaverHook",
    "FinalOpsHook",
    "StopAfterNEvalsHook",
    "GlobalStepWaiterHook",
    "ProfilerHook",
    "StopAtCheckpointStepHook",
    "lifecycle",
)


def _cases(*families: str) -> list[Any]:
    """Return a parameter for each case of these families."""
    return cases("hooks", lambda case: case["name"].partition("/")[0] in families, DEPARTURES)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    return FakeClock(monkeypatch)


@pytest.fixture
def logs(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> Callable[[], list[list[str]]]:
    """What has been logged, in the form of the oracle."""
    caplog.set_level(logging.INFO, "muster")

    def read() -> list[list[str]]:
        return [
            [record.levelname, _plain(record.getMessage(), tmp_path)]
            for record in caplog.records
            if record.name.startswith("muster")
        ]

    return read


def _plain(text: str, folder: Path) -> str:
    return text.replace(str(folder), "<model_dir>").replace("<model_dir>/ckpt", "<model_dir>/model.ckpt")


def _numbers_of(text: str) -> str:
    """A text with its floats to 5 digits, for the oracle's are those of doubles."""
    return re.sub(r"\d+\.\d{6,}", lambda number: f"{float(number[0]):.5g}", text)


@pytest.mark.parametrize("case", _cases("SecondOrStepTimer"))
def test_timer(case: dict[str, Any], clock: FakeClock) -> None:
    given, expected = case["input"], case["expect"]
    if "error" in expected:
        with pytest.raises(ValueError, match="every_secs") as raised:
            SecondOrStepTimer(**given["kwargs"])
        check_error(expected["error"], raised.value)
        return
    timer = SecondOrStepTimer(**given["kwargs"])

    def call(name: str, *args: Any) -> Any:
        match name:
            case "advance_clock":
                clock.now += args[0]
                return None
            case "if_should_update":
                due = timer.should_trigger_for_step(*args)
                return [due, timer.update_last_triggered_step(*args) if due else None]
            case _:
                return getattr(timer, name)(*args)

    check_same([call(*line) for line in given["script"]], decode(expected["value"], {}))


class _Listener(CheckpointSaverListener):
    """Records, and answers what the case says."""

    def __init__(self, events: list[Any], name: str, stop_at: int | None = None, **answer: bool) -> None:
        self._events = events
        self._name = name
        self._stop_at = stop_at
        self._answer = answer.get("return")

    def __str__(self) -> str:
        return "<canned listener>"

    def begin(self) -> None:
        self._events.append([self._name, "begin"])

    def before_save(self, session: Any, global_step_value: int) -> None:
        self._events.append([self._name, "before_save", global_step_value])

    def after_save(self, session: Any, global_step_value: int) -> bool | None:
        self._events.append([self._name, "after_save", global_step_value])
        if self._stop_at is not None:
            return global_step_value >= self._stop_at
        return self._answer

    def end(self, session: Any, global_step_value: int) -> None:
        self._events.append([self._name, "end", global_step_value])


class _Scaffold:
    """A scaffold, as far as summaries go."""

    summary_op = "v"


_ERRORS = {"RuntimeError": RuntimeError, "OutOfRangeError": StopIteration, "StopIteration": StopIteration}
_FINAL_OPS = {"none": None, "single": "2step", "list": ["2step", "p"], "dict": {"d": "2step", "p": "p"}}


def _make_hook(given: dict[str, Any], events: list[Any], folder: Path, counter: Counter) -> Any:
    kwargs = dict(given["kwargs"])
    writer = RecordingWriter(events) if given.get("writer", True) else None
    match given["kind"]:
        case "CheckpointSaverHook":
            listeners = [_Listener(events, **listener) for listener in given.get("listeners", ())]
            if given.get("saver"):
                kwargs["saver"] = lambda session, step, wait: session.save(step, wait)
            if given.get("scaffold"):
                kwargs["scaffold"] = object()
            return CheckpointSaverHook(folder, listeners=listeners, **kwargs)
        case "StepCounterHook":
            return StepCounterHook(summary_writer=writer, **kwargs)
        case "SummarySaverHook":
            if given.get("scaffold"):
                kwargs["scaffold"] = _Scaffold()
            if given.get("summary_op", True):
                kwargs["summary_op"] = ["v", "v"] if given.get("two") else "v"
            return SummarySaverHook(summary_writer=writer, **kwargs)
        case "NanTensorHook":
            return NanTensorHook("loss", **kwargs)
        case "LoggingTensorHook":
            if kwargs["tensors"] == "tensor objects":
                kwargs["tensors"] = {"l": Output("loss"), "d": Output("double")}
            if kwargs.get("formatter") == "sorted items":
                kwargs["formatter"] = lambda values: " / ".join(f"{k}:{v}" for k, v in sorted(values.items()))
            return LoggingTensorHook(**kwargs)
        case "FinalOpsHook":
            return FinalOpsHook(_FINAL_OPS[given["ops"]], **kwargs)
        case "trace":
            error = (lambda: _ERRORS[given["raise"]]("canned")) if "raise" in given else None
            wanted = ("stop_after", "stop_in_before_run", "raise_after")
            options = {key: given[key] for key in wanted if key in given}
            return TraceHook(given["name"], events, error=error, **options)
        case "ProfilerHook":
            return ProfilerHook(output_dir=folder, **kwargs)
        case "StopAtCheckpointStepHook":
            return StopAtCheckpointStepHook(folder, **kwargs)
        case "StopAfterNEvalsHook":
            return StopAfterNEvalsHook(**kwargs)
        case kind:
            return getattr(estimator_package, kind)(**kwargs)


@pytest.mark.parametrize("case", _cases(*_LOOPS))
def test_hook_loop(
    case: dict[str, Any],
    clock: FakeClock,
    logs: Callable[[], list[list[str]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given, expected = decode(case["input"], {}), decode(case["expect"], {})
    events: list[Any] = []
    start = given.get("start_step", 0)
    counter = Counter(start, given.get("increment", 1), given.get("values", [0.0]))
    if "sleep_increments" in given or given.get("record_sleep"):

        def sleep(secs: float) -> None:
            clock.now += secs
            events.append(["sleep", secs])
            counter.advance(given.get("sleep_increments", 0))

        monkeypatch.setattr("muster.estimator.session.clock.sleep", sleep)
        counter.session.look_up_step = lambda: counter.session.global_step
    runs, step, stopped_at, error = 0, None, None, None
    made: list[Any] = []
    try:
        made += [_make_hook(hook, events, tmp_path, counter) for hook in given["hooks"]]
        with counter.training(made) as training:
            step = start
            while not training.should_stop() and runs < given.get("max_runs", 20):
                clock.now += given.get("secs_per_run", 1.0)
                training.run()
                runs += 1
                step = counter.session.global_step
                if str(runs) in given.get("checkpoints_appear", ()):
                    write_checkpoint(tmp_path, given["checkpoints_appear"][str(runs)], {}, {})
            stopped_at = runs if training.should_stop() else None
    except (ValueError, RuntimeError, KeyError) as exc:
        error = exc

    if "error" in expected:
        assert error is not None
        check_error(expected["error"], error)
    elif error is not None:
        raise error
    assert runs == expected["runs"]
    # A session exists here before TensorFlow would look at names, so there may be a step where it has none.
    assert step == expected["global_step"] or expected["global_step"] is None
    assert stopped_at == expected["stop_requested_at_run"]
    # The share of input in the time is an addition.
    recorded = [event for event in events if event[1:2] != ["input_wait"]]
    check_same(recorded, expected.get("events", []), "events")
    assert logs() == expected["logs"]
    if "final_ops_values" in expected:
        check_same(made[0].final_ops_values, expected["final_ops_values"], "final_ops_values")
    if "timelines" in expected:
        assert sorted(path.name for path in tmp_path.iterdir()) == expected["timelines"]
        assert all(list(path.rglob("perfetto_trace.json.gz")) for path in tmp_path.iterdir())
    if "checkpoints_on_disk" in expected:
        # How many of them are kept is up to what saves.
        assert [step for step, _ in counter.saved][-5:] == expected["checkpoints_on_disk"]


class _Estimator:
    """An Estimator, as far as early stopping goes."""

    def __init__(self, model_dir: Path) -> None:
        self._model_dir = model_dir

    def eval_dir(self, name: str | None = None) -> str:
        return str(self._model_dir / (f"eval_{name}" if name else "eval"))


def _write_evaluations(folder: str, evaluations: list[Any]) -> Path:
    with EventFileWriter(folder) as writer:
        for step, metrics in evaluations:
            writer.add_scalars(metrics, step)
    return Path(writer.path)


@pytest.mark.parametrize("case", _cases("make_early_stopping_hook"))
def test_make_early_stopping_hook(
    case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, expected = case["input"], case["expect"]
    for name, value in given.get("env", {}).items():
        monkeypatch.setenv(name, value)
    estimator = given.get("estimator") or _Estimator(tmp_path)
    kwargs = {"should_stop_fn": lambda: False} | decode(
        given.get("kwargs", {}), {"$fn": lambda _: lambda: False}
    )
    if "error" in expected:
        with pytest.raises((ValueError, TypeError)) as raised:
            make_early_stopping_hook(estimator, **kwargs)
        check_error(expected["error"], raised.value)
    else:
        hook = make_early_stopping_hook(estimator, **kwargs)
        assert type(hook).__name__ == expected["value"]["type"].lstrip("_")


@pytest.mark.parametrize(
    "case",
    _cases(
        "stop_if_higher_hook", "stop_if_lower_hook", "stop_if_no_increase_hook", "stop_if_no_decrease_hook"
    ),
)
def test_stop_if(
    case: dict[str, Any], clock: FakeClock, logs: Callable[[], list[list[str]]], tmp_path: Path
) -> None:
    given, expected = decode(case["input"], {}), case["expect"]
    estimator = _Estimator(tmp_path)
    folder = estimator.eval_dir(given.get("eval_name"))
    paths = [_write_evaluations(folder, evaluations) for evaluations in given["event_files"]]
    if given.get("damage_first_file"):
        paths[0].write_bytes(paths[0].read_bytes()[:-5])
    kwargs = given["kwargs"] | ({"eval_dir": folder} if given.get("pass_eval_dir") else {})

    def stops() -> bool:
        hook = getattr(estimator_package, given["function"])(estimator, **kwargs)
        with Counter().training([hook]) as training:
            training.run()
            return training.should_stop()

    if "error" in expected:
        with pytest.raises((KeyError, TypeError)) as raised:
            stops()
        error = expected["error"]
        check_error(error | {"message": error["message"].replace("<model_dir>", str(tmp_path))}, raised.value)
        return
    assert stops() is expected["value"]
    found = [[level, _numbers_of(text)] for level, text in logs() if "Requesting early" not in text]
    assert found == [[level, _numbers_of(text)] for level, text in expected["logs"]]


@pytest.mark.parametrize("case", _cases("read_eval_metrics"))
def test_read_eval_metrics(case: dict[str, Any], tmp_path: Path) -> None:
    for evaluations in case["input"]["event_files"] or ():
        _write_evaluations(str(tmp_path / "eval"), evaluations)
    found = read_eval_metrics(tmp_path / "eval")
    check_same([[step, metrics] for step, metrics in found.items()], case["expect"]["value"])


@pytest.mark.parametrize("case", _cases("early_stopping_run"))
def test_early_stopping_run(
    case: dict[str, Any], clock: FakeClock, logs: Callable[[], list[list[str]]], tmp_path: Path
) -> None:
    given, expected = case["input"], case["expect"]
    estimator, counter = _Estimator(tmp_path), Counter()
    answers: Iterator[bool] = iter(given.get("answers", ()))
    asked: list[list[Any]] = []

    def should_stop() -> bool:
        asked.append([counter.session.global_step, next(answers, False)])
        return asked[-1][1]

    kwargs = dict(given["kwargs"])
    if given["function"] == "make_early_stopping_hook":
        kwargs["should_stop_fn"] = should_stop
    hook = getattr(estimator_package, given["function"])(estimator, **kwargs)
    evaluations = {step: metrics for step, metrics in given.get("evals", ())}
    with counter.training([hook], islice(repeat(None), given["max_steps"])) as training:
        while not training.should_stop():
            clock.now += 1.0
            step = counter.session.global_step + 1
            if step in evaluations:
                _write_evaluations(estimator.eval_dir(), [[step, evaluations[step]]])
            training.run()

    assert counter.session.global_step == expected["value"]["trained_to_step"]
    assert asked == expected["value"].get("should_stop_fn_calls", asked)
    # TensorFlow reads the step of the log line while it is incremented, and usually gets the one before.
    found = [[level, _numbers_of(text)] for level, text in logs()]
    recorded = [[level, _numbers_of(_one_later(text))] for level, text in expected["logs"]]
    assert found == recorded


def _one_later(text: str) -> str:
    return re.sub(r"(?<=at global step )\d+", lambda step: str(int(step[0]) + 1), text)


def ones() -> Dataset:
    return Dataset.from_tensors((np.ones(3, np.float32), np.ones(3, np.float32))).repeat()


def counts(features: Any, labels: Any, mode: ModeKeys) -> EstimatorSpec:
    """A model whose loss is the number of its steps."""
    weight = keras.Variable(0.0, name="weight")
    loss = keras.ops.mean(features) * weight
    if mode == ModeKeys.EVAL:
        return EstimatorSpec(mode, loss=loss)
    train_op = muster.minimize(keras.optimizers.SGD(1.0), -loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=-loss, train_op=train_op)


@pytest.mark.parametrize("case", _cases("make_stop_at_checkpoint_step_hook"))
def test_make_stop_at_checkpoint_step_hook(
    case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = case["input"]
    for name, value in given["env"].items():
        monkeypatch.setenv(name, value)
    estimator = Estimator(counts, tmp_path)
    hook = make_stop_at_checkpoint_step_hook(estimator, **given["kwargs"])
    assert type(hook).__name__ == case["expect"]["value"]["type"].lstrip("_")


@pytest.mark.parametrize("case", _cases("InMemoryEvaluatorHook"))
def test_in_memory_evaluator(case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given, expected = case["input"], case["expect"]
    for name, value in given["env"].items():
        monkeypatch.setenv(name, value)
    estimator = Estimator(counts, tmp_path)

    def make(**kwargs: Any) -> InMemoryEvaluatorHook:
        return InMemoryEvaluatorHook(estimator, ones, steps=1, **kwargs)

    if "error" in expected:
        with pytest.raises((ValueError, TypeError)) as raised:
            make(**given["kwargs"])
        check_error(expected["error"], raised.value)
        return
    hook = make(**given["kwargs"])
    for training in given["train"]:
        estimator.train(ones, [hook], **training)
    events = read_events(tmp_path / "eval")
    steps = [event.step for event in events if event.tag == "loss"]
    assert [["<model_dir>/eval", step] for step in steps] == expected["value"]["evaluations"]
    # The loss is that of the values in memory: the global step itself.
    assert [event.value for event in read_events(tmp_path / "eval") if event.tag == "loss"] == steps


@pytest.mark.parametrize("case", _cases("FeedFnHook"))
def test_hook_that_muster_does_not_have(case: dict[str, Any]) -> None:
    pytest.fail("a family without a test must be a departure as a whole")


def test_every_departure_is_of_use() -> None:
    assert unused("hooks", DEPARTURES) == []
