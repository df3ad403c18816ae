"""The acceptor, its selector turned by hand: whatever callers do, nothing escapes it."""

import contextlib
import errno
import selectors
import socket
import ssl
import struct
import threading
import time

import pytest

from certificates import Authority
from muster.net import NO_CREDENTIALS, Acceptor, Connection, Credentials, Hello, Tls, dial
from muster.net import _acceptor as acceptor
from muster.net._acceptor import MAX_GUESTS

SECS = 30.0


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    return Tls.load(Authority().make(tmp_path_factory.mktemp("keys") / "both", "localhost"))


class Loop:
    """A listener on loopback and its acceptor; `turn` handles what is ready, once."""

    def __init__(self, credentials, handler):
        self.server = socket.create_server(("127.0.0.1", 0))
        self.selector = selectors.DefaultSelector()
        self.acceptor = Acceptor(
            self.selector, [self.server], credentials, lambda: "worker 0", {"test": handler}
        )
        self.turns = 0

    @property
    def address(self):
        return f"localhost:{self.server.getsockname()[1]}"

    @property
    def guests(self):
        return self.acceptor._guests

    def call(self):
        return socket.create_connection(self.server.getsockname(), timeout=SECS)

    def turn(self, secs=0.0):
        for key, mask in self.selector.select(secs):
            self.turns += 1
            key.data(mask)

    def turn_until(self, condition):
        deadline = time.monotonic() + SECS
        while not condition():
            assert time.monotonic() < deadline
            self.turn(0.05)


@contextlib.contextmanager
def loop(credentials=NO_CREDENTIALS, handler=lambda connection, hello: connection.close()):
    made = Loop(credentials, handler)
    with made.server, made.selector:
        try:
            yield made
        finally:
            made.acceptor.close()


def call_until_the_end(turned):
    """Prove oneself to a task, and wait until it closes the connection."""
    ended = threading.Event()

    def call():
        with dial(turned.address, Hello(purpose="test"), NO_CREDENTIALS, SECS) as connection:
            assert connection.wait_for_data(1, time.monotonic() + SECS) == b""
        ended.set()

    calling = threading.Thread(target=call)
    calling.start()
    turned.turn_until(ended.is_set)
    calling.join()


def reset(sock):
    """Break off a connection so that the other end sees it at once, with what was sent unread."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def test_a_caller_that_is_ready_when_it_is_dropped_for_a_newer_one():
    with loop() as turned, contextlib.ExitStack() as held:
        callers = [held.enter_context(turned.call()) for _ in range(MAX_GUESTS)]
        turned.turn_until(lambda: len(turned.guests) == MAX_GUESTS)
        for _ in range(3):
            held.enter_context(turned.call())  # the listener is ready now, and so are all callers
        for caller in callers:
            caller.sendall(b"x")
        turned.turn_until(lambda: len(turned.guests) == 3)


def test_too_many_strangers_and_too_many_open_files_at_once(monkeypatch):
    def accept(listener):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(acceptor, "_MAX_STRANGERS", 1)
    with loop() as turned, turned.call() as stranger:
        turned.turn_until(lambda: turned.guests)
        turned.turn()  # the kernel forgets that the listener was ready before
        stranger.sendall(b"GET / HTTP/1.1\r\n")  # it is ready first, and is one stranger too many
        with turned.call():
            with monkeypatch.context() as patched:
                patched.setattr(socket.socket, "accept", accept)
                turned.turn_until(lambda: not turned.guests)
            turned.acceptor.tidy()
            turned.turn_until(lambda: len(turned.guests) == 1)


@pytest.mark.parametrize("encrypted", [False, True])
@pytest.mark.parametrize("sent", [b"", b"x"])
def test_a_caller_that_has_broken_off_before_it_is_accepted(tls, encrypted, sent):
    with loop(Credentials(tls=tls if encrypted else None)) as turned:
        for _ in range(3):
            caller = turned.call()
            caller.sendall(sent)
            reset(caller)
        for _ in range(9):
            turned.turn()
        with turned.call():
            turned.turn_until(lambda: len(turned.guests) == 1)


def test_a_caller_that_breaks_off_as_soon_as_it_has_proved_itself(monkeypatch):
    def broken(sock):
        raise OSError("Transport endpoint is not connected")

    taken = []
    with loop(handler=lambda connection, hello: taken.append(hello)) as turned:
        monkeypatch.setattr("muster.net._acceptor.Connection", broken)
        call_until_the_end(turned)
    assert taken == []


def test_a_handler_that_fails_costs_its_connection_alone(caplog):
    def fail(connection, hello):
        raise LookupError("no room")

    with loop(handler=fail) as turned:
        for _ in range(2):
            call_until_the_end(turned)
    assert "worker 0 cannot take a connection for 'test'" in caplog.text
    assert "LookupError: no room" in caplog.text


def test_a_handshake_that_waits_for_its_caller_takes_no_time(tls, monkeypatch):
    wanted = iter([ssl.SSLWantWriteError])

    def do_handshake(sock):
        raise next(wanted, ssl.SSLWantReadError)

    monkeypatch.setattr(ssl.SSLSocket, "do_handshake", do_handshake)
    with loop(Credentials(tls=tls)) as turned, turned.call() as caller:
        caller.sendall(b"x")
        while turned.turns < 3:  # it accepts, would write, would read
            turned.turn(SECS)
        (sock,) = turned.guests
        assert turned.selector.get_key(sock).events == selectors.EVENT_READ


def encrypted_pair(tls):
    """Both ends of a connection over TLS: a Connection, and the other end's socket."""
    near, far = socket.socketpair(socket.AF_UNIX)
    near.settimeout(SECS)
    far.settimeout(SECS)
    client = tls.client_context.wrap_socket(near, server_hostname="localhost", do_handshake_on_connect=False)
    server = tls.server_context.wrap_socket(far, server_side=True, do_handshake_on_connect=False)
    shaking = threading.Thread(target=server.do_handshake)
    shaking.start()
    client.do_handshake()
    shaking.join()
    return Connection(client), server


def test_a_peer_that_is_killed_looks_the_same_over_tls(tls):
    connection, far = encrypted_pair(tls)
    with connection:
        far.close()  # without a word of TLS
        assert connection.receive(1 << 14) == b""
        with pytest.raises(ConnectionError) as raised:
            connection.send_all([bytes(1 << 20)], time.monotonic() + SECS)
        assert raised.value.strerror
        assert not isinstance(raised.value, ssl.SSLError)


def test_changed_bytes_are_told_in_plain_words(tls):
    connection, far = encrypted_pair(tls)
    with connection, far:
        socket.socket.send(far, b"\x17\x03\x03\x00\x20" + bytes(32))
        with pytest.raises(ConnectionAbortedError) as raised:
            connection.receive(1 << 14)
        assert raised.value.strerror.startswith("TLS finds the data changed or broken: ")


def test_a_handshake_that_is_broken_off_proves_nothing(tls):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"localhost:{server.getsockname()[1]}"

        def break_off():
            peer, _ = server.accept()
            peer.recv(1 << 16)
            peer.close()

        thread = threading.Thread(target=break_off)
        thread.start()
        with pytest.raises(ConnectionResetError, match="breaks them off in TLS's handshake"):
            dial(address, Hello(purpose="test"), Credentials(tls=tls), SECS)
        thread.join()


def test_a_handshake_that_is_not_answered(tls):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"localhost:{server.getsockname()[1]}"
        with pytest.raises(TimeoutError, match="^something accepts connections there, but does not answer$"):
            dial(address, Hello(purpose="test"), Credentials(tls=tls), 0.2)
