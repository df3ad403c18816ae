"""How many threads a parameter server computes on."""

import os
import threading

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
