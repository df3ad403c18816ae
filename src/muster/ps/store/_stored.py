"""What a server holds: arrays by name, and functions that read and change them."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from muster.ps._plan import ArraySpec, check_specs

_LONGEST_NAME = 1 << 10


class StoredName(NamedTuple):
    """An array by its server's number and its name, which no other has there."""

    server: int
    name: str


class StoredArray(msgspec.Struct, frozen=True):
    """A variable, or rows of one, on a server.

    Args:
        name: Its name: ``dense/kernel``, or ``dense/kernel[0:100]`` of rows.
        server: The number of the server.
        shape: Its shape.
        dtype: The name of its dtype.
    """

    name: str
    server: int
    shape: tuple[int, ...]
    dtype: str

    @property
    def key(self) -> StoredName:
        """The name by which it is read and assigned."""
        return StoredName(self.server, self.name)

    @property
    def spec(self) -> ArraySpec:
        """The array, as its server knows it."""
        return ArraySpec(self.name, self.shape, self.dtype)


class StoredFunction(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a function that one server has.

    Args:
        fingerprint: The name of the function, the same on all servers: what distinguishes it from others.
        takes: The names of the arrays that workers read for it.
        reads: Those that its update reads.
        updates: Those that its update changes.
        pushed: What a worker pushes.
        update: A serialized ``jax.export.Exported`` of ``update(*reads, *pushed) -> updates``, in the order
            of these lists; empty if nothing is changed.
    """

    fingerprint: str
    takes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    updates: tuple[str, ...] = ()
    pushed: tuple[ArraySpec, ...] = ()
    update: bytes = b""

    @property
    def names(self) -> tuple[str, ...]:
        """All arrays that it needs, each once: those that it changes first."""
        return tuple(dict.fromkeys((*self.updates, *self.reads, *self.takes)))


def check_function(function: StoredFunction, held: Mapping[str, ArraySpec]) -> None:
    """Raise ValueError, with a clause about it, if a function contradicts itself or what a server holds.

    Args:
        function: The function.
        held: The server's arrays, by name.
    """
    if not 0 < len(function.fingerprint) <= _LONGEST_NAME:
        raise ValueError("its fingerprint is empty or too long")
    for kind in ("takes", "reads", "updates"):
        names: tuple[str, ...] = getattr(function, kind)
        if doubled := [name for name, count in Counter(names).items() if count > 1]:
            raise ValueError(f"it {kind} {doubled[0]} twice")
        if unknown := [name for name in names if name not in held]:
            raise ValueError(f"it {kind} {unknown[0]}, which is not on this server. Create it first")
    check_specs("pushed", function.pushed)
    if bool(function.update) != bool(function.updates):
        has, lacks = (
            ("an update", "nothing to change") if function.update else ("arrays to change", "no update")
        )
        raise ValueError(f"it has {has}, and {lacks}")
    if function.pushed and not function.update:
        raise ValueError("it has no update for what is pushed")
