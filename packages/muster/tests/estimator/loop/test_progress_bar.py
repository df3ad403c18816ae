"""What the bar says, and what it costs."""

import io
import logging
import time
from types import SimpleNamespace

import jax.numpy as jnp
import pytest
import rich.console
import rich.logging
from absl.logging import ABSLHandler, PythonFormatter

from muster._terminal import _EVERY_SECS, FootLine
from muster.estimator import RunConfig
from muster.estimator.loop import _progress_bar
from muster.estimator.loop._progress_bar import ProgressBar, metrics_line


class Line:
    """Stands in for the foot of a terminal."""

    width = 79

    def __init__(self):
        self.left = []

    def can_show(self, text):
        return True

    def remove(self, bar, last):
        self.left.append(last)


class Loss:
    """A loss on a device."""

    def __init__(self, value, ready):
        self.value, self.ready, self.reads = value, ready, 0

    def is_ready(self):
        return self.ready

    def __array__(self, dtype=None, copy=None):
        import numpy as np

        self.reads += 1
        return np.asarray(self.value)


def session(step=0, **outputs):
    return SimpleNamespace(global_step=step, steps_taken=step, outputs=outputs)


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(_progress_bar.time, "monotonic", lambda: clock.now)
    return clock


def test_it_never_waits_for_a_loss_and_shows_it_once_it_is_computed(clock):
    bar, run = ProgressBar(Line(), "Training"), session(1, loss=Loss(0.5, ready=False))
    bar.follow(run, None)
    first = run.outputs["loss"]
    assert "loss" not in bar(79)
    run.outputs = {"loss": Loss(0.25, ready=False)}
    assert "loss" not in bar(79)
    first.ready = True
    assert "loss 0.5" in bar(79)  # of the step that it has asked for: a newer one may never be found ready
    assert "loss 0.5" in bar(79)
    assert run.outputs["loss"].reads == 0
    bar.close()


def test_the_speed_is_that_of_late_and_not_of_pauses(clock):
    line, run = Line(), session(1)
    bar = ProgressBar(line, "Training")
    bar.follow(run, 1000)
    for _ in range(100):
        run.global_step += 2
        clock.now += 0.2
        bar(200)
    assert "10 steps/s" in bar(200)
    assert "0:01:20 left" in bar(200)
    clock.now += 50  # an evaluation
    bar(200)
    for _ in range(2):
        run.global_step += 8
        clock.now += 0.2
        text = bar(200)
    assert "40 steps/s" in text
    bar.close()
    (left,) = line.left
    assert f"{(100 * 2 + 16 - 2) / (100 * 0.2 - 0.2 + 0.4):.3g} steps/s" in left  # of all that was seen


@pytest.mark.parametrize("width", [20, 40, 60, 79, 80, 100, 200])
def test_it_fits_the_terminal(clock, width):
    bar, run = ProgressBar(Line(), "Training"), session(12345, loss=Loss(0.00012345678, ready=True))
    bar.follow(run, 1_000_000)
    bar(width)
    clock.now += 0.2
    run.global_step += 1
    text = bar(width)
    assert len(text) <= width
    assert text.startswith("Training")
    assert ("━" in text or "─" in text) == (width >= 100)
    bar.close()


def test_a_draw_takes_less_than_a_hundredth_of_the_time_between_two(tmp_path):
    with open(tmp_path / "terminal", "w", encoding="utf-8") as terminal:
        line, run = FootLine(terminal), session(1)
        bar = ProgressBar(line, "Training")
        bar.follow(run, 1000)
        line.add(bar)
        began = time.thread_time()
        for step in range(1000):
            run.global_step, run.outputs = step, {"loss": jnp.asarray(0.5)}
            with line._lock:
                line._draw()
        secs = (time.thread_time() - began) / 1000
        bar.close()
    assert secs < 0.01 * _EVERY_SECS
    assert (tmp_path / "terminal").read_text().count("Training") > 1000


def test_what_stays_is_the_last_state_or_nothing():
    began, unbegun = Line(), Line()
    bar = ProgressBar(began, "Training")
    bar.follow(session(7, loss=Loss(2.0, ready=False)), 10)
    bar.close()
    bar.close()
    assert len(began.left) == 1
    assert began.left[0].endswith("in 0:00:00")
    assert "loss 2" in began.left[0]
    ProgressBar(unbegun, "Training").close()
    assert unbegun.left == [""]


def test_metrics_are_numbers_by_name():
    import numpy as np

    metrics = {"loss": 0.5, "b": np.float32(0.25), "a": 1, "global_step": 3, "c": np.ones(2), "text": "x"}
    metrics |= {"both": (np.float32(1), np.ones(2)), "by class": {"x": np.float32(1)}, "done": True}
    assert metrics_line(metrics) == "a 1, b 0.25, loss 0.5"


class Failed(Loss):
    """A loss of a step that has failed on the device."""

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("on the device")


def test_a_step_that_fails_on_the_device_is_told_by_others():
    line = Line()
    bar = ProgressBar(line, "Training")
    bar.follow(session(7, loss=Failed(0.0, ready=True)), 10)
    assert " 7 of 10" in bar(79)
    bar.close()
    assert "7 of 10" in line.left[0]


def test_steps_that_were_over_at_the_first_look_have_no_speed(clock):
    line = Line()
    bar = ProgressBar(line, "Training")
    bar.follow(session(300, loss=Loss(2.0, ready=True)), 300)
    bar(79)
    clock.now += 0.1
    bar.close()
    assert "300 of 300" in line.left[0]
    assert "steps/s" not in line.left[0]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def handlers():
    absl = ABSLHandler(PythonFormatter())
    absl.python_handler.stream = Terminal()
    console = rich.console.Console(file=Terminal())
    return [logging.StreamHandler(Terminal()), rich.logging.RichHandler(console=console), absl]


@pytest.mark.parametrize("number", range(3))
def test_a_log_on_the_terminal_takes_its_place(monkeypatch, number):
    logger, handler = logging.getLogger("muster"), handlers()[number]
    monkeypatch.setattr(_progress_bar.FootLine, "at", lambda stream: pytest.fail("asked for a line"))
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.INFO)
    try:
        with _progress_bar.progress_bar(RunConfig(), "Training"):
            pass
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def test_a_log_that_goes_to_a_file_or_has_no_news_does_not(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(_progress_bar.FootLine, "at", lambda stream: asked.append(1))
    logger = logging.getLogger("muster")
    quiet, file = logging.StreamHandler(Terminal()), logging.FileHandler(tmp_path / "log")
    quiet.setLevel(logging.WARNING)
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(quiet)
    logger.addHandler(file)
    try:
        with _progress_bar.progress_bar(RunConfig(), "Training"):
            pass
    finally:
        logger.removeHandler(quiet)
        logger.removeHandler(file)
        logger.setLevel(level)
        file.close()
    assert asked == [1]
