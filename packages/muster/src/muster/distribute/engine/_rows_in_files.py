"""Steps that look up rows of variables which lie in a checkpoint's files: only these rows are read."""

import dataclasses
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from muster._arrays import LazyArray
from muster.checkpoint import MappedArray, ids_of
from muster.distribute.engine._asked_rows import AskedRows, AskedTable, TableRows
from muster.distribute.engine._split import unwrapped
from muster.distribute.engine._traced import BatchGroup, Reads, State, Step, Traced
from muster.program import Replicas
from muster.program.passes import LookupStep, WorkerServerSplit, find_lookups, split_at_pushes
from muster.program.variables import InitialValue, KeyedTable, array_of_pieces

_log = logging.getLogger(__name__)

# Smaller arrays are read as a whole: a program that writes pieces would take longer to compile.
_AT_ONCE = 256 << 20


def in_files(state: State) -> list[str]:
    """Return the paths of the variables of a state that lie in files, as the rows of hashed tables may."""
    if not isinstance(state, Mapping):
        return []
    return [path for path, value in without_tables(state).items() if isinstance(value, MappedArray)]


def without_tables(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by path, arrays alone: of a hashed table its rows, and its ids under ``<path>#ids``."""
    arrays: dict[str, Any] = {}
    for path, value in values.items():
        if isinstance(value, KeyedTable):
            arrays.update({path: value.rows, ids_of(path): value.ids})
        else:
            arrays[path] = value
    return arrays


def with_tables(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `without_tables` was given."""
    ids = {ids_of(path) for path in arrays}
    return {
        path: KeyedTable(arrays[ids_of(path)], value) if ids_of(path) in arrays else value
        for path, value in arrays.items()
        if path not in ids
    }


def step_on_files(traced: Traced, state: State, batch: Any, compile_traced: Callable[[Traced], Step]) -> Step:
    """Return the step for batches like this one, of code that changes no variable that lies in a file.

    Variables of which it needs more than rows are read whole, once; those that it does not read stay there.

    Args:
        traced: The code.
        state: Its state.
        batch: The batch.
        compile_traced: Compiles code whose variables are in memory, for the devices of an engine.
    """
    if isinstance(batch, BatchGroup):
        return _whole(compile_traced(traced))
    arrays = without_tables(state)
    division = _Division(traced, arrays)
    split = division.split(unwrapped(batch), None)
    if split.updated or split.effects:  # the division would leave out what it prints, say
        return _whole(compile_traced(traced))
    tables = [path for path in split.takes if len(arrays[path].shape) >= 2]
    lookups, refused = find_lookups(split, tables, division.shapes, unwrapped(batch))
    if lookups is not None:
        names = ", ".join(lookups.tables)
        _log.info("Rows of %s are read from the checkpoint, by the ids of each batch.", names)
    for path, error in refused.items():
        size = arrays[path].nbytes / 1e6
        _log.info("%s So all of its %.1f MB are read from the checkpoint.", error, size)
    takes, found = (split.takes, ()) if lookups is None else (lookups.takes, lookups.tables)
    return StepOnRows(division, takes, found, compile_traced)


def _whole(run: Step) -> Step:
    """Return the step on a state that is read as a whole."""

    def step(state: State, reads: Reads, batch: Any) -> tuple[State, Any]:
        if paths := in_files(state):
            arrays = without_tables(state)
            state = with_tables(_read(arrays, paths))
        return run(state, reads, batch)

    return step


class _Division:
    """Divides code between what it computes and the variables in files that it reads.

    Each replica divides what it traces itself, so that the parts may reduce values over the replicas.

    Args:
        traced: The code.
        state: Its state, `without_tables`: it looks up the rows of hashed tables by their places.
    """

    def __init__(self, traced: Traced, state: State) -> None:
        self.traced = traced
        files = in_files(state)
        self.own = sorted(path for path in state if path not in files)  # as a division has them
        self.shapes = {path: _shape(value) for path, value in state.items()}

    def split(self, batch: Any, replicas: Replicas | None) -> WorkerServerSplit:
        """Divide the code for the batch of a replica, without its wrapper."""

        def run(values: State, batch: Any) -> tuple[State, Any]:
            state, results = self.traced.run(with_tables(values), (), batch, replicas)
            return without_tables(state), results

        return split_at_pushes(run, self.shapes, batch, self.own)

    def lookups(self, tables: Sequence[str], batch: Any, replicas: Replicas | None) -> LookupStep:
        """Divide the code at its look-ups, too."""
        return LookupStep(self.split(batch, replicas), tables, self.shapes, batch)


class StepOnRows:
    """Runs a step that is divided at its look-ups: the rows of all replicas' ids, then the step on these.

    Args:
        division: Divides the code.
        takes: The paths of the variables in files that it needs as a whole.
        tables: The paths of those of which it needs rows.
        compile_traced: As of `step_on_files`.
    """

    def __init__(
        self,
        division: _Division,
        takes: Sequence[str],
        tables: Sequence[str],
        compile_traced: Callable[[Traced], Step],
    ) -> None:
        self._division, self._takes, self._tables = division, takes, tables
        traced = division.traced
        asking = Traced(run=self._ids, variables=traced.variables, results_sharded=True)
        self._ask = compile_traced(asking) if tables else None
        self._work = compile_traced(dataclasses.replace(traced, run=self._run))
        self._given: dict[str, int] = {}

    def __call__(self, state: State, reads: Reads, batch: Any) -> tuple[State, Any]:
        arrays = without_tables(state)
        state = _read(arrays, [path for path in in_files(arrays) if path in self._takes])
        rows = {path: self._rows(path, state[path], ids) for path, ids in self._asked(state, batch).items()}
        taken = [state[path] for path in self._takes]
        own, results = self._work(self._own(state), (rows, taken), batch)
        return with_tables({**state, **own}), results

    def check_ids(self, state: State, batch: Any) -> None:
        """Raise DatasetError if a batch looks up a row that a table does not have."""
        arrays = without_tables(state)
        for path, ids in self._asked(arrays, batch).items():
            self._asked_of(path, arrays[path], ids, checks=True)

    def _own(self, state: State) -> dict[str, Any]:
        return {path: state[path] for path in self._division.own}

    def _asked(self, state: State, batch: Any) -> Mapping[str, Any]:
        """Return which rows of each table the replicas look up for a batch."""
        if self._ask is None:
            return {}
        asked: Mapping[str, Any] = self._ask((), self._own(state), batch)[1]
        return asked

    def _ids(self, state: State, own: Reads, batch: Any, replicas: Replicas | None) -> tuple[State, Any]:
        """Compute which rows a replica looks up; pure, for JAX."""
        lookups = self._division.lookups(self._tables, batch, replicas)
        return state, lookups.ids([own[path] for path in lookups.local], batch)

    def _run(self, state: State, reads: Reads, batch: Any, replicas: Replicas | None) -> tuple[State, Any]:
        """Compute the step of a replica on rows; pure, for JAX."""
        rows, taken = reads
        own = [state[path] for path in self._division.own]
        if self._tables:
            _, own, results = self._division.lookups(self._tables, batch, replicas).work(
                rows, taken, own, batch
            )
        else:
            _, own, results = self._division.split(batch, replicas).work(taken, own, batch)
        return dict(zip(self._division.own, own, strict=True)), results

    def _asked_of(self, path: str, table: Any, ids: Any, *, checks: bool) -> AskedRows:
        """Return which rows of a table a batch looks up."""
        given = self._given.setdefault(path, max(1, min(ids.size, table.shape[0])))
        rows = AskedTable(
            name=path,
            shape=tuple(table.shape),
            dtype=str(table.dtype),
            given=given,
            pushed=0,
            parts=(TableRows(0, 0, table.shape[0]),),
        )
        return AskedRows([rows], [ids], checks=checks)

    def _rows(self, path: str, table: Any, ids: Any) -> tuple[Any, Any]:
        """Return the ids that a batch asks for, and their rows, as `LookupStep.work` takes them.

        What a look-up makes of an id of no row, such as NaNs, it makes without this.
        """
        asked = self._asked_of(path, table, ids, checks=False)
        ((unique,),) = asked.ids(1)
        read = table.rows(unique) if isinstance(table, MappedArray) else np.asarray(table)[unique]
        numbers, values = asked.taken([[read]])
        return numbers, values


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


def _shape(array: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(tuple(array.shape), array.dtype)
