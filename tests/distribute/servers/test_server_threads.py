"""How many threads a parameter server computes on."""

import os

import pytest

from muster.distribute import Server


@pytest.mark.parametrize(("given", "expected"), [(None, "1"), ("4", "4")])
def test_a_parameter_server_computes_on_one_thread_unless_it_is_told_otherwise(monkeypatch, given, expected):
    monkeypatch.setenv("NPROC", given or "")
    if given is None:
        monkeypatch.delenv("NPROC")
    server = Server({"chief": ["127.0.0.1:0"], "ps": ["127.0.0.1:0"]}, "ps", 0)
    assert os.environ.get("NPROC") == given  # other threads of this process may compute
    server._service.leave()
    server.join()
    assert os.environ["NPROC"] == expected
