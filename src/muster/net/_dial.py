"""Connect to a task, and prove that this process belongs to its job."""

import socket
import ssl
import time

from muster._errors import AuthenticationError, StrayPeerError
from muster.net._address import split_address
from muster.net._connection import Connection
from muster.net._credentials import Credentials
from muster.net._frames import ProtocolError
from muster.net._greeting import CallerGreeting, Hello
from muster.net._tls import explain_tls_error

_SILENT = "something accepts connections there, but does not answer"


def dial(address: str, hello: Hello, credentials: Credentials, timeout_secs: float) -> Connection:
    """Connect to the task at an address. This blocks; the connection that it returns does not.

    Args:
        address: ``"host:port"``.
        hello: What the connection is for, and who calls.
        credentials: What this process proves, and what the task must.
        timeout_secs: How long all of it may take, in seconds.

    Raises:
        AuthenticationError: The task refuses this process, does not prove that it belongs to the job, or
            speaks another version of this protocol.
        StrayPeerError: What answers is not a task of muster. These two texts are clauses about "it", for the
            caller to say what it called.
        TimeoutError: No answer came in time.
        OSError: Nothing listens there, the host is unknown, or the connection broke off.
    """
    deadline = time.monotonic() + timeout_secs
    sock = socket.create_connection(split_address(address), timeout=timeout_secs)
    try:
        if sock.getsockname() == sock.getpeername():
            # TCP can connect a socket to itself: calling a free port of this host may succeed by chance.
            raise ConnectionRefusedError("nothing listens there")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if credentials.tls is not None:
            host, _ = split_address(address)
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
