"""Connect to a task, and prove that this process belongs to its job."""

import contextlib
import socket
import ssl
import time
from collections.abc import Sequence
from typing import Any

from muster._errors import AuthenticationError, StrayPeerError
from muster.net._address import split_address
from muster.net._connection import Connection
from muster.net._credentials import Credentials
from muster.net._frames import ProtocolError
from muster.net._greeting import CallerGreeting, Hello
from muster.net._tls import explain_tls_error

_SILENT = "something accepts connections there, but does not answer"
# What is left for an address after this process itself was stopped, in seconds.
_SHORTEST_SECS = 0.01


def dial(address: str, hello: Hello, credentials: Credentials, timeout_secs: float) -> Connection:
    """Connect to the task at an address. This blocks; the connection that it returns does not.

    Args:
        address: ``"host:port"``.
        hello: What the connection is for, and who calls.
        credentials: What this process proves, and what the task must.
        timeout_secs: How long it may take, in seconds, once the host's name is resolved.

    Raises:
        AuthenticationError: The task refuses this process, does not prove that it belongs to the job, or
            speaks another version of this protocol.
        StrayPeerError: What answers is not a task of muster. These two texts are clauses about "it", for the
            caller to say what it called.
        TimeoutError: No answer came in time.
        OSError: Nothing listens there, the host is unknown, or the connection broke off.
    """
    host, port = split_address(address)
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    deadline = time.monotonic() + timeout_secs
    sock = _connect([(family, where) for family, _, _, _, where in found], deadline)
    try:
        if sock.getsockname() == sock.getpeername():
            # TCP can connect a socket to itself: calling a free port of this host may succeed by chance.
            raise ConnectionRefusedError("nothing listens there")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if credentials.tls is not None:
            sock = credentials.tls.client_context.wrap_socket(
                sock, server_hostname=host, do_handshake_on_connect=False
            )
            _shake_hands(sock, deadline)
        _greet(sock, CallerGreeting(credentials.secret, hello), deadline)
        return Connection(sock)
    except ProtocolError as exc:
        sock.close()
        raise StrayPeerError(f"it is something else: {exc}") from exc
    except ssl.SSLError as exc:
        sock.close()
        raise AuthenticationError(explain_tls_error(exc, "it").removesuffix(".")) from exc
    except BaseException:
        sock.close()
        raise


def _connect(addresses: Sequence[tuple[int, Any]], deadline: float) -> socket.socket:
    """Connect to the first address that takes it, of those that one host has.

    Each gets its share of the time: a host may have one for IPv6 at which packets are lost, and one for IPv4.
    """
    failure = OSError("its host has no address")
    for index, (family, where) in enumerate(addresses):
        share = (deadline - time.monotonic()) / (len(addresses) - index)
        try:
            with contextlib.ExitStack() as opened:
                sock = opened.enter_context(socket.socket(family, socket.SOCK_STREAM))
                sock.settimeout(max(_SHORTEST_SECS, share))
                sock.connect(where)
                opened.pop_all()
                return sock
        except OSError as exc:
            failure = exc
    raise failure


def _shake_hands(sock: ssl.SSLSocket, deadline: float) -> None:
    sock.settimeout(_left(deadline))
    try:
        sock.do_handshake()
    except TimeoutError as exc:
        raise TimeoutError(_SILENT) from exc
    except (ssl.SSLEOFError, ConnectionResetError) as exc:
        # The task may be ending, or drop callers that it has too many of: no proof of anything.
        raise ConnectionResetError(
            "something accepts connections there, and breaks them off in TLS's handshake: its log may say "
            "why, or MUSTER_TLS is not set there"
        ) from exc


def _greet(sock: socket.socket, greeting: CallerGreeting, deadline: float) -> None:
    sock.settimeout(_left(deadline))
    sock.sendall(greeting.start())
    while not greeting.done:
        sock.settimeout(_left(deadline))
        try:
            data = sock.recv(greeting.wanted)
        except TimeoutError as exc:
            raise TimeoutError(_SILENT) from exc
        if not data:
            raise ConnectionResetError("something accepts connections there, and breaks them off")
        if answer := greeting.feed(data):
            sock.sendall(answer)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError(_SILENT)
    return left
