"""Stores for tests: values in NumPy, and functions that add what is pushed."""

import numpy as np

from muster.ps._flat_layout import FlatLayout
from muster.ps._messages import Caller, Refused
from muster.ps._plan import ArraySpec
from muster.ps.store import StoredFunction, StoreMachine
from muster.ps.store import _messages as messages
from muster.ps.store._bundles import bundle, packed, unbundled

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

    def compile(self, function, held):
        if function.update not in (b"adds", b""):
            raise ValueError("its update is none")
        return NumPyFunction(function, held)


class NumPyFunction:
    def __init__(self, function, held):
        self._function = function
        self._taken = FlatLayout(held[name] for name in function.takes)
        self._pushed = FlatLayout(function.pushed)

    def pull(self, values):
        return self._taken.pack(values)

    def apply(self, values, pushed):
        (given,) = self._pushed.unpack(pushed).values()
        first, second = self._function.updates
        values[first] = values[first] + given
        values[second] = values[second] + values[second].dtype.type(1)
        return self.pull(values)


def full(spec, value):
    return np.full(spec.shape, value, spec.dtype)


def made(device=None, **options):
    return StoreMachine(device or NumPyDevice(), name="ps 0", run="run", versions=dict(VERSIONS), **options)


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
        (reply,) = self.machine.handle(self.caller, message, arrays, 0.0)
        if isinstance(reply.message, Refused):
            raise RuntimeError(reply.message.text)
        return reply.message, reply.arrays

    def change(self, kind, arrays, sequence=None):
        self.sequence = sequence or self.sequence + 1
        return self.ask(kind(sequence=self.sequence), arrays)[0]

    def create(self, *values, sequence=None):
        given = [(spec, full(spec, value)) for spec, value in values]
        return self.change(messages.Create, bundle(given), sequence)

    def assign(self, spec, value, sequence=None):
        return self.change(messages.Assign, bundle([(spec, full(spec, value))]), sequence)

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
        return self.ask(messages.Apply(function=function, closure=closure, watermark=watermark), pushed)

    def prepare(self):
        self.create((A, 0.0), (B, 0.0), (COUNT, 0))
        self.register(ADD)
        self.register(LOOK)
        return self
