"""Real processes that train, are killed or interrupted, and are started again."""

import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest

from jobs import DEADLINE, QUICKLY_BY_FLAGS, Process
from muster.checkpoint import latest_checkpoint, read_checkpoint, restore_latest

pytestmark = [pytest.mark.alone, pytest.mark.processes]

CHILD = Path(__file__).with_name("resume_child.py")


TWO_DEVICES = "--xla_force_host_platform_device_count=2"


def started(model_dir, report, max_steps, log, strategy="default"):
    flags = QUICKLY_BY_FLAGS + (" " + TWO_DEVICES if strategy != "default" else "")
    return Process([CHILD, model_dir, report, max_steps, strategy], os.environ | {"XLA_FLAGS": flags}, log)


def finish(model_dir, report, max_steps, log, strategy="default"):
    process = started(model_dir, report, max_steps, log, strategy)
    assert process.wait(DEADLINE) == 0, log.read_text()


def stop(number, after, model_dir, report, max_steps, log, strategy="default"):
    """Send a signal to a training that has taken so many more steps; its exit code."""
    before, deadline = len(lines_of(report)), time.monotonic() + DEADLINE
    process = started(model_dir, report, max_steps, log, strategy)
    while len(lines_of(report)) < before + after:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.001)
    process.send_signal(number)
    return process.wait(DEADLINE)


def lines_of(report):
    """The whole lines of a report: (step, loss, examples)."""
    lines = report.read_text().splitlines(keepends=True) if report.exists() else []
    return [(int(line.split()[0]), *line.split()[1:]) for line in lines if line.endswith("\n")]


def kill_again_and_again(tmp_path, kills, seed, strategy="default"):
    """Kill a training at random steps, run it to its end, and compare with one that was left alone."""
    draw = random.Random(seed)
    max_steps = 40 * (kills + 1)
    log = tmp_path / "log"
    # The order of the shuffle is drawn when training first starts: both begin at the same first checkpoint.
    finish(tmp_path / "alone", tmp_path / "alone.txt", 1, log, strategy)
    first = read_checkpoint(tmp_path / "alone" / "ckpt-0")
    assert first.metadata["ended"] is False
    shutil.rmtree(tmp_path / "alone" / "ckpt-1")
    (tmp_path / "alone.txt").unlink()
    shutil.copytree(tmp_path / "alone", tmp_path / "killed")
    finish(tmp_path / "alone", tmp_path / "alone.txt", max_steps, log, strategy)
    expected = dict.fromkeys(lines_of(tmp_path / "alone.txt"))
    assert [line[0] for line in expected] == list(range(1, max_steps + 1))

    report = tmp_path / "killed.txt"
    for _ in range(kills):
        after = draw.randint(1, 45)
        code = stop(signal.SIGKILL, after, tmp_path / "killed", report, max_steps, log, strategy)
        assert code == -signal.SIGKILL, log.read_text()
        assert restore_latest(tmp_path / "killed") is not None
    finish(tmp_path / "killed", report, max_steps, log, strategy)
    lines = lines_of(report)
    assert lines[-1][0] == max_steps
    # Some steps were done twice, from the same checkpoint: each time bit for bit as in the other run.
    assert set(lines) == set(expected)
    values = [read_checkpoint(latest_checkpoint(tmp_path / name)).variables for name in ("alone", "killed")]
    assert values[0].keys() == values[1].keys()
    assert all(values[0][path].tobytes() == values[1][path].tobytes() for path in values[0])


@pytest.mark.samples("default")
@pytest.mark.parametrize("strategy", ["default", "mirrored", "central storage"])
def test_training_that_is_killed_goes_on_exactly(tmp_path, strategy):
    kill_again_and_again(tmp_path, kills=2, seed=1, strategy=strategy)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_training_that_is_killed_twenty_times_goes_on_exactly(tmp_path):
    kill_again_and_again(tmp_path, kills=20, seed=2)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, -signal.SIGINT), (signal.SIGTERM, 143)])
def test_an_interrupted_training_saves_its_last_step(tmp_path, number, code):
    log, report = tmp_path / "log", tmp_path / "report"
    assert stop(number, 15, tmp_path / "model", report, 10**6, log) == code, log.read_text()
    step = lines_of(report)[-1][0]
    assert latest_checkpoint(tmp_path / "model") == str(tmp_path / "model" / f"ckpt-{step}")
    finish(tmp_path / "model", report, step + 3, log)
    assert [line[0] for line in lines_of(report)] == list(range(1, step + 4))
