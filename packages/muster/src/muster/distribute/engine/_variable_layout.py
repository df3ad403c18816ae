"""Name the rows of variables on servers, what workers push for their updates, and these updates."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import jax
import jax.export

from muster._errors import TraceError
from muster.distribute.engine._flat_arrays import RowRange
from muster.program.passes import CoupledRowsError, UpdatePart, by_rows
from muster.ps import ArraySpec
from muster.ps.contents import StoredArray

# Places in the source, which differ between tasks of a job.
_LOCATIONS = re.compile(r"^#loc.*\n|\s*\bloc\(#\w+\)", re.MULTILINE)
_NONE: Mapping[str, Any] = MappingProxyType({})


class StoredRows(Protocol):
    """Rows of a variable on a server."""

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
    rows: RowRange


class Readable(NamedTuple):
    """Numbers that a server has, as its functions read them.

    Attributes:
        paths: Their paths.
        names: The names of the arrays on the server in which they are.
        shapes: The shapes and dtypes of these arrays.
        values: Returns the numbers, in order, of the values of these arrays; traceable.
    """

    paths: tuple[str, ...]
    names: tuple[str, ...]
    shapes: Sequence[jax.ShapeDtypeStruct]
    values: Callable[[Sequence[jax.Array]], list[jax.Array]]


class VariableLayout:
    """Names rows of variables, and of what is pushed, on servers.

    Args:
        specs: Path -> shape and dtype of each variable.
        placed: Path -> where the rows of each variable on servers are, in order.
        pushed: The shape and dtype of each array that the worker computes for servers.
        hashed: Path of a hashed table -> what servers keep for each row, in order.
        readable: Returns those of some numbers that a server has; None if each is an array there.
    """

    def __init__(
        self,
        specs: Mapping[str, jax.ShapeDtypeStruct],
        placed: Mapping[str, Sequence[StoredRows]],
        pushed: Sequence[jax.ShapeDtypeStruct],
        hashed: Mapping[str, Sequence[HashedColumn]] = _NONE,
        readable: Callable[[Sequence[str], int], Readable] | None = None,
    ) -> None:
        self.specs, self.placed, self.hashed = specs, placed, hashed
        self.readable = readable or self._arrays
        self._pushed = pushed

    def rows(self, path: str, stored: StoredRows) -> RowRange:
        """Return which rows of a variable are stored there."""
        server = stored.array.server
        whole = len(self.placed[path]) == 1
        return RowRange(server) if whole else RowRange(server, stored.start, stored.stop)

    def name_of(self, path: str, rows: RowRange) -> str | None:
        """Return the name of rows of a variable, or of the whole, on the server that holds these."""
        is_number = math.prod(self.specs[path].shape) == 1
        for each in self.placed[path]:
            held = self.rows(path, each)
            if held == rows or (is_number and held == RowRange(rows.server)):
                return each.array.name
        return None

    def _arrays(self, paths: Sequence[str], server: int) -> Readable:
        """Return those of some numbers that a server has, as its functions read them."""
        names = {path: name for path in paths if (name := self.name_of(path, RowRange(server)))}
        shapes = [self.specs[path] for path in names]
        return Readable((*names,), (*names.values(),), shapes, list)

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

    def update(self, part: UpdatePart, rows: RowRange) -> Callable[..., list[jax.Array]]:
        """Return an update of some rows of variables, of as many rows of what it takes.

        Raises:
            TraceError: It computes rows from others.
        """
        if rows.stop is None:
            return part.function
        shapes = [*map(self.kind, part.takes), *map(self.kind, part.pushes)]
        try:
            return by_rows(part.function, shapes, rows.stop - rows.start)
        except CoupledRowsError as exc:
            raise TraceError(
                f"{', '.join(part.updates)}: they are divided among parameter servers by rows, and their "
                f"update needs all rows: {exc}. Leave them whole, by a partitioner that gives them one part, "
                "or choose an optimizer that treats each element by itself, such as Adam."
            ) from exc


def exported(function: Callable[..., Any], *shapes: Any) -> tuple[str, bytes]:
    """Export what a server computes: return a text that is the same for the same, and the bytes."""
    made = jax.export.export(jax.jit(function, keep_unused=True), platforms=("cpu",))(*shapes)
    return _LOCATIONS.sub("", made.mlir_module()), bytes(made.serialize())
