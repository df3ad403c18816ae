"""The messages between a task and a parameter server. Buffers of arrays follow some of them.

Arrays by name come in a *bundle*: what they are, in a buffer of bytes, and then their elements.
"""

from typing import Annotated, Any

import msgspec

from muster.ps._statistics import Statistics

# What connections to parameter servers are for, in their greeting.
PURPOSE = "parameter server"

# Of a step, a change or a row: counting on from it must not come to what no frame can hold.
Number = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]


class Caller(msgspec.Struct, frozen=True):
    """The caller: a task, such as ``"worker 1"``, and the random id of its process.

    Args:
        task: The task.
        run: The id.
        client: Which of several connections it is that a process has at the same time.
    """

    task: str
    run: str
    client: str = ""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """Tell a server what a worker has seen of it before: nothing, by default.

    Args:
        origin: The random id of the program, or the first values, that the server's have come from.
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
    """The first request of a connection: of a worker that trains by a plan, or of a coordinator's program.

    Args:
        plan: The fingerprint of the worker's plan.
        origin: The random id of the coordinator's program, whose values follow those of another one.
        client: The random id of what calls, if its process has several connections; its changes are numbered.
        versions: The versions of its software.
        starts: Whether it is the chief, or the coordinator: it alone gives values by name, and ends the job.
        seen: What it knows of the server. Started again, the server restores its snapshot of those values.
    """

    plan: str = ""
    origin: str = ""
    client: str = ""
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


class Create(msgspec.Struct, tag="create", frozen=True, kw_only=True):
    """Take arrays that are not there yet, in a bundle.

    Args:
        sequence: The number of this change among those of its client, from 1; given when it is sent.
        by_rows: The names of those that functions will use by rows.
    """

    sequence: Number = 0
    by_rows: tuple[str, ...] = ()


class Reserve(msgspec.Struct, tag="reserve", frozen=True, kw_only=True):
    """Take arrays that are not there yet, described in a buffer, by rows: each has no content until all of
    its rows have been assigned; ``sequence`` as of `Create`."""

    sequence: Number = 0


class Assign(msgspec.Struct, tag="assign", frozen=True, kw_only=True):
    """Give arrays other values, in a bundle; ``sequence`` as of `Create`."""

    sequence: Number = 0


class AssignRows(msgspec.Struct, tag="assign rows", frozen=True, kw_only=True):
    """Give rows of an array other values, which follow flat.

    Args:
        name: The array.
        start: The first of these rows. Those of an array that has none yet come in order.
        sequence: As of `Create`.
        origin: As of `Initialize`.
    """

    name: str
    start: Number
    sequence: Number = 0
    origin: str = ""


class Make(msgspec.Struct, tag="make", frozen=True, kw_only=True):
    """Make all rows of an array that was reserved, by a function in a buffer: see `Device.make`.

    Args:
        name: The array.
        first: The number of its first row in the whole table.
        sequence: As of `Create`.
        origin: As of `Initialize`.
    """

    name: str
    first: Number
    sequence: Number = 0
    origin: str = ""


class Add(msgspec.Struct, tag="add", frozen=True, kw_only=True):
    """Add to arrays, in a bundle; ``sequence`` as of `Create`."""

    sequence: Number = 0


class CreateHashed(msgspec.Struct, tag="create hashed", frozen=True, kw_only=True):
    """Make hashed tables that are not there yet, described in a buffer; those that are there may get further
    slots. ``sequence`` is as of `Create`."""

    sequence: Number = 0


class AssignHashed(msgspec.Struct, tag="assign hashed", frozen=True, kw_only=True):
    """Give rows of a hashed table and their slots other values: a bundle of ids, ascending, and columns.

    Args:
        name: The name of the table.
        clears: Whether to forget all rows first.
        noted: Whether the first column is when each id last occurred, and how often it did.
        waiting: Whether these are ids without rows: there are no other columns.
        clock: How many pushes the table has seen; None for what it knows.
        sequence: As of `Create`.
        origin: As of `Initialize`.
    """

    name: str
    clears: bool = False
    noted: bool = False
    waiting: bool = False
    clock: Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)] | None = None
    sequence: Number = 0
    origin: str = ""


class Delete(msgspec.Struct, tag="delete", frozen=True, kw_only=True):
    """Forget arrays and hashed tables, whose names are in a buffer, and the functions that need them;
    ``sequence`` as of `Create`."""

    sequence: Number = 0


class Register(msgspec.Struct, tag="register", frozen=True, kw_only=True):
    """Take a function, encoded in a buffer; ``sequence`` as of `Create`."""

    sequence: Number = 0


class Initialize(msgspec.Struct, tag="initialize", frozen=True, kw_only=True):
    """The first values of what a plan pulls and keeps, flat, after all rows of its tables; training begins.

    Args:
        step: The global step.
        origin: A random id of these values. The first change with another one begins new values.
        shared: The pass over the data, if workers share one.
        open: The tickets of steps that are to be made although later ones are among those that were made.
    """

    step: Number = 0
    origin: str = ""
    shared: SharedInput | None = None
    open: tuple[int, ...] = ()


class Pull(msgspec.Struct, tag="pull", frozen=True, kw_only=True, omit_defaults=True):
    """Ask for what a function takes, and for rows of its tables, whose ids are in a buffer.

    Args:
        function: The fingerprint of the function; empty for that of the plan, which is deferred until there
            are values.
        counts: How many ids there are of each table: int64, ascending, each once. Nothing for no rows.
        whole: Whether to send what the function takes, too; else rows alone, at once.
    """

    function: str = ""
    counts: tuple[Number, ...] = ()
    whole: bool = True


class Round(msgspec.Struct, frozen=True):
    """A step that some workers make together.

    Args:
        number: The number of the round, from 1.
        members: The tasks that push in it.
    """

    number: Number
    members: tuple[str, ...]


class Push(msgspec.Struct, tag="push", frozen=True, kw_only=True, omit_defaults=True):
    """Run the updates of a function on what is pushed, unless this push was applied before.

    The buffers are those that `FunctionLayout` describes.

    Args:
        number: That of the closure, which no other has; or that among a worker's pushes by the plan, from 1.
        function: The fingerprint of the function; empty for that of the plan.
        watermark: The number below which all closures have ended.
        counts: How many rows are pushed of each table.
        asks: As of `Pull`: rows that come with the answer, as they are then. Their ids follow last.
        ticket: By the plan: the ticket of this step, if this server gave one, or if tickets say what steps
            compute. So is what follows.
        wants: Whether the answer is to bring the next ticket; it is deferred until there is one.
        max_steps: The global step at which tickets end; None for no end.
        round: The round of the ticket, on all servers, if workers train in rounds.
    """

    number: int
    function: str = ""
    watermark: Number = 0
    counts: tuple[Number, ...] = ()
    asks: tuple[Number, ...] = ()
    ticket: int | None = None
    wants: bool = False
    max_steps: int | None = None
    round: Round | None = None


class TakeTicket(msgspec.Struct, tag="take", frozen=True, kw_only=True):
    """Ask for a ticket, or for the one that the worker has; deferred until there is one."""

    max_steps: int | None = None


class GiveBack(msgspec.Struct, tag="give_back", frozen=True, kw_only=True):
    """The worker will not make the step of its ticket."""


class Read(msgspec.Struct, tag="read", frozen=True, kw_only=True):
    """Ask for arrays, whose names are in a buffer, at one instant of this server."""


class ReadRows(msgspec.Struct, tag="read rows", frozen=True, kw_only=True):
    """Ask for rows of an array that follow each other.

    Args:
        name: The name of the array.
        start: The first of them.
        count: How many there are.
    """

    name: str
    start: Number
    count: Number


class ReadHashed(msgspec.Struct, tag="read hashed", frozen=True, kw_only=True):
    """Ask for rows of a hashed table with their slots, some at a time.

    Args:
        name: The name of the table.
        start: Where to begin: 0, and then where the answer before says.
        count: How many rows, at most.
    """

    name: str
    start: Number
    count: Number


class Describe(msgspec.Struct, tag="describe", frozen=True, kw_only=True):
    """Ask what a function takes and is pushed here, by its fingerprint."""

    function: str


class End(msgspec.Struct, tag="end", frozen=True, kw_only=True):
    """The chief, or the coordinator, says that the job has ended."""


class Stats(msgspec.Struct, tag="stats", frozen=True, kw_only=True):
    """Ask for the counts of this server."""


class Joined(msgspec.Struct, tag="joined", frozen=True, kw_only=True):
    """Answers `Join` and `Offer`.

    Args:
        sequence: The last push of this worker, or the last change of this client, that was applied, or lost;
            0 for none.
        version: How many times the values were changed.
        run: The random id of the server's process.
        known: Whether the server has the plan; if not, it is to be offered.
        initialized: Whether the plan has values.
        origin: The random id of the initial values that these have come from; empty if it has none.
    """

    sequence: int
    version: int
    run: str = ""
    known: bool = False
    initialized: bool = False
    origin: str = ""


class Described(msgspec.Struct, tag="described", frozen=True, kw_only=True):
    """Answers `Describe`; a buffer has a `FunctionSignature`, unless the function is not known here."""


class Values(msgspec.Struct, tag="values", frozen=True, kw_only=True, omit_defaults=True):
    """Answers `Read`, `ReadRows` and `ReadHashed` by a bundle; `Pull` and `Push` by what the function takes,
    in flat buffers, and by the rows of each table that were asked for.

    Args:
        version: How many times the values were changed.
        repeated: Whether the closure had been applied before.
        next: Where the rows of a hashed table go on; 0 if these were the last ones.
        origin: The random id of the initial values of a plan that these have come from.
        step: The global step; on servers that do not keep it, how many steps came with tickets.
        ticket: The ticket that was wanted.
        round: The round of that ticket, if workers train in rounds.
        finished: No ticket is left: all steps below the requested ``max_steps`` were made.
        applied: Whether the push counts. It does not if its ticket had gone to another worker meanwhile, or
            its round had ended.
        open: In the answer to `Read`: the tickets of steps that were not made, among those given out.
    """

    version: int
    repeated: bool = False
    next: int = 0
    origin: str = ""
    step: int = 0
    ticket: int | None = None
    round: Round | None = None
    finished: bool = False
    applied: bool = True
    open: tuple[int, ...] = ()


class Ticket(msgspec.Struct, tag="ticket", frozen=True, kw_only=True):
    """Answers `TakeTicket`.

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


# By name, of the coordinator; and what a chief gives first. A server that was killed goes on from these.
Named = Create | Reserve | Make | Assign | AssignRows | Add | CreateHashed | AssignHashed | Delete | Register
First = AssignRows | AssignHashed | Make | Initialize
Change = Offer | Initialize | Named
Reading = Read | ReadRows | ReadHashed | Describe
Request = Join | Change | Pull | Push | TakeTicket | GiveBack | Reading | End | Stats
Answer = Joined | Described | Values | Ticket | Done | Ended | Refused | Statistics


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


def shows_texts(message: Any) -> bool:
    """Return whether a text of a message may be shown as it is: not of those that come at every step."""
    return not isinstance(message, Pull | Push | Values) or getattr(message, "round", None) is not None
