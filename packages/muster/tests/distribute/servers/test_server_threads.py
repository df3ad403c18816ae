"""The threads of a parameter server: how many compute, and which one a signal reaches."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from muster.distribute import Server


def joined(seen):
    """Join a server whose job ends at once, and note what NPROC was meanwhile."""
    server = Server({"chief": ["127.0.0.1:0"], "ps": ["127.0.0.1:0"]}, "ps", 0)
    join = server._service.join

    def join_and_see():
        seen.append(os.environ.get("NPROC"))
        server._service.leave()
        join()

    server._service.join = join_and_see
    server.join()


@pytest.mark.parametrize(("given", "expected"), [(None, "1"), ("4", "4")])
def test_a_parameter_server_computes_on_one_thread_unless_it_is_told_otherwise(monkeypatch, given, expected):
    monkeypatch.delenv("NPROC", raising=False)
    if given is not None:
        monkeypatch.setenv("NPROC", given)
    seen = []
    joined(seen)
    assert seen == [expected]
    assert os.environ.get("NPROC") == given


def test_a_server_beside_others_in_a_process_leaves_its_threads_alone(monkeypatch):
    monkeypatch.delenv("NPROC", raising=False)
    seen = []
    thread = threading.Thread(target=joined, args=(seen,))
    thread.start()
    thread.join(60)
    assert seen == [None]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_reaches_another_thread_ends_a_server(number, caplog):
    server = Server({"chief": ["127.0.0.1:0"], "ps": ["127.0.0.1:0"]}, "ps", 0)
    status = Path(f"/proc/self/task/{threading.main_thread().native_id}/status")
    join, joins = server._service.join, threading.Event()

    def join_and_say():
        joins.set()
        join()

    def signal_this_thread():
        joins.wait(60)
        while "State:\tS" not in status.read_text():
            time.sleep(0.01)
        signal.pthread_kill(threading.get_ident(), number)

    server._service.join = join_and_say
    thread = threading.Thread(target=signal_this_thread)
    thread.start()
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        server.join()
    thread.join()
    assert "ps 0 serves until the workers have gone" in caplog.text
