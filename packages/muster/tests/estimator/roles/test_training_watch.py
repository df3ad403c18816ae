"""Whether training goes on, as an evaluator sees it."""

import time
from pathlib import Path

import numpy as np
import pytest
from hooks_fakes import FakeClock, SystemClock

from muster._errors import PeerLostError
from muster.checkpoint import Checkpointer, amend_metadata, checkpoint_path, write_checkpoint
from muster.estimator.roles import _training_watch
from muster.estimator.roles._training_watch import TrainingWatch


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    fake = FakeClock(monkeypatch)
    monkeypatch.setattr(_training_watch, "process_start", lambda: fake.now)
    return fake


def train(directory: Path, watch: TrainingWatch, step: int, *, ends: bool) -> None:
    with Checkpointer(directory) as checkpointer:
        checkpointer.save(step, {"w": np.zeros(1)}, {"ended": False}, wait=True)
        assert watch.is_on()
        assert not watch.has_ended()
        if ends:
            amend_metadata(checkpoint_path(str(directory), step), {"ended": True})
            assert not watch.has_ended()


def test_a_process_knows_when_it_began() -> None:
    assert 0 < time.time() - _training_watch.process_start() < 3600


def test_training_that_ended_by_itself_has_ended(clock: FakeClock, tmp_path: Path) -> None:
    watch = TrainingWatch(str(tmp_path / "model"))
    assert not watch.has_ended()
    train(tmp_path / "model", watch, 3, ends=True)
    assert not watch.is_on()
    assert not watch.has_ended()  # the program may train again
    clock.now += 4
    train(tmp_path / "model", watch, 6, ends=True)
    clock.now += 6
    assert watch.has_ended()


def test_training_that_ended_before_the_first_look_has_ended(clock: FakeClock, tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 3, {}, {"ended": True}, now=clock.now + 1)
    watch = TrainingWatch(str(tmp_path))
    assert not watch.has_ended()
    clock.now += 6
    assert watch.has_ended()


def test_what_ended_before_this_job_may_go_on_for_some_minutes(clock: FakeClock, tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 3, {}, {"ended": True}, now=clock.now - 1)
    watch = TrainingWatch(str(tmp_path))
    clock.now += 599
    assert not watch.has_ended()
    clock.now += 2
    assert watch.has_ended()


def test_training_that_died_is_waited_for_and_then_an_error(
    clock: FakeClock, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level("INFO", "muster")
    watch = TrainingWatch(str(tmp_path))
    train(tmp_path, watch, 3, ends=False)
    for _ in range(2):  # it is started again, and dies again
        clock.now += 599
        assert not watch.has_ended()
        assert caplog.messages[-1].startswith(f"Nobody trains in {tmp_path} now. Waiting ")
        train(tmp_path, watch, 4, ends=False)
    clock.now += 601
    with pytest.raises(
        PeerLostError, match=r"Nobody has trained in .* for 601 s, and training had not ended"
    ):
        watch.has_ended()


def test_a_clock_that_is_set_back_hides_no_training(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clock = SystemClock(monkeypatch)
    monkeypatch.setattr(_training_watch, "process_start", lambda: clock.date)
    watch = TrainingWatch(str(tmp_path))
    clock.set_back()
    write_checkpoint(tmp_path, 3, {}, {"ended": True}, now=clock.date)  # between two looks
    assert not watch.has_ended()
    clock.wait(6)
    assert watch.has_ended()


def test_a_trainer_whose_clock_is_ahead_has_not_ended_before_it_begins(
    clock: FakeClock, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    write_checkpoint(tmp_path, 3, {}, {"ended": True}, now=clock.now + 3600)  # of an earlier job
    watch = TrainingWatch(str(tmp_path))
    assert "is dated 3600 s in the future" in caplog.text
    clock.now += 6
    assert not watch.has_ended()
    clock.now += 600
    assert watch.has_ended()


def test_training_may_take_two_hours_to_begin(clock: FakeClock, tmp_path: Path) -> None:
    watch = TrainingWatch(str(tmp_path))
    clock.now += 7199
    assert not watch.has_ended()
    clock.now += 2
    with pytest.raises(PeerLostError):
        watch.has_ended()
