"""Stores for tests: values in NumPy, and functions that add what is pushed."""

import functools

import msgspec
import numpy as np

from muster.ps import _messages as messages
from muster.ps._array_spec import ArraySpec
from muster.ps._bundles import bundle, packed, unbundled
from muster.ps._flat_layout import FlatLayout
from muster.ps._machine import Machine
from muster.ps._messages import Caller, Refused
from muster.ps._replies import Asked
from muster.ps.contents import StoredFunction, TableUse

VERSIONS = {"jax": "1.2"}
CHIEF, WORKER, OTHER = (Caller(task, f"run of {task}") for task in ("chief 0", "worker 0", "worker 1"))
A, B, COUNT = (
    ArraySpec("a", (3, 2), "float32"),
    ArraySpec("b", (4,), "float32"),
    ArraySpec("count", (), "int32"),
)
PUSHED = (ArraySpec("push 0", (3, 2), "float32"),)
ADD = StoredFunction(
    fingerprint="add",
    takes=("a", "b"),
    reads=("a", "count"),
    updates=("a", "count"),
    pushed=PUSHED,
    update=b"adds",
)
ROWS, SLOT = ArraySpec("rows", (10, 2), "float32"), ArraySpec("rows/slot", (10,), "float32")
USE = TableUse(
    columns=("rows", "rows/slot"),
    update=b"adds rows",
    reads=("count",),
    row_pushes=(ArraySpec("gradient", (2,), "float32"),),
    pushed=(ArraySpec("factor", (), "float32"),),
    start=100,
)
TRAIN = msgspec.structs.replace(ADD, fingerprint="train", tables=(USE,))
LOOK = StoredFunction(fingerprint="look", takes=("b", "a"))


class NumPyDevice:
    """Values in NumPy; the update adds what is pushed to the first array, and one to the second."""

    def __init__(self, limit=1 << 20):
        self.limit = limit

    def check(self, specs, held):
        if held + sum(spec.nbytes for spec in specs) > self.limit:
            raise ValueError("its arrays are too large")

    def put(self, array):
        return array.copy()

    def get(self, value):
        return value

    def compile(self, function, held, tables):
        if function.update not in (b"adds", b""):
            raise ValueError("its update is none")
        if any(use.update not in (b"adds rows", b"") for use in function.tables):
            raise ValueError("its update of rows is none")
        return NumPyFunction(function, held)

    def make(self, function, spec, first):
        """Rows of their own numbers."""
        if function != b"numbers":
            raise ValueError("it is no function")
        numbers = np.arange(first, first + spec.shape[0], dtype=spec.dtype)
        yield np.repeat(numbers, spec.size // len(numbers)).reshape(spec.shape)


def added_rows(rows, pushed, others):
    """Add to rows what is pushed for them, times what is read; count in the other columns."""
    factor = np.prod([np.prod(each) for each in others])
    return [rows[0] + pushed[0] * rows[0].dtype.type(factor), *(each + 1 for each in rows[1:])]


class NumPyFunction:
    def __init__(self, function, held):
        self._function = function
        self._taken = FlatLayout(held[name] for name in function.takes)
        self._pushed = FlatLayout(function.pushed)

    def pull(self, values):
        return self._taken.pack(values)

    def apply(self, values, pushed, rows, whole):
        new = self.update_rows(values, rows, whole)
        if not self._function.update:
            return self.pull(values), new
        (given,) = self._pushed.unpack(pushed).values()
        first, second = self._function.updates
        values[first] = values[first] + given
        values[second] = values[second] + values[second].dtype.type(1)
        return self.pull(values), new

    def update_rows(self, values, rows, whole):
        return [
            added_rows(each.rows, each.pushed, [*(values[name] for name in use.reads), *brought])
            if each
            else ()
            for use, each, brought in zip(self._function.tables, rows.tables, whole, strict=True)
        ]


def full(spec, value):
    return np.full(spec.shape, value, spec.dtype)


def made(device=None, **options):
    return Machine(device or NumPyDevice(), name="ps 0", run="run", versions=dict(VERSIONS), **options)


class Talk:
    """What one connection asks of a machine; answers that refuse are raised."""

    def __init__(self, machine, caller=CHIEF, origin="origin", client=None, **seen):
        self.machine, self.caller = machine, caller
        self.sequence = 0
        self.joined = self.ask(
            messages.Join(
                origin=origin,
                client=client or caller.task,
                versions=VERSIONS,
                starts=caller.task.startswith("chief"),
                **seen,
            )
        )[0]

    def ask(self, message, arrays=()):
        (reply,) = self.machine.handle([Asked(self.caller, message, arrays)], 0.0)
        if isinstance(reply.message, Refused):
            raise RuntimeError(reply.message.text)
        return reply.message, reply.arrays

    def change(self, kind, arrays, sequence=None):
        self.sequence = sequence or self.sequence + 1
        return self.ask(kind(sequence=self.sequence), arrays)[0]

    def create(self, *values, sequence=None, by_rows=()):
        given = [(spec, full(spec, value)) for spec, value in values]
        return self.change(functools.partial(messages.Create, by_rows=by_rows), bundle(given), sequence)

    def assign(self, spec, value, sequence=None):
        return self.change(messages.Assign, bundle([(spec, full(spec, value))]), sequence)

    def add(self, spec, value, sequence=None):
        return self.change(messages.Add, bundle([(spec, full(spec, value))]), sequence)

    def register(self, function, sequence=None):
        return self.change(messages.Register, [packed(function)], sequence)

    def delete(self, *names):
        return self.change(messages.Delete, [packed(names)])

    def read(self, *names):
        arrays = self.ask(messages.Read(), [packed(names)])[1]
        return [array for _, array in unbundled(arrays)]

    def first(self, name):
        return self.read(name)[0].reshape(-1)[0]

    def pull(self, function="look"):
        return self.ask(messages.Pull(function=function))[1]

    def apply(self, closure, value=1.0, watermark=0, function="add"):
        pushed = [np.full(6, value, np.float32)]
        return self.ask(messages.Push(function=function, number=closure, watermark=watermark), pushed)

    def rows(self, *ids, function="train"):
        """The rows of the only table of a function."""
        message = messages.Pull(function=function, counts=(len(ids),))
        return self.ask(message, [np.array(ids, np.int64)])[1][-1].reshape(-1, 2)

    def push(self, closure, ids, values, factor=1.0, value=1.0):
        """Apply TRAIN: values are added to both numbers of each row."""
        gradients = np.repeat(np.array(values, np.float32), 2)
        buffers = [np.full(6, value, np.float32), np.array(ids, np.int64), np.full(1, factor, np.float32)]
        message = messages.Push(function="train", number=closure, counts=(len(ids),))
        return self.ask(message, [*buffers, gradients])

    def read_rows(self, name, start, count):
        return unbundled(self.ask(messages.ReadRows(name=name, start=start, count=count))[1])[0][1]

    def assign_rows(self, name, start, rows, sequence=None):
        kind = functools.partial(messages.AssignRows, name=name, start=start)
        return self.change(kind, [np.array(rows, np.float32)], sequence)

    def prepare_rows(self, **options):
        self.create((A, 0.0), (B, 0.0), (COUNT, 1), (ROWS, 0.0), (SLOT, 0.0), **options)
        self.register(TRAIN)
        return self

    def prepare(self):
        self.create((A, 0.0), (B, 0.0), (COUNT, 0))
        self.register(ADD)
        self.register(LOOK)
        return self
