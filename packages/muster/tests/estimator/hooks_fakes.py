"""What the tests of hooks run on instead of a compiled step, a device, a disk and a clock."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from muster.distribute.engine._state_store import ArrayStore
from muster.estimator import SessionRunArgs, SessionRunHook
from muster.estimator.loop._run_loop import TrainingSession
from muster.estimator.session import clock
from muster.estimator.session._session import Session
from muster.summary import SessionLog


class FakeClock:
    """A clock that moves only when told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        for name in ("now", "date"):
            monkeypatch.setattr(clock, name, lambda: self.now)


class SystemClock:
    """The clock of dates, which may be set, and the one that only goes forward."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.date, self.passed = 1.7e9, 1000.0
        fake = SimpleNamespace(time=lambda: self.date, monotonic=lambda: self.passed, sleep=self.wait)
        monkeypatch.setattr(clock, "time", fake)

    def wait(self, secs: float) -> None:
        self.date += secs
        self.passed += secs

    def set_back(self) -> None:
        self.date -= 3600


class FakeSaver:
    """Keeps what is to be saved; `late` is whether the save before is under way."""

    def __init__(self) -> None:
        self.saved: list[tuple[int, bool]] = []
        self.late = False

    def __call__(self, store: Any, step: int, wait: bool, directory: str | None) -> None:
        self.saved.append((step, wait))

    @property
    def steps(self) -> list[int]:
        return [step for step, _ in self.saved]

    def is_late(self, directory: str) -> bool:
        return self.late


class Counter:
    """The oracle's counter: a step that adds ``increment``, with outputs loss, double, vec and v.

    Of run k, ``loss`` is ``values[k]``, ``double`` twice the step before it, and ``v`` the step before it.
    Twice the current step is the variable ``2step``.
    """

    def __init__(self, start: int = 0, increment: int = 1, values: Sequence[float] = (0.0,)) -> None:
        self._increment = increment
        self._values = values
        self._run = 0
        self.saver = FakeSaver()
        self.saved = self.saver.saved
        self.session = Session(
            ArrayStore(self._state(start)),
            global_step=start,
            count_steps=None if increment == 1 else lambda outputs: int(outputs["global_step"]),
            save=self.saver,
        )

    def _state(self, step: int) -> dict[str, Any]:
        return {"global_step": np.int64(step), "2step": np.int64(2 * step), "p": np.float32(1.0)}

    def step(self, state: Mapping[str, Any], reads: Any, batch: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        loss = np.float32(self._values[min(self._run, len(self._values) - 1)])
        before = int(state["global_step"])
        self._run += 1
        outputs = {
            "loss": loss,
            "global_step": np.int64(before + self._increment),
            "double": np.int64(2 * before),
            "vec": np.stack([loss, loss + np.float32(1)]),
            "v": np.float32(before),
        }
        return self._state(before + self._increment), outputs

    def advance(self, steps: int) -> None:
        """Advance the global step, as other workers do."""
        self.session.global_step += steps
        self.session.store.give(self._state(self.session.global_step))

    def training(
        self, hooks: Sequence[SessionRunHook] = (), batches: Iterator[Any] | None = None
    ) -> TrainingSession:
        return TrainingSession(
            self.session, self.step, itertools.repeat(None) if batches is None else batches, hooks
        )


class Deferred:
    """A value of a step that is still being computed: reading it is noted."""

    def __init__(self, value: Any, reads: list[Any]) -> None:
        self._value = value
        self._reads = reads

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        self._reads.append(self._value)
        return np.asarray(self._value)


class RecordingWriter:
    """Takes summaries as events."""

    def __init__(self, events: list[Any]) -> None:
        self._events = events

    def add_scalars(self, values: Mapping[str, float], step: int) -> None:
        self._events.extend(["summary", tag, float(value), step] for tag, value in values.items())

    def add_session_log(self, status: SessionLog, step: int) -> None:
        self._events.append(["session_log", status.name, step])

    def flush(self) -> None:
        self._events.append(["flush"])


class TraceHook(SessionRunHook):
    """Records each call; can stop, or raise, at its n-th run."""

    def __init__(
        self,
        name: str,
        events: list[Any],
        stop_after: int | None = None,
        stop_in_before_run: int | None = None,
        raise_after: int | None = None,
        error: Callable[[], BaseException] | None = None,
    ) -> None:
        self._name = name
        self._events = events
        self._stop_after = stop_after
        self._stop_in_before_run = stop_in_before_run
        self._raise_after = raise_after
        self._error = error
        self._runs = 0

    def _record(self, method: str) -> None:
        self._events.append([self._name, method])

    def begin(self) -> None:
        self._record("begin")

    def after_create_session(self, session: Any, coord: Any) -> None:
        self._record("after_create_session")

    def before_run(self, run_context: Any) -> SessionRunArgs | None:
        self._record("before_run")
        self._runs += 1
        if self._runs == self._stop_in_before_run:
            run_context.request_stop()
        return None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._record("after_run")
        if self._runs == self._stop_after:
            run_context.request_stop()
        if self._error is not None and self._runs == self._raise_after:
            raise self._error()

    def end(self, session: Any) -> None:
        self._record("end")

    def interrupted(self, session: Any) -> None:
        self._record("interrupted")
