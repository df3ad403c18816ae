"""Pass bytes between a connection of muster's, which may be encrypted, and a descriptor."""

import select
import socket
import threading
import time

from muster.net import Connection

_CHUNK = 1 << 16
# How much waits for a slow reader, at most, in bytes.
_MOST_WAITING = 1 << 20
# How long the last of it may take, once the descriptor is closed, in seconds.
_LAST_SECS = 5.0


class Bridge:
    """Passes bytes both ways, by a thread of its own, until one side ends.

    Args:
        connection: One side; closed at the end.

    Attributes:
        descriptor: The other side: a socket, which whoever takes it closes.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        mine, theirs = socket.socketpair()
        mine.setblocking(False)
        self._sock = mine
        self.descriptor = theirs.detach()
        self._thread = threading.Thread(target=self._run, name="muster-bridge", daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait for the end of the thread, which comes when the descriptor is closed."""
        self._thread.join()

    def _run(self) -> None:
        with self._connection, self._sock:
            inward, outward = bytearray(), bytearray()  # from the connection, and to it
            try:
                while True:
                    self._wait(inward, outward)
                    if len(inward) < _MOST_WAITING and not self._receive(inward):
                        self._sock.setblocking(True)
                        self._sock.sendall(inward)
                        return
                    if len(outward) < _MOST_WAITING and not self._take(outward):
                        self._connection.send_all([bytes(outward)], time.monotonic() + _LAST_SECS)
                        return
                    self._pass_on(inward, outward)
            except OSError:
                return  # the other side learns it by the end of its own

    def _wait(self, inward: bytearray, outward: bytearray) -> None:
        poll = select.poll()
        reads, writes = select.POLLIN, select.POLLOUT
        poll.register(
            self._connection, (reads if len(inward) < _MOST_WAITING else 0) | (writes if outward else 0)
        )
        poll.register(self._sock, (reads if len(outward) < _MOST_WAITING else 0) | (writes if inward else 0))
        poll.poll()

    def _receive(self, inward: bytearray) -> bool:
        """Take what has come over the connection; False at its end."""
        try:
            while len(inward) < _MOST_WAITING:
                data = self._connection.receive(_CHUNK)
                if not data:
                    return False
                inward += data
        except BlockingIOError:
            pass
        return True

    def _take(self, outward: bytearray) -> bool:
        """Take what is to be sent; False if the descriptor is closed."""
        try:
            data = self._sock.recv(_CHUNK)
        except BlockingIOError:
            return True
        outward += data
        return bool(data)

    def _pass_on(self, inward: bytearray, outward: bytearray) -> None:
        try:
            while outward:
                del outward[: self._connection.send([bytes(outward[:_CHUNK])])]
        except BlockingIOError:
            pass
        try:
            while inward:
                del inward[: self._sock.send(inward[:_CHUNK])]
        except BlockingIOError:
            pass
