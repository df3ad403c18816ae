"""The steps of a worker beside parameter servers: pull, compute, push."""

import dataclasses
import functools
from collections.abc import Callable, Collection, ItemsView, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from muster._errors import DatasetError, TraceError
from muster.checkpoint import Parts
from muster.distribute.engine._asked_rows import AskedRows
from muster.distribute.engine._compiled import CompiledStep, compiled
from muster.distribute.engine._flat_arrays import Buffers, FlatTree, RowRange, in_memory
from muster.distribute.engine._hashed_columns import ColumnKind, column_kind, is_hashed
from muster.distribute.engine._served_parts import SavingServers, ServedParts
from muster.distribute.engine._shards import Division
from muster.distribute.engine._traced import BatchGroup, Executables, Reads, State, Step, Traced
from muster.program.passes import NumberedStep, WorkerServerSplit, split_at_pushes, with_given_numbers
from muster.program.variables import VariableSpec
from muster.ps import Array, Pulled, Pushed

Place = Callable[[Sequence[VariableSpec]], Mapping[str, Sequence[RowRange]]]
"""Chooses the rows that each server has of the variables that workers train, by path."""


class TrainingServers(SavingServers, Protocol):
    """The connections of a worker to the parameter servers, in their order."""

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
    def fetches_ahead(self) -> bool:
        """True if the batch of the next step may be known, and answers to pushes bring its rows."""

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


class NoMoreSteps(StopIteration):
    """The workers of a job have made all of its steps."""


class Ahead(NamedTuple):
    """Rows that were fetched for the step on a batch, as of the values that were pulled for it.

    Attributes:
        batch: The batch.
        asked: The rows that it asks for.
        rows: These rows, as of `AskedRows.taken`, packed.
    """

    batch: Any
    asked: AskedRows
    rows: Any


@dataclass(frozen=True)
class ServedState(Mapping[str, Any]):
    """The variables of a worker: its own, what it pulled last, and what only servers have.

    Reading one that workers do not pull, such as an optimizer's slot, asks the servers for all of them. Those
    of hashed tables are not among them: nobody has all of their rows.

    Attributes:
        division: Where the variables are.
        servers: The servers.
        pulled: The values of the last pull.
        local: The worker's own variables, by path.
        ahead: What was fetched for the next step; None for nothing.
        alone: Whether no other worker changes what servers have.
    """

    division: Division
    servers: TrainingServers
    pulled: Sequence[Buffers]
    local: Mapping[str, jax.Array]
    ahead: Ahead | None = None
    alone: bool = False

    def __getitem__(self, path: str) -> Any:
        if path in self.local:
            return self.local[path]
        if path in self.division.hashed:
            raise NotImplementedError(
                f"{path} is of a hashed table, whose rows lie apart, by ids, and are no array. Read them "
                "from a checkpoint, by muster.checkpoint.read_checkpoint."
            )
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

    def with_own(self, values: Mapping[str, Any]) -> "ServedState":
        """Return this state with other values of the worker's own variables."""
        return dataclasses.replace(
            self, local={path: values.get(path, own) for path, own in self.local.items()}
        )

    def to_save(self) -> tuple[Mapping[str, Any], Parts]:
        """Return the values that this process saves, by path, and the parts that servers write."""
        return self.local, ServedParts(self.servers, self.division)


class ServedTraining:
    """The steps of one program, which are divided alike for batches of all shapes.

    Args:
        servers: The servers.
        place: Chooses where variables lie.
        traced: The program.
        executables: As of ``Engine.compile``.
        own: The paths of the variables that this worker keeps for itself.
        evaluate: Returns the step of code that updates nothing on servers, for a state, reads and a batch;
            None if there is no such code.
        alone: Whether no other worker trains the variables on servers, so that this one may update its own by
            what it pushes.
        first: The state of a training that goes on; None if it begins.

    Attributes:
        step: Runs the step for a batch of any shape.
    """

    def __init__(
        self,
        servers: TrainingServers,
        place: Place,
        traced: Traced,
        executables: Executables,
        own: Collection[str],
        evaluate: Callable[[State, Reads, Any], Step] | None = None,
        *,
        alone: bool = False,
        first: "ServedState | None" = None,
    ) -> None:
        self.step = CompiledStep(self.step_for)  # which waits for what it pushes
        self._servers, self._place = servers, place
        self._traced, self._executables = traced, executables
        self._own, self._evaluate, self._alone = own, evaluate, alone
        self._hashed: Mapping[str, ColumnKind] = {} if first is None else first.division.hashed
        self._first = first

    def step_for(self, state: State, reads: Reads, batch: Any) -> Step:
        """Divide the step for batches of one shape."""
        if isinstance(batch, BatchGroup):
            return functools.partial(_one_after_the_other, self.step)
        served, numbered = self._split(reads, batch)
        if not served.updated and self._evaluate is not None:
            evaluate = self._evaluate(state, reads, batch)
            return lambda *given: jax.block_until_ready(evaluate(*given))
        variables, placed = shapes_of(self._traced, self._own), self._place(self._traced.variables)
        if self._first is None:
            self._hashed = {
                path: column_kind(path, state[path])
                for path, each in variables.items()
                if is_hashed(each.shape)
            }
        given = batch if numbered is None else [*jax.tree.leaves(batch), *numbered.numbers.values()]
        division = Division(served, variables, placed, self._servers.count, given, self._hashed)
        if self._first is None:
            division.log_what_travels()
        first = self._started(division, served.local, state)
        return self._on_servers(first, division, _RowRequests(division, numbered, self._executables, batch))

    def _split(self, reads: Reads, batch: Any) -> tuple[WorkerServerSplit, NumberedStep | None]:
        """Divide the code between this worker and servers; it is given the numbers of its ids, if any."""
        traced, shapes = self._traced, shapes_of(self._traced)
        leaves, structure = jax.tree.flatten(batch)

        def run(values: State, batch: Any) -> tuple[State, Any]:
            return traced.step(values, reads, batch)

        numbered = None
        if any(is_hashed(each.shape) for each in shapes.values()):

            def of_leaves(values: State, arrays: Sequence[Any]) -> tuple[State, Any]:
                return run(values, jax.tree.unflatten(structure, arrays))

            numbered = with_given_numbers(of_leaves, shapes, leaves, self._own)
            run, batch = numbered.function, [*leaves, *numbered.numbers.values()]
        return split_at_pushes(run, shapes, batch, self._own, returns_updated=self._alone), numbered

    def _started(self, division: Division, local: Sequence[str], state: State) -> ServedState:
        """Return the state before the first step; servers get the division of the first batch."""
        if self._first is None:
            pulled = self._servers.start(division, state)
            own = {path: in_memory(state[path]) for path in local}
            self._first = ServedState(division, self._servers, pulled, own, alone=self._alone)
        elif division.describe() != self._first.division.describe():
            raise TraceError(
                "A batch of this shape updates the variables on parameter servers in another way than "
                "the first one did. Give batches of one shape, with drop_remainder=True, or compute "
                "nothing from the batch's shape after the gradients."
            )
        return self._first

    def _on_servers(self, first: ServedState, division: Division, asks: "_RowRequests") -> Step:
        """Return the step of a worker.

        Args:
            first: The state before its first step.
            division: How the step is divided for the batches that it is for.
            asks: Finds the rows that these ask for.
        """
        work: Any = None
        made: Any = None  # what the step pushes, and the ids of the next one, in few arrays
        given = FlatTree([] if division.tables is None else division.tables.row_shapes)
        servers = self._servers
        donates = (2,) if self._alone else ()
        looks_ahead = division.lookups is not None and servers.fetches_ahead

        def compute(
            pulled: Sequence[Buffers], rows: Any, local: Sequence[Any], batch: Any, upcoming: Any
        ) -> Any:
            nonlocal made
            pushed, own, results = division.work(pulled, given.unpack(*rows), local, batch)
            sent = pushed, asks.ids(own, upcoming) if looks_ahead else {}
            made = FlatTree(sent)
            return made.pack(sent), own, results

        def taken(asked: AskedRows, answers: Sequence[list[Array]]) -> Any:
            packed = given.allocate()
            asked.taken(answers, given.unpack(*packed))
            return packed

        def step(state: State, reads: Reads, batch: Any) -> tuple[State, Any]:
            nonlocal work
            before = state if isinstance(state, ServedState) else first
            local = [*before.local.values()]
            if before.ahead is not None and before.ahead.batch is servers.current:
                _, asked, rows = before.ahead
            else:
                asked = asks.of(local, batch)
                rows = taken(asked, servers.look_up(asked.ids(servers.count)) if division.lookups else [])
            known = looks_ahead and asks.fit(servers.upcoming)
            upcoming = (servers.upcoming if known else batch) if looks_ahead else ()
            inputs = before.pulled, rows, local, asks.arrays(batch, asked), upcoming
            if work is None:
                work = compiled(compute, inputs, self._executables, donates=donates)
            sent, own, results = work(*inputs)
            pushed, ids = made.on_host(sent)
            following = asks.ahead(ids) if known else None
            loss = self._traced.loss
            if loss is not None:
                results[loss] = np.asarray(results[loss])  # waits for it, so that hooks need not look again
            pulled, ahead = before.pulled, None
            if loss is None or not np.isnan(results[loss]).any():
                answers = servers.push_and_pull(division.pushed(pushed, asked, following))
                pulled = [each.pulled for each in answers]
                rows_of = [[*each.rows] for each in answers]
                if following is not None and any(rows_of):
                    ahead = Ahead(servers.upcoming, following, taken(following, rows_of))
            kept = dict(zip(before.local, own, strict=True))
            return dataclasses.replace(before, local=kept, pulled=pulled, ahead=ahead), results

        return step


class _RowRequests:
    """Finds the rows that batches of one shape ask for.

    Args:
        division: The step that looks them up.
        numbered: The step that is given the numbers of its ids; None if there are no hashed tables.
        executables: As of ``Engine.compile``.
        batch: One of these batches.
    """

    def __init__(
        self, division: Division, numbered: NumberedStep | None, executables: Executables, batch: Any
    ) -> None:
        self._division = division
        self._numbered = numbered
        self._executables = executables
        leaves, structure = jax.tree.flatten(batch)
        self._structure: Any = structure
        self._kinds = [(leaf.shape, leaf.dtype) for leaf in leaves]
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
            self._ids = compiled(self.ids, (local, batch), self._executables, donates=())
        return self._division.asked(self._ids(local, batch))

    def arrays(self, batch: Any, asked: AskedRows) -> Any:
        """Return a batch as the divided step takes it, with the numbers of its ids."""
        if self._numbered is None:
            return batch
        known = self._division.numbers(asked)
        return [*jax.tree.leaves(batch), *_numbers(self._numbered, known)]

    def ids(self, local: Sequence[jax.Array], batch: Any) -> dict[str, jax.Array]:
        """Compute which rows of the tables a batch looks up, as for `of`; pure, for JAX."""
        lookups, numbered = self._division.lookups, self._numbered
        if lookups is None:
            return {}
        if numbered is None:
            return lookups.ids(local, batch)
        leaves = jax.tree.leaves(batch)
        return {**lookups.ids(local, [*leaves, *_numbers(numbered, {})]), **numbered.ids(local, leaves)}

    def fit(self, batch: Any) -> bool:
        """Return whether a batch, or None for none, is of the shapes for which this is."""
        leaves, structure = jax.tree.flatten(batch)
        same = bool(structure == self._structure)
        return same and self._kinds == [(leaf.shape, leaf.dtype) for leaf in leaves]

    def ahead(self, ids: Mapping[str, Any]) -> AskedRows | None:
        """Return the rows that `ids` has found for the next step; None for rows that there are not."""
        try:
            return self._division.asked(ids)
        except DatasetError:  # which is that of the next step
            return None


def _numbers(numbered: NumberedStep, known: Mapping[str, Array]) -> list[Any]:
    """Return the numbers of the ids of each hashed table; zeros for those on which nothing depends."""
    return [
        known[path] if path in known else jnp.zeros(each.shape, each.dtype)
        for path, each in numbered.numbers.items()
    ]


def shapes_of(traced: Traced, without: Collection[str] = ()) -> dict[str, jax.ShapeDtypeStruct]:
    """Return the shapes and dtypes of the variables of code, but for some, by their paths."""
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
