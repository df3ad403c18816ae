"""The model, hooks, listeners and exporters of the recorded runs, which write down what happens."""

import os
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from muster._keras import keras
from muster.data import Dataset, Placeholder
from muster.estimator import (
    BestExporter,
    CheckpointSaverHook,
    CheckpointSaverListener,
    FinalExporter,
    LatestExporter,
    SessionRunHook,
    StopAtStepHook,
    TensorServingInputReceiver,
    stop_if_lower_hook,
    stop_if_no_increase_hook,
)
from muster.estimator._estimator import Estimator
from muster.estimator._estimator_spec import EstimatorSpec, PredictOutput
from muster.estimator.exporters._exporter import Exporter
from muster.estimator.roles._continuous_eval import ContinuousEvalListener, EvalResult
from muster.estimator.session import clock
from muster.program import get_or_create_global_step, minimize
from muster.summary import read_events

EXAMPLES = 64
ORDINALS = np.arange(EXAMPLES)
FEATURES = np.stack([ORDINALS / EXAMPLES, (7 * ORDINALS % EXAMPLES) / EXAMPLES], 1).astype("float32")
LABELS = (FEATURES @ np.array([[2], [-3]], "float32") + np.float32(0.5)).astype("float32")


class Clock:
    """A clock that only sleeping and the run itself move."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.start = self.time = 1_700_000_000.0
        for name in ("now", "date"):
            monkeypatch.setattr(clock, name, lambda: self.time)
        monkeypatch.setattr(clock, "sleep", self.sleep)

    def sleep(self, secs: float) -> None:
        self.time += secs


def make_input_fn(batch_size: int = 8, epochs: int | None = 1) -> Any:
    """Return an input function over the examples in their order."""

    def input_fn() -> Dataset:
        return Dataset.from_tensor_slices((FEATURES, LABELS)).batch(batch_size).repeat(epochs)

    return input_fn


def model_fn(features: Any, labels: Any, mode: str, params: dict[str, Any]) -> EstimatorSpec:
    """Linear regression from zeros, trained by plain gradient descent."""
    w = keras.Variable(np.zeros((2, 1), "float32"), name="w")
    b = keras.Variable(np.zeros(1, "float32"), name="b")
    y = features @ w + b
    if mode == "infer":
        return EstimatorSpec(mode, {"y": y}, export_outputs={"serving_default": PredictOutput({"y": y})})
    loss = keras.ops.mean((y - labels) ** 2)
    if mode == "eval":
        mean = keras.metrics.Mean(name="mean_prediction")
        mean.update_state(y)
        name = "loss" if params.get("metric_named_loss") else "mean_prediction"
        return EstimatorSpec(mode, loss=loss, eval_metric_ops={name: mean})
    train_op = minimize(keras.optimizers.SGD(0.1), loss, global_step=get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


def checkpoint_name(path: str | None) -> str | None:
    """Return the last part of a path, in TensorFlow's form."""
    return None if path is None else os.path.basename(path).replace("ckpt-", "model.ckpt-")


class RecordingEstimator(Estimator):
    """Writes down its evaluations."""

    def __init__(self, events: list[Any], secs_per_eval: float, clock: Clock | None, **kwargs: Any) -> None:
        super().__init__(model_fn, **kwargs)
        self._events = events
        self._secs_per_eval = secs_per_eval
        self.clock = clock

    def evaluate(
        self,
        input_fn: Any,
        steps: Any = None,
        hooks: Any = None,
        checkpoint_path: str | None = None,
        name: str | None = None,
    ) -> dict[str, Any]:
        begin = {"checkpoint": checkpoint_name(checkpoint_path), "steps": steps, "name": name}
        self._events.append({"event": "eval_begin"} | begin)
        batches = RunCounter()
        metrics = super().evaluate(input_fn, steps, [*(hooks or ()), batches], checkpoint_path, name)
        if self.clock is not None:
            self.clock.time += self._secs_per_eval
        end = {"global_step": metrics["global_step"], "batches": batches.runs, "loss": metrics["loss"]}
        self._events.append({"event": "eval_end"} | end)
        return metrics


class RunCounter(SessionRunHook):
    """Counts runs."""

    runs = 0

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.runs += 1


class ClockHook(SessionRunHook):
    """Moves the clock at the start of each step."""

    def __init__(self, clock: Clock, secs_per_step: float) -> None:
        self.clock = clock
        self._secs = secs_per_step

    def before_run(self, run_context: Any) -> None:
        self.clock.time += self._secs


class ActingHook(RunCounter):
    """Stops or fails after its n-th run."""

    def __init__(self, action: str, after: int) -> None:
        self._action = action
        self._after = after

    def after_run(self, run_context: Any, run_values: Any) -> None:
        super().after_run(run_context, run_values)
        if self.runs == self._after:
            match self._action:
                case "stop_after_runs":
                    run_context.request_stop()
                case "raise_after_runs":
                    raise RuntimeError("the hook failed")
                case "stop_iteration_after_runs":
                    raise StopIteration


class RecordingListener(CheckpointSaverListener):
    """Writes down saves, and everything else if told to."""

    def __init__(self, events: list[Any], trace: bool = False, stop_at_step: int | None = None) -> None:
        self._events = events
        self._trace = trace
        self._stop_at_step = stop_at_step

    def begin(self) -> None:
        if self._trace:
            self._events.append({"event": "listener_begin"})

    def before_save(self, session: Any, global_step_value: int) -> None:
        if self._trace:
            self._events.append({"event": "listener_before_save", "step": global_step_value})

    def after_save(self, session: Any, global_step_value: int) -> bool:
        self._events.append({"event": "checkpoint_saved", "step": global_step_value})
        return self._stop_at_step is not None and global_step_value >= self._stop_at_step

    def end(self, session: Any, global_step_value: int) -> None:
        if self._trace:
            self._events.append({"event": "listener_end", "step": global_step_value})

    def __repr__(self) -> str:
        return "<canned listener>"


class RecordingExporter(Exporter):
    """Writes down that it was called, and exports nothing."""

    def __init__(self, events: list[Any], name: str, returns: Any = None) -> None:
        self._events = events
        self._name = name
        self._returns = returns

    @property
    def name(self) -> str:
        return self._name

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Any,
        is_the_final_export: bool,
    ) -> Any:
        self._events.append(
            {
                "event": "export",
                "exporter": self._name,
                "export_path": export_path.replace(estimator.model_dir, "<model_dir>"),
                "checkpoint": checkpoint_name(checkpoint_path),
                "global_step": eval_result["global_step"],
                "is_the_final_export": is_the_final_export,
            }
        )
        return self._returns


def serving_input_receiver_fn() -> TensorServingInputReceiver:
    x = Placeholder(np.float32, (None, 2))
    return TensorServingInputReceiver(x, x)


def make_exporter(events: list[Any], kind: str, **described: Any) -> Exporter:
    """Return the exporter that a case describes."""
    if kind == "recording":
        return RecordingExporter(events, **described)
    classes = {"BestExporter": BestExporter, "LatestExporter": LatestExporter, "FinalExporter": FinalExporter}
    return classes[kind](serving_input_receiver_fn=serving_input_receiver_fn, **described)


class RecordingEvalListener(ContinuousEvalListener):
    """Answers as it is told, at first, and writes it down."""

    def __init__(self, events: list[Any], before_eval: list[bool] = (), after_eval: list[bool] = ()) -> None:
        self._events = events
        self._before: Iterator[bool] = iter(before_eval)
        self._after: Iterator[bool] = iter(after_eval)

    def before_eval(self) -> bool:
        answer = next(self._before, True)
        self._events.append({"event": "before_eval", "returns": answer})
        return answer

    def after_eval(self, eval_result: EvalResult) -> bool:
        answer = next(self._after, True)
        self._events.append({"event": "after_eval", "status": eval_result.status, "returns": answer})
        return answer


def make_hook(description: dict[str, Any], estimator: Estimator) -> SessionRunHook:
    """Return the hook that a case describes."""
    match description:
        case {"kind": "StopAtStepHook", "kwargs": kwargs}:
            return StopAtStepHook(**kwargs)
        case {"kind": "CheckpointSaverHook", "kwargs": kwargs}:
            return CheckpointSaverHook(estimator.model_dir, **kwargs)
        case {"kind": "early_stopping", "function": name, "kwargs": kwargs}:
            makers = {
                "stop_if_lower_hook": stop_if_lower_hook,
                "stop_if_no_increase_hook": stop_if_no_increase_hook,
            }
            return makers[name](estimator, **kwargs)
    ((action, after),) = description.items()
    return ActingHook(action, after)


def seen_checkpoints(model_dir: pathlib.Path, estimator: Estimator) -> dict[str, Any]:
    """Return the steps of the checkpoints that are there, and the newest."""
    steps = [int(path.name.removeprefix("ckpt-")) for path in model_dir.glob("ckpt-*")]
    return {"steps_on_disk": sorted(steps), "latest": checkpoint_name(estimator.latest_checkpoint())}


def seen_models(model_dir: pathlib.Path) -> set[str]:
    """Return the folders that hold exported models."""
    return {str(path.relative_to(model_dir)) for path in (model_dir / "export").glob("*/*")}


def seen_event_folders(model_dir: pathlib.Path) -> set[str]:
    """Return the folders that hold event files."""
    return {str(path.parent.relative_to(model_dir)) for path in model_dir.rglob("*tfevents*")}


def seen_summaries(folder: pathlib.Path) -> list[dict[str, Any]]:
    """Return what the event files of one folder say, in the form of the cases."""
    seen: list[dict[str, Any]] = []
    for event in read_events(folder):
        if event.status is not None:
            seen.append({"step": event.step, "session_log": event.status.name, "path": str(event.value)})
        else:
            value = "<rate>" if event.tag == "global_step/sec" else event.value
            seen.append({"step": event.step, "tag": event.tag, "value": value})
    return seen


_NUMBER = re.compile(r"(?<![\w.-])-?\d+\.\d+(?:e[-+]?\d+)?(?!\w|\.\d)")


def same_line(actual: str, expected: str) -> bool:
    """Whether two lines of a log are the same, but for placeholders and the last digits of numbers."""
    pattern = ""
    wanted: list[float] = []
    end = 0
    for found in re.finditer(rf"{_NUMBER.pattern}|<[a-z_]+>", expected):
        pattern += re.escape(expected[end : found.start()])
        end = found.end()
        match found.group():
            case "<model_dir>":
                pattern += "<model_dir>"
            case placeholder if placeholder.startswith("<"):
                pattern += ".+"
            case number:
                wanted.append(float(number))
                pattern += r"(-?\d+\.\d+(?:e[-+]?\d+)?)"
    same = re.fullmatch(pattern + re.escape(expected[end:]), actual, re.DOTALL)
    return same is not None and np.allclose([float(each) for each in same.groups()], wanted, 1e-4, 1e-5)
