"""Listening at a task's address, and asking what answers there."""

import contextlib
import socket
import threading
from pathlib import Path

import pytest

from muster import _errors as errors
from muster.cluster import ClusterSpec, Task
from muster.cluster.roster._roster import Roster
from muster.cluster.roster._roster_address import adopt_listener, listen, query_status, split_address
from muster.cluster.roster._roster_messages import TaskState

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
def listening(address):
    with contextlib.ExitStack() as opened:
        yield [opened.enter_context(sock) for sock in listen(WORKER, address)]


def connects(host, port):
    try:
        socket.create_connection((host, port), timeout=DEADLINE).close()
    except OSError:
        return False
    return True


def others_of_this_host():
    """Addresses that are this host's, but not its loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(("192.0.2.1", 9))  # nothing is sent
        except OSError:
            return []
        return [sock.getsockname()[0]]


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


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("worker-0.job.svc:2222", ("worker-0.job.svc", 2222)),
        ("10.0.0.1:65535", ("10.0.0.1", 65535)),
        ("[::1]:2222", ("::1", 2222)),
        ("müller:1", ("müller", 1)),
    ],
)
def test_an_address_is_host_and_port(address, parts):
    assert split_address(address) == parts


@pytest.mark.parametrize(
    "address",
    [
        "",
        "host",
        "host:",
        ":2222",
        "host:0",
        "host:65536",
        "host:-1",
        "host:x",
        "::1:2222",
        "[]:1",
        "a" * 99 + ":1",
    ]
    + ["host:²", "grpc://host:2222", "a host:1", "host/a:1", "h\x1b:1"],
)
def test_another_address_is_an_error(address):
    with pytest.raises(errors.ClusterError, match=r"must be host:port.*Given: "):
        split_address(address)


def test_a_number_is_listened_at_alone(port):
    with listening(f"127.0.0.1:{port}"):
        assert connects("127.0.0.1", port)
        assert not any(connects(host, port) for host in others_of_this_host())
    assert not connects("127.0.0.1", port)


def test_localhost_is_listened_at_under_all_its_numbers(port):
    numbers = {where[0] for *_, where in socket.getaddrinfo("localhost", port, type=socket.SOCK_STREAM)}
    with listening(f"localhost:{port}") as sockets:
        found = {sock.getsockname()[0] for sock in sockets}
        assert found
        assert found <= numbers
        assert connects("127.0.0.1", port)
        assert not any(connects(host, port) for host in others_of_this_host())


@pytest.mark.parametrize(
    ("address", "resolved"),
    [("a-service", None), ("192.0.2.1", "192.0.2.1"), ("own-name", "127.0.1.1")],
    ids=["a name that is not known", "another host's number", "a name that is the loopback here alone"],
)
def test_all_interfaces_are_listened_at_where_the_name_is_none_of_this_host(
    monkeypatch, port, address, resolved
):
    def resolve(host, port, **kwargs):
        assert host == address
        if resolved is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (resolved, port))]

    with monkeypatch.context() as patched:
        patched.setattr(socket, "getaddrinfo", resolve)
        sockets = listen(WORKER, f"{address}:{port}")
    with contextlib.ExitStack() as opened:
        for sock in sockets:
            opened.enter_context(sock)
        for host in ["127.0.0.1", *others_of_this_host()]:
            assert connects(host, port)


def test_nobody_else_can_listen_at_the_same_port_not_even_with_reuse(port):
    with listening(f"127.0.0.1:{port}"):
        for host in ("127.0.0.1", "0.0.0.0"):
            with socket.socket() as other:
                other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                with pytest.raises(OSError, match="in use"):
                    other.bind((host, port))


def in_use(address):
    with pytest.raises(errors.AddressInUseError) as raised:
        listen(WORKER, address)
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
        (b'{"muster":1,"progress":{}}\n', "who it is"),
        (b"", "breaks"),
    ],
)
def test_something_else_that_answers_is_an_error(data, says):
    with answering(data) as address, pytest.raises(errors.StrayPeerError, match=says):
        query_status(address, DEADLINE)


def test_something_silent_is_an_error():
    with answering(b"{", then_close=False) as address, pytest.raises(TimeoutError):
        query_status(address, BRIEF)


def test_a_socket_is_taken_over_and_not_passed_on(port):
    with socket.create_server(("127.0.0.1", port)) as server:
        server.set_inheritable(True)
        with adopt_listener(str(server.detach())) as adopted:
            assert adopted.getsockname() == ("127.0.0.1", port)
            assert not adopted.get_inheritable()


@pytest.mark.parametrize("text", ["", "x", "-1", "99999"])
def test_a_number_that_is_no_socket_is_an_error(text):
    with pytest.raises(
        errors.RosterError, match="MUSTER_LISTEN_FD is .*not the number of a listening socket"
    ):
        adopt_listener(text)


def test_a_socket_that_does_not_listen_is_an_error_and_stays_as_it_is():
    with socket.socket() as plain, Path(__file__).open("rb") as file:
        for owner in (plain, file):
            with pytest.raises(errors.RosterError, match="not the number of a listening socket"):
                adopt_listener(str(owner.fileno()))
        assert plain.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 0
        assert file.read(3) == b'"""'
