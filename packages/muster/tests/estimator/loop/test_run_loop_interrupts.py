"""Ctrl-C and SIGTERM while a session runs."""

from __future__ import annotations

import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hooks_fakes import Counter, TraceHook

from muster.distribute.engine._state_store import ArrayStore
from muster.estimator import (
    CheckpointSaverHook,
    CheckpointSaverListener,
    NanTensorHook,
    SessionRunHook,
    StopAtStepHook,
)
from muster.estimator.loop._run_loop import TrainingSession, run_loop
from muster.estimator.session._session import Session
from muster.lifecycle import SignalWatch, Terminated


@pytest.fixture(autouse=True)
def _each_press_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if there were seconds between them."""
    monkeypatch.setattr("muster.lifecycle._interrupts.SAME_SECS", 0.0)


@pytest.fixture(autouse=True)
def _handlers_are_put_back() -> Iterator[None]:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    yield
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


class _Signalled(Counter):
    """A counter whose second step is interrupted."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def step(self, state: Any, reads: Any, batch: Any) -> Any:
        if int(state["global_step"]) == 1:
            signal.raise_signal(self._number)
        return super().step(state, reads, batch)


def _exit_code(exc: BaseException) -> Any:
    return exc.code if isinstance(exc, SystemExit) else None


@pytest.mark.parametrize(
    ("number", "error", "code"), [(signal.SIGINT, KeyboardInterrupt, None), (signal.SIGTERM, SystemExit, 143)]
)
def test_the_run_is_finished_and_its_step_saved(tmp_path: Path, number: int, error: Any, code: Any) -> None:
    counter, events = _Signalled(number), []
    saver = CheckpointSaverHook(tmp_path, save_steps=100)
    with pytest.raises(error) as raised:
        run_loop(counter.session, counter.step, repeat(None), [saver, TraceHook("a", events)])
    assert _exit_code(raised.value) == code
    assert counter.saved == [(0, False), (2, True)]
    assert events[-2:] == [["a", "after_run"], ["a", "interrupted"]]


def test_one_while_waiting_for_input_does_not_wait_for_it(tmp_path: Path) -> None:
    def batches() -> Iterator[None]:
        yield from repeat(None, 3)
        signal.raise_signal(signal.SIGINT)
        pytest.fail("the wait went on")

    counter, events = Counter(), []
    saver = CheckpointSaverHook(tmp_path, save_steps=100)
    with pytest.raises(KeyboardInterrupt):
        run_loop(counter.session, counter.step, batches(), [saver, TraceHook("a", events)])
    assert counter.saved == [(0, False), (3, True)]
    assert events[-1] == ["a", "interrupted"]


class _SignalAt(SessionRunHook):
    """Interrupts the run that finds no more data, or the end after it."""

    def __init__(self, where: str) -> None:
        self._where = where

    def before_run(self, run_context: Any) -> None:
        if self._where == "before_run" and run_context.session.global_step == 3:
            signal.raise_signal(signal.SIGINT)

    def end(self, session: Session) -> None:
        if self._where == "end":
            signal.raise_signal(signal.SIGINT)


def _batches_that_end_with_a_signal(raised: bool) -> Iterator[None]:
    yield from repeat(None, 3)
    if raised:
        try:
            raise StopIteration
        except StopIteration:
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("where", ["before_run", "input", "end"])
def test_one_at_the_end_of_the_data_is_all_that_is_told_of_it(tmp_path: Path, where: str) -> None:
    counter = Counter()
    saver = CheckpointSaverHook(tmp_path, save_steps=100)
    batches = _batches_that_end_with_a_signal(where == "input")
    with pytest.raises(KeyboardInterrupt) as raised:
        run_loop(counter.session, counter.step, batches, [saver, _SignalAt(where)])
    told = "".join(traceback.format_exception(raised.value))
    assert told.count("Traceback") == 1
    assert "StopIteration" not in told
    assert counter.saved[-1] == (3, True)


@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)]
)
def test_one_at_the_last_moment_is_raised(monkeypatch: pytest.MonkeyPatch, number: int, error: Any) -> None:
    later = SignalWatch._later

    def at_the_last_moment(self: SignalWatch, given: int, handler: Any) -> Any:
        if given == number:
            signal.raise_signal(number)
        return later(self, given, handler)

    monkeypatch.setattr(SignalWatch, "_later", at_the_last_moment)
    counter, events = Counter(), []
    with pytest.raises(error):
        run_loop(counter.session, counter.step, repeat(None, 3), [TraceHook("a", events)])
    assert events[-1] == ["a", "end"]


def test_a_save_that_has_begun_is_waited_for(tmp_path: Path) -> None:
    counter = _Signalled(signal.SIGINT)
    saver = CheckpointSaverHook(tmp_path, save_steps=2)
    with pytest.raises(KeyboardInterrupt):
        run_loop(counter.session, counter.step, repeat(None), [saver])
    assert counter.saved == [(0, False), (2, False), (2, True)]


def test_listeners_are_not_told_of_the_save_at_an_interrupt(tmp_path: Path) -> None:
    told = []

    class Listener(CheckpointSaverListener):
        def after_save(self, session: Any, global_step_value: int) -> None:
            told.append(global_step_value)

    counter = _Signalled(signal.SIGINT)
    saver = CheckpointSaverHook(tmp_path, save_steps=100, listeners=[Listener()])
    with pytest.raises(KeyboardInterrupt):
        run_loop(counter.session, counter.step, repeat(None), [saver])
    assert told == [0]
    assert counter.saved[-1] == (2, True)


@pytest.mark.parametrize("error", [KeyboardInterrupt, Terminated(143)])
def test_one_within_a_hook_hides_the_step_from_no_other_hook(error: Any) -> None:
    class Evaluates(SessionRunHook):
        def after_run(self, run_context: Any, run_values: Any) -> None:
            if run_context.session.global_step == 2:
                raise error

    counter, events = Counter(), []
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        run_loop(counter.session, counter.step, repeat(None), [Evaluates(), TraceHook("later", events)])
    assert events[-3:] == [["later", "before_run"], ["later", "after_run"], ["later", "interrupted"]]


@pytest.mark.parametrize("with_saver", [True, False])
def test_a_nan_loss_is_not_saved_at_an_interrupt(tmp_path: Path, with_saver: bool) -> None:
    saved: list[int] = []
    session = Session(ArrayStore({}), save=lambda store, step, wait, directory: saved.append(step))
    options = {"saver": lambda session, step, wait: saved.append(step)} if with_saver else {}

    class Late:
        def __array__(self, *args: Any, **kwargs: Any) -> Any:
            return np.asarray(np.nan)

    def step(state: Any, reads: Any, batch: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return state, {"loss": Late()}

    saver = CheckpointSaverHook(tmp_path, save_steps=100, **options)
    with pytest.raises(RuntimeError, match="NaN loss"):
        run_loop(session, step, repeat(None), [saver, NanTensorHook("loss")])
    assert saved == [0]


def test_a_second_one_ends_the_save_at_once(tmp_path: Path) -> None:
    finished = []

    def save(session: Session, step: int, wait: bool) -> None:
        if step > 0:
            signal.raise_signal(signal.SIGINT)
        finished.append(step)

    counter = _Signalled(signal.SIGINT)
    saver = CheckpointSaverHook(tmp_path, save_steps=100, saver=save)
    with pytest.raises(KeyboardInterrupt):
        run_loop(counter.session, counter.step, repeat(None), [saver])
    assert finished == [0]


def test_a_second_one_in_the_same_run_ends_it_without_a_save(tmp_path: Path) -> None:
    counter = Counter()

    def step(state: Any, reads: Any, batch: Any) -> Any:
        if int(state["global_step"]) == 1:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)
        return counter.step(state, reads, batch)

    saver = CheckpointSaverHook(tmp_path, save_steps=100)
    with pytest.raises(SystemExit):
        run_loop(counter.session, step, repeat(None), [saver])
    assert [step for step, _ in counter.saved] == [0]


def test_one_before_the_first_run_prevents_it(tmp_path: Path) -> None:
    counter = Counter()
    saver = CheckpointSaverHook(
        tmp_path, save_steps=1, saver=lambda session, step, wait: signal.raise_signal(signal.SIGINT)
    )
    with pytest.raises(KeyboardInterrupt):
        run_loop(counter.session, counter.step, repeat(None), [saver])
    assert counter.session.global_step == 0


def test_a_clean_stop_in_the_same_run_is_completed_first(tmp_path: Path) -> None:
    counter, events = _Signalled(signal.SIGINT), []
    given = [StopAtStepHook(last_step=2), TraceHook("a", events)]
    with pytest.raises(KeyboardInterrupt):
        run_loop(counter.session, counter.step, repeat(None), given)
    assert events[-1] == ["a", "end"]


def test_one_during_an_evaluation_within_a_hook_ends_the_training_around_it(tmp_path: Path) -> None:
    evaluation = _Signalled(signal.SIGINT)

    class Evaluate(SessionRunHook):
        def after_run(self, run_context: Any, run_values: Any) -> None:
            if run_context.session.global_step == 3:
                run_loop(evaluation.session, evaluation.step, repeat(None))

    training = Counter()
    saver = CheckpointSaverHook(tmp_path, save_steps=100)
    with pytest.raises(KeyboardInterrupt):
        run_loop(training.session, training.step, repeat(None), [saver, Evaluate()])
    assert evaluation.session.global_step == 2
    assert [step for step, _ in training.saved] == [0, 3]


def test_a_second_one_ends_the_save_after_an_evaluation_within_a_hook(tmp_path: Path) -> None:
    evaluation, training, finished = _Signalled(signal.SIGINT), Counter(), []

    class Evaluate(SessionRunHook):
        def after_run(self, run_context: Any, run_values: Any) -> None:
            run_loop(evaluation.session, evaluation.step, repeat(None))

    def save(session: Session, step: int, wait: bool) -> None:
        if step > 0:
            signal.raise_signal(signal.SIGINT)
        finished.append(step)

    saver = CheckpointSaverHook(tmp_path, save_steps=100, saver=save)
    with pytest.raises(KeyboardInterrupt):
        run_loop(training.session, training.step, repeat(None), [saver, Evaluate()])
    assert finished == [0]


def _run_in_thread(work: Callable[[], None]) -> list[BaseException]:
    errors: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except ValueError as exc:  # what Python raises for a handler that another thread installs
            errors.append(exc)

    thread = threading.Thread(target=guarded)
    thread.start()
    thread.join()
    return errors


def test_another_thread_than_the_main_one_installs_nothing() -> None:
    counter = Counter()
    assert _run_in_thread(lambda: run_loop(counter.session, counter.step, iter([0, 1]))) == []
    assert counter.session.global_step == 2


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    counter = _Signalled(signal.SIGINT)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        run_loop(counter.session, counter.step, iter(range(4)))
    finally:
        signal.signal(signal.SIGINT, before)
    assert counter.session.global_step == 4


def test_signals_that_are_not_held_back_end_the_run_at_once() -> None:
    counter, events = _Signalled(signal.SIGINT), []
    given = [TraceHook("a", events)]
    training = TrainingSession(counter.session, counter.step, repeat(None), given, hold_signals=False)
    with training:
        training.run()
        with pytest.raises(KeyboardInterrupt):
            training.run()
    assert counter.session.global_step == 1
    assert events[-2:] == [["a", "before_run"], ["a", "end"]]
