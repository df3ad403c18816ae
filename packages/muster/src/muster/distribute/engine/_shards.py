"""Divide the variables of a step, and how they are updated, among parameter servers.

Each server holds its rows in flat buffers, one for each dtype: `pulled` ones, which workers read, and `kept`
ones, which only updates read, such as an optimizer's slots. A push is flat, too. So a step costs one message
to each server and one back, whatever the number of variables.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from muster._errors import TraceError
from muster.program.passes import CoupledRowsError, UpdatePart, WorkerServerSplit, by_rows
from muster.ps import ArraySpec, FlatLayout

Buffers = dict[str, Any]
"""Name of a dtype -> the elements of arrays of that dtype, one after the other."""


class Rows(NamedTuple):
    """Rows of a variable, or all of it.

    Attributes:
        server: The number of the server that holds them.
        start: The first row.
        stop: The row after the last one; None for a variable that is not divided.
    """

    server: int
    start: int = 0
    stop: int | None = None

    def of(self, array: Any) -> Any:
        """Return these rows of an array; all of a single number."""
        return array if self.stop is None or math.prod(array.shape) == 1 else array[self.start : self.stop]

    def shape_of(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of these rows of an array."""
        whole = self.stop is None or math.prod(shape) == 1
        return shape if whole else (self.stop - self.start, *shape[1:])  # type: ignore[operator]

    def span(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """Return the first row and the row after the last one, of rows of a shape; 0 and 1 of a number."""
        return (0, shape[0] if shape else 1) if self.stop is None else (self.start, self.stop)


Place = tuple[str | int, Rows]
"""The path of a variable or the number of a pushed array, and rows of it."""


class Piece(NamedTuple):
    """Rows of a variable on a server, or of an array that is pushed to it.

    Attributes:
        key: The path of the variable, or the number of the pushed array.
        rows: Which rows.
        shape: Their shape.
        dtype: The name of their dtype.
    """

    key: str | int
    rows: Rows
    shape: tuple[int, ...]
    dtype: str

    @property
    def place(self) -> Place:
        """Its key and rows, by which arrays are packed and unpacked."""
        return self.key, self.rows

    @property
    def spec(self) -> ArraySpec:
        """The array, as plans name it: ``dense/kernel[0:3]``, or ``push 2``."""
        name = self.key if isinstance(self.key, str) else f"push {self.key}"
        start, stop = self.rows.start, self.rows.stop
        return ArraySpec(name if stop is None else f"{name}[{start}:{stop}]", self.shape, self.dtype)


class FlatArrays:
    """Packs arrays into flat buffers, as `FlatLayout` does, and takes them apart; traceable.

    Args:
        pieces: The arrays.

    Attributes:
        specs: The arrays, as plans name them.
    """

    def __init__(self, pieces: Iterable[Piece]) -> None:
        self.pieces = tuple(pieces)
        self.specs = tuple(piece.spec for piece in self.pieces)
        self._layout = FlatLayout(self.specs)

    @property
    def shapes(self) -> dict[str, jax.ShapeDtypeStruct]:
        """The shapes and dtypes of the buffers."""
        return {dtype: jax.ShapeDtypeStruct((size,), dtype) for dtype, size in self._layout.sizes.items()}

    def pack(self, arrays: Mapping[Place, Any]) -> Buffers:
        """Return the buffers of arrays."""
        parts: dict[str, list[jax.Array]] = {dtype: [] for dtype in self._layout.sizes}
        for piece in self.pieces:
            parts[piece.dtype].append(jnp.ravel(arrays[piece.place]))
        return {dtype: jnp.concatenate(each) for dtype, each in parts.items()}

    def pack_rows(self, arrays: Mapping[Any, Any]) -> Buffers:
        """Return the buffers of rows of arrays, which are given whole, by path or number."""
        return self.pack({piece.place: piece.rows.of(arrays[piece.key]) for piece in self.pieces})

    def unpack(self, buffers: Mapping[str, Any]) -> dict[Place, Any]:
        """Return the arrays in buffers, NumPy's without a copy."""
        arrays = self._layout.unpack(buffers)
        return {piece.place: arrays[spec.name] for piece, spec in zip(self.pieces, self.specs, strict=True)}


@dataclass(frozen=True)
class ServerShare:
    """Describes the rows of one server, and how a push updates them.

    Attributes:
        pulled: The rows that workers read.
        kept: The rows that only updates read.
        pushed: The rows that each push brings.
        update: ``(pulled, kept, pushed) -> (pulled, kept)`` of buffers; pure, for JAX.
    """

    pulled: FlatArrays
    kept: FlatArrays
    pushed: FlatArrays
    update: Callable[[Buffers, Buffers, Buffers], tuple[Buffers, Buffers]]


class Division:
    """A step's variables and updates, divided among servers.

    Args:
        step: The step.
        variables: Path -> shape and dtype of every variable that is not the worker's own.
        placed: Path -> its rows on servers, in order; at least those of the variables that workers read. A
            variable's slots lie where it lies, and numbers on each server that reads them.
        servers: The number of servers.

    Attributes:
        shares: What each server holds and does.
        paths: The paths of the variables.
        pulled: The paths of those that workers read.

    Raises:
        TraceError: The update of a variable that is divided computes rows from others.
    """

    def __init__(
        self,
        step: WorkerServerSplit,
        variables: Mapping[str, jax.ShapeDtypeStruct],
        placed: Mapping[str, Sequence[Rows]],
        servers: int,
    ) -> None:
        self.paths = tuple(variables)
        self.pulled = frozenset(step.takes)
        self._step = step
        self._variables = variables
        self._found: dict[str, list[Rows]] = {}
        of_server: list[list[tuple[UpdatePart, Rows]]] = [[] for _ in range(servers)]
        groups = {path: group for group in step.groups() for path in group}
        for group in dict.fromkeys(groups.values()):
            main = next((path for path in group if path in placed), group[0])
            for rows in placed.get(main, [Rows(0)]):
                self._add(of_server, groups, group, rows)
        for path in variables:  # what no update changes or reads
            if path not in self._found:
                self._found[path] = [*placed.get(path, [Rows(0)])]
        self.shares = [self._share(number, parts) for number, parts in enumerate(of_server)]

    def _add(
        self,
        of_server: list[list[tuple[UpdatePart, Rows]]],
        groups: Mapping[str, tuple[str, ...]],
        group: tuple[str, ...],
        rows: Rows,
    ) -> None:
        """Let a server update rows of some variables, and what else it needs for that."""
        part = self._step.update(group)
        if any(each is rows or (p.updates == group and each == rows) for p, each in of_server[rows.server]):
            return
        of_server[rows.server].append((part, rows))
        for path in dict.fromkeys((*part.updates, *part.takes)):
            here = self._rows_for(path, group, rows)
            if path not in group and path in groups:
                # A number, such as a count of steps, of which this server has its own.
                self._add(of_server, groups, groups[path], here)
            if here not in self._found.setdefault(path, []):
                self._found[path].append(here)

    def _rows_for(self, path: str, group: tuple[str, ...], rows: Rows) -> Rows:
        """Return which rows of a variable an update reads that changes some rows of others."""
        shape, others = self._variables[path].shape, self._variables[group[0]].shape
        if rows.stop is not None and math.prod(shape) == 1:
            return Rows(rows.server)  # each server has its own
        is_alike = rows.stop is not None and shape[0] == others[0]
        return rows if path in group or is_alike else Rows(rows.server)

    def _share(self, server: int, parts: Sequence[tuple[UpdatePart, Rows]]) -> ServerShare:
        held = [
            (path, rows)
            for path, all_rows in self._found.items()
            for rows in all_rows
            if rows.server == server
        ]
        is_pulled = [path in self._step.takes and rows in self._sources(path) for path, rows in held]
        pieces = [self._piece(path, rows, self._variables[path]) for path, rows in held]
        pulled = FlatArrays(itertools.compress(pieces, is_pulled))
        kept = FlatArrays(itertools.compress(pieces, (not each for each in is_pulled)))
        brought = dict.fromkeys((number, rows) for part, rows in parts for number in part.pushes)
        pushed = FlatArrays(self._piece(number, rows, self._step.pushed[number]) for number, rows in brought)
        functions = [self._function(part, rows) for part, rows in parts]

        def update(old: Buffers, slots: Buffers, gradients: Buffers) -> tuple[Buffers, Buffers]:
            state = {**pulled.unpack(old), **kept.unpack(slots)}
            given = pushed.unpack(gradients)
            new = dict(state)
            for (part, rows), function in zip(parts, functions, strict=True):
                taken = [state[path, self._rows_for(path, part.updates, rows)] for path in part.takes]
                made = function(*taken, *(given[number, rows] for number in part.pushes))
                places = [(path, self._rows_for(path, part.updates, rows)) for path in part.updates]
                new.update(zip(places, made, strict=True))
            return pulled.pack(new), kept.pack(new)

        return ServerShare(pulled, kept, pushed, update)

    def _function(self, part: UpdatePart, rows: Rows) -> Callable[..., list[jax.Array]]:
        if rows.stop is None:
            return part.function
        shapes = [self._variables[path] for path in part.takes]
        shapes += [self._step.pushed[number] for number in part.pushes]
        try:
            return by_rows(part.function, shapes, rows.stop - rows.start)
        except CoupledRowsError as exc:
            raise TraceError(
                f"{', '.join(part.updates)}: they are divided among parameter servers by rows, and their "
                f"update needs all rows: {exc}. Leave them whole, by a partitioner that gives them one part, "
                "or choose an optimizer that treats each element by itself, such as Adam."
            ) from exc

    def _piece(self, key: str | int, rows: Rows, spec: jax.ShapeDtypeStruct) -> Piece:
        return Piece(key, rows, rows.shape_of(spec.shape), str(spec.dtype))

    def _sources(self, path: str) -> list[Rows]:
        """Return the rows from which workers read a variable: of copies, the first."""
        found = self._found[path]
        return sorted(found, key=lambda rows: rows.start) if found[0].stop is not None else found[:1]

    def describe(self) -> list[str]:
        """Return what each server holds and does, as texts that are equal for equal ones."""
        return [
            f"{share.pulled.pieces} {share.kept.pieces} {share.pushed.pieces} "
            f"{jax.make_jaxpr(share.update)(share.pulled.shapes, share.kept.shapes, share.pushed.shapes)}"
            for share in self.shares
        ]

    def read_pulled(self, pulled: Sequence[Mapping[str, Any]], paths: Iterable[str]) -> dict[str, Any]:
        """Return variables that workers read from the buffers of each server; traceable."""
        arrays: dict[Place, Any] = {}
        for share, buffers in zip(self.shares, pulled, strict=True):
            arrays.update(share.pulled.unpack(buffers))
        return self._whole(arrays, paths)

    def read(self, held: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> dict[str, Any]:
        """Return all variables from the buffers, pulled and kept, of each server."""
        arrays: dict[Place, Any] = {}
        for share, (pulled, kept) in zip(self.shares, held, strict=True):
            arrays.update({**share.pulled.unpack(pulled), **share.kept.unpack(kept)})
        return self._whole(arrays, self.paths)

    def _whole(self, arrays: Mapping[Place, Any], paths: Iterable[str]) -> dict[str, Any]:
        """Return variables from the rows that servers hold of them, by path."""
        result = {}
        for path in paths:
            parts = [arrays[path, rows] for rows in self._sources(path)]
            result[path] = parts[0] if len(parts) == 1 else jnp.concatenate(parts)
        return result

    def held(self) -> dict[str, list[Piece]]:
        """Return the pieces on servers of which each variable consists, by its path, in the order of rows."""
        pieces = {
            piece.place: piece
            for share in self.shares
            for piece in (*share.pulled.pieces, *share.kept.pieces)
        }
        return {path: [pieces[path, rows] for rows in self._sources(path)] for path in self.paths}

    def shape(self, path: str) -> tuple[int, ...]:
        """Return the shape of a variable."""
        return tuple(self._variables[path].shape)

    def split(self, values: Mapping[str, Any]) -> list[tuple[Buffers, Buffers]]:
        """Return the buffers, pulled and kept, that each server has of variables, by their paths."""
        return [(share.pulled.pack_rows(values), share.kept.pack_rows(values)) for share in self.shares]

    def work(
        self, pulled: Sequence[Buffers], local: Sequence[jax.Array], batch: Any
    ) -> tuple[list[Buffers], list[jax.Array], Any]:
        """Compute a worker's part of the step; pure, for JAX.

        Args:
            pulled: The buffers of each server.
            local: The values of the worker's own variables.
            batch: The batch.

        Returns:
            What to push to each server, the new values of the worker's own variables, and the results.
        """
        taken = self.read_pulled(pulled, self._step.takes)
        pushes, local, results = self._step.work([*taken.values()], local, batch)
        pushed = [share.pushed.pack_rows(dict(enumerate(pushes))) for share in self.shares]
        return pushed, local, results
