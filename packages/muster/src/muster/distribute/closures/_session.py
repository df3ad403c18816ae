"""A worker's state for one coordinator, and the code that runs its closures; no sockets or threads."""

import contextlib
import dataclasses
import ipaddress
import itertools
import pickle
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

import jax
import jax.export
import msgspec
import numpy as np

from muster._arrays import dtype_named
from muster._errors import DatasetError, OutOfRangeError
from muster.cluster.roster import WorkTotals
from muster.data import Dataset
from muster.distribute.closures import _messages as messages
from muster.distribute.closures._reading import DrawnElement, Reading
from muster.distribute.engine._asked_rows import AskedRows
from muster.distribute.engine._compiled import compiled
from muster.distribute.engine._traced import Executables
from muster.distribute.workers import Exchanged
from muster.ps import Array, Servers

_T = TypeVar("_T")

# The longest text and the longest trace of an error that are sent, in characters.
_MAX_TEXT, _MAX_TRACE = 2000, 8000
# How long a session that ends waits for elements that datasets are at, in seconds: one may never come.
_JOIN_SECS = 5.0


class WaitUntil(Protocol):
    """Waits until a function returns True; returns False if the closure is to stop."""

    def __call__(self, ready: Callable[[], bool], /) -> bool: ...


class ClosureRequestError(ValueError):
    """A request is wrong. The text is a clause about it.

    Args:
        text: The text.
        busy: As of ``RequestRefused``.
    """

    def __init__(self, text: str, *, busy: bool = False) -> None:
        super().__init__(text)
        self.busy = busy


@dataclasses.dataclass
class ClosureTotals:
    """Counts the time and the bytes of the closures of a worker.

    Attributes:
        closures: How many have ended well.
        secs: The seconds that they took.
        input_secs: Those in which they waited for elements of datasets.
        exchanged: What they have exchanged with parameter servers.
        squares: The sum of the squares of the seconds of each without what it exchanged.
    """

    closures: int = 0
    secs: float = 0.0
    input_secs: float = 0.0
    exchanged: Exchanged = dataclasses.field(default_factory=Exchanged)
    squares: float = 0.0

    def work(self) -> WorkTotals:
        """Return this as a task reports it."""
        others = self.input_secs + self.exchanged.secs
        return WorkTotals(
            steps=self.closures,
            compute=max(0.0, self.secs - others),
            input=self.input_secs,
            communication=self.exchanged.secs,
            nbytes=self.exchanged.nbytes,
            squares=self.squares,
        )


class ClosureSession:
    """A worker's memory of one coordinator, while their connection lasts.

    Args:
        worker: The index of this worker.
        connect: Makes the connections to parameter servers, when they are needed; None where there are none.
        executables: Compiled functions by fingerprint, which outlast the session.
        trusted: Whether the coordinator may send code: what makes datasets.
        wake: Called, on any thread, when a closure that waits may go on.
        totals: Counts what closures take.
    """

    def __init__(
        self,
        worker: int,
        connect: Callable[[], Servers] | None,
        executables: Executables,
        *,
        trusted: bool,
        wake: Callable[[], None],
        totals: ClosureTotals | None = None,
    ) -> None:
        self._totals = ClosureTotals() if totals is None else totals
        self._worker = np.int32(worker)
        self._connect = connect
        self._store: Servers | None = None
        self._executables = executables
        self._trusted = trusted
        self._wake = wake
        self._programs: dict[str, messages.ClosureProgram] = {}
        self._computes: dict[tuple[str, str], Callable[..., list[jax.Array]]] = {}
        self._own: dict[str, Any] = {}
        self._readings: dict[int, Reading] = {}
        # What the last push has brought: the function, the generation, and the values.
        self._newest: tuple[str, int, list[list[Array]]] = ("", -1, [])

    def learn(self, name: str, encoded: bytes) -> None:
        """Keep a program; it is compiled when it is first needed."""
        try:
            self._programs[name] = msgspec.msgpack.decode(encoded, type=messages.ClosureProgram)
        except (msgspec.DecodeError, msgspec.ValidationError) as exc:
            raise ClosureRequestError(f"its program cannot be read: {exc}") from exc

    def own(self, message: messages.Own, array: Array) -> None:
        """Keep the first value of a variable of this worker."""
        self._own.setdefault(message.name, _shaped([array], [message.array])[0])

    def iterate(self, message: messages.Iterate, pickled: bytes) -> None:
        """Begin to iterate over a dataset.

        Args:
            message: The number of the iterator, and of which pass it is.
            pickled: Makes the dataset.

        Raises:
            ClosureRequestError: The coordinator may not send code.
        """
        if not self._trusted:
            raise ClosureRequestError(
                "it sends code that makes a dataset, over a network where nobody proves anything. Give all "
                "tasks of the job the same MUSTER_SECRET_FILE, as `muster run` does"
            )

        def make() -> Dataset:
            dataset: Dataset = pickle.loads(pickled)()
            return dataset

        self._readings[message.iterator] = Reading(make, message.shared, self._wake)

    def forget(self, numbers: Iterable[int]) -> None:
        """Let go of iterators."""
        for number in numbers:
            if (reading := self._readings.pop(number, None)) is not None:
                reading.close()

    def close(self) -> None:
        """Let go of all iterators, and of the parameter servers.

        A dataset's thread that computes by JAX while Python ends would abort the process: it is waited for.
        """
        readings = list(self._readings.values())
        self.forget(list(self._readings))
        deadline = time.monotonic() + _JOIN_SECS
        for reading in readings:
            reading.join(max(0.0, deadline - time.monotonic()))
        if self._store is not None:
            self._store.close()

    def places(self, message: messages.Request) -> tuple[messages.ArrayKind, ...] | None:
        """Return which arrays follow a request; None for bytes of any number.

        Raises:
            ClosureRequestError: It names a program that was not sent.
        """
        match message:
            case messages.RunClosures(closures=asked):
                return tuple([kind for each in asked for kind in self.arguments_of(each)])
            case messages.Own(array=kind):
                return (kind,)
            case messages.Learn() | messages.Iterate():
                return None
        return ()

    def arguments_of(self, asked: messages.RequestedClosure) -> tuple[messages.ArrayKind, ...]:
        """Return the arrays of a closure's arguments; raises as `places` does."""
        if (program := self._programs.get(asked.program)) is None:
            raise ClosureRequestError(f"it asks for the program {asked.program!r}, which it did not send")
        return program.arguments

    def run(
        self, asked: messages.RequestedClosure, arrays: Sequence[Array], wait: WaitUntil
    ) -> tuple[messages.Answer, Sequence[Array]]:
        """Run a closure.

        Args:
            asked: The closure.
            arrays: Its arguments, flat.
            wait: Waits for what a thread of this session makes, unless the closure is to stop.

        Returns:
            The answer, and the flat arrays that follow it.
        """
        began, exchanged = time.perf_counter(), self._totals.exchanged.secs
        program = self._programs[asked.program]
        drawn: list[tuple[Reading, DrawnElement]] = []
        try:
            self._ask(asked, program)
            for draw in program.draws:
                reading = self._readings[asked.iterators[draw.source]]
                wait_began = time.perf_counter()
                if not wait(reading.ready):
                    _give_back(drawn)
                    return messages.ClosureStopped(asked.closure), ()
                self._totals.input_secs += time.perf_counter() - wait_began
                drawn.append((reading, batch := reading.take()))
                if batch.kinds is None and not draw.optional:
                    raise _out_of_range(sum(each is reading for each, _ in drawn) - 1)
                if batch.kinds != draw.arrays:
                    _give_back(drawn)
                    return messages.Drew(asked.closure, tuple(batch.kinds for _, batch in drawn)), ()
            leaves = [leaf for _, batch in drawn for leaf in batch.leaves]
            try:
                results = self._compute(asked, program, [*_shaped(arrays, program.arguments), *leaves], wait)
            except DatasetError:
                drawn.clear()  # what was drawn is wrong, and would be the next time
                raise
        except Exception as exc:
            _give_back(drawn)
            return describe(asked.closure, exc), ()
        if results is None:
            _give_back(drawn)
            return messages.ClosureStopped(asked.closure), ()
        secs = time.perf_counter() - began
        self._totals.closures += 1
        self._totals.secs += secs
        self._totals.squares += (secs - (self._totals.exchanged.secs - exchanged)) ** 2
        return messages.Ran(asked.closure, secs), results

    def _ask(self, asked: messages.RequestedClosure, program: messages.ClosureProgram) -> None:
        """Say which batches a closure takes."""
        numbers = asked.numbers or [None] * len(program.draws)
        for source in dict.fromkeys(draw.source for draw in program.draws):
            pairs = zip(program.draws, numbers, strict=True)
            reading = self._readings[asked.iterators[source]]
            reading.ask([number for draw, number in pairs if draw.source == source])

    def _compute(
        self,
        asked: messages.RequestedClosure,
        program: messages.ClosureProgram,
        inputs: Sequence[Any],
        wait: WaitUntil,
    ) -> list[Array] | None:
        """Compute the results, and push; None if the closure was stopped before that."""
        given = [*(self._own[name] for name in program.own), self._worker, *inputs]
        rows: AskedRows | None = None
        of_tables: Sequence[Array] = ()
        if program.tables:
            ids = self._compiled(asked.program, "ids", program.ids, given)(*given)
            rows = AskedRows(program.tables, ids)
            asked_ids = rows.ids(self._reached().count)
            taken = self._exchanged(lambda: self._reached().pull(program.function, asked_ids))
            of_tables = rows.taken(taken)
        else:
            taken = self._pulled(program.function, asked.generation)
        numbers = rows.numbers if rows is not None else []
        args = [*itertools.chain(*taken), *of_tables, *given, *numbers]
        made = iter(self._compiled(asked.program, "compute", program.compute, args)(*args))
        pushed = [[next(made) for _ in range(count)] for count in program.pushed]
        row_pushes = [next(made) for table in program.tables for _ in range(table.pushed)]
        kept = [next(made) for _ in program.own]
        results = [_flat(array) for array in made]
        if program.pushed:
            whole = [[np.asarray(array) for array in each] for each in pushed]
            by_rows = rows.pushed(row_pushes, len(whole)) if rows is not None else ()
            if not wait(_at_once):
                return None
            newest = self._exchanged(
                lambda: self._reached().apply(
                    program.function, asked.closure, asked.watermark, whole, by_rows
                ),
                (whole, by_rows),
            )
            self._newest = program.function, asked.generation, newest
        self._own.update(zip(program.own, kept, strict=True))
        return results

    def _pulled(self, function: str, generation: int) -> list[list[Array]]:
        """Return what a function takes: newly pulled, unless its own last push has brought it."""
        if not function:
            return []
        newest, self._newest = self._newest, ("", -1, [])
        if newest[:2] == (function, generation):
            return newest[2]
        return self._exchanged(lambda: self._reached().pull(function))

    def _exchanged(self, call: Callable[[], _T], sent: Any = ()) -> _T:
        """Exchange arrays with parameter servers, and count that."""
        began, exchanged = time.perf_counter(), self._totals.exchanged
        got = call()
        exchanged.secs += time.perf_counter() - began
        exchanged.nbytes += _nbytes_of(sent) + _nbytes_of(got)
        return got

    def _reached(self) -> Servers:
        if self._store is None:
            if self._connect is None:
                raise ClosureRequestError("its program needs parameter servers, and the cluster has none")
            self._store = self._connect()
        return self._store

    def _compiled(
        self, program: str, part: str, exported: bytes, args: Sequence[Any]
    ) -> Callable[..., list[jax.Array]]:
        """Return a part of a program, compiled for arguments like these."""
        if (program, part) not in self._computes:
            call = jax.export.deserialize(bytearray(exported)).call
            self._computes[program, part] = compiled(call, tuple(args), self._executables, donates=())
        return self._computes[program, part]


def may_send_code(origin: str, *, proved: bool) -> bool:
    """Return whether a caller may send code: one that has proved itself, or is on this machine.

    Args:
        origin: Its address.
        proved: Whether it has proved that it belongs to the job.
    """
    if proved or not origin:
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(origin).is_loopback
    return False


def describe(closure: int, exc: Exception) -> messages.Failed:
    """Return the answer of a closure that has raised an error."""
    classes = tuple(each.__name__ for each in type(exc).__mro__)
    trace = "".join(traceback.format_exception(exc))[-_MAX_TRACE:]
    return messages.Failed(closure, classes, str(exc)[:_MAX_TEXT], trace)


def _give_back(drawn: Sequence[tuple[Reading, DrawnElement]]) -> None:
    for reading in dict.fromkeys(each for each, _ in drawn):
        reading.give_back([batch for each, batch in drawn if each is reading])


def _out_of_range(left: int) -> OutOfRangeError:
    return OutOfRangeError(
        f"End of sequence: the function takes more batches than the {left} that this worker has left. They "
        "stay, to be drawn one by one."
        if left
        else "End of sequence: this worker has no batch left."
    )


def _shaped(arrays: Sequence[Array], kinds: Sequence[messages.ArrayKind]) -> list[Array]:
    return [array.reshape(kind.shape) for array, kind in zip(arrays, kinds, strict=True)]


def _flat(array: Any) -> Array:
    return np.ascontiguousarray(array).reshape(-1)


def _nbytes_of(values: Any) -> int:
    """Return the size of the arrays in nested lists, tuples and dicts, in bytes."""
    if isinstance(values, list | tuple):
        return sum([_nbytes_of(each) for each in values])
    if isinstance(values, dict):
        return sum([_nbytes_of(each) for each in values.values()])
    return getattr(values, "nbytes", 0)


def _at_once() -> bool:
    return True


def check_sizes(
    message: messages.Request, kinds: tuple[messages.ArrayKind, ...] | None, sizes: Sequence[tuple[str, int]]
) -> None:
    """Raise ClosureRequestError if other arrays are to follow a request than its program takes."""
    wanted = [("uint8", sizes[0][1])] if kinds is None and sizes else []
    if kinds is not None:
        wanted = [(dtype_named(kind.dtype).name, kind.size) for kind in kinds]
    if [*map(tuple, sizes)] != wanted:
        raise ClosureRequestError(
            f"its {messages.name_of(message)} brings other arrays than announced: {sizes}"
        )
