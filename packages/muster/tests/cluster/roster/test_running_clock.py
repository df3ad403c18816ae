"""The clock that stands still while the process does."""

import time

import pytest

from muster.cluster.roster import RunningClock


@pytest.fixture
def at(monkeypatch):
    """Sets the time that the machine's clock shows."""

    def set_time(secs):
        monkeypatch.setattr(time, "monotonic", lambda: secs)

    set_time(100.0)
    return set_time


def test_time_passes_while_somebody_asks(at):
    clock = RunningClock(asleep_secs=5.0)
    began = clock()
    for secs in (101.0, 106.0, 109.5):
        at(secs)
        assert clock() - began == secs - 100.0


def test_no_time_passes_while_the_process_is_stopped(at):
    clock = RunningClock(asleep_secs=5.0)
    began = clock()
    at(101.0)
    clock()
    at(146.0)
    assert clock() - began == 1.0
    at(147.0)
    assert clock() - began == 2.0
    at(1000.0)
    assert clock() - began == 2.0
