"""Connections between tasks, plain and over TLS: who comes in, and what comes through."""

import contextlib
import selectors
import socket
import threading
import time

import numpy as np
import pytest

from certificates import Authority
from muster._errors import AuthenticationError, StrayPeerError
from muster.net import Acceptor, Credentials, Hello, Tls, dial, listen

pytestmark = pytest.mark.alone

SECRET = b"0123456789abcdef"
SECS = 30.0


@contextlib.contextmanager
def listening(credentials, first_words=b"", listeners=()):
    """A task that listens on loopback: its address, and what it has taken."""
    taken = []
    ended = threading.Event()

    def take(connection, hello):
        taken.append((connection, hello))
        if first_words:
            connection.send_all([first_words], time.monotonic() + SECS)

    def run():
        with selectors.DefaultSelector() as selector:
            acceptor = Acceptor(
                selector, [server, *listeners], credentials, lambda: "worker 0", {"test": take}
            )
            while not ended.is_set():
                for key, mask in selector.select(0.05):
                    key.data(mask)
            acceptor.close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield f"localhost:{server.getsockname()[1]}", taken
        finally:
            ended.set()
            thread.join()
            for connection, _ in taken:
                connection.close()


@pytest.fixture(scope="module")
def authority():
    return Authority()


@pytest.fixture(scope="module")
def tls(authority, tmp_path_factory):
    return Tls.load(authority.make(tmp_path_factory.mktemp("keys") / "both", "localhost"))


def taken_soon(taken):
    deadline = time.monotonic() + SECS
    while not taken and time.monotonic() < deadline:
        time.sleep(0.005)
    return taken[0]


@pytest.mark.parametrize("encrypted", [False, True])
@pytest.mark.parametrize("secret", [None, SECRET])
def test_large_arrays_come_through_both_ways(tls, encrypted, secret):
    credentials = Credentials(secret=secret, tls=tls if encrypted else None)
    sent = np.random.default_rng(0).integers(0, 256, 3_000_001, np.uint8)
    parts = [sent[:0].data, sent[:1].data, sent[1:70_000].data, sent[70_000:].data]
    with listening(credentials) as (address, taken):
        with dial(address, Hello(purpose="test", name="worker 1"), credentials, SECS) as here:
            there, hello = taken_soon(taken)
            assert hello.name == "worker 1"
            got = np.zeros_like(sent)
            until = time.monotonic() + SECS
            echo = threading.Thread(
                target=lambda: (there.receive_all([got.data], until), there.send_all([got.data], until))
            )
            echo.start()
            here.send_all(parts, until)
            back = np.zeros_like(sent)
            here.receive_all([back[:5].data, back[5:].data], until)
            echo.join()
            np.testing.assert_array_equal(got, sent)
            np.testing.assert_array_equal(back, sent)


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost"])
def test_numbers_of_both_kinds_and_names_lead_to_a_task(host):
    with contextlib.ExitStack() as held:
        try:
            probe = held.enter_context(socket.create_server((host.strip("[]"), 0), family=_family(host)))
        except OSError as exc:
            pytest.skip(f"This host has no {host}: {exc}")
        address = f"{host}:{probe.getsockname()[1]}"
        held.close()
        listeners = [held.enter_context(each) for each in listen(address)]
        with listening(Credentials(), listeners=listeners) as (_, taken):
            dial(address, Hello(purpose="test", name=host), Credentials(), SECS).close()
            assert taken_soon(taken)[1].name == host


def _family(host):
    return socket.AF_INET6 if ":" in host else socket.AF_INET


@pytest.mark.parametrize("encrypted", [False, True])
def test_what_follows_the_greeting_at_once_is_not_lost(tls, encrypted):
    credentials = Credentials(secret=SECRET, tls=tls if encrypted else None)
    with listening(credentials, b"first words") as (address, _):
        for _ in range(50):
            got = bytearray(11)
            with dial(address, Hello(purpose="test"), credentials, SECS) as connection:
                connection.receive_all([memoryview(got)], time.monotonic() + SECS)
            assert got == b"first words"


def test_bytes_on_the_wire_are_read_by_nobody_with_tls(tls):
    credentials = Credentials(tls=tls)
    recorded = bytearray()
    with (
        listening(credentials) as (address, taken),
        socket.create_server(("127.0.0.1", 0)) as between,
        contextlib.ExitStack() as held,
    ):

        def pass_on():
            near = held.enter_context(between.accept()[0])
            far = held.enter_context(socket.create_connection(address.split(":"), timeout=SECS))
            pairs = {near: far, far: near}
            with selectors.DefaultSelector() as selector:
                for sock in pairs:
                    selector.register(sock, selectors.EVENT_READ)
                while True:
                    for key, _ in selector.select(SECS):
                        if not (data := key.fileobj.recv(1 << 16)):
                            return
                        recorded.extend(data)
                        pairs[key.fileobj].sendall(data)

        thread = threading.Thread(target=pass_on)
        thread.start()
        with dial(f"localhost:{between.getsockname()[1]}", Hello(purpose="test"), credentials, SECS) as here:
            here.send_all([b"precious weights"], time.monotonic() + SECS)
            there, _ = taken_soon(taken)
            got = bytearray(16)
            there.receive_all([memoryview(got)], time.monotonic() + SECS)
        thread.join()
    assert got == b"precious weights"
    assert len(recorded) > 1000
    assert b"precious" not in recorded
    assert b"test" not in recorded


def test_both_sides_say_what_is_wrong_with_certificates(authority, tls, tmp_path, caplog):
    other = Tls.load(Authority().make(tmp_path / "other", "localhost"))
    elsewhere = Tls.load(authority.make(tmp_path / "elsewhere", "another-host"))
    with listening(Credentials(tls=tls)) as (address, taken):
        with pytest.raises(AuthenticationError, match=r"it shows a certificate of an authority that is not"):
            dial(address, Hello(purpose="test"), Credentials(tls=other), SECS)
        with dial(address, Hello(purpose="test"), Credentials(tls=elsewhere), SECS):
            taken_soon(taken)  # the host of a caller is not looked at: it may have many
    with listening(Credentials(tls=elsewhere)) as (address, taken):
        with pytest.raises(AuthenticationError, match="it shows a certificate for other hosts"):
            dial(address, Hello(purpose="test"), Credentials(tls=tls), SECS)
        assert not taken
    assert any("does not accept the certificate" in record.getMessage() for record in caplog.records)


def test_tls_on_one_side_only_is_said_on_both(tls, caplog):
    with listening(Credentials(tls=tls)) as (address, taken):
        with pytest.raises(StrayPeerError, match="this task speaks TLS, and the caller does not"):
            dial(address, Hello(purpose="test"), Credentials(), SECS)
        assert not taken
    assert "does not speak TLS: set MUSTER_TLS" in caplog.text
    caplog.clear()
    with listening(Credentials()) as (address, taken):
        with pytest.raises(AuthenticationError, match="it does not speak TLS: set MUSTER_TLS"):
            dial(address, Hello(purpose="test"), Credentials(tls=tls), SECS)
        assert not taken
    assert "it speaks TLS, and this task does not" in caplog.text


def test_a_secret_is_asked_for_over_tls_too(tls):
    with listening(Credentials(secret=SECRET, tls=tls)) as (address, taken):
        with pytest.raises(AuthenticationError, match="the caller has no secret"):
            dial(address, Hello(purpose="test"), Credentials(tls=tls), SECS)
        assert not taken


def test_a_purpose_that_is_not_served_is_refused():
    with (
        listening(Credentials()) as (address, _),
        pytest.raises(AuthenticationError, match="the caller wants 'other', which this task does not serve"),
    ):
        dial(address, Hello(purpose="other"), Credentials(), SECS)


def test_a_task_that_does_not_read_is_given_up():
    with (
        listening(Credentials()) as (address, _),
        dial(address, Hello(purpose="test"), Credentials(), SECS) as connection,
        pytest.raises(TimeoutError),
    ):
        connection.send_all([bytes(100_000_000)], time.monotonic() + 0.3)


def test_a_task_that_says_nothing_is_given_up():
    with (
        listening(Credentials()) as (address, _),
        dial(address, Hello(purpose="test"), Credentials(), SECS) as connection,
        pytest.raises(TimeoutError),
    ):
        connection.wait_for_data(10, time.monotonic() + 0.2)


def test_a_host_is_called_at_its_next_address_where_packets_to_one_are_lost(monkeypatch):
    with contextlib.ExitStack() as held:
        silent = held.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):  # no more calls are taken, nor refused
            caller = held.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(silent.getsockname())
        address, _ = held.enter_context(listening(Credentials()))
        ports = (silent.getsockname()[1], int(address.rpartition(":")[2]))
        found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port)) for port in ports]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        dial(address, Hello(purpose="test"), Credentials(), 4.0).close()


def test_a_name_that_resolves_slowly_leaves_time_to_call(monkeypatch):
    resolve, clock = socket.getaddrinfo, time.monotonic
    passed = []

    def resolve_slowly(*args, **options):
        passed.append(2 * SECS)
        return resolve(*args, **options)

    with listening(Credentials()) as (address, _):
        monkeypatch.setattr(socket, "getaddrinfo", resolve_slowly)
        monkeypatch.setattr(time, "monotonic", lambda: clock() + sum(passed))
        dial(address, Hello(purpose="test"), Credentials(), SECS).close()
        assert passed
