"""A worker's step on one CPU device: compiled in parts, between which the workers' values are added."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster.distribute.engine._compiled import Executables, State, Step, compiled
from muster.distribute.input._shared_batches import Whole
from muster.distribute.workers._link import Link
from muster.program import Part, Program, Replicas, meet, parts_of

Array = Any


def program_run(program: Program[Any], state: State, batch: Any, replicas: Replicas) -> tuple[State, Any]:
    """Run a program on a worker's batch; a ``Whole`` one counts once."""
    if isinstance(batch, Whole):
        return program.step(state, batch.batch, replicas=dataclasses.replace(replicas, active=1))
    return program.step(state, batch, replicas=replicas)


class ExchangedStep:
    """Makes the step of workers with one CPU device each; their values meet over the link.

    On CPUs that is faster than XLA's own collectives, and a worker that is gone is an error, not an abort.

    Args:
        run: what to run: ``(state, batch, replicas) -> (state, outputs)``, on this worker's part.
        link: connects the workers.
        bytes_per_pack: gradients are added in packs of about this size; 0 for a single one.
    """

    def __init__(self, run: Callable[..., tuple[State, Any]], link: Link, bytes_per_pack: int) -> None:
        self._run = run
        self._link = link
        self._rank = jnp.uint32(link.rank)
        self._bytes_per_pack = bytes_per_pack

    def __call__(self, state: State, batch: Any, executables: Executables) -> Step:
        count = len(self._link.tasks)

        def local_step(state: State, batch: Any, rank: Array) -> tuple[State, dict[str, Any]]:
            replicas = Replicas(
                index=rank, add=meet, count=count, active=count, bytes_per_pack=self._bytes_per_pack
            )
            return self._run(state, batch, replicas)

        parts, structure = parts_of(local_step, state, batch, self._rank, donated=len(jax.tree.leaves(state)))
        return self._in_turn(parts, structure, executables)

    def _in_turn(self, parts: list[Part], structure: Any, executables: Executables) -> Step:
        """Run the parts one after the other; each is compiled when it is first run."""
        runs: list[Callable[..., list[Array]]] = []

        def step(state: State, batch: Any) -> tuple[State, Any]:
            values = [*jax.tree.leaves((state, batch)), self._rank]
            results: list[Array] = []
            for number, part in enumerate(parts):
                given = [values[i] for i in part.takes]
                if number == len(runs):
                    runs.append(compiled(part.function, tuple(given), part.donates, executables))
                results = runs[number](*given)
                met, kept = results[: len(part.sums)], results[len(part.sums) :]
                if met:
                    values += [*self._link.sum([np.asarray(value) for value in met]), *kept]
            return jax.tree.unflatten(structure, results)  # type: ignore[no-any-return]

        return step
