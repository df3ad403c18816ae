"""Steps that look up rows of variables which lie in a checkpoint's files: only these rows are read."""

import logging
from collections.abc import Collection, Mapping
from typing import Any

import jax
import numpy as np

from muster._arrays import LazyArray
from muster.checkpoint import MappedArray
from muster.distribute.engine._asked_rows import AskedRows, Table, TableRows
from muster.distribute.engine._compiled import compiled
from muster.distribute.engine._traced import BatchGroup, Executables, Reads, State, Step, Traced
from muster.program.passes import LookupStep, WorkerServerSplit, find_lookups, split_at_pushes
from muster.program.variables import InitialValue, array_of_pieces

_log = logging.getLogger(__name__)

# Smaller arrays are read as a whole: a program that writes pieces would take longer to compile.
_AT_ONCE = 256 << 20


def in_files(state: State) -> list[str]:
    """Return the paths of the variables of a state that lie in files."""
    if not isinstance(state, Mapping):
        return []
    return [path for path, value in state.items() if isinstance(value, MappedArray)]


def step_on_files(traced: Traced, state: State, batch: Any, executables: Executables) -> Step:
    """Return the step for batches like this one, of code that changes no variable that lies in a file.

    Variables of which it needs more than rows are read whole, once; those that it does not read stay there.

    Args:
        traced: The code.
        state: Its state.
        batch: The batch.
        executables: As of ``Engine.compile``.
    """
    files = in_files(state)
    own = [path for path in state if path not in files]
    shapes = {path: _shape(value) for path, value in state.items()}
    if not isinstance(batch, BatchGroup):
        split = split_at_pushes(lambda values, batch: traced.step(values, (), batch), shapes, batch, own)
        if not split.updated and not split.effects:  # the division would leave out what it prints, say
            tables = [path for path in split.takes if len(shapes[path].shape) >= 2]
            lookups, refused = find_lookups(split, tables, shapes, batch)
            if lookups is not None:
                names = ", ".join(lookups.tables)
                _log.info("Rows of %s are read from the checkpoint, by the ids of each batch.", names)
            for path, error in refused.items():
                size = state[path].nbytes / 1e6
                _log.info("%s So all of its %.1f MB are read from the checkpoint.", error, size)
            return StepOnRows(split, lookups, state, batch, executables)
    return _whole(traced, executables)


def _whole(traced: Traced, executables: Executables) -> Step:
    """Return the step on a state that is read as a whole."""
    run = None

    def step(state: State, reads: Reads, batch: Any) -> tuple[State, Any]:
        nonlocal run
        state = _read(state, in_files(state))
        if run is None:
            run = compiled(traced.step, (state, reads, batch), executables)
        return run(state, reads, batch)  # type: ignore[no-any-return]

    return step


class StepOnRows:
    """Runs a step that is divided at its look-ups.

    Args:
        split: The step.
        lookups: The same, divided at its look-ups; None if it has none.
        state: Its state.
        batch: The first batch.
        executables: As of ``Engine.compile``.
    """

    def __init__(
        self,
        split: WorkerServerSplit,
        lookups: LookupStep | None,
        state: State,
        batch: Any,
        executables: Executables,
    ) -> None:
        self._split, self._lookups = split, lookups
        self._takes = split.takes if lookups is None else lookups.takes
        local = [state[path] for path in split.local]
        asked = {} if lookups is None else jax.eval_shape(lookups.ids, local, batch)
        self._tables = tuple(
            Table(
                name=path,
                shape=tuple(state[path].shape),
                dtype=str(state[path].dtype),
                given=max(1, min(ids.size, state[path].shape[0])),
                pushed=0,
                parts=(TableRows(0, 0, state[path].shape[0]),),
            )
            for path, ids in asked.items()
        )
        rows = {table.name: table.row_shapes for table in self._tables}
        taken = [_shape(state[path]) for path in self._takes]
        self._ids = lookups and compiled(lookups.ids, (local, batch), executables, donates=())
        self._run = compiled(self._work, (local, rows, taken, batch), executables)

    def __call__(self, state: State, reads: Reads, batch: Any) -> tuple[State, Any]:
        state = _read(state, [path for path in in_files(state) if path in self._takes])
        asked = self._asked(
            state, batch, checks=False
        )  # what a look-up makes of others, it makes without this
        read = [_rows(state[table.name], ids) for table, ids in zip(self._tables, *asked.ids(1), strict=True)]
        taken = iter(asked.taken([read]))
        rows = {table.name: (next(taken), next(taken)) for table in self._tables}
        local = [state[path] for path in self._split.local]
        local, results = self._run(local, rows, [state[path] for path in self._takes], batch)
        return {**state, **dict(zip(self._split.local, local, strict=True))}, results

    def check_ids(self, state: State, batch: Any) -> None:
        """Raise DatasetError if a batch looks up a row that a table does not have."""
        self._asked(state, batch, checks=True)

    def _asked(self, state: State, batch: Any, *, checks: bool) -> AskedRows:
        """Return which rows of each table a batch looks up."""
        ids = self._ids([state[path] for path in self._split.local], batch) if self._ids else {}
        return AskedRows(self._tables, [ids[table.name] for table in self._tables], checks=checks)

    def _work(self, local: Any, rows: Any, taken: Any, batch: Any) -> tuple[Any, Any]:
        """Compute the step; pure, for JAX."""
        if self._lookups is None:
            _, local, results = self._split.work(taken, local, batch)
        else:
            _, local, results = self._lookups.work(rows, taken, local, batch)
        return local, results


def _rows(table: Any, ids: Any) -> Any:
    return table.rows(ids) if isinstance(table, MappedArray) else np.asarray(table)[ids]


def _read(state: State, paths: Collection[str]) -> State:
    """Return a state with some variables read, next to the others."""
    if not paths:
        return state
    sharding = next((value.sharding for value in state.values() if isinstance(value, jax.Array)), None)
    return {**state, **{path: on_device(state[path], sharding) for path in paths}}


def on_device(array: LazyArray, sharding: jax.sharding.Sharding | None) -> jax.Array:
    """Read an array into the memory of a device; the host never has more than a piece of it.

    Args:
        array: The array.
        sharding: Where to put it; None for JAX's default device.
    """
    if isinstance(array, InitialValue):
        return jax.device_put(array.make(), sharding)  # type: ignore[no-any-return]
    if array.nbytes < _AT_ONCE or (sharding is not None and len(sharding.device_set) > 1):
        return jax.device_put(np.asarray(array), sharding, may_alias=False)  # type: ignore[no-any-return]
    return array_of_pieces(array.shape, array.dtype, array.pieces(), sharding)


def _shape(array: Any, rows: int | None = None) -> jax.ShapeDtypeStruct:
    shape = tuple(array.shape) if rows is None else (rows, *array.shape[1:])
    return jax.ShapeDtypeStruct(shape, array.dtype)
