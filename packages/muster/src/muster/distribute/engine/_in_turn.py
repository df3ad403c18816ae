"""The engine of virtual replicas: a process runs those that it has now, one after the other."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster.distribute.engine._compiled import compiled
from muster.distribute.engine._split import ReplicatedBatch
from muster.distribute.engine._traced import Executables, Reads, State, Step, Traced
from muster.distribute.engine._uneven import EvenEngine
from muster.distribute.replicas._values import by_numbers
from muster.distribute.workers._workers import Workers
from muster.program import Replicas
from muster.program.passes import Segment, all_reduce_on_host


class InTurnEngine(EvenEngine):
    """Compiles the program of one virtual replica, cut at its reductions, and runs it for each of them.

    The program does not depend on how many replicas this process has, so that it takes over those of another
    without compiling anything. It keeps the state as it was until the last reduction of a step is done: one
    that was left in the middle can be taken again. What follows overwrites the state. It is computed once for
    all replicas, unless some results are of one of them.

    Args:
        workers: The processes; ``workers.share`` says which replicas are this one's now.
        bytes_per_pack: Values are reduced in packs of about this size; 0 for a single one.
        in_loops: Whether steps take the values of all replicas, and return them on all workers, as loops of
            the user's do.
    """

    def __init__(self, workers: Workers, bytes_per_pack: int, *, in_loops: bool = False) -> None:
        super().__init__(workers.in_loops if in_loops else workers, 1)
        self._by = workers
        self._bytes_per_pack = bytes_per_pack

    def step_for(
        self, traced: Traced, executables: Executables, state: State, reads: Reads, batch: Any
    ) -> Step:
        is_replicated = isinstance(batch, ReplicatedBatch)
        share, given_share = self._by.share or self.split.share, self.split.share
        example = _part(traced, batch, 0, given_share.count)

        def replica_step(state: State, reads: Reads, batch: Any, index: jax.Array) -> tuple[State, Any]:
            replicas = Replicas(
                index=index,
                all_reduce=all_reduce_on_host,
                count=share.total,
                active=1 if is_replicated else share.total,
                bytes_per_pack=self._bytes_per_pack,
            )
            return traced.step(state, reads, batch, replicas)

        own_state = _part_of(traced.state_sharded, state, 0, given_share.count)
        donated = len(jax.tree.leaves(own_state))
        parts, structure = traced.cut(replica_step, own_state, reads, example, jnp.uint32(0), donated=donated)
        sharded = (traced.new_state_sharded, traced.sharded_results(batch))
        of_all, gathers = traced.of_all, self._by is not self.workers
        given = (own_state, reads, example)
        values = [*jax.tree.leaves(given), jnp.uint32(0)]
        made = [tuple(at for at in part.donates if part.takes[at] >= len(values)) for part in parts]
        if not gathers:  # else the step can be left after its last part, too
            made[-1] = parts[-1].donates
        runs = self._compiled(parts, values, made, executables)
        indices = [jnp.uint32(index) for index in range(share.total)]  # to make one is slow
        is_pure = any(runs[-1] is each for each in executables.values())
        once = is_pure and not gathers and not any(jax.tree.leaves(sharded))

        def step(state: State, reads: Reads, batch: Any) -> tuple[State, Any]:
            own = range(share.first, share.first + share.count)
            values: list[list[Any]] = []
            for index in own:
                place = index - given_share.first
                given = (
                    _part_of(traced.state_sharded, state, place, given_share.count),
                    reads,
                    _part(traced, batch, place, given_share.count),
                )
                values.append([*jax.tree.leaves(given), indices[index]])
            results: list[list[jax.Array]] = []
            for number, part in enumerate(parts):
                is_last = number == len(parts) - 1
                taken = [[each[i] for i in part.takes] for each in values[: 1 if is_last and once else None]]
                if is_last:
                    for each in taken[:-1]:  # the replicas share the state, and each overwrites it
                        for at in made[-1]:
                            each[at] = jnp.array(each[at]) if part.takes[at] < donated else each[at]
                results = [runs[number](*each) for each in taken]
                if count := len(part.sums):
                    terms = [[np.asarray(value) for value in each[:count]] for each in results]
                    sums = self._by.sum_terms(terms)
                    for each, result in zip(values, results, strict=True):
                        each += [*sums, *result[count:]]
            joined = _joined(sharded, [jax.tree.unflatten(structure, result) for result in results])
            if gathers:
                own, joined = range(share.total), self._gathered(sharded, joined)
            state, out = joined
            return state, out if of_all is None else of_all(out, sharded[1], slice(own.start, own.stop))

        return step

    def _gathered(self, sharded: Any, results: Any) -> Any:
        """Return results with the sharded values of all replicas, given those of this worker's."""

        def rows(array: Any) -> Any:
            return jnp.asarray(np.concatenate(self._by.all_gather(np.asarray(array))))

        def gathered(flag: bool, value: Any) -> Any:
            return jax.tree.map(lambda leaf: by_numbers(rows, leaf), value) if flag else value

        return jax.tree.map(gathered, sharded, results)

    def _compiled(
        self,
        parts: Sequence[Segment],
        values: Sequence[Any],
        donates: Sequence[tuple[int, ...]],
        executables: Executables,
    ) -> list[Callable[..., list[jax.Array]]]:
        """Compile all parts of a step, given its arguments and what they overwrite, before any is run."""
        shapes = [jax.ShapeDtypeStruct(np.shape(value), value.dtype) for value in values]
        given = ", ".join(f"{each.dtype}{list(each.shape)}" for each in shapes)
        runs = []
        for part, places in zip(parts, donates, strict=True):
            taken = tuple(shapes[i] for i in part.takes)
            runs.append(compiled(part.function, taken, executables, places))
            shapes += jax.eval_shape(part.function, *taken)  # sums have the shapes of their terms
        names = {id(executable): name for name, executable in executables.items()}
        # Of code that calls Python there is no text that stands for it.
        self._by.note_program(given, " ".join(names.get(id(each), "calls") for each in runs))
        return runs


def _part(traced: Traced, batch: Any, place: int, count: int) -> Any:
    """Return what one of so many replicas gets of a worker batch."""
    return _part_of(traced.sharded(batch), batch, place, count)


def _part_of(sharded: Any, values: Any, place: int, count: int) -> Any:
    """Return one of so many equal parts of the arrays that are sharded, and the others as they are."""
    if count == 1:
        return values

    def part(flag: bool, value: Any) -> Any:
        if not flag:
            return value
        cut = functools.partial(_rows, place=place, count=count)
        return jax.tree.map(lambda leaf: by_numbers(cut, leaf), value)

    return jax.tree.map(part, sharded, values)


def _rows(array: Any, place: int, count: int) -> Any:
    size = len(array) // count
    return array[place * size : (place + 1) * size]


def _joined(sharded: Any, results: list[Any]) -> Any:
    """Join the results of replicas: sharded ones one after the other; of others the first one counts."""
    if len(results) == 1:
        return results[0]

    def join(flag: bool, *each: Any) -> Any:
        return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *each) if flag else each[0]

    return jax.tree.map(join, sharded, *results)
