"""Listening as a task, and asking what answers at an address."""

import contextlib
import select
import socket
import threading
import time

import pytest

from muster import _errors as errors
from muster.cluster import ClusterSpec, Task
from muster.cluster.roster._roster import Roster
from muster.cluster.roster._roster_address import listen_as, query_status
from muster.cluster.roster._roster_messages import TaskState
from muster.cluster.roster._roster_service import RosterService
from muster.net import NO_CREDENTIALS

pytestmark = pytest.mark.alone

WORKER = Task("worker", 0)
DEADLINE = 60.0
# Where answers are expected not to come, in seconds.
BRIEF = 0.3


@pytest.fixture
def port():
    with socket.create_server(("127.0.0.1", 0)) as held:
        return held.getsockname()[1]


@contextlib.contextmanager
def answering(data, *, then_close=True):
    """Something that answers every caller with the same bytes. Yields its address."""
    kept = []

    def serve():
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                kept.append(connection)
                connection.sendall(data)
                if then_close:
                    connection.recv(1 << 16)
                    connection.close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
            for connection in kept:
                connection.close()


def in_use(address):
    with pytest.raises(errors.AddressInUseError) as raised:
        listen_as(WORKER, address, NO_CREDENTIALS)
    assert str(raised.value).startswith(f"worker 0 cannot listen at its address {address}: ")
    return str(raised.value)


def test_who_is_there_already_is_named(port):
    address = f"127.0.0.1:{port}"
    with Roster(ClusterSpec({"chief": [address]}), Task("chief", 0), job_id="first"):
        said = in_use(address)
    assert "there is chief 0 of job first (process" in said
    assert "already, which is starting. End that process, or give this job other ports" in said


def test_what_is_there_already_is_described():
    with answering(b"SSH-2.0-x\r\n") as address:
        assert "it is in use, by something that is not muster" in in_use(address)


def test_what_is_there_already_may_be_silent(monkeypatch):
    monkeypatch.setattr("muster.cluster.roster._roster_address._OCCUPANT_SECS", BRIEF)
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert "it is in use, by something that does not answer" in in_use(
            f"127.0.0.1:{server.getsockname()[1]}"
        )


def test_what_is_there_already_may_only_hold_the_port():
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # as JAX's coordinator does
        holder.bind(("127.0.0.1", 0))
        said = in_use(f"127.0.0.1:{holder.getsockname()[1]}")
    assert "it is in use, and nothing answers there (Connection refused)" in said


def test_one_number_of_localhost_in_use_leaves_nothing_open(monkeypatch):
    monkeypatch.setattr("muster.cluster.roster._roster_address._OCCUPANT_SECS", BRIEF)
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert "cannot listen" in in_use(f"localhost:{server.getsockname()[1]}")


def test_what_answers_is_asked(port):
    address = f"127.0.0.1:{port}"
    with Roster(ClusterSpec({"worker": [address]}), WORKER, job_id="job", versions={"jax": "1"}) as roster:
        roster.announce("coordinator", "here:1")
        roster.report(state=TaskState.SAVING)
        status = query_status(address, DEADLINE)
    assert (status.job, status.task, status.versions) == ("job", WORKER, {"jax": "1"})
    assert status.announcements == {"coordinator": "here:1"}


def test_nothing_that_answers_is_an_error(port):
    with pytest.raises(ConnectionRefusedError):
        query_status(f"127.0.0.1:{port}", DEADLINE)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "HTTP"),
        (b'{"muster":1,"progress":{}}\n', "an older version of muster's protocol"),
        (b"\x15\x03\x01\x00\x02\x02", "it speaks TLS"),
    ],
)
def test_something_else_that_answers_is_an_error(data, says):
    with answering(data) as address, pytest.raises(errors.StrayPeerError, match=says):
        query_status(address, DEADLINE)


def test_something_that_breaks_off_is_an_error():
    with answering(b"") as address, pytest.raises(ConnectionResetError, match="breaks"):
        query_status(address, DEADLINE)


def _wait_for_question(connection):
    connection.wait(select.POLLIN, time.monotonic() + DEADLINE)


@pytest.mark.parametrize("before", [lambda connection: None, _wait_for_question])
def test_a_task_that_breaks_off_has_not_become_something_else(port, monkeypatch, before):
    def serve(service, connection, hello):
        before(connection)
        connection.close()  # with a question that nobody reads, it is reset

    address = f"127.0.0.1:{port}"
    monkeypatch.setattr(RosterService, "serve", serve)
    with (
        Roster(ClusterSpec({"worker": [address]}), WORKER, versions={}),
        pytest.raises(ConnectionResetError, match="breaks off"),
    ):
        query_status(address, DEADLINE)


def test_something_silent_is_an_error():
    with answering(b"mus", then_close=False) as address, pytest.raises(TimeoutError):
        query_status(address, BRIEF)
