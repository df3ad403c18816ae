"""What servers compute for a scheduled function: the updates of the variables that they hold."""

import hashlib
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import jax
import jax.export
import jax.numpy as jnp

from muster._errors import TraceError
from muster.distribute.engine._shards import Rows
from muster.program.passes import CoupledRowsError, ServedStep, UpdatePart, by_rows
from muster.ps import ArraySpec
from muster.ps.store import StoredArray, StoredFunction


class StoredRows(Protocol):
    """Rows of a variable on a server: see ``servers._stored_variables``."""

    @property
    def array(self) -> StoredArray:
        """What the server holds."""

    @property
    def start(self) -> int:
        """The first row."""

    @property
    def stop(self) -> int:
        """The row after the last."""


class _Source(NamedTuple):
    """Something that a worker pushes: rows of a variable's value, or of an array that it has computed."""

    key: str | int
    rows: Rows


class _Part(NamedTuple):
    """How some rows of some variables are updated, and of what."""

    names: tuple[str, ...]
    inputs: tuple[str | _Source, ...]
    function: Callable[..., list[jax.Array]]


class StoredFunctions:
    """The servers' parts of a step, and what a worker takes and pushes for them.

    An update runs where its variable is. What it reads besides, of another server, the worker brings along.

    Args:
        step: The step, divided between the worker and servers.
        specs: Path -> shape and dtype of each variable.
        placed: Path -> where the rows of each variable on servers are, in order.
        servers: The number of servers.

    Attributes:
        name: The name of the function: its fingerprint.
        functions: The part of each server; None where it has none.
        pushed: How many arrays are pushed to each server; nothing if nothing is updated.
        shapes: The shape and dtype of each array that the worker takes, by server.

    Raises:
        TraceError: The update of a variable that is divided computes rows from others.
    """

    def __init__(
        self,
        step: ServedStep,
        specs: Mapping[str, jax.ShapeDtypeStruct],
        placed: Mapping[str, Sequence[StoredRows]],
        servers: int,
    ) -> None:
        self._step, self._specs, self._placed = step, specs, placed
        parts: list[list[_Part]] = [[] for _ in range(servers)]
        for (server, rows), paths in self._units().items():
            parts[server].append(self._part(step.update(paths), rows))
        self._brought = [
            list(
                dict.fromkeys(each for part in of_server for each in part.inputs if not isinstance(each, str))
            )
            for of_server in parts
        ]
        foreign = [each.key for each in itertools.chain(*self._brought) if isinstance(each.key, str)]
        self._taken = list(dict.fromkeys((*step.takes, *foreign)))
        # Which variable each array is of that the worker takes, by server.
        self._takes: list[list[tuple[str, StoredRows]]] = [[] for _ in range(servers)]
        for path in self._taken:
            for piece in placed[path]:
                self._takes[piece.array.server].append((path, piece))
        self.shapes = [
            jax.ShapeDtypeStruct(rows.array.shape, specs[path].dtype)
            for path, rows in itertools.chain(*self._takes)
        ]
        exported = [self._exported(server, of_server) for server, of_server in enumerate(parts)]
        self.name = hashlib.sha256("\n".join(meaning for meaning, _ in exported).encode()).hexdigest()
        self.functions = [
            StoredFunction(
                fingerprint=self.name,
                takes=tuple(rows.array.name for _, rows in takes),
                reads=self._reads(of_server),
                updates=tuple(name for part in of_server for name in part.names),
                pushed=tuple(self._spec(each) for each in brought),
                update=update,
            )
            if takes or of_server
            else None
            for takes, of_server, brought, (_, update) in zip(
                self._takes, parts, self._brought, exported, strict=True
            )
        ]
        self.pushed = tuple(map(len, self._brought)) if any(parts) else ()

    def work(
        self, taken: Sequence[jax.Array], local: Sequence[jax.Array], batch: Any
    ) -> tuple[list[jax.Array], list[jax.Array], Any]:
        """Compute a worker's part of the step; pure, for JAX.

        Args:
            taken: The arrays of ``shapes``.
            local: The values of the worker's own variables.
            batch: As of ``ServedStep``.

        Returns:
            What to push, server by server, the new values of the worker's own variables, and the results.
        """
        pieces: dict[str, list[tuple[int, jax.Array]]] = {}
        for (path, rows), array in zip(itertools.chain(*self._takes), taken, strict=True):
            pieces.setdefault(path, []).append((rows.start, array))
        values = {path: _joined(each) for path, each in pieces.items()}
        pushes, local, results = self._step.work([values[path] for path in self._step.takes], local, batch)
        pushed = [
            each.rows.of(values[each.key] if isinstance(each.key, str) else pushes[each.key])
            for each in itertools.chain(*self._brought)
        ]
        return pushed, local, results

    def _units(self) -> dict[tuple[int, Rows], list[str]]:
        """Return which variables are updated together: all whole ones of a server, and alike shards."""
        units: dict[tuple[int, Rows], list[str]] = {}
        for path in self._step.updated:
            for rows in self._placed[path]:
                unit = rows.array.server, self._rows(path, rows)
                units.setdefault(unit, []).append(path)
        return units

    def _rows(self, path: str, rows: StoredRows) -> Rows:
        whole = len(self._placed[path]) == 1
        server = rows.array.server
        return Rows(server) if whole else Rows(server, rows.start, rows.stop)

    def _part(self, update: UpdatePart, rows: Rows) -> _Part:
        names = [name for path in update.updates if (name := self._name_of(path, rows)) is not None]
        inputs = (
            *(self._name_of(path, rows) or _Source(path, rows) for path in update.takes),
            *(_Source(number, rows) for number in update.pushes),
        )
        return _Part(tuple(names), inputs, self._function(update, rows))

    def _name_of(self, path: str, rows: Rows) -> str | None:
        """Return the name of rows of a variable, or of the whole, on the server that holds these."""
        is_number = math.prod(self._specs[path].shape) == 1
        for each in self._placed[path]:
            held = self._rows(path, each)
            if held == rows or (is_number and held == Rows(rows.server)):
                return each.array.name
        return None

    def _function(self, update: UpdatePart, rows: Rows) -> Callable[..., list[jax.Array]]:
        if rows.stop is None:
            return update.function
        shapes = [self._specs[path] for path in update.takes]
        shapes += [self._step.pushed[number] for number in update.pushes]
        try:
            return by_rows(update.function, shapes, rows.stop - rows.start)
        except CoupledRowsError as exc:
            raise TraceError(
                f"{', '.join(update.updates)}: they are divided among parameter servers by rows, and their "
                f"update needs all rows: {exc}. Leave them whole, by a partitioner that gives them one part, "
                "or choose an optimizer that treats each element by itself, such as Adam."
            ) from exc

    def _reads(self, parts: Sequence[_Part]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each for part in parts for each in part.inputs if isinstance(each, str)))

    def _spec(self, source: _Source) -> ArraySpec:
        if isinstance(source.key, str):
            name, spec = source.key, self._specs[source.key]
        else:
            name, spec = f"push {source.key}", self._step.pushed[source.key]
        start, stop = source.rows.start, source.rows.stop
        shape = source.rows.shape_of(tuple(spec.shape))
        return ArraySpec(name if stop is None else f"{name}[{start}:{stop}]", shape, str(spec.dtype))

    def _exported(self, server: int, parts: Sequence[_Part]) -> tuple[str, bytes]:
        """Return what a server computes, as a text that is the same for the same, and exported."""
        takes = [rows.array.name for _, rows in self._takes[server]]
        if not parts:
            return f"{takes}", b""
        reads, brought = self._reads(parts), self._brought[server]
        keys: list[str | _Source] = [*reads, *brought]

        def update(*arrays: jax.Array) -> list[jax.Array]:
            values = dict(zip(keys, arrays, strict=True))
            made = [part.function(*(values[each] for each in part.inputs)) for part in parts]
            return list(itertools.chain(*made))

        of_names = {
            rows.array.name: jax.ShapeDtypeStruct(rows.array.shape, self._specs[path].dtype)
            for path, all_rows in self._placed.items()
            for rows in all_rows
        }
        shapes = [of_names[name] for name in reads]
        specs = [self._spec(each) for each in brought]
        shapes += [jax.ShapeDtypeStruct(spec.shape, jnp.dtype(spec.dtype)) for spec in specs]
        jitted = jax.jit(update, keep_unused=True)
        meaning = (
            f"{takes} {reads} {specs} {[part.names for part in parts]} {jitted.lower(*shapes).as_text()}"
        )
        return meaning, bytes(jax.export.export(jitted, platforms=("cpu",))(*shapes).serialize())


def _joined(pieces: Sequence[tuple[int, jax.Array]]) -> jax.Array:
    in_order = [array for _, array in sorted(pieces, key=lambda piece: piece[0])]
    return in_order[0] if len(in_order) == 1 else jnp.concatenate(in_order)
