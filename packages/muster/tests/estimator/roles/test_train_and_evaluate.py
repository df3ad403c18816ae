"""Whole runs of train_and_evaluate, train, evaluate and predict go as TensorFlow's did."""

import gc
import itertools
import json
import logging
import pathlib
import re
import signal
from typing import Any
from unittest import mock

import estimator_departures as departures
import pytest
from hooks_fakes import SystemClock
from recorded_runs import (
    Clock,
    ClockHook,
    RecordingEstimator,
    RecordingEvalListener,
    RecordingExporter,
    RecordingListener,
    make_exporter,
    make_hook,
    make_input_fn,
    same_line,
    seen_checkpoints,
    seen_event_folders,
    seen_models,
    seen_summaries,
)

import recorded
from muster._errors import CheckpointNotFoundError
from muster.estimator._run_config import RunConfig
from muster.estimator._specs import EvalSpec, TrainSpec
from muster.estimator.roles._train_and_evaluate import TrainingExecutor, train_and_evaluate

pytestmark = pytest.mark.usefixtures("compiled_once")

MAKERS = {"$bytes": str.encode}


class Run:
    """One case, run: what happened, what came of it, and what it logged."""

    def __init__(
        self, asked: dict[str, Any], model_dir: pathlib.Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.asked = asked
        self.model_dir = model_dir
        self.events: list[Any] = []
        self.clock = Clock(monkeypatch) if "clock" in asked else None
        for name, value in asked.get("env", {}).items():
            monkeypatch.setenv(name, value)
        for earlier in asked.get("before", []):
            self._estimator(earlier.get("run_config", asked["run_config"])).train(
                self._train_input(), max_steps=earlier["train_to"]
            )
        self.events.clear()
        self.estimator = self._estimator(asked["run_config"])

    def _estimator(self, config: dict[str, Any]) -> RecordingEstimator:
        return RecordingEstimator(
            self.events,
            self.asked.get("clock", {}).get("secs_per_eval", 0.0),
            self.clock,
            model_dir=str(self.model_dir),
            config=RunConfig(**config),
            params=self.asked.get("params"),
        )

    def _train_input(self) -> Any:
        return make_input_fn(**{"epochs": None} | self.asked.get("train_input", {}))

    def _eval_input(self) -> Any:
        return make_input_fn(**self.asked.get("eval_input", {}))

    def _listeners(self, described: Any) -> list[RecordingListener]:
        return [RecordingListener(self.events, **each) for each in described]

    def go(self) -> Any:
        match self.asked.get("api", "train_and_evaluate"):
            case "train_and_evaluate":
                return train_and_evaluate(self.estimator, self._train_spec(), self._eval_spec())
            case "executor":
                listener = RecordingEvalListener(self.events, **self.asked["continuous_eval_listener"])
                return TrainingExecutor(self.estimator, self._train_spec(), self._eval_spec(), listener).run()
            case "train":
                for call in self.asked["calls"]:
                    listeners = self._listeners([{}] if self.asked.get("with_listeners", True) else [])
                    returned = self.estimator.train(self._train_input(), saving_listeners=listeners, **call)
                return returned
            case "evaluate":
                return [self.estimator.evaluate(self._eval_input(), **call) for call in self.asked["calls"]][
                    -1
                ]
            case "predict":
                return list(self.estimator.predict(self._eval_input(), **self.asked["calls"][0]))

    def _train_spec(self) -> TrainSpec:
        asked = dict(self.asked["train_spec"])
        hooks = [make_hook(each, self.estimator) for each in asked.pop("hooks", [])]
        if self.clock is not None:
            hooks.insert(0, ClockHook(self.clock, self.asked["clock"]["secs_per_step"]))
        listeners = self._listeners(asked.pop("saving_listeners", [{}]))
        return TrainSpec(self._train_input(), hooks=hooks, saving_listeners=listeners, **asked)

    def _eval_spec(self) -> EvalSpec:
        asked = dict(self.asked["eval_spec"])
        exporters = []
        for described in recorded.decode(asked.pop("exporters", []), MAKERS):
            exporters.append(make_exporter(self.events, **described))
        return EvalSpec(self._eval_input(), exporters=exporters, **asked)


def check_returned(returned: Any, expect: dict[str, Any], run: Run) -> None:
    if expect["type"] == "Estimator":
        assert returned is run.estimator
    elif expect["type"] == "generator":
        assert len(returned) == expect["value"]["predictions"]
        recorded.check_same({k: v.tolist() for k, v in returned[0].items()}, expect["value"]["first"])
    elif expect["type"] == "NoneType":
        # TensorFlow's function returns what its executor does; muster's a pair, which programs can unpack.
        whole = run.asked.get("api", "train_and_evaluate") == "train_and_evaluate"
        assert returned == ((None, None) if whole else None)
    else:
        metrics, exports = returned if expect["type"] == "tuple" else (returned, None)
        assert type(returned).__name__ == expect["type"]
        if expect["metrics"] is None:
            assert metrics is None
        else:
            recorded.check_same(dict(metrics), expect["metrics"]["values"])
            types = {name: value.dtype.name for name, value in metrics.items()}
            assert types == expect["metrics"]["types"]
        if "export_results" in expect:
            text = json.dumps(expect["export_results"]).replace("<model_dir>", str(run.model_dir))
            assert exports == recorded.decode(json.loads(text), MAKERS)


def check_logs(
    caplog: pytest.LogCaptureFixture, expected: list[list[str]], model_dir: pathlib.Path, racy: bool = False
) -> None:
    seen = [
        (record.levelname, record.getMessage().replace(str(model_dir), "<model_dir>"))
        for record in caplog.records
        # TensorFlow's evaluators wait for ever, and it does not say that all is done. The lines on signatures
        # were not recorded.
        if not record.name.endswith(("._training_watch", "._all_done", "._signatures"))
    ]
    wanted = [
        (level, departures.log_line(message))
        for level, message in expected
        if departures.log_line(message) is not None
    ]
    for line, (one, other) in enumerate(itertools.zip_longest(seen, wanted)):
        same = one and other and one[0] == other[0] and same_line(one[1], other[1])
        if racy and one and other:
            same = same or same_line(one[1], departures.one_run_later(other[1]))
        assert same, f"line {line} of the log: {one} is not {other}"


@pytest.fixture(autouse=True)
def _no_tf_config(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)


@pytest.mark.samples(
    "every_10_to_30",
    "every_1_to_4",
    "every_7_to_30",
    "no_saving",
    "log_every_4",
    "summaries_after_resume",
    "no_graph_def",
    "two_listeners",
    "throttle_large_end_is_a_save",
    "throttle_default_one_save",
    "clock_throttle_20_exactly_two_saves",
    "clock_save_secs_slow_eval",
    "keep_max_2_after_resume",
    "keep_max_2_after_resume-as-TensorFlow",
    "keep_every_n_hours",
    "eval_steps_3",
    "eval_steps_none",
    "eval_uneven_batches",
    "eval_input_empty",
    "eval_input_empty-as-TensorFlow",
    "metric_named_loss",
    "exists_at_max_steps",
    "exists_off_the_grid",
    "input_exhausted_on_a_save",
    "input_exhausted_no_max_steps",
    "input_empty",
    "input_empty-as-TensorFlow",
    "input_exhausted_after_resume",
    "hook_requests_stop_on_a_save",
    "hook_stop_at_step_num_after_resume",
    "hook_raises",
    "hook_raises_stop_iteration",
    "hook_raises_stop_iteration-as-TensorFlow",
    "listener_requests_stop_at_0",
    "listener_requests_stop_at_0-as-TensorFlow",
    "early_stopping_by_steps",
    "user_saver_hook",
    "listener_after_eval_false_second",
    "listener_throttled",
    "exporters_all",
    "exporter_final_when_stopped_early",
    "exporter_throttled_is_final_once",
    "single_chief",
    "train_steps",
    "train_steps_over_input",
    "evaluate_untrained",
    "predict_untrained",
    "predict_keys",
)
@pytest.mark.parametrize(
    "case",
    recorded.cases(
        "train_and_evaluate_local", lambda case: case["input"].get("role") != "evaluator", departures.RUNS
    ),
)
def test_run(
    case: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: pathlib.Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked, expect = case["input"], case["expect"]
    # Each model is exported in another second.
    seconds = itertools.count(1_700_000_001)
    exporting = mock.Mock(date=lambda: next(seconds))
    monkeypatch.setattr("muster.estimator._estimator.clock", exporting)
    run = Run(asked, tmp_path, monkeypatch)
    with caplog.at_level(logging.INFO, "muster"):
        caplog.clear()
        if "error" in expect:
            with pytest.raises((ValueError, RuntimeError)) as raised:
                run.go()
            recorded.check_error(expect["error"], raised.value)
            del raised  # its traceback would keep the estimator, and so its event files open
        else:
            check_returned(run.go(), expect["returned"], run)
    recorded.check_same(run.events, expect["events"], "events")
    check_logs(caplog, expect["logs"], tmp_path, expect.get("racy_by_one_run", False))
    # See departures.LEFT_OUT.
    checkpoints = {key: each for key, each in expect["checkpoints"].items() if key != "listed"}
    recorded.check_same(seen_checkpoints(tmp_path, run.estimator), checkpoints)
    folders = {str(pathlib.Path(file).parent) for file in expect["files"] if "tfevents" in file}
    assert seen_event_folders(tmp_path) == folders
    models = {
        str(pathlib.Path(*pathlib.Path(file).parts[:3]))
        for file in expect["files"]
        if file.startswith("export/")
    }
    assert seen_models(tmp_path) == models
    for name, value in expect.get("weights", {}).items():
        recorded.check_same(run.estimator.get_variable_value(name).tolist(), value, name)
    for folder, summaries in expect.get("summaries", {}).items():
        text = json.dumps(seen_summaries(tmp_path / folder.replace("<model_dir>", ".")))
        seen = json.loads(text.replace(str(tmp_path), "<model_dir>"))
        known = {each.get("tag") for each in summaries}
        seen = [each for each in seen if each.get("tag") in known]
        text = json.dumps(summaries).replace('/model.ckpt"', '"').replace("model.ckpt", "ckpt")
        wanted = json.loads(text)
        recorded.check_same(seen, wanted, folder)
    caplog.clear()  # a record may keep the estimator, and so its event files open


def test_every_departure_is_of_use() -> None:
    assert recorded.unused("train_and_evaluate_local", departures.RUNS) == []


class GaveUp(Exception):
    """The evaluator went on for as long as the case lets it."""


class FollowedTraining:
    """An estimator whose checkpoints appear as the clock moves, and whose evaluations take time."""

    model_dir = "<model_dir>"

    def __init__(self, asked: dict[str, Any], clock: Clock, events: list[Any], config: RunConfig) -> None:
        self.config = config
        self._appear = sorted((float(secs), step) for secs, step in asked["checkpoints_at"].items())
        self._secs_per_eval = asked.get("secs_per_eval", 0)
        self._give_up_after = asked.get("give_up_after")
        self.clock = clock
        self._events = events
        self._newest: int | None = None
        self.look()

    def look(self) -> None:
        now = self.clock.time - self.clock.start
        while self._appear and now >= self._appear[0][0]:
            self.appear(self._appear.pop(0)[1])

    def appear(self, step: int) -> None:
        now = self.clock.time - self.clock.start
        self._newest = step
        self._events.append({"event": "checkpoint_appears", "step": step, "at": now})

    def sleep(self, secs: float) -> None:
        self._events.append({"event": "sleep", "secs": secs})
        self.clock.time += secs
        self.look()
        if self._give_up_after is not None and self.clock.time - self.clock.start > self._give_up_after:
            raise GaveUp

    def train(self, input_fn: Any, *, max_steps: Any, hooks: Any, saving_listeners: Any) -> None:
        raise AssertionError("an evaluator does not train")

    def evaluate(
        self, input_fn: Any, *, steps: Any, hooks: Any, checkpoint_path: str, name: Any
    ) -> dict[str, Any]:
        step = int(checkpoint_path.rpartition("-")[2])
        self._events.append({"event": "eval", "checkpoint": f"model.ckpt-{step}", "global_step": step})
        self.clock.time += self._secs_per_eval
        self.look()
        return {"loss": 1.0, "global_step": step}

    def latest_checkpoint(self) -> str | None:
        return None if self._newest is None else f"<model_dir>/ckpt-{self._newest}"


def start_evaluator(
    asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch, events: list[Any]
) -> TrainingExecutor:
    """Return an evaluator of a job whose checkpoints appear as a case says."""
    clock = Clock(monkeypatch)
    cluster = '{"cluster": {"chief": ["c:1"]}, "task": {"type": "evaluator", "index": 0}}'
    monkeypatch.setenv("TF_CONFIG", cluster)
    estimator = FollowedTraining(asked, clock, events, RunConfig())
    monkeypatch.setattr("muster.estimator.session.clock.sleep", estimator.sleep)
    monkeypatch.setattr("muster.estimator.roles._train_and_evaluate.as_evaluator", mock.MagicMock())
    exporter = RecordingExporter(events, "rec")
    listener = None
    if "continuous_eval_listener" in asked:
        listener = RecordingEvalListener(events, **asked["continuous_eval_listener"])
    return TrainingExecutor(
        estimator,
        TrainSpec(lambda: None, max_steps=asked["max_steps"]),
        EvalSpec(lambda: None, exporters=exporter, **asked["eval_spec"]),
        listener,
    )


# What Estimator logs of an evaluation, which is not run here.
_OF_ESTIMATOR = re.compile("Calling|Done calling|Starting eval|Restoring|Inference|Finished|Saving")


@pytest.mark.parametrize(
    "case",
    recorded.cases(
        "train_and_evaluate_local", lambda case: case["input"].get("role") == "evaluator", departures.RUNS
    ),
)
def test_evaluator(
    case: dict[str, Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked, expect = case["input"], case["expect"]
    events: list[Any] = []
    executor = start_evaluator(asked, monkeypatch, events)
    caplog.set_level(logging.INFO, "muster")
    caplog.clear()
    if expect.get("gave_up"):
        with pytest.raises(GaveUp):
            executor.run()
    else:
        assert executor.run() is None
    wanted_events, wanted_logs = departures.evaluator_ends_at_once(expect["events"], expect["logs"])
    recorded.check_same(events, wanted_events)
    check_logs(
        caplog,
        [line for line in wanted_logs if not _OF_ESTIMATOR.match(line[1])],
        pathlib.Path("<model_dir>"),
    )


def test_a_clock_that_is_set_back_lengthens_no_pause_of_an_evaluator(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    clock = SystemClock(monkeypatch)
    cluster = '{"cluster": {"chief": ["c:1"]}, "task": {"type": "evaluator", "index": 0}}'
    monkeypatch.setenv("TF_CONFIG", cluster)

    class Followed:
        config, model_dir, step = RunConfig(), str(tmp_path), 0

        def latest_checkpoint(self) -> str:
            self.step += 10
            return f"ckpt-{self.step}"

        def evaluate(self, input_fn: Any, **options: Any) -> dict[str, Any]:
            clock.wait(5)
            clock.set_back()
            return {"global_step": self.step}

        def train(self, *args: Any, **options: Any) -> None:
            raise AssertionError("an evaluator does not train")

    spec = EvalSpec(lambda: None, start_delay_secs=0, throttle_secs=30)
    TrainingExecutor(Followed(), TrainSpec(lambda: None, max_steps=30), spec).run()
    assert clock.passed == 1000 + 3 * 5 + 2 * 25


def test_an_evaluator_that_is_interrupted_says_so_and_does_not_count_as_done(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked = {"checkpoints_at": {"0": 10}, "max_steps": None, "eval_spec": {"start_delay_secs": 0}}
    executor = start_evaluator(asked, monkeypatch, [])

    def interrupt(secs: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("muster.estimator.session.clock.sleep", interrupt)
    caplog.set_level(logging.INFO, "muster")
    with pytest.raises(SystemExit) as raised:
        executor.run()
    assert raised.value.code == 130
    assert caplog.messages[-1] == "Exiting evaluation, as it was interrupted."


def test_ctrl_c_in_a_garbage_collection_ends_an_evaluator_all_the_same(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Python drops what a signal's handler raises there."""
    asked = {"checkpoints_at": {"0": 10}, "max_steps": None, "eval_spec": {"start_delay_secs": 0}}
    events: list[Any] = []
    executor = start_evaluator(asked, monkeypatch, events)

    def interrupt(phase: str, info: dict[str, int]) -> None:
        gc.callbacks.remove(interrupt)
        signal.raise_signal(signal.SIGINT)

    evaluate = FollowedTraining.evaluate

    def interrupted(self: FollowedTraining, *args: Any, **kwargs: Any) -> dict[str, Any]:
        gc.callbacks.append(interrupt)
        gc.collect()
        return evaluate(self, *args, **kwargs)

    monkeypatch.setattr(FollowedTraining, "evaluate", interrupted)
    caplog.set_level(logging.INFO, "muster")
    with pytest.raises(SystemExit) as raised:
        executor.run()
    assert raised.value.code == 130
    assert caplog.messages[-1] == "Exiting evaluation, as it was interrupted."
    assert [event["event"] for event in events].count("eval") == 1
    assert "sleep" not in [event["event"] for event in events]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_evaluator_that_is_interrupted_in_the_last_evaluation_completes_it_and_tells(
    monkeypatch: pytest.MonkeyPatch, number: int, code: int
) -> None:
    asked = {"checkpoints_at": {"0": 20}, "max_steps": 20, "eval_spec": {"start_delay_secs": 0}}
    events: list[Any] = []
    executor = start_evaluator(asked, monkeypatch, events)
    evaluate = FollowedTraining.evaluate

    def interrupted(self: FollowedTraining, *args: Any, **kwargs: Any) -> dict[str, Any]:
        signal.raise_signal(number)
        return evaluate(self, *args, **kwargs)

    monkeypatch.setattr(FollowedTraining, "evaluate", interrupted)
    with pytest.raises(SystemExit) as raised:
        executor.run()
    assert raised.value.code == code
    assert [event["event"] for event in events].count("eval") == 1


def test_an_evaluator_without_a_throttle_does_not_spin(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[Any] = []
    asked = {
        "checkpoints_at": {"3": 10, "4": 20},
        "max_steps": 20,
        "eval_spec": {"start_delay_secs": 0, "throttle_secs": 0},
    }
    start_evaluator(asked, monkeypatch, events).run()
    sleeps = [event["secs"] for event in events if event["event"] == "sleep"]
    assert sleeps == [1, 1, 1, 1]
    assert [event["global_step"] for event in events if event["event"] == "eval"] == [10, 20]


def test_an_evaluator_goes_on_when_a_checkpoint_is_deleted_under_it(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[Any] = []
    asked = {"checkpoints_at": {"0": 10}, "max_steps": 20, "eval_spec": {"start_delay_secs": 0}}
    executor = start_evaluator(asked, monkeypatch, events)
    evaluate = FollowedTraining.evaluate

    def deleted_meanwhile(self: FollowedTraining, *args: Any, **kwargs: Any) -> Any:
        if self.latest_checkpoint() == "<model_dir>/ckpt-10":
            self.appear(20)
            raise CheckpointNotFoundError("deleted")
        return evaluate(self, *args, **kwargs)

    monkeypatch.setattr(FollowedTraining, "evaluate", deleted_meanwhile)
    executor.run()
    assert [event["global_step"] for event in events if event["event"] == "eval"] == [20]
