"""The engine of a worker that fetches variables from parameter servers and pushes gradients."""

import dataclasses
import functools
import logging
from collections.abc import Callable, Collection, ItemsView, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np

from muster._errors import DatasetError, TraceError
from muster.distribute.engine._asked_rows import AskedRows
from muster.distribute.engine._compiled import CompiledStep, compiled
from muster.distribute.engine._device import DeviceEngine
from muster.distribute.engine._flat_arrays import Buffers, Rows, in_memory
from muster.distribute.engine._rows_in_files import in_files, step_on_files
from muster.distribute.engine._shards import Division
from muster.distribute.engine._stored_tables import nbytes_of
from muster.distribute.engine._traced import BatchGroup, Engine, Executables, Reads, State, Step, Traced
from muster.program.passes import split_at_pushes
from muster.program.variables import VariableKind, VariableSpec
from muster.ps import Array, Held, Pulled, Pushed

_log = logging.getLogger(__name__)

Place = Callable[[Sequence[VariableSpec]], Mapping[str, Sequence[Rows]]]
"""Chooses the rows that each server has of the variables that workers train, by path."""


# What each worker has of its own: which numbers it draws, and what it measures or counts.
_OF_WORKERS = (VariableKind.SEED, VariableKind.METRIC, VariableKind.LOCAL)


class Servers(Protocol):
    """The connections of a worker to the parameter servers, in their order."""

    @property
    def count(self) -> int:
        """The number of servers."""

    def start(self, division: Division, values: Mapping[str, Any]) -> list[Buffers]:
        """Give the servers their plans, and their first values if they have none; return what they hold.

        Args:
            division: What each server holds and does.
            values: Path -> value of every variable on servers.

        Raises:
            NoMoreSteps: All steps of the job are made, or it has ended.
        """

    def look_up(self, ids: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """Return rows of the tables of each server, by the ids for each.

        Raises:
            NoMoreSteps: The job has ended, without this step.
        """

    @property
    def current(self) -> Any:
        """The batch of this step, as it was known before as the upcoming one."""

    @property
    def upcoming(self) -> Any:
        """The batch of the next step, if it is known: its rows can be fetched with the answer to a push."""

    def push_and_pull(self, pushed: Sequence[Pushed]) -> list[Pulled]:
        """Push to each server, and return the values that each has then.

        The rows that pushes ask for may be missing.

        Raises:
            NoMoreSteps: The job has ended, without this step.
        """

    def pull(self) -> list[Buffers]:
        """Return the values that each server has now."""

    def read(self) -> list[Held]:
        """Return all values of each server."""


class NoMoreSteps(StopIteration):
    """The workers of a job have made all of its steps."""


class Ahead(NamedTuple):
    """Rows that were fetched for the step on a batch, as of the values that were pulled for it.

    Attributes:
        batch: The batch.
        asked: The rows that it asks for.
        rows: These rows, as of `AskedRows.taken`.
    """

    batch: Any
    asked: AskedRows
    rows: Sequence[Array]


@dataclass(frozen=True)
class ServedState(Mapping[str, Any]):
    """The variables of a worker: its own, what it pulled last, and what only servers have.

    Reading one that workers do not pull, such as an optimizer's slot, asks the servers for all of them.

    Attributes:
        division: Where the variables are.
        servers: The servers.
        pulled: The values of the last pull.
        local: The worker's own variables, by path.
        ahead: What was fetched for the next step; None for nothing.
    """

    division: Division
    servers: Servers
    pulled: Sequence[Buffers]
    local: Mapping[str, jax.Array]
    ahead: Ahead | None = None

    def __getitem__(self, path: str) -> Any:
        if path in self.local:
            return self.local[path]
        if path not in self.division.paths:
            raise KeyError(path)
        if path in self.division.pulled:
            return self.division.read_pulled(self.pulled, [path])[path]
        return self.read()[path]

    def __iter__(self) -> Iterator[str]:
        return iter((*self.division.paths, *self.local))

    def __len__(self) -> int:
        return len(self.division.paths) + len(self.local)

    def renewed(self) -> "ServedState":
        """Return this state with the values that servers have now."""
        return dataclasses.replace(self, pulled=self.servers.pull(), ahead=None)

    def read(self) -> dict[str, Any]:
        """Return all variables by path, those of each server as they are at one instant."""
        return {**self.division.read(self.servers.read()), **self.local}

    def items(self) -> ItemsView[str, Any]:
        """Return what `read` does: the servers are asked once, and not for each variable."""
        return self.read().items()


class ServedEngine(Engine):
    """Compiles steps for one worker of an asynchronous job: pull, compute, push.

    The servers apply what the step does with gradients. The state of a step is `ServedState`; the first step
    takes the initial values, by path, from which servers start that have none.

    Args:
        servers: The servers.
        place: Chooses where variables lie.
    """

    def __init__(self, servers: Servers, place: Place) -> None:
        self._servers = servers
        self._place = place

    looks_up_rows = True
    starts_lazily = True

    def compile(self, traced: Traced, executables: Executables) -> Step:
        return _Training(self._servers, self._place, traced, executables).step


class _Training:
    """The steps of one program, which are divided alike for batches of all shapes.

    Args:
        servers: As of `ServedEngine`.
        place: As of `ServedEngine`.
        traced: The program.
        executables: As of ``Engine.compile``.

    Attributes:
        step: Runs the step for a batch of any shape.
    """

    def __init__(self, servers: Servers, place: Place, traced: Traced, executables: Executables) -> None:
        self.step = CompiledStep(self._step_for, run_ahead=False)
        self._servers = servers
        self._place = place
        self._traced = traced
        self._executables = executables
        self._own = [spec.path for spec in traced.variables if spec.kind in _OF_WORKERS]
        self._first: ServedState | None = None

    def _step_for(self, state: State, reads: Reads, batch: Any) -> Step:
        """Divide the step for batches of one shape."""
        if isinstance(batch, BatchGroup):
            return functools.partial(_one_after_the_other, self.step)
        traced = self._traced
        served = split_at_pushes(
            lambda values, batch: traced.step(values, reads, batch), _shapes(traced), batch, self._own
        )
        if not served.updated:  # an evaluation
            if in_files(state):
                alone = functools.partial(DeviceEngine().compile, executables=self._executables)
                return step_on_files(traced, state, batch, alone)
            return compiled(traced.step, (state, reads, batch), self._executables)
        variables, placed = _shapes(traced, self._own), self._place(traced.variables)
        division = Division(served, variables, placed, self._servers.count, batch)
        if self._first is None:
            _say_what_travels(division, variables)
        return self._on_servers(self._started(division, served.local, state), division)

    def _started(self, division: Division, local: Sequence[str], state: State) -> ServedState:
        """Return the state before the first step; servers get the division of the first batch."""
        if self._first is None:
            pulled = self._servers.start(division, state)
            own = {path: in_memory(state[path]) for path in local}
            self._first = ServedState(division, self._servers, pulled, own)
        elif division.describe() != self._first.division.describe():
            raise TraceError(
                "A batch of this shape updates the variables on parameter servers in another way than "
                "the first one did. Give batches of one shape, with drop_remainder=True, or compute "
                "nothing from the batch's shape after the gradients."
            )
        return self._first

    def _on_servers(self, first: ServedState, division: Division) -> Step:
        """Return the step of a worker.

        Args:
            first: The state before its first step.
            division: How the step is divided for the batches that it is for.
        """
        work: Any = None
        servers = self._servers
        asks = _RowRequests(division, self._executables)

        def step(state: State, reads: Reads, batch: Any) -> tuple[State, Any]:
            nonlocal work
            before = state if isinstance(state, ServedState) else first
            local = [*before.local.values()]
            if before.ahead is not None and before.ahead.batch is servers.current:
                _, asked, rows = before.ahead
            else:
                asked = asks.of(local, batch)
                rows = asked.taken(servers.look_up(asked.ids(servers.count)) if division.lookups else [])
            inputs = before.pulled, rows, local, batch
            if work is None:
                work = compiled(division.work, inputs, self._executables, donates=())
            pushed, own, results = work(*inputs)
            after = dataclasses.replace(before, local=dict(zip(before.local, own, strict=True)), ahead=None)
            following = asks.before(own, servers.upcoming, batch)
            loss = self._traced.loss
            if loss is not None:
                results[loss] = np.asarray(results[loss])  # waits for it, so that hooks need not look again
            if loss is None or not np.isnan(results[loss]).any():
                answers = servers.push_and_pull(division.pushed(pushed, asked, following))
                after = dataclasses.replace(after, pulled=[each.pulled for each in answers])
                rows_of = [[*each.rows] for each in answers]
                if following is not None and any(rows_of):
                    ahead = Ahead(servers.upcoming, following, following.taken(rows_of))
                    after = dataclasses.replace(after, ahead=ahead)
            return after, results

        return step


class _RowRequests:
    """Finds the rows that batches of one shape ask for.

    Args:
        division: The step that looks them up.
        executables: As of ``Engine.compile``.
    """

    def __init__(self, division: Division, executables: Executables) -> None:
        self._division = division
        self._executables = executables
        self._ids: Any = None

    def of(self, local: Sequence[jax.Array], batch: Any) -> AskedRows:
        """Return the rows of a batch; raises DatasetError if a table has no such row.

        Args:
            local: The worker's own variables before the step.
            batch: The batch.
        """
        if self._division.lookups is None:
            return self._division.asked({})
        if self._ids is None:
            self._ids = compiled(self._division.lookups.ids, (local, batch), self._executables, donates=())
        return self._division.asked(self._ids(local, batch))

    def before(self, local: Sequence[jax.Array], upcoming: Any, batch: Any) -> AskedRows | None:
        """Return the rows of the batch of the next step; None if they are not to be fetched ahead.

        Args:
            local: As of `of`.
            upcoming: That batch, if it is known.
            batch: A batch of the shapes for which this is.
        """
        if self._division.lookups is None or upcoming is None or not _alike(upcoming, batch):
            return None
        try:
            return self.of(local, upcoming)
        except DatasetError:  # which is that of the next step
            return None


def _alike(one: Any, other: Any) -> bool:
    """Return whether two batches have the same structure, shapes and dtypes."""
    if len({jax.tree.structure(each) for each in (one, other)}) > 1:
        return False
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all((a.shape, a.dtype) == (b.shape, b.dtype) for a, b in pairs)


def _say_what_travels(division: Division, variables: Mapping[str, jax.ShapeDtypeStruct]) -> None:
    """Log which variables travel by rows, and which large ones cannot, and why."""
    if division.lookups is not None:
        _log.info("Rows of %s travel alone, by the ids of each batch.", ", ".join(division.lookups.tables))
    for path, error in division.whole.items():
        _log.warning(
            "%s So all of its %.1f MB travel to this worker and back at every step.",
            error,
            nbytes_of(variables[path]) / 1e6,
        )


def _shapes(traced: Traced, without: Collection[str] = ()) -> dict[str, jax.ShapeDtypeStruct]:
    return {
        spec.path: jax.ShapeDtypeStruct(spec.shape, spec.dtype)
        for spec in traced.variables
        if spec.path not in without
    }


def _one_after_the_other(step: Step, state: State, reads: Reads, group: BatchGroup) -> tuple[State, Any]:
    results: Any = None
    for batch in group.batches:
        state, results = step(state, reads, batch)
    return state, results
