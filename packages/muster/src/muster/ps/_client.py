"""Requests to one parameter server: of a coordinator's program, or of a worker that trains by a plan."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np

from muster._errors import JobEndedError, ParameterServerError
from muster._text import printable
from muster.net import ProtocolError
from muster.ps import _messages as messages
from muster.ps._bundles import bundle_columns, new_places, packed, unbundled, unbundled_columns, unpacked
from muster.ps._flat_layout import Array, Flat, FlatLayout
from muster.ps._plan import Plan, fingerprint
from muster.ps._retrying_connection import Dialer, RetryingConnection
from muster.ps._wire import Sizes
from muster.ps.contents import FunctionLayout, FunctionSignature

_log = logging.getLogger(__name__)

_T = TypeVar("_T")

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


class FirstKeyedRows(NamedTuple):
    """Some first rows of a hashed table.

    Args:
        ids: Their ids, int64 of shape (n,), ascending.
        columns: For them what is noted of each id, unless it is the first piece, then the rows and slots,
            unless they have none.
        waiting: Whether these are ids without rows.
        clock: With the first piece, which has no ids, how many pushes the table has seen.
    """

    ids: Array
    columns: Sequence[Array]
    waiting: bool = False
    clock: int | None = None


class FirstValues(NamedTuple):
    """The first values for one server.

    Args:
        pulled: As of `Held`, and so is ``kept``.
        kept: See there.
        columns: For each column of tables what makes it, or its rows in order, some at a time: flat arrays,
            which are asked for when they are sent.
        hashed: For each hashed table its rows, some at a time, likewise.
    """

    pulled: Flat
    kept: Flat
    columns: Sequence[MadeRows | Iterable[Array]] = ()
    hashed: Sequence[Iterable[FirstKeyedRows]] = ()


class Pushed(NamedTuple):
    """One push by a plan, for one server.

    Attributes:
        flat: The arguments of its update, in flat buffers.
        whole: What is pushed for its tables as a whole.
        rows: For each of its tables ids, int64 of shape (n,), ascending, and arrays with a row for each.
        asks: For each of its tables ids of rows that the answer is to bring; nothing for none of any.
    """

    flat: Flat
    whole: Sequence[Array] = ()
    rows: Sequence[tuple[Array, Sequence[Array]]] = ()
    asks: Sequence[Array] = ()


class Pulled(NamedTuple):
    """The values of one server that workers read by a plan as a whole.

    Args:
        answer: Their version, the global step, the next ticket: see `Values`.
        pulled: Flat buffers. They are used again for the values after the next.
        rows: The rows of each table that the push has asked for; they are the caller's.
    """

    answer: messages.Values
    pulled: Flat
    rows: Sequence[Array] = ()


class Request(NamedTuple):
    """A request, and the flat arrays that follow it."""

    message: messages.Request
    arrays: Sequence[Array]


def first_requests(plan: Plan, message: messages.Initialize, values: FirstValues) -> Iterator[Request]:
    """Return the requests that give a plan first values, one after the other; the message is the last one."""
    for spec, rows in zip(plan.columns, values.columns, strict=True):
        if isinstance(rows, MadeRows):
            function = np.frombuffer(rows.function, np.uint8)
            make = messages.Make(name=spec.name, first=rows.first, origin=message.origin)
            yield Request(make, [function])
            continue
        start = 0
        for piece in rows:
            some = messages.AssignRows(name=spec.name, start=start, origin=message.origin)
            yield Request(some, [piece])
            start += piece.size * spec.shape[0] // spec.size
    for table, pieces in zip(plan.hashed, values.hashed, strict=True):
        for ids, columns, waiting, clock in pieces:
            begins = clock is not None
            given = messages.AssignHashed(
                name=table.name,
                clears=begins,
                noted=not begins and not waiting,
                waiting=waiting,
                clock=clock,
                origin=message.origin,
            )
            yield Request(given, bundle_columns(ids, columns))
    layouts = FlatLayout(plan.pulled), FlatLayout(plan.kept)
    of_layouts = zip(layouts, (values.pulled, values.kept), strict=True)
    yield Request(message, [buffers[name] for layout, buffers in of_layouts for name in layout.sizes])


class FunctionPart:
    """One server's part of a function, as its callers see it.

    Args:
        signature: What is read and pushed there.

    Attributes:
        changes: Whether it changes anything there.
        layout: What travels for it.
    """

    def __init__(self, signature: FunctionSignature) -> None:
        self.changes = signature.changes
        self.layout = FunctionLayout(signature)


class Client:
    """Asks one server, one request after the other.

    A request that a broken connection leaves open is sent again; the server still applies it once.

    Args:
        server: The name and the address of the server, for messages.
        dial: Connects to it.
        plan: What the server is to hold; an empty one is not offered, and only lets the job be ended. None
            for a coordinator's program.
        origin: The random id of that program.
        client: The random id of this client, if its process has several.
        starts: Whether this task is the chief or the coordinator.
        versions: The versions of this task's software.
        deadline_secs: How long a request may take, with all that it waits for, in seconds.

    Attributes:
        plan: As given; an empty one for a coordinator's program.
        part: What travels for the plan's function.
        job_ended: What another server has said, so that this one need not be asked; None so far.
    """

    def __init__(
        self,
        server: str,
        dial: Dialer,
        plan: Plan | None = None,
        *,
        starts: bool,
        versions: Mapping[str, str],
        origin: str = "",
        client: str = "",
        deadline_secs: float = 600.0,
    ) -> None:
        self._line = RetryingConnection(
            server, dial, messages.AnswerHeader, self._greet, self._place, deadline_secs
        )
        self.plan = plan or Plan()
        self.part = FunctionPart(self.plan.signature)
        self._greeting = messages.Join(
            plan="" if plan is None else fingerprint(plan),
            origin=origin,
            client=client,
            versions=dict(versions),
            starts=starts,
        )
        self._seen = messages.Seen(origin=origin)
        self._joined: messages.Joined | None = None
        self._number = 0  # of the last push by the plan, or change by name, that was sent
        self._had_values = False
        self.job_ended: JobEndedError | None = None
        pulled = FlatLayout(self.plan.pulled)
        self._whole = list(pulled.sizes.items())  # what workers pull as a whole, and where it is received
        self._sets = [*pulled.allocate().values()], [*pulled.allocate().values()]

    @property
    def nbytes(self) -> int:
        """The bytes of arrays that were sent and received so far."""
        return self._line.nbytes

    def connect(self) -> None:
        """Connect, if there is no connection."""
        if not self._line.connected:
            self._line.connect()

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

    def send(self, message: messages.Request, arrays: Sequence[Array] = ()) -> None:
        """Send a request; `receive` returns the answer. The arrays must not change until then.

        Raises:
            JobEndedError: `job_ended` says so, and the request is not to tell that again.
        """
        if self.job_ended is not None and not isinstance(message, messages.End):
            raise self.job_ended
        self.connect()
        self._line.send(message, arrays)

    def change(self, message: messages.Named, arrays: Sequence[Array]) -> None:
        """Send a change by name, which gets its number."""
        self.connect()  # which says what was made of the changes before
        self._number += 1
        self.send(msgspec.structs.replace(message, sequence=self._number), arrays)

    def push(self, step: messages.Push, pushed: Pushed) -> None:
        """Send a push by the plan; `pulled` returns the answer.

        Args:
            step: What it says of its step; it gets its number.
            pushed: What is pushed.
        """
        self.connect()  # which says what was applied of the pushes before
        self._number += 1
        message = msgspec.structs.replace(
            step,
            number=self._number,
            counts=tuple(len(ids) for ids, _ in pushed.rows),
            asks=tuple(map(len, pushed.asks)),
        )
        layout = self.part.layout
        by_rows = layout.pack_rows(pushed.whole, pushed.rows) if pushed.rows else []
        asks = layout.pack_ids(pushed.asks) if pushed.asks else []
        self.send(message, [*pushed.flat.values(), *by_rows, *asks])

    def pulled(self) -> Pulled:
        """Wait for the values that answer a push or a pull by the plan."""
        request = self._line.request
        answer, arrays = self.receive()
        if not isinstance(answer, messages.Values):
            raise self._line.astray(answer)
        whole = len(self._whole)
        buffers = {dtype: array for (dtype, _), array in zip(self._whole, arrays, strict=False)}
        if not isinstance(request, messages.Push) or not request.asks:
            return Pulled(answer, buffers)
        taken = self.part.layout.unpack_taken
        return Pulled(
            answer, buffers, self._fitting(lambda: taken(arrays[whole:], request.asks, whole=False))
        )

    def look_up(self, ids: Sequence[Array]) -> None:
        """Ask for rows of each table of the plan, by ids as of `Pushed`; `taken` returns them."""
        asked = messages.Pull(counts=tuple(map(len, ids)), whole=False)
        self.send(asked, self.part.layout.pack_ids(ids))

    def initial(self, message: messages.Initialize, values: FirstValues) -> Iterator[Request]:
        """Return the requests that give first values, one after the other; the message is the last one."""
        self._note(origin=message.origin)  # of which a server that is killed meanwhile keeps what it has
        yield from first_requests(self.plan, message, values)

    def receive(self) -> tuple[Any, Sequence[Array]]:
        """Wait for the answer, on another connection if this one breaks.

        Raises:
            JobEndedError: The chief or the coordinator has ended the job.
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
        if isinstance(answer, messages.Values):
            self._note(version=answer.version)
            if not self._greeting.origin:
                self._note(origin=answer.origin)
                self._had_values = True
                if isinstance(request, messages.Push):
                    self._note(sequence=request.number)
            if _is_whole(request):
                self._sets = self._sets[1], self._sets[0]
        return answer, values

    def ask(self, message: messages.Request) -> Any:
        """Send a request that has no arrays, and return the answer."""
        self.send(message)
        return self.receive()[0]

    def taken(self, part: FunctionPart) -> tuple[messages.Values, list[Array]]:
        """Wait for what a function takes, if it was asked for, and for the rows that were."""
        request = self._line.request
        answer, buffers = self.receive()
        counts = request.asks if isinstance(request, messages.Push) else request.counts
        whole = isinstance(request, messages.Push) or request.whole
        return answer, self._fitting(lambda: part.layout.unpack_taken(buffers, counts, whole=whole))

    def read(self) -> tuple[messages.Values, dict[str, Array]]:
        """Wait for arrays, by name."""
        answer, buffers = self.receive()
        return answer, self._fitting(lambda: {spec.name: array for spec, array in unbundled(buffers)})

    def read_hashed(self) -> tuple[int, Array, list[Array]]:
        """Wait for rows of a hashed table, and where they go on."""
        answer, buffers = self.receive()
        return answer.next, *self._fitting(lambda: unbundled_columns(buffers))

    def described(self) -> FunctionPart | None:
        """Wait for what the server has of a function; None if it has nothing of it."""
        _, buffers = self.receive()
        return FunctionPart(self._fitting(lambda: unpacked(buffers, FunctionSignature))) if buffers else None

    def held(self) -> tuple[messages.Values, Held]:
        """Wait for everything that the plan has, which answers `read_all`, in new buffers."""
        answer, found = self.read()

        def held() -> Held:
            pulled, kept = ({spec.dtype: found[spec.name] for spec in specs} for specs in self.plan.buffers())
            return Held(pulled, kept, [found[spec.name].reshape(-1) for spec in self.plan.columns])

        return answer, self._fitting(held)

    def read_all(self) -> None:
        """Ask for everything that the plan has; `held` returns it."""
        names = [spec.name for specs in (*self.plan.buffers(), self.plan.columns) for spec in specs]
        self.send(messages.Read(), [packed(names)])

    def abandon(self) -> None:
        """Forget an open request, with the connection on which its answer could still come."""
        self._line.abandon()

    def close(self) -> None:
        """Close the connection."""
        self._line.close()

    def _fitting(self, read: Callable[[], _T]) -> _T:
        """Return what an answer is read as; raise an error that names the server if it is something else."""
        try:
            return read()
        except (ValueError, KeyError) as exc:
            raise self._line.astray(str(exc)) from exc

    def _greet(self) -> messages.Done | None:
        """Join, and agree on the plan; return the answer to initial values, if the server has some."""
        at = self._line.answered_at
        seen = msgspec.structs.replace(self._seen, idle_secs=time.monotonic() - at if at else 0.0)
        joined = self._agree(msgspec.structs.replace(self._greeting, seen=seen))
        if not joined.known and self.plan != Plan():
            joined = self._agree(messages.Offer(), [np.frombuffer(self.plan.encode(), np.uint8)])
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
        if not isinstance(request, messages.Push | messages.Named):
            self._number = joined.sequence
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
            who = "coordinator" if self._greeting.origin else "chief"
            raise JobEndedError(f"{self._line.server} says that the {who} has ended the job.")
        if isinstance(answer, messages.Refused):
            self.close()  # the server may close it, too
            raise ParameterServerError(f"{self._line.server} refuses this task: {printable(answer.text)}.")

    def _note(self, **changes: Any) -> None:
        self._seen = msgspec.structs.replace(self._seen, **changes)

    def _place(self, message: messages.Answer, sizes: Sizes) -> Sequence[Array]:
        """Return where the arrays that a server announces are received: mostly new memory, for the caller."""
        if not isinstance(message, messages.Values) or not _is_whole(self._line.request):
            return new_places(sizes)
        whole = len(self._whole)
        if list(sizes[:whole]) != self._whole:
            raise ProtocolError("its Values have other arrays than the plan")
        return [*self._sets[0], *new_places(sizes[whole:])]


def _is_whole(request: messages.Request) -> bool:
    """Return whether the answer to a request brings what workers pull by the plan as a whole."""
    if not isinstance(request, messages.Push | messages.Pull) or request.function:
        return False
    return isinstance(request, messages.Push) or request.whole
