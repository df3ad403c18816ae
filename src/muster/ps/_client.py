"""A worker's connection to one parameter server, made again when it breaks."""

import logging
import select
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np

from muster._errors import JobEndedError, MissingPeerError, ParameterServerError, StrayPeerError
from muster._text import printable
from muster.net import Connection, ProtocolError
from muster.ps import _messages as messages
from muster.ps._flat_layout import Array, Flat, FlatLayout
from muster.ps._plan import Plan, fingerprint
from muster.ps._wire import Incoming, Sizes, encode

_log = logging.getLogger(__name__)

# How long to try to connect at once, and to pause between, in seconds.
_DIAL_SECS = 10.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0
# After how many seconds without an answer a server is named.
_QUIET_SECS = 30.0


class Dial(Protocol):
    """Connects to a server within some seconds, as `muster.net.dial` does."""

    def __call__(self, timeout_secs: float, /) -> Connection: ...


class Pulled(NamedTuple):
    """The values of one server.

    Args:
        answer: Their version, the global step, the next ticket: see `Values`.
        pulled: What workers read, in flat buffers. They are used again for the values after the next.
        kept: What only updates read and write; empty unless everything was read.
    """

    answer: messages.Values
    pulled: Flat
    kept: Flat


class Client:
    """Asks one server, one request after the other.

    A request that a broken connection leaves open is sent again; the server still applies a push once.

    Args:
        server: The name and the address of the server, for messages.
        dial: Connects to it.
        plan: What the server is to hold; an empty one is not offered, and only lets the job be ended.
        starts: Whether this task is the chief.
        versions: The versions of this task's software.
        deadline_secs: How long a request may take, with all that it waits for, in seconds.
    """

    def __init__(
        self,
        server: str,
        dial: Dial,
        plan: Plan,
        *,
        starts: bool,
        versions: Mapping[str, str],
        deadline_secs: float = 600.0,
    ) -> None:
        self._server = server
        self._dial = dial
        self._plan = b"" if plan == Plan() else plan.encode()
        self._greeting = messages.Join(plan=fingerprint(plan), versions=dict(versions), starts=starts)
        self._deadline_secs = deadline_secs
        self._pulled, self._kept, self._pushed = map(FlatLayout, (plan.pulled, plan.kept, plan.pushed))
        self._sets = self._pulled.allocate(), self._pulled.allocate()
        self._connection: Connection | None = None
        self._incoming: Incoming | None = None
        self._request: tuple[messages.Request, Sequence[Array]] | None = None
        self._deadline = 0.0
        self._breaks = 0  # of connections, during this request
        self._sequence = 0  # the last push that was sent
        self._seen = messages.Seen()
        self._had_values = False
        self._answered_at = 0.0

    def join(self, origin: str = "") -> messages.Joined:
        """Connect, wait for the server if it is not up yet, and agree on the plan.

        Args:
            origin: The random id of the initial values of the job's other servers, if they have some: started
                again, this one restores what belongs to them.
        """
        self.close()
        if origin:
            self._note(origin=origin)
        self._deadline = time.monotonic() + self._deadline_secs
        return self._connect()

    def push(
        self,
        pushed: Flat,
        *,
        ticket: int | None = None,
        shared: messages.Round | None = None,
        wants: bool = False,
        max_steps: int | None = None,
    ) -> None:
        """Send a push; `pulled` returns the answer."""
        if self._connection is None:
            self.join()  # which says what was applied of the pushes before
        push = messages.Push(
            sequence=self._sequence + 1, ticket=ticket, round=shared, wants=wants, max_steps=max_steps
        )
        self._sequence += 1
        self.send(push, [pushed[name] for name in self._pushed.sizes])

    def put(self, message: messages.Initialize | messages.Write, pulled: Flat, kept: Flat) -> None:
        """Send values for everything; `receive` returns the answer."""
        given = ((self._pulled, pulled), (self._kept, kept))
        self.send(message, [flat[name] for layout, flat in given for name in layout.sizes])

    def pulled(self) -> Pulled:
        """Wait for the values that answer a push, a pull or a read."""
        answer, arrays = self.receive()
        if not isinstance(answer, messages.Values):
            raise self._astray(messages.name_of(answer))
        count = len(self._pulled.sizes)
        pulled = dict(zip(self._pulled.sizes, arrays[:count], strict=True))
        kept = arrays[count:]
        return Pulled(answer, pulled, dict(zip(self._kept.sizes, kept, strict=True)) if kept else {})

    def send(self, message: messages.Request, arrays: Sequence[Array] = ()) -> None:
        """Send a request; `receive` returns the answer. The arrays must not change until then."""
        if self._request is not None:
            raise RuntimeError(f"{self._server} has not answered the last request yet.")
        self._request, self._breaks = (message, arrays), 0
        self._deadline = time.monotonic() + self._deadline_secs
        self._transmit(message, arrays)

    def receive(self) -> tuple[Any, Sequence[Array]]:
        """Wait for the answer, on another connection if this one breaks.

        Raises:
            JobEndedError: The chief has ended the job.
            ParameterServerError: The server refuses the request, or has lost what it had.
            MissingPeerError: It did not answer in time.
            StrayPeerError: Something else answers there, or it is not of this job.
        """
        if self._request is None:
            raise RuntimeError(f"Nothing was asked of {self._server}.")
        request, arrays = self._request
        while True:
            if self._connection is None:
                joined = self._connect()
                if isinstance(request, messages.Initialize) and joined.initialized:
                    self._request = None
                    return messages.Done(), ()
                self._transmit(request, arrays)
                continue
            try:
                answer, values = self._hear()
            except OSError as exc:
                self._break(exc)
                continue
            self._request = None
            if isinstance(answer, messages.Ended) and isinstance(request, messages.End):
                return messages.Done(), ()  # it was heard before the connection broke
            self._check(answer)
            self._answered_at = time.monotonic()
            if isinstance(request, messages.Initialize):
                self._note(origin=request.origin)
                self._had_values = True
            if isinstance(request, messages.Push):
                self._note(sequence=request.sequence)
            if isinstance(answer, messages.Values):
                self._note(origin=answer.origin, version=answer.version)
                self._had_values = True
                self._sets = self._sets[1], self._sets[0]
            return answer, values

    def ask(self, message: messages.Request) -> Any:
        """Send a request that has no arrays, and return the answer."""
        self.send(message)
        return self.receive()[0]

    def abandon(self) -> None:
        """Forget an open request, with the connection on which its answer could still come."""
        if self._request is not None:
            self._request = None
            self.close()

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = self._incoming = None

    def _transmit(self, request: messages.Request, arrays: Sequence[Array]) -> None:
        if self._connection is not None:
            try:
                self._connection.send_all(encode(request, arrays), self._deadline)
            except OSError as exc:
                self._break(exc)

    def _connect(self) -> messages.Joined:
        began, pause, trouble = time.monotonic(), _FIRST_PAUSE, False
        while True:
            left = self._deadline - time.monotonic()
            try:
                self._connection = self._dial(max(0.001, min(left, _DIAL_SECS)))
                self._incoming = Incoming(self._connection, messages.AnswerHeader, self._place)
                joined = self._agree()
            except StrayPeerError as exc:
                raise type(exc)(f"This task cannot work with {self._server}: {exc}.") from exc
            except OSError as exc:
                self.close()
                if time.monotonic() >= self._deadline:
                    raise self._late(exc) from exc
                if not trouble:
                    _log.warning(
                        "%s cannot be reached: %s. It is called again for %.0f s.", self._server, exc, left
                    )
                trouble = True
                self._pause(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
                continue
            if trouble:
                secs = time.monotonic() - began
                _log.info("%s was reached after %.1f s.", self._server, secs)
            return joined

    def _agree(self) -> messages.Joined:
        idle_secs = time.monotonic() - self._answered_at if self._answered_at else 0.0
        seen = msgspec.structs.replace(self._seen, idle_secs=idle_secs)
        joined = self._joined(msgspec.structs.replace(self._greeting, seen=seen))
        if not joined.known and self._plan:
            joined = self._joined(messages.Offer(), [np.frombuffer(self._plan, np.uint8)])
        if self._had_values and not joined.initialized:
            self.close()
            raise ParameterServerError(
                f"{self._server} was started again, and has no snapshot of the values that it had. Start the "
                "job again: it goes on from its last checkpoint."
            )
        if self._seen.origin and joined.origin and joined.origin != self._seen.origin:
            _log.warning(
                "%s has other initial values now: training has begun again, and this task joins in.",
                self._server,
            )
            self._note(version=0)
        self._note(run=joined.run, origin=joined.origin or self._seen.origin)
        if self._request is None or not isinstance(self._request[0], messages.Push):
            self._sequence = joined.sequence
        return joined

    def _joined(self, message: messages.Request, arrays: Sequence[Array] = ()) -> messages.Joined:
        if self._connection is None:
            raise ConnectionResetError("end of the connection")
        self._connection.send_all(encode(message, arrays), self._deadline)
        answer, _ = self._hear()
        self._check(answer)
        if not isinstance(answer, messages.Joined):
            raise self._astray(messages.name_of(answer))
        return answer

    def _hear(self) -> tuple[Any, Sequence[Array]]:
        if self._connection is None or self._incoming is None:
            raise ConnectionResetError("end of the connection")
        while True:
            try:
                return self._incoming.receive()
            except BlockingIOError:
                self._await()
            except ProtocolError as exc:
                self.close()
                raise self._astray(str(exc)) from exc

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
                self._server,
                _QUIET_SECS,
                left,
            )
            connection.wait(select.POLLIN, self._deadline)
            _log.warning("%s answers again.", self._server)

    def _check(self, answer: Any) -> None:
        """Raise what an answer says that is no result."""
        if isinstance(answer, messages.Ended):
            raise JobEndedError(f"{self._server} says that the chief has ended the job.")
        if isinstance(answer, messages.Refused):
            self.close()  # the server may close it, too
            raise ParameterServerError(f"{self._server} refuses this task: {printable(answer.text)}.")

    def _place(self, message: messages.Answer, sizes: Sizes) -> Sequence[Array]:
        """Return where the values that a server announces are received."""
        wanted: list[tuple[str, int]] = []
        places: list[Array] = []
        if isinstance(message, messages.Values):
            wanted, places = list(self._pulled.sizes.items()), list(self._sets[0].values())
            if self._request is not None and isinstance(self._request[0], messages.Read):
                wanted += self._kept.sizes.items()
                places = [*self._pulled.allocate().values(), *self._kept.allocate().values()]
        if list(sizes) != wanted:
            raise ProtocolError(f"its {messages.name_of(message)} has other arrays than the plan")
        return places

    def _note(self, **changes: Any) -> None:
        self._seen = msgspec.structs.replace(self._seen, **changes)

    def _break(self, exc: OSError) -> None:
        self.close()
        if time.monotonic() >= self._deadline:
            raise self._late(exc) from exc
        if self._breaks:
            self._pause(_FIRST_PAUSE * 2 ** min(self._breaks, 10))
        else:
            _log.warning("The connection to %s is broken: %s. It is made again.", self._server, exc)
        self._breaks += 1

    def _pause(self, secs: float) -> None:
        left = max(0.0, self._deadline - time.monotonic())
        threading.Event().wait(min(secs, _LONGEST_PAUSE, left))

    def _late(self, exc: OSError) -> MissingPeerError:
        self._request = None
        return MissingPeerError(
            f"{self._server} has not answered within {self._deadline_secs:g} s: "
            f"{str(exc).removesuffix('.')}. Look at its log; it may not be running, or stand still."
        )

    def _astray(self, answer: str) -> ParameterServerError:
        return ParameterServerError(f"{self._server} gives an answer that does not fit: {answer}.")
