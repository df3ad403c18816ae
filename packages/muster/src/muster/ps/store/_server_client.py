"""Query the store of one server."""

import time
from collections.abc import Sequence
from typing import Any

import msgspec

from muster._errors import JobEndedError, ParameterServerError
from muster._text import printable
from muster.ps import _messages as messages
from muster.ps._bundles import BundleError, new_places, unbundled, unbundled_columns, unpacked
from muster.ps._flat_layout import Array
from muster.ps._messages import Done, End, Ended, Refused, Seen
from muster.ps._retrying_connection import Dial, RetryingConnection
from muster.ps._wire import Sizes
from muster.ps.contents import FunctionLayout, Signature


class FunctionPart:
    """One server's part of a function, as its callers see it.

    Args:
        signature: What the server says of it.

    Attributes:
        changes: Whether it changes anything there.
        layout: What travels for it.
    """

    def __init__(self, signature: Signature) -> None:
        self.changes = signature.changes
        self.layout = FunctionLayout(signature)


class ServerClient:
    """Asks one server; see `StoreClient`.

    Args:
        server: The name and the address of the server, for messages.
        dial: Connects to it.
        greeting: What is said on a new connection.
        deadline_secs: How long a request may take, with all that it waits for, in seconds.
    """

    def __init__(self, server: str, dial: Dial, greeting: messages.Join, deadline_secs: float) -> None:
        self._line = RetryingConnection(
            server, dial, messages.AnswerHeader, self._greet, _place, deadline_secs
        )
        self._greeting = greeting
        self._seen = Seen(origin=greeting.origin)
        self._sequence = 0

    def connect(self) -> None:
        """Connect, if there is no connection."""
        if not self._line.connected:
            self._line.connect()

    def send(self, message: Any, arrays: Sequence[Array] = ()) -> None:
        """Send a request; `receive` returns the answer."""
        self.connect()
        self._line.send(message, arrays)

    def change(self, message: messages.Change, arrays: Sequence[Array]) -> None:
        """Send a change of what is there, which gets its number."""
        self._sequence += 1
        self.send(msgspec.structs.replace(message, sequence=self._sequence), arrays)

    def receive(self) -> tuple[Any, Sequence[Array]]:
        """Wait for the answer, and return it with the buffers that came with it."""
        request = self._line.request
        answer, arrays = self._line.receive()
        if isinstance(answer, Ended) and isinstance(request, End):
            return Done(), ()  # it was heard before the connection broke
        self._check(answer)
        if isinstance(answer, messages.Values):
            self._seen = msgspec.structs.replace(self._seen, version=answer.version)
        return answer, arrays

    def done(self) -> None:
        """Wait for the answer to a change."""
        self.receive()

    def taken(self, part: FunctionPart) -> list[Array]:
        """Wait for what a function takes, and for the rows that were asked for."""
        request = self._line.request
        _, buffers = self.receive()
        counts = request.counts if isinstance(request, messages.Pull) else ()
        try:
            return part.layout.unpack_taken(buffers, counts)
        except ValueError as exc:
            raise self._line.astray(str(exc)) from exc

    def read(self) -> dict[str, Array]:
        """Wait for arrays, by name."""
        _, buffers = self.receive()
        try:
            return {spec.name: array for spec, array in unbundled(buffers)}
        except BundleError as exc:
            raise self._line.astray(str(exc)) from exc

    def read_hashed(self) -> tuple[int, Array, list[Array]]:
        """Wait for rows of a hashed table, and where they go on."""
        answer, buffers = self.receive()
        try:
            return answer.next, *unbundled_columns(buffers)
        except BundleError as exc:
            raise self._line.astray(str(exc)) from exc

    def described(self) -> FunctionPart | None:
        """Wait for what the server has of a function; None if it has nothing of it."""
        _, buffers = self.receive()
        if not buffers:
            return None
        try:
            return FunctionPart(unpacked(buffers, Signature))
        except BundleError as exc:
            raise self._line.astray(str(exc)) from exc

    def abandon(self) -> None:
        """Forget an open request."""
        self._line.abandon()

    def close(self) -> None:
        """Close the connection."""
        self._line.close()

    def _greet(self) -> None:
        at = self._line.answered_at
        seen = msgspec.structs.replace(self._seen, idle_secs=time.monotonic() - at if at else 0.0)
        answer, _ = self._line.exchange(msgspec.structs.replace(self._greeting, seen=seen))
        self._check(answer)
        if not isinstance(answer, messages.Joined):
            raise self._line.astray(answer)
        self._seen = msgspec.structs.replace(self._seen, run=answer.run)

    def _check(self, answer: Any) -> None:
        """Raise what an answer says that is no result."""
        if isinstance(answer, Ended):
            raise JobEndedError(f"{self._line.server} says that the coordinator has ended the job.")
        if isinstance(answer, Refused):
            self._line.close()  # the server may close it, too
            raise ParameterServerError(f"{self._line.server} refuses this task: {printable(answer.text)}.")


def _place(message: messages.Answer, sizes: Sizes) -> Sequence[Array]:
    """Return where the arrays that a server announces are received: new memory, which the caller keeps."""
    return new_places(sizes)
