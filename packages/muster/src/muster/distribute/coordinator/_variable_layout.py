"""Name the rows of variables on servers, and the values that workers push for their updates."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import jax

from muster.distribute.engine._shards import Rows
from muster.ps import ArraySpec
from muster.ps.store import StoredArray


class StoredRows(Protocol):
    """Rows of a variable on a server: see ``servers._stored_variables``."""

    @property
    def array(self) -> StoredArray:
        """The array on the server."""

    @property
    def start(self) -> int:
        """The first row."""

    @property
    def stop(self) -> int:
        """The row after the last."""


class HashedColumn(NamedTuple):
    """A column of a hashed table on servers: its rows, or a slot of an optimizer.

    Attributes:
        path: The path of its variable; None if the function does not use that.
        shape: Its shape for one row.
        dtype: The name of its dtype.
    """

    path: str | None
    shape: tuple[int, ...]
    dtype: str


class Source(NamedTuple):
    """Something that a worker pushes: rows of a variable's value, or of an array that it has computed."""

    key: str | int
    rows: Rows


class VariableLayout:
    """Names rows of variables, and of what is pushed, on servers.

    Args:
        specs: Path -> shape and dtype of each variable.
        placed: Path -> where the rows of each variable on servers are, in order.
        pushed: The shape and dtype of each array that the worker computes for servers.
        hashed: Path of a hashed table -> what servers keep for each row, in order.
    """

    def __init__(
        self,
        specs: Mapping[str, jax.ShapeDtypeStruct],
        placed: Mapping[str, Sequence[StoredRows]],
        pushed: Sequence[jax.ShapeDtypeStruct],
        hashed: Mapping[str, Sequence[HashedColumn]],
    ) -> None:
        self.specs, self.placed, self.hashed = specs, placed, hashed
        self._pushed = pushed

    def rows(self, path: str, stored: StoredRows) -> Rows:
        """Return which rows of a variable are stored there."""
        server = stored.array.server
        whole = len(self.placed[path]) == 1
        return Rows(server) if whole else Rows(server, stored.start, stored.stop)

    def name_of(self, path: str, rows: Rows) -> str | None:
        """Return the name of rows of a variable, or of the whole, on the server that holds these."""
        is_number = math.prod(self.specs[path].shape) == 1
        for each in self.placed[path]:
            held = self.rows(path, each)
            if held == rows or (is_number and held == Rows(rows.server)):
                return each.array.name
        return None

    def spec(self, source: Source) -> ArraySpec:
        """Return what is pushed."""
        spec = self.kind(source.key)
        name = source.key if isinstance(source.key, str) else f"push {source.key}"
        start, stop = source.rows.start, source.rows.stop
        shape = source.rows.shape_of(tuple(spec.shape))
        return ArraySpec(name if stop is None else f"{name}[{start}:{stop}]", shape, str(spec.dtype))

    def kind(self, key: str | int) -> jax.ShapeDtypeStruct:
        """Return the shape and dtype of a variable, or of an array that the worker computes."""
        return self.specs[key] if isinstance(key, str) else self._pushed[key]
