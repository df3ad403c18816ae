"""Takes the connections at a task's address, and hands over those that have proved themselves."""

import contextlib
import functools
import logging
import selectors
import socket
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from muster._errors import AuthenticationError
from muster.net._connection import Connection
from muster.net._credentials import Credentials
from muster.net._frames import ProtocolError
from muster.net._greeting import Hello, ListenerGreeting
from muster.net._tls import explain_tls_error, is_plain

_log = logging.getLogger(__name__)


class Handler(Protocol):
    """Takes a connection whose caller has proved itself, and what the caller said."""

    def __call__(self, connection: Connection, hello: Hello, /) -> None: ...


# How long a caller may take to prove itself, in seconds.
GREETING_SECS = 10.0
# How many callers may be about to prove themselves; the oldest are dropped for newer ones.
MAX_GUESTS = 64
# After so many strangers nobody is accepted until `tidy`, which is called each second: one takes some 0.1 ms,
# and so all of them take 3 % of a processor. Others wait in the system's queue meanwhile.
_MAX_STRANGERS = 300
# How many refused callers are logged, so that strangers cannot fill the log.
_MAX_REFUSALS = 100
# What a caller may have waiting here, in bytes; greetings are shorter.
_CHUNK = 1 << 12
_UNREAD = 1 << 16
_TLS_ONLY = (
    "the connection is refused: this task speaks TLS, and the caller does not. Set MUSTER_TLS in all tasks"
)


class Acceptor:
    """Accepts connections, greets each, and passes it to the handler of its purpose.

    It starts no thread: what it registers with the selector must be called, with the ready events, when a
    socket is ready; and `tidy` now and then. A stranger costs a descriptor and some kilobytes, for ten
    seconds at most, and there are never more than 64 of them.

    Args:
        selector: Watches the sockets.
        listeners: The listening sockets of this task. They are closed by their owner.
        credentials: What callers must prove.
        describe: Returns the name of this task, for the log.
        handlers: What takes connections that have proved themselves, by their purpose.
        name: The name of this task, for which callers must mean theirs if there is a secret; empty for any.
    """

    def __init__(
        self,
        selector: selectors.BaseSelector,
        listeners: Sequence[socket.socket],
        credentials: Credentials,
        describe: Callable[[], str],
        handlers: Mapping[str, Handler],
        name: str = "",
    ) -> None:
        self._selector = selector
        self._listeners = listeners
        self._credentials = credentials
        self._describe = describe
        self._handlers = handlers
        self._name = name
        self._guests: dict[socket.socket, _Guest] = {}
        self._refusals: set[str] = set()
        self._strangers = 0  # since `tidy`
        self.tidy()

    def close(self) -> None:
        """Close the connections of callers that have not proved themselves yet."""
        for sock in self._guests:
            sock.close()

    def tidy(self) -> None:
        """Listen again if that had stopped, and drop callers that take too long."""
        self._strangers = 0
        for listener in self._listeners:
            if listener.fileno() not in self._selector.get_map():
                listener.setblocking(False)
                accept = functools.partial(self._accept, listener)
                self._selector.register(listener, selectors.EVENT_READ, accept)
        before = time.monotonic() - GREETING_SECS
        for sock, guest in list(self._guests.items()):
            if guest.since < before:
                self._drop(sock)

    def _accept(self, listener: socket.socket, mask: int) -> None:
        try:
            sock, origin = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError as exc:
            # Most likely too many files are open. The listener stays ready, so accept again later.
            _log.warning("Cannot take a connection: %s.", exc)
            self._pause(listener)
            return
        sock.setblocking(False)
        try:
            sock.getpeername()
            if self._credentials.tls is not None:
                context = self._credentials.tls.server_context
                sock = context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        except OSError:  # the caller has broken off already
            sock.close()
            self._count_stranger()
            return
        if len(self._guests) >= MAX_GUESTS:
            self._drop(next(iter(self._guests)))
        self._guests[sock] = _Guest(
            str(origin[0]), ListenerGreeting(self._credentials.secret, self._handlers, self._name)
        )
        self._selector.register(sock, selectors.EVENT_READ, functools.partial(self._serve, sock))

    def _serve(self, sock: socket.socket, mask: int) -> None:
        guest = self._guests.get(sock)
        if guest is None:
            return  # it was ready, and dropped since then for a newer one
        try:
            if isinstance(sock, ssl.SSLSocket) and not guest.encrypted:
                sock.do_handshake()
                guest.encrypted = True
            data = sock.recv(_CHUNK)
            if not data:
                self._drop(sock)
                return
            answer = guest.greeting.feed(data)
            # The answers are short, and the caller reads: what the system does not take at once is not one.
            if answer and sock.send(answer) < len(answer):
                raise ProtocolError("it does not read")
        except (BlockingIOError, ssl.SSLWantReadError):
            self._wait_for(sock, selectors.EVENT_READ)
            return
        except ssl.SSLWantWriteError:
            self._wait_for(sock, selectors.EVENT_WRITE)
            return
        except (ProtocolError, AuthenticationError) as exc:
            self._refuse(sock, str(exc))
            return
        except ssl.SSLError as exc:
            if is_plain(exc):
                with contextlib.suppress(OSError):
                    socket.socket.send(sock, guest.greeting.refuse(_TLS_ONLY))  # in plain, as it speaks
            self._note(explain_tls_error(exc, guest.origin))
            self._drop(sock)
            return
        except OSError:
            self._drop(sock)
            return
        if guest.greeting.done and (hello := guest.greeting.hello) is not None:
            del self._guests[sock]
            self._selector.unregister(sock)
            self._hand_over(sock, hello)

    def _wait_for(self, sock: socket.socket, events: int) -> None:
        key = self._selector.get_key(sock)
        if key.events != events:
            self._selector.modify(sock, events, key.data)

    def _hand_over(self, sock: socket.socket, hello: Hello) -> None:
        try:
            connection = Connection(sock)
        except OSError:  # the caller has broken off already
            sock.close()
            return
        try:
            self._handlers[hello.purpose](connection, hello)
        except Exception:
            # The thread serves other connections, too.
            _log.exception("%s cannot take a connection for %r.", self._describe(), hello.purpose)
            connection.close()

    def _refuse(self, sock: socket.socket, why: str) -> None:
        guest = self._guests[sock]
        with contextlib.suppress(OSError):
            # A stranger learns no more than the reason.
            sock.send(guest.greeting.refuse(f"the connection is refused: {why}"))
        self._note(f"{self._describe()} refuses a connection from {guest.origin}: {why}.")
        self._drop(sock)

    def _note(self, text: str) -> None:
        if text not in self._refusals and len(self._refusals) < _MAX_REFUSALS:
            self._refusals.add(text)
            _log.warning("%s", text)

    def _drop(self, sock: socket.socket) -> None:
        del self._guests[sock]
        self._selector.unregister(sock)
        # With bytes unread, closing resets the connection, and the caller may not get to see the answer.
        with contextlib.suppress(OSError):
            socket.socket.recv(sock, _UNREAD)
        sock.close()
        self._count_stranger()

    def _count_stranger(self) -> None:
        self._strangers += 1
        if self._strangers == _MAX_STRANGERS:
            for listener in self._listeners:
                self._pause(listener)

    def _pause(self, listener: socket.socket) -> None:
        """Accept no more until `tidy`; what was ready before may still be called, and pause it again."""
        if listener.fileno() in self._selector.get_map():
            self._selector.unregister(listener)


class _Guest:
    """A caller that has not proved itself yet."""

    def __init__(self, origin: str, greeting: ListenerGreeting) -> None:
        self.origin = origin
        self.greeting = greeting
        self.since = time.monotonic()
        self.encrypted = False
