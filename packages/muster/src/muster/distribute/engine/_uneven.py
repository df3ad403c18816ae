"""The engine of batches that replicas cannot share equally, around one for batches that they can."""

import dataclasses
import functools
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from muster.distribute.engine._compiled import CompiledStep
from muster.distribute.engine._row_programs import UnevenError, own_values, padded_in, programs_of
from muster.distribute.engine._rows_in_files import in_files, step_on_files
from muster.distribute.engine._split import (
    ReplicatedBatch,
    Split,
    UnevenBatch,
    WholeWarning,
    filled_up,
    padded_rows,
    sizes_of,
)
from muster.distribute.engine._traced import (
    BatchGroup,
    Engine,
    Executables,
    Reads,
    State,
    Step,
    Traced,
    View,
)
from muster.distribute.replicas._values import by_numbers
from muster.distribute.workers._workers import Workers
from muster.program import Replicas


class EvenEngine(Engine):
    """Compiles for replicas that share a batch equally, or that each compute all of it.

    Args:
        workers: The processes.
        local_replicas: The number of replicas of each process.

    Attributes:
        workers: As given.
        split: How batches are divided.
        run_ahead: Whether a step may be dispatched before the one before is done.
        runs_own: Whether each process runs the program of its one replica, which may be another than others'.
    """

    run_ahead = True
    runs_own = False

    def __init__(self, workers: Workers, local_replicas: int) -> None:
        self.workers = workers
        self.split = Split(workers.share_of(local_replicas))

    @abstractmethod
    def step_for(
        self, traced: Traced, executables: Executables, state: State, reads: Reads, batch: Any
    ) -> Step:
        """Return the step of traced code for arguments like these."""

    def compile(self, traced: Traced, executables: Executables) -> Step:
        make = functools.partial(self.step_for, traced, executables)
        return CompiledStep(make, run_ahead=self.run_ahead)


class UnevenEngine(Engine):
    """Lets another engine compile for batches that replicas cannot share equally, too.

    In the replica view each replica runs a program for its own number of rows, and they reduce together. Code
    that cannot do so runs on all rows on each replica. In the global view rows are padded at the end, and the
    code gets them without the padding.

    Args:
        engine: Compiles for rows that are padded, for all rows, and for equally many.

    Attributes:
        engine: As given.
    """

    def __init__(self, engine: EvenEngine) -> None:
        self.engine = engine
        self.looks_up_rows = engine.looks_up_rows
        self._whole_warning = WholeWarning()

    def compile(self, traced: Traced, executables: Executables) -> Step:
        if traced.view is View.REPLICA:
            self.engine.workers.require_equal("variables", list(map(str, traced.variables)))
        make = functools.partial(self._own_or_whole, traced, executables)
        return CompiledStep(make, run_ahead=self.engine.run_ahead, share=self.engine.workers.share)

    def _own_or_whole(
        self, traced: Traced, executables: Executables, state: State, reads: Reads, batch: Any
    ) -> Step:
        """Return the step for a batch, or one in which each replica computes all of its rows.

        Raises:
            UnevenError: Replicas cannot run the code on different numbers of rows of ``Padded`` values.
        """
        if traced.view is View.GLOBAL:
            return self.step_for(traced, executables, state, reads, batch)
        if in_files(state):
            return step_on_files(traced, state, batch, lambda part: self.compile(part, executables))
        make = functools.partial(self.step_for, traced, executables, state, reads)
        try:
            return make(batch)
        except UnevenError as exc:
            if not isinstance(_first_of(batch), UnevenBatch):
                raise
            error = exc
        whole = functools.partial(_each, lambda batch: ReplicatedBatch(batch.batch))
        try:
            step = make(whole(batch))
        except Exception:  # the code fails on any rows
            raise error.cause from error.cause.__cause__
        self._whole_warning.warn(error.cause)
        return lambda state, reads, batch: step(state, reads, whole(batch))

    def step_for(
        self,
        traced: Traced,
        executables: Executables,
        state: State,
        reads: Reads,
        batch: Any,
        *,
        alike: bool = False,
    ) -> Step:
        """Return the step of traced code for arguments like these.

        Args:
            traced: The code.
            executables: As of ``compile``.
            state: Values of variables.
            reads: Values of variables that stay as they are.
            batch: A worker batch, or a ``BatchGroup``.
            alike: Whether workers' programs cannot differ, whatever rows they have.

        Raises:
            UnevenError: Replicas cannot run the code on different numbers of rows. All workers raise it.
        """
        first = _first_of(batch)
        traced, own = self._code_for(traced, first, alike), self._own_of(traced.view, first)
        if own is None:
            return self.engine.step_for(traced, executables, state, reads, batch)
        # To compile, workers exchange nothing: the chief's values have the shapes that they know.
        example = batch if isinstance(first, ReplicatedBatch) else _each(own, batch)
        run = self.engine.step_for(traced, executables, state, reads, example)
        return lambda state, reads, batch: run(state, reads, _each(own, batch))

    def _code_for(self, traced: Traced, first: Any, alike: bool) -> Traced:
        """Return the code for what replicas get of batches like this one."""
        if traced.view is View.GLOBAL:
            return _without_padding(traced, first.rows) if isinstance(first, UnevenBatch) else traced
        engine = self.engine
        programs = programs_of(first, engine.split.replicas, engine.workers if engine.runs_own else None)
        if programs is None:
            return traced
        return dataclasses.replace(programs, alike=programs.alike or alike).of(traced)

    def _own_of(self, view: View, first: Any) -> Callable[[Any], Any] | None:
        """Return what makes of batches like this one what this process' replicas get; None for nothing."""
        workers = self.engine.workers
        if isinstance(first, UnevenBatch):
            return functools.partial(self._own_rows, view)
        if isinstance(first, ReplicatedBatch):
            return functools.partial(as_chief_has, workers) if workers.size > 1 else None
        if self.engine.runs_own and padded_in(first):
            return functools.partial(own_values, number=workers.rank)
        return None

    def _own_rows(self, view: View, batch: UnevenBatch) -> Any:
        """Return the rows of this process' replicas, padded where all replicas run one program."""
        split, rows = self.engine.split, batch.rows
        if self.engine.runs_own:
            own = split.rows(rows)
            return jax.tree.map(lambda leaf: leaf[own] if np.ndim(leaf) else leaf, batch.batch)
        sizes = (filled_up if view is View.GLOBAL else sizes_of)(rows, split.replicas)

        def padded(numbers: Any) -> Any:
            parts = padded_rows(np.asarray(numbers), sizes, split)
            return parts.reshape(-1, *parts.shape[2:])

        return jax.tree.map(lambda leaf: by_numbers(padded, leaf) if np.ndim(leaf) else leaf, batch.batch)


def _without_padding(traced: Traced, rows: int) -> Traced:
    """Return code that is given padding after the rows of a global batch; XLA leaves these where they are."""

    def run(state: State, reads: Reads, batch: Any, replicas: Replicas | None) -> tuple[State, Any]:
        batch = jax.tree.map(lambda leaf: leaf[:rows] if leaf.ndim else leaf, batch)
        return traced.run(state, reads, batch, replicas)

    return dataclasses.replace(traced, run=run, rows=rows)


def as_chief_has(workers: Workers, batch: ReplicatedBatch) -> Any:
    """Return a batch of which each replica computes all rows with the chief's values, on all workers.

    Theirs may differ, as of rows that each augments at random. What they compute of it is not reduced, so
    that their variables would drift apart.
    """

    def taken(array: Any) -> Any:
        return workers.broadcast([np.ascontiguousarray(array)])[0].reshape(np.shape(array))

    return jax.tree.map(functools.partial(by_numbers, taken), batch)


def _each(change: Callable[[Any], Any], batch: Any) -> Any:
    """Change a worker batch, or each in a group."""
    return BatchGroup(list(map(change, batch.batches))) if isinstance(batch, BatchGroup) else change(batch)


def _first_of(batch: Any) -> Any:
    """Return the worker batch whose kind is that of all in a group."""
    return batch.batches[0] if isinstance(batch, BatchGroup) else batch
