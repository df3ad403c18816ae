"""Plans for tests, and a device in NumPy with an update that adds what is pushed."""

import numpy as np

from muster.ps import _messages as messages
from muster.ps._array_spec import ArraySpec
from muster.ps._bundles import packed, unbundled
from muster.ps._flat_layout import FlatLayout
from muster.ps._messages import Caller
from muster.ps._plan import Plan

CHIEF, WORKER, OTHER = (Caller(task, f"run of {task}") for task in ("chief 0", "worker 0", "worker 1"))
VERSIONS = {"jax": "1.2"}


def specs(size, names="ab"):
    return tuple(ArraySpec(name, (size, 2), "float32") for name in names)


def added(size=3, max_staleness=None):
    """A plan whose update adds what is pushed to what is pulled, and counts pushes in what is kept."""
    kept = (ArraySpec("count", (1,), "float32"),)
    return Plan(
        pulled=specs(size), kept=kept, pushed=specs(size), update=b"adds", max_staleness=max_staleness
    )


class AddingDevice:
    """Values in NumPy, whose update is that of `added`."""

    def check(self, specs, held):
        pass

    def put(self, array):
        return array.copy()

    def get(self, value):
        return value

    def compile(self, function, held, tables):
        if function.update not in (b"adds", b""):
            raise ValueError("its update is none")
        if any(use.update not in (b"adds rows", b"") for use in function.tables):
            raise ValueError("its update of rows is none")
        return AddingFunction(function, held)

    def make(self, function, spec, first):
        """Rows of their own numbers, three at a time."""
        if function != b"numbers":
            raise ValueError("it is no function")
        numbers = np.arange(first, first + spec.shape[0], dtype=spec.dtype)
        for start in range(0, spec.shape[0], 3):
            rows = numbers[start : start + 3].reshape(-1, *[1] * (len(spec.shape) - 1))
            yield np.broadcast_to(rows, (len(rows), *spec.shape[1:]))


class AddingFunction:
    def __init__(self, function, held):
        self._function, self._held = function, held

    def pull(self, values):
        return {self._held[name].dtype: values[name] for name in self._function.takes}

    def apply(self, values, pushed, rows, whole):
        new = self.update_rows(values, rows, whole)
        for name in self._function.updates:
            is_pulled = name in self._function.takes
            values[name] = values[name] + (pushed[self._held[name].dtype] if is_pulled else 1)
        return self.pull(values), new

    def update_rows(self, values, rows, whole):
        """Add to rows what is pushed for them; count in the other columns."""
        return [
            [each.rows[0] + each.pushed[0], *(column + 1 for column in each.rows[1:])] if each else ()
            for each in rows.tables
        ]


def filled(specs, value):
    """The flat buffers of arrays, all of one value."""
    flat = FlatLayout(specs).allocate()
    for array in flat.values():
        array[:] = value
    return list(flat.values())


def everything(plan, value):
    """What is pulled and kept."""
    return filled(plan.pulled, value) + filled(plan.kept, value)


def first_values(plan, value, origin="first"):
    """The requests that give all first values, with their arrays."""
    for spec in plan.columns:
        yield messages.AssignRows(name=spec.name, start=0), [np.full(spec.size, value, spec.dtype)]
    yield messages.Initialize(origin=origin), everything(plan, value)


def as_buffer(plan):
    return [np.frombuffer(plan.encode(), np.uint8)]


def reading(plan):
    """A request for everything, with its buffer."""
    names = [spec.name for specs in (*plan.buffers(), plan.columns) for spec in specs]
    return messages.Read(), [packed(names)]


def read_in(reply):
    """What answers that, flat."""
    return [array.reshape(-1) for _, array in unbundled(reply.arrays)]
