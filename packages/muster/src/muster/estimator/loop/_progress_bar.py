"""The progress bar of training, evaluation and prediction, shown unless logging is configured."""

import contextlib
import datetime
import logging
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from muster._terminal import CellLine, FootLine
from muster.estimator._run_config import RunConfig
from muster.estimator.loop._tracing import GLOBAL_STEP, LOSS
from muster.estimator.session._session import Session

_log = logging.getLogger(__name__)

_LABEL_WIDTH, _BAR_WIDTH, _LEAST_BAR_WIDTH = 8, 30, 8
_SPEED_WIDTH, _LOSS_WIDTH, _TIME_WIDTH = 12, 13, 12
_FULL, _EMPTY = "━─"
_PLAIN_FULL, _PLAIN_EMPTY = "=-"
# The speed is that since this many looks at new steps ago, which are a fifth of a second apart or a step.
_LOOKS = 25
# After such a pause between two looks, in seconds, the speed is measured anew: something else was shown.
_PAUSE_SECS = 0.5


class ProgressBar:
    """Says how far a run has come: its steps, their speed, the loss, and the time that is left.

    It looks at the session from the thread that draws it: steps do nothing for it. A loss is shown once it is
    computed, so that nothing waits for a device.

    Args:
        line: Where it is shown; None shows nothing.
        label: What runs, such as ``Training``.
        unit: What is counted if it is not the global step.
    """

    def __init__(self, line: FootLine | CellLine | None, label: str, unit: str | None = None) -> None:
        self._line = line
        self._label, self._unit = label, unit
        self._session: Session | None = None
        self._last: int | None = None
        self._began = self._looked_at = time.monotonic()
        self._looks: deque[tuple[float, int]] = deque(maxlen=_LOOKS)
        self._seen = 0
        self._steps, self._secs = 0, 0.0  # that were seen without pauses
        self._pending: Any = None  # a loss that may not be computed yet
        self._loss: float | None = None
        self._is_held = False
        self._summary = ""

    def follow(self, session: Session, last: int | None) -> None:
        """Show a session from here on.

        Args:
            session: The session.
            last: The number that it ends at; None if nobody knows.
        """
        self._last, self._session = last, session

    def hold(self) -> None:
        """Show nothing until `go_on`, as it is the user's turn."""
        self._is_held = True
        if self._line is not None:
            self._line.erase()

    def go_on(self) -> None:
        """Show it again."""
        self._is_held = False
        if self._line is not None:
            self._line.draw()

    def conclude(self, summary: str) -> None:
        """Leave a text on the screen at the end."""
        self._summary = summary

    def close(self, succeeded: bool = False) -> None:
        """Show it no longer. Of a training that has begun, its last state stays on the screen."""
        if self._line is None:
            return
        left = self._summary if succeeded else ""
        if not left and self._unit is None and self._session is not None and self._session.steps_taken:
            left = self._text(self._line.width, f"in {_duration(time.monotonic() - self._began)}")
        self._line.remove(self, left)
        self._line = None

    def __call__(self, width: int) -> str | None:
        """Return its text, of at most so many characters; None while it is held."""
        return None if self._is_held else self._text(width, "")[:width]

    def _text(self, width: int, end: str) -> str:
        session = self._session
        label = f"{self._label:{_LABEL_WIDTH}}"
        if session is None or not session.steps_taken:
            return f"{label}  preparing the first {'step' if self._unit is None else 'batch'}"
        done = session.steps_taken if self._unit else session.global_step
        speed = self._speed(done)
        if end:
            speed = self._steps / self._secs if self._steps and self._secs else speed or None
        loss = self._known_loss(session, wait=bool(end))
        parts = [
            f"step {done}" if self._last is None else f"{done:{len(str(self._last))}} of {self._last}",
            "" if speed is None else f"{_number(speed)} {self._unit or 'steps'}/s",
            "" if loss is None else f"loss {loss:.3g}",
            end,
        ]
        if self._unit is not None:
            parts[0] = f"{parts[0].removeprefix('step ')} {self._unit}"
        if not end and speed and self._last is not None:
            parts[-1] = f"{_duration(max(0, self._last - done) / speed)} left"
        told = f"{parts[0]}  {parts[1]:{_SPEED_WIDTH}}  {parts[2]:{_LOSS_WIDTH}}  {parts[3]}"
        room = width - len(label) - len(parts[0]) - _SPEED_WIDTH - _LOSS_WIDTH - _TIME_WIDTH - 10
        return f"{label}  {self._drawing(done, min(_BAR_WIDTH, room))}{told}".rstrip()

    def _drawing(self, done: int, width: int) -> str:
        """Return the bar itself, and two spaces; nothing if there is no end to come to, or no room."""
        if not self._last or width < _LEAST_BAR_WIDTH or self._line is None:
            return ""
        full = round(width * min(1.0, done / self._last))
        signs = (_FULL, _EMPTY) if self._line.can_show(_FULL + _EMPTY) else (_PLAIN_FULL, _PLAIN_EMPTY)
        return signs[0] * full + signs[1] * (width - full) + "  "

    def _speed(self, done: int) -> float | None:
        """Return the steps per second of late; None if it is too early to say."""
        now = time.monotonic()
        if now - self._looked_at > _PAUSE_SECS:
            self._looks.clear()
        elif self._looks:
            self._steps += done - self._seen
            self._secs += now - self._looked_at
        self._looked_at, self._seen = now, done
        if not self._looks or self._looks[-1][1] != done:
            self._looks.append((now, done))
        (began, first), (at, last) = self._looks[0], self._looks[-1]
        return (last - first) / (at - began) if at > began else None

    def _known_loss(self, session: Session, *, wait: bool) -> float | None:
        """Return the newest loss that is computed, or wait for that of the last step."""
        # A variable of its own: at the end, the thread that draws may be here, too.
        pending = session.outputs.get(LOSS) if wait or self._pending is None else self._pending
        if pending is not None and (wait or _is_ready(pending)):
            with contextlib.suppress(Exception):  # of the step that failed: whoever reads its results is told
                self._loss = float(np.asarray(pending))
            pending = None
        self._pending = pending
        return self._loss


@contextmanager
def progress_bar(config: RunConfig, label: str, unit: str | None = None) -> Iterator[ProgressBar]:
    """Show a bar while the block runs, in a terminal or below a notebook's cell, if that says nothing else.

    There is none where the log of training goes there, which says the same, and where
    ``RunConfig(log_step_count_steps=None)`` asks for none.

    Args:
        config: How to run.
        label: What runs.
        unit: What is counted if it is not the global step.
    """
    line: FootLine | CellLine | None = None
    if config.log_step_count_steps and not _log_is_seen():
        line = FootLine.at(sys.stderr) or CellLine.of_notebook()
    bar = ProgressBar(line, label, unit)
    if line is not None:
        line.add(bar)
    try:
        yield bar
        bar.close(succeeded=True)
    finally:
        bar.close()


def metrics_line(metrics: Mapping[str, Any]) -> str:
    """Return metrics as a line for people: numbers by name, the loss last."""
    numbers = {name: value for name, value in metrics.items() if name != GLOBAL_STEP and _is_number(value)}
    names = sorted(numbers, key=lambda name: (name == LOSS, name))
    return ", ".join(f"{name} {float(numbers[name]):.4g}" for name in names)


def _log_is_seen() -> bool:
    """Return whether the log of training, which is of the level INFO, goes to a terminal or a notebook."""
    if not _log.isEnabledFor(logging.INFO):
        return False
    logger: logging.Logger | None = _log
    while logger is not None:
        for handler in logger.handlers:
            if handler.level <= logging.INFO and _is_seen(handler):
                return True
        logger = logger.parent if logger.propagate else None
    return False


def _is_seen(handler: logging.Handler) -> bool:
    """Return whether a handler writes where people look; rich's has a console, and absl's another handler."""
    for place in (handler, getattr(handler, "python_handler", None)):
        stream = getattr(place, "stream", None) or getattr(getattr(place, "console", None), "file", None)
        if stream is not None and getattr(stream, "isatty", lambda: False)():
            return True
        if stream is not None and type(stream).__module__.startswith("ipykernel."):
            return True
    return False


def _is_ready(value: Any) -> bool:
    is_ready = getattr(value, "is_ready", None)
    return is_ready is None or bool(is_ready())


def _is_number(value: Any) -> bool:
    if isinstance(value, int | float):
        return not isinstance(value, bool)
    return isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "iuf" and value.ndim == 0


def _number(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def _duration(secs: float) -> str:
    return str(datetime.timedelta(seconds=round(secs)))
