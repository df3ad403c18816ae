"""Plans for tests, and rows in NumPy with an update that adds what is pushed."""

import numpy as np

from muster.ps._flat_layout import FlatLayout
from muster.ps._messages import Caller
from muster.ps._plan import ArraySpec, Plan

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


class AddedRows:
    """Rows of `added`."""

    def __init__(self, plan):
        if plan.update not in (b"adds", b""):
            raise ValueError("its update is none")
        self.values = {}
        self.slots = {}

    def set(self, pulled, kept):
        self.values = {name: array.copy() for name, array in pulled.items()}
        self.slots = {name: array.copy() for name, array in kept.items()}

    def pulled(self):
        return self.values

    def kept(self):
        return self.slots

    def apply(self, pushed):
        self.values = {name: array + pushed[name] for name, array in self.values.items()}
        self.slots = {name: array + 1 for name, array in self.slots.items()}


def filled(specs, value):
    """The flat buffers of arrays, all of one value."""
    flat = FlatLayout(specs).allocate()
    for array in flat.values():
        array[:] = value
    return list(flat.values())


def everything(plan, value):
    return filled(plan.pulled, value) + filled(plan.kept, value)


def as_buffer(plan):
    return [np.frombuffer(plan.encode(), np.uint8)]
