"""Signals to a worker: which are noted, and which are raised at once."""

import os
import signal

import pytest

from muster.lifecycle import SignalWatch, Terminated


@pytest.fixture(autouse=True)
def _handlers_are_put_back():
    yield
    signal.signal(signal.SIGINT, signal.default_int_handler)


def send(number=signal.SIGTERM):
    os.kill(os.getpid(), number)


def test_the_first_is_noted_and_the_second_raised():
    with SignalWatch().watched() as signals:
        send()
        assert (signals.received, signals.aborted) == (signal.SIGTERM, False)
        with pytest.raises(Terminated):
            send()
        assert signals.aborted


def test_ctrl_c_again_within_a_second_is_the_same_one(monkeypatch):
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    with SignalWatch().watched() as signals:
        send(signal.SIGINT)
        now += 0.9
        send(signal.SIGINT)
        assert (signals.received, signals.aborted) == (signal.SIGINT, False)
        now += 0.2
        with pytest.raises(KeyboardInterrupt):
            send(signal.SIGINT)
        assert signals.aborted


def test_ctrl_c_again_within_a_second_is_the_same_one_also_when_the_training_has_just_ended(monkeypatch):
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    before = signal.getsignal(signal.SIGINT)
    with SignalWatch().watched():
        send(signal.SIGINT)
    send(signal.SIGINT)
    now += 1.1
    with pytest.raises(KeyboardInterrupt):
        send(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_one_that_all_workers_get_is_not_a_second_one_to_a_worker_that_heard_of_it_from_another():
    with SignalWatch().watched() as signals:
        signals.note_others(signal.SIGTERM)
        send()
        assert (signals.received, signals.aborted) == (signal.SIGTERM, False)
        with pytest.raises(KeyboardInterrupt):
            send(signal.SIGINT)
        assert signals.aborted


def test_that_of_another_worker_changes_nothing_after_its_own():
    with SignalWatch().watched() as signals:
        send(signal.SIGINT)
        signals.note_others(signal.SIGTERM)
        assert signals.received == signal.SIGINT
        with pytest.raises(Terminated):
            send()
