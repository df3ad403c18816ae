"""Connections of a worker to the others, without the others."""

from types import SimpleNamespace

import pytest

from muster._errors import AuthenticationError
from muster.cluster import Task
from muster.distribute.workers import _cluster_workers
from muster.distribute.workers._cluster_workers import ClusterWorkers


def dial(monkeypatch, *outcomes):
    """Let a worker connect to worker 0, where calls have these outcomes; the connection, and those left."""
    monkeypatch.setattr(_cluster_workers, "_REDIAL_SECS", 0.01)
    left = list(outcomes)

    def connect(task, purpose, timeout_secs):
        assert task == Task("worker", 0)
        assert timeout_secs > 0
        if isinstance(outcome := left.pop(0) if left else outcomes[-1], Exception):
            raise outcome
        return outcome

    worker = SimpleNamespace(_roster=SimpleNamespace(connect=connect), _tasks=[Task("worker", 0)])
    return ClusterWorkers.dial(worker, 0), left


def test_a_call_that_strangers_have_crowded_out_is_made_again(monkeypatch):
    broken = ConnectionResetError("something accepts connections there, and breaks them off")
    assert dial(monkeypatch, broken, broken, "connection", "another") == ("connection", ["another"])


def test_calls_are_given_up_after_a_while(monkeypatch):
    monkeypatch.setattr(_cluster_workers, "_DIAL_SECS", 0.1)
    with pytest.raises(ConnectionRefusedError):
        dial(monkeypatch, ConnectionRefusedError("nothing listens there"))


def test_a_refusal_is_final(monkeypatch):
    with pytest.raises(AuthenticationError):
        dial(monkeypatch, AuthenticationError("it refuses"), "connection")
