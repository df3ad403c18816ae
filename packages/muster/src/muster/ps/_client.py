"""A worker's requests to one parameter server that keeps a plan."""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from muster._arrays import dtype_named
from muster._errors import JobEndedError, ParameterServerError
from muster._text import printable
from muster.net import ProtocolError
from muster.ps import _messages as messages
from muster.ps._bundles import BundleError, new_places, packed, unbundled
from muster.ps._flat_layout import Array, Flat, FlatLayout, allocate
from muster.ps._plan import Plan, fingerprint
from muster.ps._retrying_connection import Dial, RetryingConnection
from muster.ps._wire import Sizes

_log = logging.getLogger(__name__)

# Answers initial values on a server that has taken them, or others, already.
_TAKEN = messages.Done()


class Held(NamedTuple):
    """The values of one server: flat buffers, and the columns of its tables.

    Args:
        pulled: What workers read.
        kept: What only updates read and write.
        columns: The columns of tables, flat, in the order of the plan.
    """

    pulled: Flat
    kept: Flat
    columns: Sequence[Array] = ()


class MadeRows(NamedTuple):
    """First values of a column of a table that its server makes.

    Args:
        function: Makes some rows at a time: as of `Device.make`.
        first: The number of the column's first row in the whole table.
    """

    function: bytes
    first: int = 0


class FirstValues(NamedTuple):
    """The first values for one server.

    Args:
        pulled: As of `Held`, and so is ``kept``.
        kept: See there.
        columns: For each column of tables what makes it, or its rows in order, some at a time: flat arrays,
            which are asked for when they are sent.
    """

    pulled: Flat
    kept: Flat
    columns: Sequence[MadeRows | Iterable[Array]] = ()


class Request(NamedTuple):
    """A request, and the flat arrays that follow it."""

    message: messages.Request
    arrays: Sequence[Array]


class Pulled(NamedTuple):
    """The values of one server that workers read as a whole.

    Args:
        answer: Their version, the global step, the next ticket: see `Values`.
        pulled: Flat buffers. They are used again for the values after the next.
        rows: The rows of each table that the push has asked for; they are the caller's.
    """

    answer: messages.Values
    pulled: Flat
    rows: Sequence[Array] = ()


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
        self._line = RetryingConnection(
            server, dial, messages.AnswerHeader, self._greet, self._place, deadline_secs
        )
        self._plan = b"" if plan == Plan() else plan.encode()
        self._greeting = messages.Join(plan=fingerprint(plan), versions=dict(versions), starts=starts)
        self._pulled, self._kept = FlatLayout(plan.pulled), FlatLayout(plan.kept)
        self._layout = plan.layout
        self._columns = plan.columns
        self._names = [spec.name for spec in (*plan.buffers()[0], *plan.buffers()[1], *plan.columns)]
        self._sets = self._pulled.allocate(), self._pulled.allocate()
        self._joined: messages.Joined | None = None
        self._sequence = 0  # the last push that was sent
        self._seen = messages.Seen()
        self._had_values = False

    def join(self, origin: str = "") -> messages.Joined:
        """Connect, wait for the server if it is not up yet, and agree on the plan.

        Args:
            origin: The random id of the initial values of the job's other servers, if they have some: started
                again, this one restores what belongs to them.
        """
        if origin:
            self._note(origin=origin)
        self._line.connect()
        if self._joined is None:
            raise RuntimeError("The server was not greeted.")
        return self._joined

    def push(
        self,
        pushed: Flat,
        whole: Sequence[Array] = (),
        rows: Sequence[tuple[Array, Sequence[Array]]] = (),
        asks: Sequence[Array] = (),
        *,
        ticket: int | None = None,
        shared: messages.Round | None = None,
        wants: bool = False,
        max_steps: int | None = None,
    ) -> None:
        """Send a push; `pulled` returns the answer.

        Args:
            pushed: Flat buffers.
            whole: What is pushed for tables as a whole, one after the other.
            rows: For each table ids, int64 of shape (n,), ascending, and arrays with a row for each.
            asks: For each table ids of rows that are to come with the answer; nothing for none of any.
            ticket: As of `Push`, as is what follows.
            shared: The round.
            wants: Whether the answer is to bring the next ticket.
            max_steps: The global step at which tickets end.
        """
        if not self._line.connected:
            self.join()  # which says what was applied of the pushes before
        push = messages.Push(
            number=self._sequence + 1,
            ticket=ticket,
            round=shared,
            wants=wants,
            max_steps=max_steps,
            counts=tuple(len(ids) for ids, _ in rows),
            asks=tuple(map(len, asks)),
        )
        self._sequence += 1
        arrays = self._layout.pack_pushed([*pushed.values(), *whole], rows)
        self.send(push, [*arrays, *(self._layout.pack_ids(asks) if asks else [])])

    def look_up(self, ids: Sequence[Array]) -> None:
        """Ask for rows of each table, by ids as of `push`; `rows` returns them."""
        asked = messages.Pull(counts=tuple(map(len, ids)), whole=False)
        self.send(asked, self._layout.pack_ids(ids))

    def rows(self) -> list[Array]:
        """Wait for rows of each table that were asked for; they are the caller's."""
        request = self._line.request
        return self._layout.unpack_rows(self._values()[1], request.counts)

    def initial(self, message: messages.Initialize, values: FirstValues) -> Iterator[Request]:
        """Return the requests that give first values, one after the other; the message is the last one."""
        self._note(origin=message.origin)  # of which a server that is killed meanwhile keeps what it has
        for spec, rows in zip(self._columns, values.columns, strict=True):
            if isinstance(rows, MadeRows):
                function = np.frombuffer(rows.function, np.uint8)
                make = messages.Make(name=spec.name, first=rows.first, origin=message.origin)
                yield Request(make, [function])
                continue
            start = 0
            for piece in rows:
                yield Request(
                    messages.AssignRows(name=spec.name, start=start, origin=message.origin), [piece]
                )
                start += piece.size * spec.shape[0] // spec.size
        given = ((self._pulled, values.pulled), (self._kept, values.kept))
        flat = [buffers[name] for layout, buffers in given for name in layout.sizes]
        yield Request(message, flat)

    def pulled(self) -> Pulled:
        """Wait for the values that answer a push or a pull."""
        request = self._line.request
        answer, arrays = self._values()
        pulled = dict(zip(self._pulled.sizes, arrays, strict=False))
        asks = request.asks if isinstance(request, messages.Push) else ()
        return Pulled(answer, pulled, self._layout.unpack_rows(arrays[len(pulled) :], asks))

    def held(self) -> tuple[messages.Values, Held]:
        """Wait for everything, which answers a read, in new buffers."""
        answer, arrays = self._values()
        try:
            left = iter([array for _, array in unbundled(arrays)])
            pulled, kept = ({name: next(left) for name in each.sizes} for each in (self._pulled, self._kept))
        except (BundleError, StopIteration) as exc:
            raise self._line.astray(str(exc)) from exc
        return answer, Held(pulled, kept, [*left])

    def read(self) -> None:
        """Ask for everything; `held` returns it."""
        self.send(messages.Read(), [packed(self._names)])

    def _values(self) -> tuple[messages.Values, Sequence[Array]]:
        answer, arrays = self.receive()
        if not isinstance(answer, messages.Values):
            raise self._line.astray(answer)
        return answer, arrays

    def send(self, message: messages.Request, arrays: Sequence[Array] = ()) -> None:
        """Send a request; `receive` returns the answer. The arrays must not change until then."""
        self._line.send(message, arrays)

    def receive(self) -> tuple[Any, Sequence[Array]]:
        """Wait for the answer, on another connection if this one breaks.

        Raises:
            JobEndedError: The chief has ended the job.
            ParameterServerError: The server refuses the request, or has lost what it had.
            MissingPeerError: It did not answer in time.
            StrayPeerError: Something else answers there, or it is not of this job.
        """
        request = self._line.request
        answer, values = self._line.receive()
        if isinstance(answer, messages.Ended) and isinstance(request, messages.End):
            return messages.Done(), ()  # it was heard before the connection broke
        self._check(answer)
        if isinstance(request, messages.Initialize) and answer is not _TAKEN:
            self._note(origin=request.origin)
            self._had_values = True
        if isinstance(request, messages.Push):
            self._note(sequence=request.number)
        if isinstance(answer, messages.Values):
            self._note(origin=answer.origin, version=answer.version)
            self._had_values = True
            if _is_whole(request):
                self._sets = self._sets[1], self._sets[0]
        return answer, values

    def ask(self, message: messages.Request) -> Any:
        """Send a request that has no arrays, and return the answer."""
        self.send(message)
        return self.receive()[0]

    def abandon(self) -> None:
        """Forget an open request, with the connection on which its answer could still come."""
        self._line.abandon()

    def close(self) -> None:
        """Close the connection."""
        self._line.close()

    def _greet(self) -> messages.Done | None:
        """Agree on the plan; return the answer to initial values, if the server has some."""
        at = self._line.answered_at
        seen = msgspec.structs.replace(self._seen, idle_secs=time.monotonic() - at if at else 0.0)
        joined = self._agree(msgspec.structs.replace(self._greeting, seen=seen))
        if not joined.known and self._plan:
            joined = self._agree(messages.Offer(), [np.frombuffer(self._plan, np.uint8)])
        if self._had_values and not joined.initialized:
            self.close()
            raise ParameterServerError(
                f"{self._line.server} was started again, and has no snapshot of the values that it had. "
                "Start the job again: it goes on from its last checkpoint."
            )
        if self._seen.origin and joined.origin and joined.origin != self._seen.origin:
            _log.warning(
                "%s has other initial values now: training has begun again, and this task joins in.",
                self._line.server,
            )
            self._note(version=0)
        self._note(run=joined.run, origin=joined.origin or self._seen.origin)
        request = self._line.request
        if not isinstance(request, messages.Push):
            self._sequence = joined.sequence
        self._joined = joined
        return _TAKEN if isinstance(request, messages.Initialize) and joined.initialized else None

    def _agree(self, message: messages.Request, arrays: Sequence[Array] = ()) -> messages.Joined:
        answer, _ = self._line.exchange(message, arrays)
        self._check(answer)
        if not isinstance(answer, messages.Joined):
            raise self._line.astray(answer)
        return answer

    def _check(self, answer: Any) -> None:
        """Raise what an answer says that is no result."""
        if isinstance(answer, messages.Ended):
            raise JobEndedError(f"{self._line.server} says that the chief has ended the job.")
        if isinstance(answer, messages.Refused):
            self.close()  # the server may close it, too
            raise ParameterServerError(f"{self._line.server} refuses this task: {printable(answer.text)}.")

    def _place(self, message: messages.Answer, sizes: Sizes) -> Sequence[Array]:
        """Return where the values that a server announces are received."""
        request = self._line.request
        if not isinstance(message, messages.Values):
            wanted, places = [], []
        elif isinstance(request, messages.Pull | messages.Push):
            asks = request.asks if isinstance(request, messages.Push) else request.counts
            whole = list(self._pulled.sizes.items()) if _is_whole(request) else []
            rows = self._layout.row_sizes(asks)
            wanted = whole + rows
            places = list(self._sets[0].values())[: len(whole)]
            places += [allocate(size, dtype_named(name)) for name, size in rows]
        else:
            return new_places(sizes)
        if list(sizes) != wanted:
            raise ProtocolError(f"its {messages.name_of(message)} has other arrays than the plan")
        return places

    def _note(self, **changes: Any) -> None:
        self._seen = msgspec.structs.replace(self._seen, **changes)


def _is_whole(request: messages.Request) -> bool:
    """Return whether the answer to a request brings what workers pull as a whole."""
    return isinstance(request, messages.Push) or (isinstance(request, messages.Pull) and request.whole)
