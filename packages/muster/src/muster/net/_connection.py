"""A connection to another task: bytes over TCP, with or without TLS, that never blocks."""

import contextlib
import errno
import select
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

# The number of buffers that one system call takes.
_BUFFERS_PER_CALL = 64
# A peer's host that is gone without a word is noticed after this time, in seconds, by probes of the kernel.
_KEEPALIVE = (
    # macOS has the first by another name.
    (getattr(socket, "TCP_KEEPIDLE" if hasattr(socket, "TCP_KEEPIDLE") else "TCP_KEEPALIVE"), 15),
    (socket.TCP_KEEPINTVL, 5),
    (socket.TCP_KEEPCNT, 6),
)


class Connection:
    """Sends from buffers and receives into buffers; a call that would have to wait raises BlockingIOError.

    Args:
        sock: A connected socket, over which nothing but this object sends or receives from now on.

    Attributes:
        origin: The address of the other end, for messages.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._tls = sock if isinstance(sock, ssl.SSLSocket) else None
        # SSLSocket.read is two Python calls around that of its private object, once for each 16 KiB: a fifth
        # of the time that a large message takes.
        reads: Any = getattr(sock, "_sslobj", self._tls)
        self._read: Callable[[int, memoryview], int] | None = None if reads is None else reads.read
        self.origin = ""
        sock.setblocking(False)
        if sock.family != socket.AF_UNIX:
            self.origin = str(sock.getpeername()[0])
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in _KEEPALIVE:
                sock.setsockopt(socket.IPPROTO_TCP, option, value)

    @property
    def encrypted(self) -> bool:
        """True if it uses mutual TLS."""
        return self._tls is not None

    def fileno(self) -> int:
        """Return the descriptor, to wait for."""
        return self._sock.fileno()

    def send(self, buffers: Sequence[memoryview | bytes | bytearray]) -> int:
        """Send from the start of the first buffers, which must not be empty, and return how many bytes.

        Raises:
            BlockingIOError: Nothing can be sent now.
            OSError: The connection is broken.
        """
        if self._tls is None:
            return self._sock.sendmsg(buffers[:_BUFFERS_PER_CALL])
        try:
            return self._tls.send(buffers[0])
        except ssl.SSLError as exc:
            raise _without_tls(exc) from exc

    def receive_into(self, buffers: Sequence[memoryview]) -> int:
        """Receive into the start of the first buffers, and return how many bytes; 0 at the end.

        Raises:
            BlockingIOError: Nothing has come yet.
            OSError: The connection is broken.
        """
        if self._read is None:
            return self._sock.recvmsg_into(buffers[:_BUFFERS_PER_CALL])[0]
        into, done = buffers[0], 0
        try:
            while done < len(into) and (count := self._read(len(into) - done, into[done:])):
                done += count
        except ssl.SSLWantReadError as exc:
            if not done:
                raise BlockingIOError from exc
        except ssl.SSLError as exc:
            raise _without_tls(exc) from exc
        return done

    def receive(self, size: int) -> bytes:
        """Receive up to ``size`` bytes, at least what one TLS record takes (16 KiB); none at the end.

        Raises:
            BlockingIOError: Nothing has come yet.
            OSError: The connection is broken.
        """
        try:
            return self._sock.recv(size)
        except ssl.SSLError as exc:
            raise _without_tls(exc) from exc

    def send_all(self, buffers: Sequence[memoryview | bytes], deadline: float) -> None:
        """Send all of some buffers of bytes, and wait for that until a time of the monotonic clock.

        Raises:
            TimeoutError: They are not sent by then.
            OSError: The connection is broken.
        """
        left = [memoryview(each) for each in buffers if len(each)]
        while left:
            try:
                drop_first(left, self.send(left))
            except BlockingIOError:
                self.wait(select.POLLOUT, deadline)

    def receive_all(self, buffers: Sequence[memoryview], deadline: float) -> None:
        """Fill buffers of bytes, and wait for that until a time of the monotonic clock.

        Raises:
            TimeoutError: They are not full by then.
            OSError: The connection is broken, or ends.
        """
        left = [each for each in buffers if len(each)]
        while left:
            try:
                count = self.receive_into(left)
            except BlockingIOError:
                self.wait(select.POLLIN, deadline)
                continue
            if not count:
                raise ConnectionResetError("end of the connection")
            drop_first(left, count)

    def wait_for_data(self, size: int, deadline: float) -> bytes:
        """Receive as `receive` does, and wait for that until a time of the monotonic clock.

        Raises:
            TimeoutError: Nothing has come by then.
            OSError: The connection is broken.
        """
        while True:
            try:
                return self.receive(size)
            except BlockingIOError:
                self.wait(select.POLLIN, deadline)

    def wait(self, events: int, deadline: float) -> None:
        """Wait for what a call lacked that raised BlockingIOError, until a time of the monotonic clock.

        Args:
            events: ``select.POLLIN`` or ``select.POLLOUT``.
            deadline: The time.

        Raises:
            TimeoutError: It has not come by then.
        """
        poll = select.poll()
        poll.register(self, events)
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(1000 * left):
            raise TimeoutError("The other end does not answer in time.")

    def shut_down(self) -> None:
        """End the connection, so that calls on it in other threads fail; `close` has to follow."""
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._sock, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection. What was sent still arrives."""
        self._sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _without_tls(exc: ssl.SSLError) -> OSError:
    """Return what a connection without TLS would raise, or the nearest to it."""
    if isinstance(exc, ssl.SSLWantReadError | ssl.SSLWantWriteError):
        return BlockingIOError()
    if isinstance(exc, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return ConnectionResetError(errno.ECONNRESET, "end of the connection")
    return ConnectionAbortedError(errno.ECONNABORTED, f"TLS finds the data changed or broken: {exc.reason}")


def drop_first(buffers: list[memoryview], count: int) -> None:
    """Drop the first ``count`` bytes of a list of buffers."""
    for done, buffer in enumerate(buffers):
        if count < (size := len(buffer)):
            if count:
                buffers[done] = buffer[count:]
            del buffers[:done]
            return
        count -= size
    buffers.clear()
