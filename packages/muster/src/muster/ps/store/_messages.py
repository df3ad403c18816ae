"""The messages between a task and the store of a parameter server. Buffers of arrays follow some of them.

Arrays by name come in a *bundle*: what they are, in a buffer of bytes, and then their elements.
"""

from typing import Annotated

import msgspec

from muster.ps._messages import Done, End, Ended, Refused, Seen, Stats
from muster.ps.contents import TableStatistics

# What connections to stores are for, in their greeting.
PURPOSE = "variable store"
SAVE_PURPOSE = "part of a checkpoint, of a variable store"

Number = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]


class Join(msgspec.Struct, tag="join", frozen=True, kw_only=True):
    """The first request of a connection.

    Args:
        origin: The random id of the coordinator's program: one store follows the other.
        client: The random id of the caller's client, whose changes are numbered.
        versions: The versions of its software.
        starts: Whether it is the coordinator, which alone opens a store, changes what is there, and ends the
            job.
        seen: What it knows of the server.
    """

    origin: str
    client: str
    versions: dict[str, str] = {}
    starts: bool = False
    seen: Seen = Seen()


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
    """Give rows of an array other values: a buffer has the numbers of the rows, ascending, and another one
    the rows.

    Args:
        name: The name of the array.
        sequence: As of `Create`.
    """

    name: str
    sequence: Number = 0


class Make(msgspec.Struct, tag="make", frozen=True, kw_only=True):
    """Make all rows of an array that was reserved, by a function in a buffer: see `Device.make`.

    Args:
        name: The name of the array.
        first: The number of its first row in the whole table.
        sequence: As of `Create`.
    """

    name: str
    first: Number
    sequence: Number = 0


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
    """

    name: str
    clears: bool = False
    noted: bool = False
    waiting: bool = False
    clock: Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)] | None = None
    sequence: Number = 0


class Delete(msgspec.Struct, tag="delete", frozen=True, kw_only=True):
    """Forget arrays and hashed tables, whose names are in a buffer, and the functions that need them;
    ``sequence`` as of `Create`."""

    sequence: Number = 0


class Register(msgspec.Struct, tag="register", frozen=True, kw_only=True):
    """Take a function, encoded in a buffer; ``sequence`` as of `Create`."""

    sequence: Number = 0


class Read(msgspec.Struct, tag="read", frozen=True, kw_only=True):
    """Ask for arrays, whose names are in a buffer, at one instant of this server."""


class ReadRows(msgspec.Struct, tag="read rows", frozen=True, kw_only=True):
    """Ask for rows of an array, whose numbers are in a buffer, ascending.

    Args:
        name: The name of the array.
    """

    name: str


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


class Pull(msgspec.Struct, tag="pull", frozen=True, kw_only=True):
    """Ask for what a function takes, and for rows of its tables, whose ids are in a buffer.

    Args:
        function: The fingerprint of the function.
        counts: How many ids there are of each table.
    """

    function: str
    counts: tuple[Number, ...] = ()


class Apply(msgspec.Struct, tag="apply", frozen=True, kw_only=True):
    """Run the updates of a function on what is pushed, unless this closure was applied before.

    The buffers are those that `FunctionLayout` describes.

    Args:
        function: The fingerprint of the function.
        closure: The number of the closure, which no other has.
        watermark: The number below which all closures have ended.
        counts: How many rows are pushed of each table.
    """

    function: str
    closure: Number
    watermark: Number = 0
    counts: tuple[Number, ...] = ()


class Joined(msgspec.Struct, tag="joined", frozen=True, kw_only=True):
    """Answers `Join`.

    Args:
        run: The random id of the server's process.
        version: How many pushes have changed the values.
        sequence: The last change of this client that was made here; 0 for none.
    """

    run: str
    version: int
    sequence: int


class Described(msgspec.Struct, tag="described", frozen=True, kw_only=True):
    """Answers `Describe`; a buffer has a `Signature`, or there is none if the function is not known here."""


class Values(msgspec.Struct, tag="values", frozen=True, kw_only=True):
    """Answers `Read`, `ReadRows` and `ReadHashed` by a bundle; `Pull` and `Apply` by what the function takes,
    in flat buffers, and `Pull` also by the rows of each table.

    Args:
        version: How many pushes have changed the values.
        repeated: Whether the closure had been applied before.
        next: Where the rows of a hashed table go on; 0 if these were the last ones.
    """

    version: int
    repeated: bool = False
    next: int = 0


class StoreStatistics(msgspec.Struct, tag="statistics", frozen=True, kw_only=True):
    """Answers `Stats`.

    Args:
        version: How many pushes have changed the values.
        variables: How many arrays there are.
        nbytes: Their size in bytes.
        functions: How many functions there are.
        applies: How many pushes this process has applied.
        pulls: How many times it has sent what a function takes.
        repeated: How many requests came again, and changed nothing again.
        refused: How many requests were refused.
        remembered: How many closures are remembered one by one.
        received_bytes: The size of the buffers that were received.
        sent_bytes: The size of the buffers that were sent.
        lost_updates: How many pushes were lost, since the server was killed.
        lost_secs: How long training had gone on after the snapshot that it has restored, in seconds.
        tables: What is counted for hashed tables.
    """

    version: int = 0
    variables: int = 0
    nbytes: int = 0
    functions: int = 0
    applies: int = 0
    pulls: int = 0
    repeated: int = 0
    refused: int = 0
    remembered: int = 0
    received_bytes: int = 0
    sent_bytes: int = 0
    lost_updates: int = 0
    lost_secs: float = 0.0
    tables: tuple[TableStatistics, ...] = ()


# For type checkers, and as unions for msgspec.
Change = Create | Reserve | Make | Assign | AssignRows | Add | CreateHashed | AssignHashed | Delete | Register
Request = Join | Change | Read | ReadRows | ReadHashed | Describe | Pull | Apply | Stats | End
Answer = Joined | Described | Values | Done | Ended | Refused | StoreStatistics


class Header(msgspec.Struct, frozen=True):
    """A frame: a request, and the dtype and the number of elements of each buffer that follows it."""

    message: Request
    buffers: tuple[tuple[str, int], ...] = ()


class AnswerHeader(msgspec.Struct, frozen=True):
    """A frame: an answer, and the dtype and the number of elements of each buffer that follows it."""

    message: Answer
    buffers: tuple[tuple[str, int], ...] = ()
