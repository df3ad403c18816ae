"""Hooks beyond what the oracles say: when they wait for the device, and what muster adds."""

from __future__ import annotations

import itertools
import logging
from itertools import islice, repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hooks_fakes import Counter, Deferred, FakeClock, FakeSaver, RecordingWriter, SystemClock

from muster import _errors as errors
from muster.distribute.engine._state_store import ArrayStore
from muster.estimator import (
    CheckpointSaverHook,
    CheckpointSaverListener,
    FinalOpsHook,
    LoggingTensorHook,
    NanTensorHook,
    SessionRunHook,
    StepCounterHook,
    SummarySaverHook,
    make_early_stopping_hook,
    stop_if_lower_hook,
)
from muster.estimator.hooks import _nan
from muster.estimator.hooks._early_stopping import StopOnPredicateHook
from muster.estimator.hooks._stop import StopAfterNEvalsHook
from muster.estimator.loop._run_loop import TrainingSession, run_loop
from muster.estimator.session._session import Session
from muster.program import Output
from muster.summary import EventFileWriter, read_events


class _DeferredLosses:
    """A session whose step k has a loss that is not computed yet."""

    def __init__(self, losses: list[float]) -> None:
        self._losses = losses
        self.reads: list[float] = []
        self.saver = FakeSaver()
        self.session = Session(
            ArrayStore({"w": np.float32(0)}),
            save=self.saver,
            output_names=["loss"],
        )

    def step(self, state: Any, reads: Any, batch: Any) -> tuple[Any, dict[str, Any]]:
        return state, {"loss": Deferred(np.float32(self._losses[batch]), self.reads)}

    def run(self, *given: SessionRunHook) -> None:
        run_loop(self.session, self.step, iter(range(len(self._losses))), given)


def _let_runs_take(monkeypatch: pytest.MonkeyPatch, secs: float) -> None:
    """Have it look to the hook as if each wait had taken so long."""
    now = itertools.count(0.0, secs)
    monkeypatch.setattr(_nan, "time", SimpleNamespace(monotonic=lambda: next(now)))


def test_nan_hook_does_not_wait_for_the_step_that_was_just_dispatched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _let_runs_take(monkeypatch, 1.0)
    fake = _DeferredLosses([1.0, 2.0, 3.0, 4.0])
    with TrainingSession(fake.session, fake.step, iter(range(4)), [NanTensorHook("loss")]) as training:
        training.run()
        assert fake.reads == []
        training.run()
        assert fake.reads == [1.0]
        training.run()
        assert fake.reads == [1.0, 2.0]
        training.run()
        assert fake.reads == [1.0, 2.0, 3.0]
    assert fake.reads == [1.0, 2.0, 3.0, 4.0]


def test_nan_is_noticed_one_run_late(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _let_runs_take(monkeypatch, 1.0)
    fake = _DeferredLosses([1.0, 2.0, 3.0, np.nan, 5.0, 6.0])
    with pytest.raises(errors.NanLossDuringTrainingError, match="NaN at global step 4"):
        fake.run(NanTensorHook("loss"))
    assert fake.session.global_step == 5
    assert "Model diverged with loss = NaN." in caplog.text


def test_nan_hook_lets_short_runs_be_dispatched_several_in_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    _let_runs_take(monkeypatch, 0.001)
    fake = _DeferredLosses([1.0] * 60)
    waits = []
    with TrainingSession(fake.session, fake.step, iter(range(60)), [NanTensorHook("loss")]) as training:
        for _ in range(60):
            before = len(fake.reads)
            training.run()
            if len(fake.reads) > before:
                waits.append(training.session.global_step)
    assert waits == [2, 3, 19, 27, 35, 43, 51, 59]


def test_nan_of_short_runs_is_noticed_at_most_16_runs_late(monkeypatch: pytest.MonkeyPatch) -> None:
    for bad in range(20, 30):
        _let_runs_take(monkeypatch, 0.001)
        fake = _DeferredLosses([1.0] * (bad - 1) + [np.nan] * 30)
        with pytest.raises(errors.NanLossDuringTrainingError, match=f"NaN at global step {bad}:"):
            fake.run(NanTensorHook("loss"))
        assert 8 < fake.session.global_step - bad <= 16


def test_nan_of_the_last_run_is_noticed_at_the_end_before_anything_is_saved(tmp_path: Path) -> None:
    fake = _DeferredLosses([1.0, np.nan])
    saver = CheckpointSaverHook(tmp_path, save_steps=100)
    with pytest.raises(errors.NanLossDuringTrainingError):
        fake.run(saver, NanTensorHook("loss"))
    assert fake.saver.steps == [0]


@pytest.mark.parametrize("saver_first", [True, False])
def test_no_checkpoint_is_saved_with_a_nan_loss(tmp_path: Path, saver_first: bool) -> None:
    fake = _DeferredLosses([1.0, np.nan, 3.0])
    given = [CheckpointSaverHook(tmp_path, save_steps=1), NanTensorHook("loss")]
    with pytest.raises(errors.NanLossDuringTrainingError):
        fake.run(*(given if saver_first else given[::-1]))
    assert fake.saver.steps == [0, 1]


def test_nan_is_noticed_before_a_hook_reads(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "muster")
    fake = _DeferredLosses([np.nan, 3.0])
    with pytest.raises(errors.NanLossDuringTrainingError, match="step 1"):
        fake.run(LoggingTensorHook(["loss"], every_n_iter=1), NanTensorHook("loss"))
    assert "loss = nan" not in caplog.text


def test_quiet_nan_warns_and_stops(caplog: pytest.LogCaptureFixture) -> None:
    fake = _DeferredLosses([1.0, np.nan, np.nan, 4.0])
    fake.run(NanTensorHook("loss", fail_on_nan_loss=False))
    assert fake.session.global_step == 3
    assert [record.getMessage() for record in caplog.records].count("Model diverged with loss = NaN.") == 2


def test_logging_reads_only_when_it_logs() -> None:
    fake = _DeferredLosses([1.0, 2.0, 3.0, 4.0])
    fake.run(LoggingTensorHook({"l": Output("loss")}, every_n_iter=3))
    assert fake.reads == [1.0, 4.0]


def test_logging_at_the_end_of_no_runs_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "muster")
    Counter().training([LoggingTensorHook(["loss"], at_end=True)], iter(())).__enter__().__exit__(
        None, None, None
    )
    assert caplog.records == []


@pytest.mark.parametrize(
    "make",
    [
        lambda: LoggingTensorHook(["nope"], at_end=True),
        lambda: NanTensorHook("nope"),
        lambda: FinalOpsHook({"a": ["nope"]}),
        lambda: SummarySaverHook(save_steps=1, summary_op="nope"),
    ],
)
def test_a_name_that_does_not_exist_is_refused_before_any_work(make: Any) -> None:
    fake = _DeferredLosses([1.0])
    with pytest.raises(KeyError, match=r"nope.*Outputs: loss\. Variables: w\."):
        fake.run(make())
    assert fake.session.global_step == 0


def test_a_traced_value_cannot_be_given_outside_of_a_trace() -> None:
    with pytest.raises(errors.TraceError):
        LoggingTensorHook({"a": np.float32(1)}, every_n_iter=1)


def test_saver_waits_only_where_someone_is_told_or_nothing_follows(tmp_path: Path) -> None:
    alone, told = Counter(), Counter()
    for counter, listeners in ((alone, []), (told, [CheckpointSaverListener()])):
        saver = CheckpointSaverHook(tmp_path, save_steps=2, listeners=listeners)
        run_loop(counter.session, counter.step, islice(repeat(None), 3), [saver])
    assert alone.saved == [(0, False), (2, False), (3, True)]
    assert told.saved == [(0, True), (2, True), (3, True)]


def test_a_periodic_checkpoint_is_put_off_until_the_one_before_is_written(tmp_path: Path) -> None:
    counter = Counter()

    class Disk(SessionRunHook):
        def after_run(self, run_context: Any, run_values: Any) -> None:
            counter.saver.late = run_context.session.global_step in (2, 3)

    with counter.training([CheckpointSaverHook(tmp_path, save_steps=3), Disk()]) as training:
        for _ in range(7):
            training.run()
    assert counter.saved == [(0, False), (5, False), (7, True)]


def test_listeners_can_be_added_to_a_saver(tmp_path: Path) -> None:
    told = []

    class Listener(CheckpointSaverListener):
        def after_save(self, session: Any, global_step_value: int) -> None:
            told.append(global_step_value)

    counter = Counter()
    saver = CheckpointSaverHook(tmp_path, save_steps=2)
    saver.add_listeners([Listener()])
    run_loop(counter.session, counter.step, islice(repeat(None), 2), [saver])
    assert told == [0, 2]


def test_the_period_of_a_saver_counts_from_the_beginning_of_a_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock(monkeypatch)

    class Slow(CheckpointSaverListener):
        def after_save(self, session: Any, global_step_value: int) -> None:
            clock.now += 8.0

    counter = Counter()
    saver = CheckpointSaverHook(tmp_path, save_secs=10, listeners=[Slow()])
    with counter.training([saver]) as training:
        for _ in range(4):
            clock.now += 1.0
            training.run()
    assert [step for step, _ in counter.saved] == [0, 2, 4]


def test_a_clock_that_is_set_back_holds_up_no_hook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, counter, events, asked = SystemClock(monkeypatch), Counter(), [], []

    def due() -> bool:
        asked.append(counter.session.global_step)
        return False

    hooks = [
        CheckpointSaverHook(tmp_path, save_secs=10),
        StepCounterHook(every_n_steps=None, every_n_secs=10, summary_writer=RecordingWriter(events)),
        StopOnPredicateHook(due, run_every_secs=10),
    ]
    with counter.training(hooks) as training:
        for step in range(6):
            clock.wait(5)
            if step == 2:
                clock.set_back()
            training.run()
    assert [step for step, _ in counter.saved] == [0, 2, 4, 6]
    assert asked == [1, 3, 5]
    assert [event for event in events if event[1] == "global_step/sec"] == [
        ["summary", "global_step/sec", 0.2, step] for step in (3, 5)
    ]


def test_step_counter_reports_the_share_of_input_in_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock(monkeypatch)
    counter, events = Counter(), []

    def batches() -> Any:
        while True:
            clock.now += 1.0
            yield None

    hook = StepCounterHook(every_n_steps=2, summary_writer=RecordingWriter(events))
    with counter.training([hook], batches()) as training:
        for _ in range(5):
            clock.now += 3.0
            training.run()
    assert events == [
        ["summary", "global_step/sec", 0.25, 3],
        ["summary", "input_wait", 0.25, 3],
        ["summary", "global_step/sec", 0.25, 5],
        ["summary", "input_wait", 0.25, 5],
    ]


def test_hooks_with_a_folder_write_an_event_file_and_close_it(tmp_path: Path) -> None:
    counter = Counter(values=[3.0, 2.0, 1.0])
    given = [
        SummarySaverHook(save_steps=2, output_dir=tmp_path, summary_op={"the loss": "loss"}),
        StepCounterHook(every_n_steps=1, output_dir=tmp_path),
    ]
    run_loop(counter.session, counter.step, islice(repeat(None), 3), given)
    found = [
        (event.tag, event.value, event.step) for event in read_events(tmp_path) if event.tag == "the loss"
    ]
    assert found == [("the loss", 3.0, 1), ("the loss", 1.0, 3)]
    assert {event.tag for event in read_events(tmp_path)} > {"global_step/sec", "input_wait"}


def test_a_hook_closes_its_event_file_when_training_fails(tmp_path: Path) -> None:
    counter = Counter(values=[np.nan])
    given = [
        SummarySaverHook(save_steps=2, output_dir=tmp_path, summary_op="loss"),
        NanTensorHook("loss"),
    ]
    with pytest.raises(errors.NanLossDuringTrainingError):
        run_loop(counter.session, counter.step, repeat(None), given)


def test_stopping_after_a_number_of_evaluations_says_how_far_it_is(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "muster")
    for num_evals, batches in ((25, 30), (None, 2)):
        counter = Counter()
        hook = StopAfterNEvalsHook(num_evals)
        run_loop(counter.session, counter.step, islice(repeat(None), batches), [hook])
    assert [record.getMessage() for record in caplog.records] == [
        *(f"Evaluation [{done}/25]" for done in (*range(2, 25, 2), 25)),
        "Evaluation [1]",
        "Evaluation [2]",
    ]


class _Estimator:
    """An Estimator, as far as early stopping goes."""

    def __init__(self, eval_dir: Path) -> None:
        self._eval_dir = eval_dir

    def eval_dir(self, name: str | None = None) -> str:
        return str(self._eval_dir)


def test_early_stopping_needs_a_function(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="`should_stop_fn` must be callable, got 3"):
        make_early_stopping_hook(_Estimator(tmp_path), 3)  # type: ignore[arg-type]


@pytest.mark.parametrize("threshold", [0.9, np.float64(0.9), np.float32(0.9)])
def test_a_threshold_of_any_precision_equals_the_same_metric(tmp_path: Path, threshold: float) -> None:
    with EventFileWriter(tmp_path) as writer:
        writer.add_scalars({"loss": 0.9}, 10)
    hook = stop_if_lower_hook(_Estimator(tmp_path), "loss", threshold)
    counter = Counter()
    run_loop(counter.session, counter.step, iter([0]), [hook])
    assert not counter.session.should_stop()
