"""A task's connection to a server: sends one request at a time, and reconnects when it breaks."""

import logging
import select
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from muster._errors import MissingPeerError, ParameterServerError, StrayPeerError
from muster.net import Connection, ProtocolError
from muster.ps import _messages as messages
from muster.ps._flat_layout import Array
from muster.ps._wire import Incoming, Place, encode

_log = logging.getLogger(__name__)

# How long to try to connect at once, and to pause between, in seconds.
_DIAL_SECS = 10.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0
# After how many seconds without an answer a server is named.
_QUIET_SECS = 30.0


class Dialer(Protocol):
    """Connects to a server within some seconds, as `muster.net.dial` does."""

    def __call__(self, timeout_secs: float, /) -> Connection: ...


class RetryingConnection:
    """Asks one server. A request that a broken connection leaves open is sent again.

    Args:
        server: The name and the address of the server, for messages.
        dial: Connects to it.
        answers: The type of the headers of its answers.
        greet: Called on each new connection, on which it may `exchange`. It returns the answer to the open
            request, if that needs not be sent again; else None.
        place: Returns where to receive the buffers of an answer; may raise ProtocolError.
        deadline_secs: How long a request may take, with all that it waits for, in seconds.

    Attributes:
        server: As given.
        request: The request that is open; None for none.
        connected: Whether there is a connection, as far as is known.
        answered_at: When the last answer came, by the monotonic clock; 0 for never.
        nbytes: The bytes of the arrays that answered requests and their answers had.
    """

    def __init__(
        self,
        server: str,
        dial: Dialer,
        answers: type[Any],
        greet: Callable[[], Any],
        place: Place,
        deadline_secs: float,
    ) -> None:
        self.server = server
        self.request: Any = None
        self.answered_at = 0.0
        self.nbytes = 0
        self._dial = dial
        self._answers = answers
        self._greet = greet
        self._place = place
        self._deadline_secs = deadline_secs
        self._connection: Connection | None = None
        self._incoming: Incoming | None = None
        self._arrays: Sequence[Array] = ()  # of the request
        self._deadline = 0.0
        self._breaks = 0  # of connections, during this request

    @property
    def connected(self) -> bool:
        return self._connection is not None

    def connect(self) -> Any:
        """Connect anew, and wait for the server if it is not up yet; return what `greet` did."""
        self.close()
        self._deadline = time.monotonic() + self._deadline_secs
        return self._connect()

    def send(self, message: Any, arrays: Sequence[Array] = ()) -> None:
        """Send a request; `receive` returns the answer. The arrays must not change until then."""
        if self.request is not None:
            raise RuntimeError(f"{self.server} has not answered the last request yet.")
        self.request, self._arrays, self._breaks = message, arrays, 0
        self._deadline = time.monotonic() + self._deadline_secs
        self._transmit()

    def receive(self) -> tuple[Any, Sequence[Array]]:
        """Wait for the answer, on another connection if this one breaks; it is `Refused` or `Ended`, too.

        Raises:
            ParameterServerError: The server gives an answer that does not fit, or refuses the connection.
            MissingPeerError: It did not answer in time.
            StrayPeerError: Something else answers there, or it is not of this job.
        """
        if self.request is None:
            raise RuntimeError(f"Nothing was asked of {self.server}.")
        while True:
            if self._connection is None:
                if (answer := self._connect()) is not None:
                    self.request = None
                    return answer, ()
                self._transmit()
                continue
            try:
                heard = self._hear()
            except OSError as exc:
                self._break(exc)
                continue
            self.nbytes += sum([array.nbytes for array in (*self._arrays, *heard[1])])
            self.request = None
            self.answered_at = time.monotonic()
            return heard

    def exchange(self, message: Any, arrays: Sequence[Array] = ()) -> tuple[Any, Sequence[Array]]:
        """Ask something on a new connection, before the open request is sent: for `greet`."""
        if self._connection is None:
            raise ConnectionResetError("end of the connection")
        self._connection.send_all(encode(message, arrays), self._deadline)
        return self._hear()

    def abandon(self) -> None:
        """Forget an open request, with the connection on which its answer could still come."""
        if self.request is not None:
            self.request = None
            self.close()

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = self._incoming = None

    def astray(self, answer: Any) -> ParameterServerError:
        """Return the error of an answer that does not fit, which is a message or says what is wrong."""
        said = answer if isinstance(answer, str) else messages.name_of(answer)
        return ParameterServerError(f"{self.server} gives an answer that does not fit: {said}.")

    def _transmit(self) -> None:
        if self._connection is not None:
            try:
                self._connection.send_all(encode(self.request, self._arrays), self._deadline)
            except OSError as exc:
                self._break(exc)

    def _connect(self) -> Any:
        began, pause, trouble = time.monotonic(), _FIRST_PAUSE, False
        while True:
            left = self._deadline - time.monotonic()
            try:
                self._connection = self._dial(max(0.001, min(left, _DIAL_SECS)))
                self._incoming = Incoming(self._connection, self._answers, self._place, messages.shows_texts)
                found = self._greet()
            except StrayPeerError as exc:
                raise type(exc)(f"This task cannot work with {self.server}: {exc}.") from exc
            except OSError as exc:
                self.close()
                if time.monotonic() >= self._deadline:
                    raise self._late(exc) from exc
                if not trouble:
                    _log.warning(
                        "%s cannot be reached: %s. It is called again for %.0f s.", self.server, exc, left
                    )
                trouble = True
                self._pause(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
                continue
            if trouble:
                secs = time.monotonic() - began
                _log.info("%s was reached after %.1f s.", self.server, secs)
            return found

    def _hear(self) -> tuple[Any, Sequence[Array]]:
        if self._connection is None or self._incoming is None:
            raise ConnectionResetError("end of the connection")
        # Mostly nothing has come yet; but what TLS has read nobody waits for.
        waits = not (self._connection.encrypted or self._incoming.has_more)
        while True:
            try:
                if waits:
                    self._await()
                return self._incoming.receive()
            except BlockingIOError:
                waits = True
            except ProtocolError as exc:
                self.close()
                raise self.astray(str(exc)) from exc

    def _await(self) -> None:
        """Wait for something to receive; a server that has not answered for long is named once."""
        quiet_at = time.monotonic() + _QUIET_SECS
        connection = self._connection
        if connection is None:
            return
        try:
            connection.wait(select.POLLIN, min(quiet_at, self._deadline))
        except TimeoutError:
            if quiet_at >= self._deadline:
                raise
            left = self._deadline - quiet_at
            _log.warning(
                "%s has not answered for %.0f s: it may stand still, be cut off, or wait for other tasks. "
                "This task waits for it for %.0f s more.",
                self.server,
                _QUIET_SECS,
                left,
            )
            connection.wait(select.POLLIN, self._deadline)
            _log.warning("%s answers again.", self.server)

    def _break(self, exc: OSError) -> None:
        self.close()
        if time.monotonic() >= self._deadline:
            raise self._late(exc) from exc
        if self._breaks:
            self._pause(_FIRST_PAUSE * 2 ** min(self._breaks, 10))
        else:
            _log.warning("The connection to %s is broken: %s. It is made again.", self.server, exc)
        self._breaks += 1

    def _pause(self, secs: float) -> None:
        left = max(0.0, self._deadline - time.monotonic())
        threading.Event().wait(min(secs, _LONGEST_PAUSE, left))

    def _late(self, exc: OSError) -> MissingPeerError:
        self.request = None
        return MissingPeerError(
            f"{self.server} has not answered within {self._deadline_secs:g} s: "
            f"{str(exc).removesuffix('.')}. Look at its log; it may not be running, or stand still."
        )
