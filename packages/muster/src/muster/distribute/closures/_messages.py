"""The messages between a coordinator and a worker. Flat arrays follow some of them, as in `muster.ps`."""

from typing import Any

import msgspec

from muster.distribute.engine._asked_rows import AskedTable

# What such connections are for, in their greeting.
PURPOSE = "closures"


class ArrayKind(msgspec.Struct, frozen=True):
    """The shape and the dtype of an array."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def size(self) -> int:
        """The number of elements."""
        size = 1
        for length in self.shape:
            size *= length
        return size


class ClosureDraw(msgspec.Struct, frozen=True):
    """A batch that a program takes of an iterator.

    Args:
        source: The number of the iterator among those of a closure.
        optional: Whether the iterator may be at its end instead.
        arrays: The arrays of the batch; None for the end of the iterator.
    """

    source: int
    optional: bool
    arrays: tuple[ArrayKind, ...] | None


class ClosureProgram(msgspec.Struct, frozen=True, kw_only=True):
    """The worker's program for closures of one kind.

    Args:
        compute: A function, exported by JAX for a platform: of the values of servers, the ids and the rows of
            each table, the worker's own variables, the worker's index, the arguments, the arrays of the
            batches, and the numbers of the ids of hashed tables, flat and in this order. It returns what is
            pushed, the rows that are pushed for each table, the new values of the worker's own variables, and
            the results.
        ids: A function, exported likewise: of what ``compute`` takes from the worker's own variables to the
            batches. It returns the ids that each table is asked for: int32 of shape (n,), or, of hashed
            tables, uint32 of shape (n, 2). Empty if there are no tables.
        tables: The tables of which it takes rows.
        function: The name by which servers know what is pulled and pushed; empty for nothing.
        pushed: How many arrays are pushed to each server; nothing if servers change nothing.
        own: The names of the worker's own variables.
        arguments: The arrays of the arguments.
        draws: The batches that are drawn, in order.
        results: The arrays of the results.
    """

    compute: bytes
    ids: bytes = b""
    tables: tuple[AskedTable, ...] = ()
    function: str = ""
    pushed: tuple[int, ...] = ()
    own: tuple[str, ...] = ()
    arguments: tuple[ArrayKind, ...] = ()
    draws: tuple[ClosureDraw, ...] = ()
    results: tuple[ArrayKind, ...] = ()


class Begin(msgspec.Struct, tag="begin", frozen=True):
    """The first request of a connection; answered by `Ready` or `RequestRefused`.

    Args:
        origin: The random id of the coordinator, which parameter servers know.
        versions: The versions of its software.
    """

    origin: str
    versions: dict[str, str]


class Learn(msgspec.Struct, tag="learn", frozen=True):
    """Send a program, encoded, in an array of bytes.

    Args:
        program: Its name.
    """

    program: str


class Own(msgspec.Struct, tag="own", frozen=True):
    """Send the first value of a variable that the worker keeps for itself.

    Args:
        name: The name of the variable.
        array: Its value, which follows.
    """

    name: str
    array: ArrayKind


class Iterate(msgspec.Struct, tag="iterate", frozen=True):
    """Send what makes a dataset, pickled, in an array of bytes: the worker begins to iterate over it.

    Args:
        iterator: The number of the iterator.
        shared: Where the pass begins that all workers share; None if the worker makes one of its own.
    """

    iterator: int
    shared: dict[str, Any] | None = None


class Forget(msgspec.Struct, tag="forget", frozen=True):
    """Say which iterators are not used any more."""

    iterators: tuple[int, ...]


class RequestedClosure(msgspec.Struct, frozen=True):
    """A closure that is to run.

    Args:
        closure: Its number.
        program: The name of its program.
        iterators: The numbers of its iterators.
        watermark: The number below which all closures have ended.
        generation: Values that were pulled for a closure of another generation are not used for this one.
        numbers: For each draw of the program, the number of the batch that it takes of a shared pass: None at
            the end, and for other iterators. Empty if no iterator is shared.
    """

    closure: int
    program: str
    iterators: tuple[int, ...] = ()
    watermark: int = 0
    generation: int = 0
    numbers: tuple[int | None, ...] = ()


class RunClosures(msgspec.Struct, tag="run", frozen=True):
    """Ask for closures, behind those that were asked for before; the arrays of their arguments follow.

    Each is answered in `Answers`.
    """

    closures: tuple[RequestedClosure, ...]


class Stop(msgspec.Struct, tag="stop", frozen=True):
    """Ask to stop at closures unless they have had an effect: their answers are `ClosureStopped` then."""

    closures: tuple[int, ...]


class JobEnd(msgspec.Struct, tag="end", frozen=True):
    """Says that the job has ended: the only request of a connection of the coordinator's own."""


class Ready(msgspec.Struct, tag="ready", frozen=True):
    """Answers `Begin`.

    Args:
        platform: What JAX runs on in this worker, such as ``"cpu"``.
    """

    platform: str


class Ran(msgspec.Struct, tag="ran", frozen=True):
    """The results of a closure follow.

    Args:
        closure: Its number.
        secs: How long it took, in seconds.
    """

    closure: int
    secs: float


class Drew(msgspec.Struct, tag="drew", frozen=True):
    """A closure drew batches of other shapes than its program is for, and gave them back.

    Args:
        closure: Its number.
        arrays: The arrays of each batch that it has drawn so far; None for the end of an iterator.
    """

    closure: int
    arrays: tuple[tuple[ArrayKind, ...] | None, ...]


class Failed(msgspec.Struct, tag="failed", frozen=True):
    """A closure has raised an error, and had no effect.

    Args:
        closure: Its number.
        classes: The names of the error's class and of its bases, in order.
        text: The error's message.
        trace: Where it was raised.
    """

    closure: int
    classes: tuple[str, ...]
    text: str
    trace: str


class ClosureStopped(msgspec.Struct, tag="stopped", frozen=True):
    """A closure was stopped, and had no effect."""

    closure: int


class Answers(msgspec.Struct, tag="answers", frozen=True):
    """Answers closures; the results of those that ran follow, in this order."""

    answers: tuple[Ran | Drew | Failed | ClosureStopped, ...]


class RequestRefused(msgspec.Struct, tag="refused", frozen=True):
    """Answers a request that is wrong; the connection ends.

    Args:
        text: What was wrong and what to do, as a clause.
        busy: Whether the worker has another coordinator, which may be gone soon.
    """

    text: str
    busy: bool = False


# For type checkers, and as unions for msgspec.
Request = Begin | Learn | Own | Iterate | Forget | RunClosures | Stop | JobEnd
Answer = Ran | Drew | Failed | ClosureStopped
Reply = Ready | Answers | RequestRefused


class RequestHeader(msgspec.Struct, frozen=True):
    """A frame: a request, and the dtype and the number of elements of each array that follows it."""

    message: Request
    buffers: tuple[tuple[str, int], ...] = ()


class ReplyHeader(msgspec.Struct, frozen=True):
    """A frame: a reply, and the dtype and the number of elements of each array that follows it."""

    message: Reply
    buffers: tuple[tuple[str, int], ...] = ()


def name_of(message: Any) -> str:
    """Return the name of a message, for texts."""
    return type(message).__name__
