"""A meeting of processes that know one address: the first of them listens there, the others call."""

import contextlib
import errno
import ipaddress
import logging
import selectors
import socket
import time
from typing import Any

import msgspec

from muster._errors import AuthenticationError, MissingPeerError, StrayPeerError
from muster.net import (
    Acceptor,
    Connection,
    Credentials,
    FrameBuffer,
    Hello,
    ProtocolError,
    dial,
    encode_frame,
    listen,
    split_address,
)

_log = logging.getLogger(__name__)

PURPOSE = "rendezvous"
# How long one call may take, and the pause before the next, in seconds.
_CALL_SECS, _PAUSE_SECS = 5.0, 0.2
# How often it is said that one waits, in seconds.
_SAY_SECS = 10.0
_LIMIT = 1 << 20
_CHUNK = 1 << 16


class RendezvousListener:
    """Takes the calls of others at the address of a rendezvous, until it is closed.

    Args:
        address: ``"host:port"``, of this host.
        credentials: What callers must prove.

    Raises:
        OSError: This process cannot listen there: another one does, or the address is another host's.
    """

    def __init__(self, address: str, credentials: Credentials) -> None:
        self._address = address
        host, _ = split_address(address)
        if not is_own_host(host):
            raise OSError(errno.EADDRNOTAVAIL, f"{host} is another host")
        self._sockets = listen(address)
        self._selector = selectors.DefaultSelector()
        self._came: list[tuple[Connection, Hello]] = []
        self._acceptor = Acceptor(
            self._selector,
            self._sockets,
            credentials,
            lambda: f"the rendezvous at {address}",
            {PURPOSE: lambda connection, hello: self._came.append((connection, hello))},
        )

    def await_callers(self, count: int, timeout_secs: float) -> list[tuple[Connection, Hello]]:
        """Return the callers that have come, when they are so many or the time is over, in seconds.

        With 0 seconds it takes note of who has come, without waiting.
        """
        deadline = time.monotonic() + timeout_secs
        said_at = tidied_at = time.monotonic()
        is_over = False
        while len(self._came) < count and not is_over:
            now = time.monotonic()
            is_over = now >= deadline
            if now - tidied_at > 1.0:
                tidied_at = now
                self._acceptor.tidy()
            if now - said_at > _SAY_SECS:
                said_at = now
                _log.warning("Waiting at %s for %d more.", self._address, count - len(self._came))
            for key, mask in self._selector.select(min(_PAUSE_SECS, max(0.0, deadline - now))):
                key.data(mask)
        came, self._came = self._came[:count], self._came[count:]
        return came

    def host_of(self, connection: Connection) -> str:
        """Return the host of a caller: this one, as others call it, if it has come by the loopback."""
        host, _ = split_address(self._address)
        local = ipaddress.ip_address(connection.origin).is_loopback and not _is_loopback(host)
        return host if local else connection.origin

    def close(self) -> None:
        """Let others listen there, and break off with those who were not taken."""
        self._acceptor.close()
        for connection, _ in self._came:
            connection.close()
        for sock in self._sockets:
            sock.close()
        self._selector.close()


def is_own_host(host: str) -> bool:
    """Return whether a name or address is one of this host."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except OSError:
        return False
    for family, kind, protocol, _, where in found:
        with contextlib.suppress(OSError), socket.socket(family, kind, protocol) as probe:
            probe.bind(where)
            return True
    return False


def call_rendezvous(
    address: str, credentials: Credentials, timeout_secs: float, name: str = ""
) -> Connection:
    """Call the one who listens at the address of a rendezvous, again and again until he is there.

    Args:
        address: ``"host:port"``.
        credentials: What this process proves.
        timeout_secs: How long to try, in seconds.
        name: Who calls.

    Raises:
        AuthenticationError: Whoever is there refuses this process, or proves nothing.
        StrayPeerError: What answers is no rendezvous of muster.
        MissingPeerError: Nobody has answered in time.
    """
    deadline = time.monotonic() + timeout_secs
    said_at = time.monotonic()
    while True:
        try:
            return dial(address, Hello(purpose=PURPOSE, name=name), credentials, _CALL_SECS)
        except (AuthenticationError, StrayPeerError) as exc:
            raise type(exc)(f"What answers at the rendezvous {address} is not the one: {exc}.") from exc
        except OSError as exc:
            now = time.monotonic()
            if now > deadline:
                raise MissingPeerError(
                    f"Nobody has answered at the rendezvous {address} within {timeout_secs:g} s: {exc}. "
                    "Start the same command on all hosts; the one with that address listens there."
                ) from exc
            if now - said_at > _SAY_SECS:
                said_at = now
                _log.warning("Waiting for the rendezvous at %s: %s.", address, exc)
            time.sleep(_PAUSE_SECS)


def meet(
    address: str, rank: int, size: int, port: int, credentials: Credentials, timeout_secs: float
) -> list[str]:
    """Exchange addresses with others of whom only the first one's address is known.

    Args:
        address: Where rank 0 listens, ``"host:port"``.
        rank: The rank of this process.
        size: The number of processes.
        port: The port at which this process listens later.
        credentials: What the processes prove to each other.
        timeout_secs: How long to wait for the others, in seconds.

    Returns:
        The addresses of all, in the order of ranks: the host by which each has reached the first one.

    Raises:
        MissingPeerError: Others did not come in time.
        StrayPeerError: Another process answers, or two have one rank.
    """
    host, _ = split_address(address)
    own = _joined(host, port)
    if rank:
        with call_rendezvous(address, credentials, timeout_secs, str(rank)) as connection:
            deadline = time.monotonic() + timeout_secs
            connection.send_all([encode_frame([rank, size, port])], deadline)
            try:
                answer: list[str] = _received(connection, list[str], deadline)
            except (OSError, ProtocolError, msgspec.MsgspecError) as exc:
                raise MissingPeerError(
                    f"The rendezvous at {address} has ended without an answer: {exc}. The log of rank 0 "
                    "says why."
                ) from exc
            return answer
    found = {0: own}
    with contextlib.ExitStack() as opened:
        listener = RendezvousListener(address, credentials)
        opened.callback(listener.close)
        callers = []
        for connection, hello in listener.await_callers(size - 1, timeout_secs):
            callers.append(opened.enter_context(connection))
            deadline = time.monotonic() + _CALL_SECS
            theirs, their_size, their_port = _received(connection, tuple[int, int, int], deadline)
            if theirs in found or their_size != size or not 0 < theirs < size:
                raise StrayPeerError(
                    f"Rank {hello.name} of {their_size} has come from {connection.origin} to the rendezvous "
                    f"at {address} of {size} processes, where ranks {sorted(found)} are already. Give each "
                    "process a rank of its own, and all the same number."
                )
            found[theirs] = _joined(listener.host_of(connection), their_port)
        if missing := sorted({*range(size)} - found.keys()):
            raise MissingPeerError(
                f"Ranks {', '.join(map(str, missing))} of {size} have not come to the rendezvous at "
                f"{address} within {timeout_secs:g} s. Start them, with that address."
            )
        everyone = [found[each] for each in range(size)]
        for connection in callers:
            connection.send_all([encode_frame(everyone)], time.monotonic() + _CALL_SECS)
    return everyone


def _received(connection: Connection, kind: Any, deadline: float) -> Any:
    """Return the first message that comes over a connection."""
    frames = FrameBuffer(_LIMIT)
    while data := connection.wait_for_data(_CHUNK, deadline):
        for message in frames.feed(data):
            return msgspec.msgpack.decode(message, type=kind)
    raise ConnectionResetError("end of the connection")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
