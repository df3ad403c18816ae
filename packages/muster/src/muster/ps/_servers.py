"""All parameter servers of a job, as one task sees them: asked at the same time, one message each."""

import itertools
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from muster._errors import JobEndedError, ParameterServerError
from muster.ps import _messages as messages
from muster.ps._bundles import bundle, bundle_columns, described, packed
from muster.ps._client import Client, FirstValues, FunctionPart, Held, Pulled, Pushed
from muster.ps._collectives import broadcast, gather
from muster.ps._flat_layout import Array
from muster.ps._retrying_connection import Dialer
from muster.ps._statistics import Statistics
from muster.ps.contents import StoredArray, StoredFunction, StoredHash, StoredName

_T = TypeVar("_T")


class Servers:
    """Asks all servers, and then waits for all. One thread at a time may use it.

    It connects when it is first used, and waits for servers that are not up yet. A request that a broken
    connection leaves open is sent again, and its server still carries it out once: so calls go on with a
    server that was killed and started again. Arrays that are returned are the caller's, but for `Pulled`.
    After a call has raised an error, others can be made, but for `end`.

    Each method raises:
        JobEndedError: The chief or the coordinator has ended the job.
        ParameterServerError: A server refuses the request, or has lost what it had.
        MissingPeerError: A server did not answer in time.
        StrayPeerError: Something else answers there, or it is not of this job.

    Args:
        clients: One for each server; of those that hold plans the first one keeps the global step.

    Attributes:
        count: The number of servers.
    """

    def __init__(self, clients: Sequence[Client]) -> None:
        self.count = len(clients)
        self._clients = clients
        self._functions: dict[str, dict[int, FunctionPart]] = {}

    @property
    def nbytes(self) -> int:
        """The bytes of arrays that were sent and received so far."""
        return sum([client.nbytes for client in self._clients])

    @classmethod
    def of_program(
        cls,
        servers: Sequence[tuple[str, Dialer]],
        origin: str,
        versions: Mapping[str, str],
        *,
        starts: bool,
        deadline_secs: float = 600.0,
    ) -> "Servers":
        """Return the servers for variables of a coordinator.

        Args:
            servers: The name of each server, such as ``ps 0 at host:port``, and what connects to it.
            origin: The random id of the coordinator's program, the same in all tasks.
            versions: The versions of this task's software.
            starts: Whether this is the coordinator: it alone changes what is there, but for `apply`, and ends
                the job.
            deadline_secs: How long a request may take, with all that it waits for, in seconds.
        """
        client = uuid.uuid4().hex
        return cls(
            [
                Client(
                    name,
                    dial,
                    origin=origin,
                    client=client,
                    starts=starts,
                    versions=versions,
                    deadline_secs=deadline_secs,
                )
                for name, dial in servers
            ]
        )

    def connect(self) -> None:
        """Connect to all servers; the coordinator begins a store on each. Other methods do that, too."""
        for server in self._clients:
            server.connect()

    def create(self, variables: Iterable[tuple[StoredArray, Any]]) -> None:
        """Give servers arrays, with their initial values; those that are there keep their values."""
        given = _by_server((array.server, (array, value)) for array, value in variables)
        self._change(
            {
                index: (
                    messages.Create(by_rows=tuple(array.name for array, _ in some if array.by_rows)),
                    bundle([(array.spec, value) for array, value in some]),
                )
                for index, some in given.items()
            }
        )

    def reserve(self, arrays: Iterable[StoredArray]) -> None:
        """Give servers arrays whose rows are assigned next, a part at a time; those that are there stay."""
        given = _by_server((array.server, array.spec) for array in arrays)
        self._change({index: (messages.Reserve(), [packed(specs)]) for index, specs in given.items()})

    def make(self, name: StoredName, function: bytes, first: int) -> None:
        """Let a server make all rows of an array that was reserved.

        Args:
            name: The array.
            function: As of `Device.make`.
            first: The number of its first row in the whole table.
        """
        message = messages.Make(name=name.name, first=first)
        self._change({name.server: (message, [np.frombuffer(function, np.uint8)])})

    def assign(self, values: Mapping[StoredName, Any]) -> None:
        """Give arrays other values, all of a server at one instant."""
        self._change(_given(messages.Assign, values))

    def add(self, values: Mapping[StoredName, Any]) -> None:
        """Add to arrays, to all of a server at one instant: what workers push meanwhile counts, too."""
        self._change(_given(messages.Add, values))

    def assign_rows(self, name: StoredName, start: int, rows: Any) -> None:
        """Give rows of an array that follow each other other values.

        Args:
            name: The array.
            start: The first of them.
            rows: The rows.
        """
        message = messages.AssignRows(name=name.name, start=start)
        self._change({name.server: (message, [np.ascontiguousarray(rows).reshape(-1)])})

    def read_rows(self, name: StoredName, start: int, count: int) -> Array:
        """Return rows of an array that follow each other."""
        message = messages.ReadRows(name=name.name, start=start, count=count)
        found = self._some(
            [name.server],
            lambda server, index: server.send(message),
            lambda server, index: server.read()[1],
        )
        return found[name.server][name.name]

    def read(self, names: Sequence[StoredName]) -> list[Array]:
        """Return arrays, all of a server at one instant of its own."""
        asked = _by_server((name.server, name.name) for name in dict.fromkeys(names))
        found = self._some(
            asked,
            lambda server, index: server.send(messages.Read(), [packed(asked[index])]),
            lambda server, index: server.read()[1],
        )
        return [found[name.server][name.name] for name in names]

    def create_hashed(self, tables: Iterable[StoredHash]) -> None:
        """Make hashed tables without rows; those that are there keep theirs."""
        given = _by_server((table.server, table) for table in tables)
        self._change({index: (messages.CreateHashed(), [packed(some)]) for index, some in given.items()})

    def hashed_rows(self, name: StoredName, count: int) -> Iterator[tuple[Array, list[Array]]]:
        """Return the rows of a hashed table on a server, some at a time; nobody may change it meanwhile.

        Args:
            name: The table.
            count: How many rows at a time, at most.

        Returns:
            Ids, int64 of shape (n,), ascending in each piece, and for them the rows and each of their slots.
        """
        message = messages.ReadHashed(name=name.name, start=0, count=count)
        while True:
            found = self._some(
                [name.server],
                lambda server, index: server.send(message),  # noqa: B023  # it is called at once
                lambda server, index: server.read_hashed(),
            )
            following, ids, columns = found[name.server]
            if len(ids):
                yield ids, columns
            if not following:
                return
            message = messages.ReadHashed(name=name.name, start=following, count=count)

    def assign_hashed(
        self,
        name: StoredName,
        ids: Any,
        columns: Sequence[Any],
        *,
        clears: bool = False,
        noted: bool = False,
        waiting: bool = False,
        clock: int | None = None,
    ) -> None:
        """Give rows of a hashed table and their slots other values, and make them where there are none.

        Args:
            name: The table.
            ids: Ids of its part, int64 of shape (n,), ascending.
            columns: For them the rows, and each of their slots.
            clears: Whether to forget all rows first.
            noted: Whether the first column is what is noted for each id: the clock when it last occurred, and
                how often it did, uint32 of shape (n, 2).
            waiting: Whether these are ids without rows, for which there is nothing else.
            clock: How many pushes the table has seen; None for what it knows.
        """
        given = bundle_columns(np.asarray(ids), [np.asarray(each) for each in columns])
        message = messages.AssignHashed(
            name=name.name, clears=clears, noted=noted, waiting=waiting, clock=clock
        )
        self._change({name.server: (message, given)})

    def delete(self, names: Sequence[StoredName]) -> None:
        """Forget arrays and hashed tables, and the functions that need them."""
        given = _by_server((name.server, name.name) for name in dict.fromkeys(names))
        self._change({index: (messages.Delete(), [packed(some)]) for index, some in given.items()})
        self._functions.clear()

    def register(self, functions: Sequence[StoredFunction | None]) -> None:
        """Give each server its part of a function; None to those that take no part in it."""
        given = {index: each for index, each in enumerate(functions) if each is not None}
        self._change({index: (messages.Register(), [packed(each)]) for index, each in given.items()})
        for each in given.values():
            self._functions.pop(each.fingerprint, None)

    def pull(self, function: str, ids: Sequence[Sequence[Any]] = ()) -> list[list[Array]]:
        """Return what a function takes, by its fingerprint: of each server, at one instant of its own.

        Args:
            function: The fingerprint of the function.
            ids: For each server, the ids of the rows of each table of the function there: int64 of shape
                (n,), ascending. These rows follow what the function takes as a whole. Nothing for no rows.
        """
        parts = self._parts(function)

        def send(server: Client, index: int) -> None:
            asked = parts[index].layout.pack_ids(ids[index]) if ids else []
            counts = tuple(map(len, ids[index])) if ids else ()
            server.send(messages.Pull(function=function, counts=counts), asked)

        return self._taken(parts, send)

    def apply(
        self,
        function: str,
        closure: int,
        watermark: int,
        pushed: Sequence[Sequence[Any]],
        rows: Sequence[Sequence[tuple[Any, Sequence[Any]]]] = (),
    ) -> list[list[Array]]:
        """Run the update of a function on what is pushed, and return what it takes then, as `pull` does, but
        for rows.

        Args:
            function: The fingerprint of the function.
            closure: The number of the closure. A server applies what is pushed for it once, whoever pushes.
            watermark: The number below which all closures have ended.
            pushed: The arrays for each server, in the order that was registered there: those of the function,
                and then those of each table.
            rows: For each server and each table of the function there, ids as of `pull`, and arrays with a
                row for each.
        """
        parts = self._parts(function)

        def send(server: Client, index: int) -> None:
            layout, of_tables = parts[index].layout, rows[index] if rows else ()
            if parts[index].changes:
                counts = tuple(len(ids) for ids, _ in of_tables)
                message = messages.Push(function=function, number=closure, watermark=watermark, counts=counts)
                server.send(message, layout.pack_pushed(pushed[index], of_tables))
            else:
                server.send(messages.Pull(function=function))

        return self._taken(parts, send)

    def join(self) -> list[messages.Joined]:
        """Connect to all servers, and agree on their plans."""
        joined = [client.join() for client in self._clients]
        origin = next((each.origin for each in joined if each.initialized), "")
        return [
            each if each.initialized or not origin else client.join(origin)
            for client, each in zip(self._clients, joined, strict=True)
        ]

    def initialize(
        self,
        values: Sequence[FirstValues],
        step: int,
        shared: messages.SharedInput | None = None,
        open: Sequence[int] = (),
    ) -> None:
        """Give all servers their first values, unless they have some. Only the chief may.

        Args:
            values: The values for each server.
            step: The global step that they belong to.
            shared: The pass over the data, if workers share one.
            open: As of `Initialize`.
        """
        message = messages.Initialize(step=step, origin=uuid.uuid4().hex, shared=shared, open=tuple(open))
        requests = [client.initial(message, each) for client, each in zip(self._clients, values, strict=True)]
        for together in itertools.zip_longest(*requests):
            asked = [(client, each) for client, each in zip(self._clients, together, strict=True) if each]
            self._gather(
                [client for client, _ in asked],
                lambda client, place: client.send(*asked[place][1]),  # noqa: B023  # it is called at once
                lambda client, place: client.receive(),
            )

    def pull_plans(self) -> list[Pulled]:
        """Return the values of all servers by their plans; waits for initial ones."""
        return self._all(lambda client, index: client.send(messages.Pull()), Client.pulled)

    def look_up(self, ids: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """Return rows of the tables of each server; nothing of those without tables.

        Args:
            ids: For each server and each of its tables, ids as of `Pushed`.
        """
        asked = [index for index, each in enumerate(ids) if each]
        rows: list[list[Array]] = [[] for _ in ids]
        found = self._gather(
            [self._clients[index] for index in asked],
            lambda client, place: client.look_up(ids[asked[place]]),
            lambda client, place: client.taken(client.part)[1],
        )
        for index, each in zip(asked, found, strict=True):
            rows[index] = each
        return rows

    def push_and_pull(
        self,
        pushed: Sequence[Pushed],
        *,
        ticket: int | None = None,
        shared: messages.Round | None = None,
        wants: bool = False,
        max_steps: int | None = None,
        exact: bool = False,
        meanwhile: Callable[[], None] | None = None,
    ) -> list[Pulled]:
        """Push to all servers, and return their new values, in one message to each and one back.

        If a ticket says what its step computes, all servers hear of it, and the first one last: it does not
        count the step before the others have applied it.

        Args:
            pushed: What each server gets.
            ticket: The ticket of the step, if it counts as a global step.
            shared: The round of that ticket, if workers train in rounds.
            wants: Whether to take the next ticket, too; waits until there is one, or none is left.
            max_steps: The global step at which tickets end; None for no end.
            exact: Whether a ticket says what its step computes.
            meanwhile: Called while the servers answer, unless they do so one after the other.
        """

        def push(client: Client, index: int) -> None:
            step = messages.Push(
                number=0,  # which comes when it is sent
                ticket=None if index and not exact else ticket,
                round=shared,
                wants=wants and not index,
                max_steps=None if index else max_steps,
            )
            client.push(step, pushed[index])

        if not exact:
            return self._gather(self._clients, push, lambda client, index: client.pulled(), meanwhile)
        others = self._gather(
            self._clients[1:],
            lambda client, index: push(client, index + 1),
            lambda client, index: client.pulled(),
        )
        return self._gather(self._clients[:1], push, lambda client, index: client.pulled()) + others

    def read_all(self) -> list[tuple[messages.Values, Held]]:
        """Return everything of the plans, each server's at one instant of its own, in new buffers."""
        return self._all(lambda client, index: client.read_all(), Client.held)

    def take_ticket(self, max_steps: int | None) -> messages.Ticket:
        """Return the right to make a step, by the global step that it starts from; None if none is left."""
        try:
            answer: messages.Ticket = self._clients[0].ask(messages.TakeTicket(max_steps=max_steps))
        except BaseException as exc:
            self._clients[0].abandon()
            self._note_end(exc)
            raise
        return answer

    def give_back_ticket(self) -> None:
        """Say that the step of the ticket will not be made."""
        self._all(lambda client, index: client.send(messages.GiveBack()), Client.receive)

    def end(self) -> None:
        """Tell all servers that the job has ended, none after another that cannot be reached. Only the chief
        or the coordinator may; once is enough."""
        broadcast(self._clients, lambda client: client.ask(messages.End()))

    def statistics(self) -> list[Statistics]:
        """Return what each server has counted."""
        answers = self._all(lambda client, index: client.send(messages.Stats()), Client.receive)
        return [answer for answer, _ in answers]

    def close(self) -> None:
        """Close all connections."""
        for client in self._clients:
            client.close()

    def _gather(
        self,
        clients: Sequence[Client],
        send: Callable[[Client, int], None],
        receive: Callable[[Client, int], _T],
        meanwhile: Callable[[], None] | None = None,
    ) -> list[_T]:
        try:
            return gather(clients, send, receive, meanwhile)
        except JobEndedError as exc:
            self._note_end(exc)
            raise

    def _note_end(self, exc: BaseException) -> None:
        """Ask no server any more once one says that the job has ended: others may be gone already."""
        if isinstance(exc, JobEndedError):
            for client in self._clients:
                client.job_ended = exc

    def _all(self, send: Callable[[Client, int], None], receive: Callable[[Client], _T]) -> list[_T]:
        return self._gather(self._clients, send, lambda client, index: receive(client))

    def _change(self, changes: Mapping[int, tuple[messages.Named, Sequence[Array]]]) -> None:
        """Make changes on servers, each with its buffers, by their number."""
        self._some(
            changes,
            lambda server, index: server.change(*changes[index]),
            lambda server, index: server.receive(),
        )

    def _parts(self, function: str) -> dict[int, FunctionPart]:
        """Return what servers have of a function, by their number."""
        if (known := self._functions.get(function)) is None:
            described = self._gather(
                self._clients,
                lambda server, index: server.send(messages.Describe(function=function)),
                lambda server, index: server.described(),
            )
            known = {index: part for index, part in enumerate(described) if part is not None}
            if not known:
                raise ParameterServerError(
                    f"No parameter server has a function {function}. Register it first."
                )
            self._functions[function] = known
        return known

    def _taken(
        self, parts: Mapping[int, FunctionPart], send: Callable[[Client, int], None]
    ) -> list[list[Array]]:
        found = self._some(parts, send, lambda server, index: server.taken(parts[index])[1])
        return [found.get(index, []) for index in range(self.count)]

    def _some(
        self,
        indices: Iterable[int],
        send: Callable[[Client, int], None],
        receive: Callable[[Client, int], _T],
    ) -> dict[int, _T]:
        """Ask some servers at the same time; return what is received, by their number."""
        asked = list(indices)
        answers = self._gather(
            [self._clients[index] for index in asked],
            lambda server, place: send(server, asked[place]),
            lambda server, place: receive(server, asked[place]),
        )
        return dict(zip(asked, answers, strict=True))


def _given(
    kind: type[messages.Assign] | type[messages.Add], values: Mapping[StoredName, Any]
) -> dict[int, tuple[messages.Named, Sequence[Array]]]:
    """Return the change of each server that takes values."""
    arrays = ((name, np.asarray(value)) for name, value in values.items())
    given = _by_server((name.server, (described(name.name, array), array)) for name, array in arrays)
    return {index: (kind(), bundle(some)) for index, some in given.items()}


def _by_server(items: Iterable[tuple[int, _T]]) -> dict[int, list[_T]]:
    """Return what there is for each server."""
    found: dict[int, list[_T]] = {}
    for index, item in items:
        found.setdefault(index, []).append(item)
    return found
