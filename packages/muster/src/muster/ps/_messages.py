"""The messages between a worker and a parameter server. Buffers of arrays follow some of them."""

from typing import Annotated, Any

import msgspec

# What connections to parameter servers are for, in their greeting; and those of one save each.
PURPOSE = "parameter server"
SAVE_PURPOSE = "part of a checkpoint"

# Of a global step, or a round: counting on from it must not come to what no frame can hold.
Step = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]


class Caller(msgspec.Struct, frozen=True):
    """The caller: a task, such as ``"worker 1"``, and the random id of its process.

    Args:
        task: The task.
        run: The id.
        connection: Which of several connections it is that a process has at the same time.
    """

    task: str
    run: str
    connection: int = 0


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """Tell a server what a worker has seen of it before: nothing, by default.

    Args:
        origin: The random id of the initial values that the server's have come from.
        run: The random id of the server's process.
        version: How many times the values had been changed.
        idle_secs: How long ago that was, in seconds.
        sequence: The worker's last push that was answered; 0 for none.
    """

    origin: str = ""
    run: str = ""
    version: int = 0
    idle_secs: float = 0.0
    sequence: int = 0


class Join(msgspec.Struct, tag="join", frozen=True, kw_only=True):
    """The first request of a connection.

    Args:
        plan: The fingerprint of the worker's plan.
        versions: The versions of its software.
        starts: Whether it is the chief: it gives initial values, restores, and ends the job.
        seen: What it knows of the server. Started again, the server restores its snapshot of those values.
    """

    plan: str
    versions: dict[str, str] = {}
    starts: bool = False
    seen: Seen = Seen()


class Offer(msgspec.Struct, tag="offer", frozen=True, kw_only=True):
    """The worker's plan, encoded, in a buffer of bytes: the answer to a `Joined` that does not know it."""


class SharedInput(msgspec.Struct, frozen=True, kw_only=True):
    """A pass over the data that workers share: the ticket of a step says which batch it computes.

    Args:
        position: Where the pass begins, as of `muster.data`.
        begin: The ticket of the first batch; less than 0 if that was computed before the global step was 0.
    """

    position: dict[str, Any]
    begin: int


class Fill(msgspec.Struct, tag="fill", frozen=True, kw_only=True):
    """The first values of rows of a table's array, flat: from the first row on, a piece at a time, before
    `Initialize`.

    Args:
        name: The array.
        start: The first of these rows there.
        origin: As of `Initialize`.
    """

    name: str
    start: Step
    origin: str = ""


class Make(msgspec.Struct, tag="make", frozen=True, kw_only=True):
    """Let the server make the first values of all rows of a table's array, before `Initialize`, by a function
    in a buffer: see `Device.make`.

    Args:
        name: The array.
        first: The number of its first row in the whole table.
        origin: As of `Initialize`.
    """

    name: str
    first: Step
    origin: str = ""


class Initialize(msgspec.Struct, tag="initialize", frozen=True, kw_only=True):
    """The first values of what is pulled and kept, after those of tables' arrays, and the global step.

    Args:
        step: The global step.
        origin: A random id of these values.
        shared: The pass over the data, if workers share one.
        open: The tickets of steps that are to be made although later ones are among those that were made.
    """

    step: Step = 0
    origin: str = ""
    shared: SharedInput | None = None
    open: tuple[int, ...] = ()


class Pull(msgspec.Struct, tag="pull", frozen=True, kw_only=True):
    """Ask for the values; deferred until there are some."""


class Round(msgspec.Struct, frozen=True):
    """A step that some workers make together.

    Args:
        number: The number of the round, from 1.
        members: The tasks that push in it.
    """

    number: Step
    members: tuple[str, ...]


class Push(msgspec.Struct, tag="push", frozen=True, kw_only=True):
    """Send gradients, and whatever else the update takes: flat, and then for rows of each table.

    Args:
        sequence: The number of this push among those of its worker, from 1.
        ticket: The ticket of this step, if this server gave one, or if tickets say what steps compute.
        wants: Whether the answer is to bring the next ticket; it is deferred until there is one.
        max_steps: The global step at which tickets end; None for no end.
        round: The round of the ticket, on all servers, if workers train in rounds.
        counts: How many rows are pushed of each table. Their ids follow as of `LookUp`, in one buffer, and
            then for each table what is pushed for it as a whole, and what is for each of its rows.
        asks: As of `LookUp`: rows that come with the answer, as they are then. Their ids follow last. Nothing
            for none of any table.
    """

    sequence: int
    ticket: int | None = None
    wants: bool = False
    max_steps: int | None = None
    round: Round | None = None
    counts: tuple[Step, ...] = ()
    asks: tuple[Step, ...] = ()


class LookUp(msgspec.Struct, tag="look_up", frozen=True, kw_only=True):
    """Ask for rows of the plan's tables; a buffer has their ids: int64, of each table ascending, each once.

    Args:
        counts: How many ids there are of each table.
    """

    counts: tuple[Step, ...] = ()


class Take(msgspec.Struct, tag="take", frozen=True, kw_only=True):
    """Ask for a ticket, or for the one that the worker has; deferred until there is one."""

    max_steps: int | None = None


class GiveBack(msgspec.Struct, tag="give_back", frozen=True, kw_only=True):
    """The worker will not make the step of its ticket."""


class Read(msgspec.Struct, tag="read", frozen=True, kw_only=True):
    """Ask for everything at one instant of this server: what is pulled, kept, and tables' arrays."""


class End(msgspec.Struct, tag="end", frozen=True, kw_only=True):
    """The chief says that the job has ended."""


class Stats(msgspec.Struct, tag="stats", frozen=True, kw_only=True):
    """Ask for the counts of this server."""


class Joined(msgspec.Struct, tag="joined", frozen=True, kw_only=True):
    """Answers `Join` and `Offer`.

    Args:
        known: Whether the server has the plan; if not, it is to be offered.
        initialized: Whether it has values.
        sequence: The last push of this worker that it has applied, or lost; 0 for none.
        version: How many times the values were changed.
        run: The random id of the server's process.
        origin: The random id of the initial values that these have come from; empty if it has none.
    """

    known: bool
    initialized: bool
    sequence: int
    version: int
    run: str = ""
    origin: str = ""


class Values(msgspec.Struct, tag="values", frozen=True, kw_only=True):
    """Answers `Pull`, `Push` and `Read`; the values follow, and then the rows that a push asks for.

    Args:
        origin: The random id of the initial values that these have come from.
        version: How many times the values were changed.
        step: The global step; on servers that do not keep it, how many steps came with tickets.
        ticket: The ticket that was wanted.
        round: The round of that ticket, if workers train in rounds.
        finished: No ticket is left: all steps below the requested ``max_steps`` were made.
        applied: Whether the push counts. It does not if its ticket had gone to another worker meanwhile, or
            its round had ended.
        open: In the answer to `Read`: the tickets of steps that were not made, among those given out.
    """

    version: int
    step: int
    origin: str = ""
    ticket: int | None = None
    round: Round | None = None
    finished: bool = False
    applied: bool = True
    open: tuple[int, ...] = ()


class Rows(msgspec.Struct, tag="rows", frozen=True, kw_only=True):
    """Answers `LookUp`; the rows of each table follow.

    Args:
        version: How many times the values were changed.
    """

    version: int


class Ticket(msgspec.Struct, tag="ticket", frozen=True, kw_only=True):
    """Answers `Take`.

    Args:
        number: The value of the global step that the step starts from; None if none is left.
        round: The round of the step, if workers train in rounds.
        shared: The pass over the data, if workers share one.
    """

    number: int | None
    round: Round | None = None
    shared: SharedInput | None = None


class Done(msgspec.Struct, tag="done", frozen=True, kw_only=True):
    """Answers requests that have no other answer."""


class Ended(msgspec.Struct, tag="ended", frozen=True, kw_only=True):
    """Answers every request after the job has ended, and those that were deferred."""


class Refused(msgspec.Struct, tag="refused", frozen=True, kw_only=True):
    """Answers a request that changed nothing.

    Args:
        text: What was wrong and what to do, as a clause about the request.
    """

    text: str


class WorkerStats(msgspec.Struct, frozen=True):
    """The state of one worker: its last push, when the server last heard of it, and whether it is connected.

    Args:
        sequence: The number of its last push.
        idle_secs: How long ago that was, or another request, in seconds.
        connected: Whether its connection is open.
    """

    sequence: int
    idle_secs: float
    connected: bool


class Statistics(msgspec.Struct, tag="statistics", frozen=True, kw_only=True):
    """Answers `Stats`.

    Args:
        version: How many times the values were changed.
        step: The global step; on servers that do not keep it, how many steps came with tickets.
        pushes: How many were applied.
        pulls: How many times the values were sent.
        lookups: How many times rows of tables were sent.
        staleness: How many changes came between a worker's values and its push, summed over all pushes that
            were applied.
        received_bytes: The size of the buffers that were received.
        sent_bytes: The size of the buffers that were sent.
        duplicates: How many pushes came again, and were not applied again.
        late: How many pushes were not applied because their ticket had gone to another worker, or their
            round had ended.
        refused: How many requests were refused.
        waiting: How many requests are deferred.
        lost_updates: How many changes of the values were lost, since the server was killed.
        lost_secs: How long training had gone on after the snapshot that it has restored, in seconds.
        ended: Whether the chief has ended the job.
        workers: The workers that have joined, by task.
    """

    version: int = 0
    step: int = 0
    pushes: int = 0
    pulls: int = 0
    lookups: int = 0
    staleness: int = 0
    received_bytes: int = 0
    sent_bytes: int = 0
    duplicates: int = 0
    late: int = 0
    refused: int = 0
    waiting: int = 0
    lost_updates: int = 0
    lost_secs: float = 0.0
    ended: bool = False
    workers: dict[str, WorkerStats] = {}


class SavePart(msgspec.Struct, tag="save_part", frozen=True, kw_only=True):
    """Ask for values in a file; the only request but `WritePart` of a connection with its own purpose.
    `PartTaken` is answered at once: the server holds the values as they are then.

    Args:
        plan: The fingerprint of the plan, all arrays of which are written; empty for a variable store.
        arrays: The names of the arrays of a variable store, and of its hashed tables.
        origin: The random id of the initial values that the chief knows of: see `Seen`.
        folder: The folder of the checkpoint.
        token: A file in it, by which the server knows the folder.
        file: The name of the file to write.
    """

    plan: str = ""
    arrays: tuple[str, ...] = ()
    origin: str
    folder: str
    token: str
    file: str


class PartTaken(msgspec.Struct, tag="part_taken", frozen=True, kw_only=True):
    """Answers `SavePart`: whether the server sees the folder."""

    found: bool


class WritePart(msgspec.Struct, tag="write_part", frozen=True, kw_only=True):
    """Write the file, since all servers see the folder. Answered by `PartWritten` or `Refused` when done."""


class Base(msgspec.Struct, frozen=True, kw_only=True):
    """A file of an earlier checkpoint, which is in the folder of this one, too.

    Args:
        name: Its name.
        bytes: Its size.
        crc32: Its checksum.
    """

    name: str
    bytes: int
    crc32: int


class PartWritten(msgspec.Struct, tag="part_written", frozen=True, kw_only=True):
    """Answers `WritePart`.

    Args:
        bytes: The size of the file.
        crc32: Its checksum.
        changed: The arrays, and the rows by id, of which it has only the rows that differ from the base.
        base: The file that has all of their rows; None if nothing is taken from there.
        counts: How many rows by id there are under each key, with those of the base.
    """

    bytes: int
    crc32: int
    changed: tuple[str, ...] = ()
    base: Base | None = None
    counts: dict[str, int] = {}


# For type checkers, and as unions for msgspec.
First = Fill | Make | Initialize
Change = Offer | First  # what a server that was killed goes on from
Request = Join | Offer | First | Pull | LookUp | Push | Take | GiveBack | Read | End | Stats
PartRequest = SavePart | WritePart
PartAnswer = PartTaken | PartWritten | Refused
Answer = Joined | Values | Rows | Ticket | Done | Ended | Refused | Statistics


class Header(msgspec.Struct, frozen=True):
    """A frame: a request, and the dtype and the number of elements of each buffer that follows it."""

    message: Request
    buffers: tuple[tuple[str, int], ...] = ()


class AnswerHeader(msgspec.Struct, frozen=True):
    """A frame: an answer, and the dtype and the number of elements of each buffer that follows it."""

    message: Answer
    buffers: tuple[tuple[str, int], ...] = ()


def name_of(message: Any) -> str:
    """Return the name of a message, for texts."""
    return type(message).__name__
