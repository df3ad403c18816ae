"""Listening at a task's address."""

import contextlib
import socket
from pathlib import Path

import pytest

from muster import _errors as errors
from muster.net import adopt_listener, copied_listener, free_address, listen, split_address

pytestmark = pytest.mark.alone

DEADLINE = 60.0


@pytest.fixture
def port():
    with socket.create_server(("127.0.0.1", 0)) as held:
        return held.getsockname()[1]


@contextlib.contextmanager
def listening(address):
    with contextlib.ExitStack() as opened:
        yield [opened.enter_context(sock) for sock in listen(address)]


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
        sockets = listen(f"{address}:{port}")
    with contextlib.ExitStack() as opened:
        for sock in sockets:
            opened.enter_context(sock)
        for host in ["127.0.0.1", *others_of_this_host()]:
            assert connects(host, port)


@pytest.mark.parametrize(
    ("address", "host", "interfaces"),
    [
        ("127.0.0.1:1", "127.0.0.1", ["127.0.0.1"]),
        ("[::1]:1", "[::1]", ["[::1]", "0.0.0.0"]),  # the latter without IPv6
        ("localhost:1", "localhost", ["127.0.0.1", "[::1]"]),
        ("192.0.2.1:1", "192.0.2.1", ["[::]", "0.0.0.0"]),
        ("no-such-host.invalid:1", "no-such-host.invalid", ["[::]", "0.0.0.0"]),
    ],
)
def test_another_service_listens_where_its_task_does(address, host, interfaces):
    told, listened = free_address(address)
    assert told.rpartition(":")[0] == host
    interface, _, port = listened.rpartition(":")
    assert interface in interfaces
    assert told.rpartition(":")[2] == port
    with socket.create_server(
        split_address(listened), family=socket.AF_INET6 if "[" in listened else socket.AF_INET
    ):
        pass


def test_nobody_else_can_listen_at_the_same_port_not_even_with_reuse(port):
    with listening(f"127.0.0.1:{port}"):
        for host in ("127.0.0.1", "0.0.0.0"):
            with socket.socket() as other:
                other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                with pytest.raises(OSError, match="in use"):
                    other.bind((host, port))


def test_a_socket_is_taken_over_and_not_passed_on(port):
    with socket.create_server(("127.0.0.1", port)) as server:
        server.set_inheritable(True)
        with adopt_listener(str(server.detach())) as adopted:
            assert adopted.getsockname() == ("127.0.0.1", port)
            assert not adopted.get_inheritable()


def test_a_copy_of_a_socket_can_be_closed_and_the_socket_taken_over_again(port):
    with socket.create_server(("127.0.0.1", port)) as server:
        server.set_inheritable(True)
        for _ in range(2):
            with adopt_listener(copied_listener(str(server.fileno()))) as adopted:
                assert adopted.getsockname() == ("127.0.0.1", port)
                assert not adopted.get_inheritable()
        assert not server.get_inheritable()


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
