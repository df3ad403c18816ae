"""The plan of one parameter server: its arrays in order, and the update that each push runs."""

import hashlib
import itertools
import math
from collections.abc import Iterable

import msgspec

from muster._arrays import dtype_named


class ArraySpec(msgspec.Struct, frozen=True):
    """One array of a plan.

    Args:
        name: Its name, for messages.
        shape: Its shape.
        dtype: The name of its dtype.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.name} ({self.dtype}{list(self.shape)})"

    @property
    def size(self) -> int:
        """The number of its elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        return self.size * dtype_named(self.dtype).itemsize


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The arrays of one server, and their update. Each list is stored as `FlatLayout` says.

    Args:
        pulled: What workers read: weights, moving statistics.
        kept: What only updates read and write: the slots of optimizers.
        pushed: What a push brings.
        update: A serialized ``jax.export.Exported`` of ``update(pulled, kept, pushed) -> (pulled, kept)``,
            each a dictionary of flat arrays by the name of their dtype; empty if nothing is pushed.
        meaning: The update as text, equal for equal updates. The serialized one names places in the source.
        server: The number of the server.
        servers: How many servers there are.
        max_staleness: How many steps a worker may be ahead of the slowest one; None for any number. With 0
            workers push in rounds, and the update runs once in each, on the mean of what was pushed.
    """

    pulled: tuple[ArraySpec, ...] = ()
    kept: tuple[ArraySpec, ...] = ()
    pushed: tuple[ArraySpec, ...] = ()
    update: bytes = b""
    meaning: str = ""
    server: int = 0
    servers: int = 1
    max_staleness: int | None = None

    def encode(self) -> bytes:
        """Return the plan in bytes, for `Plan.decode` and `fingerprint`."""
        return msgspec.msgpack.encode(self)


def fingerprint(plan: Plan) -> str:
    """Return what distinguishes a plan from others that hold or mean something else."""
    update = b"" if plan.meaning else plan.update
    return hashlib.sha256(msgspec.structs.replace(plan, update=update).encode()).hexdigest()


def check_plan(plan: Plan) -> None:
    """Raise ValueError, with what is wrong, if a plan contradicts itself."""
    for kind, specs in _lists(plan):
        check_specs(kind, specs)
    if plan.pushed and not plan.update:
        raise ValueError("it has no update for what is pushed")


def check_specs(kind: str, specs: Iterable[ArraySpec]) -> None:
    """Raise ValueError, with what is wrong, if arrays have no sizes, dtypes or names of their own."""
    names = set()
    for spec in specs:
        if spec.name in names:
            raise ValueError(f"its {kind} arrays have the name {spec.name} twice")
        names.add(spec.name)
        if any(each < 0 for each in spec.shape):
            raise ValueError(f"its {kind} array {spec} has a negative size")
        if not is_of_numbers(spec.dtype):
            raise ValueError(f"its {kind} array {spec} has a dtype that is not numeric")


def is_of_numbers(name: str) -> bool:
    """Return whether a name is that of a dtype of numbers."""
    try:
        dtype = dtype_named(name)
    except (AttributeError, TypeError, ValueError, SyntaxError):
        return False
    # Those of ml_dtypes have the kind of raw memory, and a name of their own.
    return dtype.name == name and dtype.kind in "biufcV" and dtype.itemsize > 0


def difference(ours: Plan, theirs: Plan) -> str:
    """Return what differs first between two plans, as a clause about theirs."""
    if (theirs.server, theirs.servers) != (ours.server, ours.servers):
        return (
            f"it is for ps {theirs.server} of {theirs.servers} in all, and this is ps {ours.server} of "
            f"{ours.servers}"
        )
    for (kind, here), (_, there) in zip(_lists(ours), _lists(theirs), strict=True):
        for mine, other in itertools.zip_longest(here, there):
            if mine != other:
                if other is None:
                    return f"it lacks the {kind} array {mine}"
                if mine is None:
                    return f"it has one more {kind} array, {other}"
                return f"its {kind} array {other} is {mine} here"
    if ours.max_staleness != theirs.max_staleness:
        return f"its max_staleness is {theirs.max_staleness}, and {ours.max_staleness} here"
    return "its arrays are the same, and its update differs: another optimizer, or another setting of it"


def _lists(plan: Plan) -> tuple[tuple[str, tuple[ArraySpec, ...]], ...]:
    return ("pulled", plan.pulled), ("kept", plan.kept), ("pushed", plan.pushed)
