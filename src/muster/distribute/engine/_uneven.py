"""The step of replicas that have different numbers of rows, on a mesh: a program for each number of rows."""

import functools
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster.distribute.engine._split import UnevenBatch, sizes_of, unwrapped
from muster.distribute.engine._traced import Reads, State, Traced
from muster.distribute.replicas._values import Padded
from muster.program import Gathers, Replicas, Shares, corrected
from muster.program.passes import all_reduce_on_host, combined, split_at_all_reduces


@dataclass
class Variants:
    """The programs of replicas with different numbers of rows.

    Args:
        of_replica: For each replica, the number of its program.
        sizes: The number of rows of each replica, of an ``UnevenBatch``; None if values of a batch are
            ``Padded``, and say themselves.
    """

    of_replica: tuple[int, ...]
    sizes: tuple[int, ...] | None = None
    _shapes: Any = None

    @property
    def _like(self) -> list[int]:
        """The first replica that runs each of the programs."""
        return [self.of_replica.index(number) for number in range(max(self.of_replica) + 1)]

    def step(
        self, traced: Traced, state: State, reads: Reads, batch: Any, replicas: Replicas
    ) -> tuple[State, Any]:
        """Run traced code as one replica, on its rows of a padded batch.

        Returns:
            The new state and the results, padded to shapes that are equal on all replicas.
        """

        def program(
            like: int, gathers: Gathers, state: State, reads: Reads, batch: Any, index: jax.Array
        ) -> Any:
            shares = None if self.sizes is None else Shares(self.sizes, self.sizes[like])
            one = replace(
                replicas,
                index=index,
                all_reduce=all_reduce_on_host,
                shares=shares,
                like=like,
                gathers=gathers,
            )
            return traced.run(state, reads, self._own(batch, like), one)

        chosen = jnp.asarray(self.of_replica)[replicas.index]
        args = state, reads, batch, replicas.index
        known: list[tuple[int, ...]] | None = []
        while known is not None:
            gathers = [Gathers(known) for _ in self._like]
            split = [
                split_at_all_reduces(functools.partial(program, like, each), *args, donated=0)
                for like, each in zip(self._like, gathers, strict=True)
            ]
            known = corrected([gathers[number].made for number in self.of_replica])
        (state, results), shapes = combined(split, chosen, replicas.all_reduce, *args)
        of_results = shapes[len(jax.tree.leaves(state)) :]
        self._shapes = of_results
        return state, results

    def results_of(self, results: Any, sharded: Any) -> Any:
        """Return the results of all replicas: of an ``UnevenBatch`` their rows one after the other.

        Args:
            results: Global arrays, padded.
            sharded: Which of them the replicas have parts of: bools, or a prefix.
        """
        leaves, structure = jax.tree.flatten(results)
        flags = jax.tree.leaves(jax.tree.broadcast(sharded, results))
        found = [
            self._result(leaf, shapes) if flag and len(set(shapes)) > 1 else leaf
            for leaf, flag, shapes in zip(leaves, flags, self._shapes, strict=True)
        ]
        return jax.tree.unflatten(structure, found)

    def _result(self, array: jax.Array, by_program: tuple[tuple[int, ...], ...]) -> Any:
        shapes = [by_program[number] for number in self.of_replica]
        if self.sizes is None:
            return Padded(array, tuple(shape[1:] for shape in shapes))
        largest = array.shape[0] // len(shapes)
        places = np.concatenate([r * largest + np.arange(shape[0]) for r, shape in enumerate(shapes)])
        return array[places]

    def _own(self, batch: Any, like: int) -> Any:
        """Return the rows of a replica without their padding."""
        if self.sizes is not None:
            rows = self.sizes[like]
            return jax.tree.map(lambda leaf: leaf[:rows] if leaf.ndim else leaf, unwrapped(batch))
        return own_values(batch, like)


def own_values(batch: Any, number: int) -> Any:
    """Return the values of the replica with this number, which alone are given, without their padding."""
    return jax.tree.map(
        lambda leaf: leaf.of_replica(number) if _is_padded(leaf) else leaf, batch, is_leaf=_is_padded
    )


def variants_of(batch: Any, replicas: int) -> Variants | None:
    """Return the programs for batches like this one; None if all replicas have equally many rows."""
    if isinstance(batch, UnevenBatch):
        sizes = sizes_of(batch.rows, replicas)
        return Variants(_numbered(list(sizes)), sizes)
    padded = [leaf for leaf in jax.tree.leaves(batch, is_leaf=_is_padded) if _is_padded(leaf)]
    if not padded:
        return None
    return Variants(_numbered(list(zip(*(leaf.shapes for leaf in padded), strict=True))))


def _numbered(kinds: list[Any]) -> tuple[int, ...]:
    """Number kinds by their first appearance."""
    numbers = {kind: number for number, kind in enumerate(dict.fromkeys(kinds))}
    return tuple(numbers[kind] for kind in kinds)


def _is_padded(leaf: Any) -> bool:
    return isinstance(leaf, Padded)
