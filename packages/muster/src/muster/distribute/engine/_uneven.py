"""Uneven batches on a mesh: compile one program for each number of rows that a replica has."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster._errors import TraceError
from muster.distribute.engine._split import ReplicatedBatch, UnevenBatch, WholeWarning, sizes_of, unwrapped
from muster.distribute.engine._traced import BatchGroup, Reads, State, Step, Traced
from muster.distribute.replicas._values import Padded, by_numbers
from muster.distribute.workers._workers import Workers
from muster.program import Gathers, Replicas, Shares, corrected
from muster.program.passes import all_reduce_on_host, combined, split_at_all_reduces


class UnevenError(TraceError):
    """Code cannot run on replicas with different numbers of rows.

    Args:
        cause: What it raises then.
    """

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


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

        Raises:
            UnevenError: The code cannot run on different numbers of rows.
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
                program_of=like,
                gathers=gathers,
            )
            return traced.run(state, reads, self._own(batch, like), one)

        chosen = jnp.asarray(self.of_replica)[replicas.index]
        args = state, reads, batch, replicas.index
        known: list[tuple[int, ...]] | None = []
        while known is not None:
            gathers = [Gathers(known) for _ in self._like]
            split, failure = [], None
            for like, each in zip(self._like, gathers, strict=True):
                try:
                    traced_once = functools.partial(program, like, each)
                    split.append(split_at_all_reduces(traced_once, *args, donated=0))
                except Exception as exc:  # of the code: what it has gathered may be shorter than assumed
                    failure = exc
            known = corrected([gathers[number].made for number in self.of_replica])
            if failure is not None and known is None:
                raise UnevenError(failure) from failure
        try:
            (state, results), shapes = combined(split, chosen, replicas.all_reduce, *args)
        except TraceError as exc:
            raise UnevenError(exc) from exc
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


def with_replicated_fallback(make: Callable[[Any], Step], batch: Any, warning: WholeWarning) -> Step:
    """Return the step for an uneven batch, or one in which each replica computes all of its rows.

    Args:
        make: Returns the step for batches like the one that it is given.
        batch: A worker batch, or a ``BatchGroup``.
        warning: Says that each replica computes all rows.

    Raises:
        UnevenError: Replicas cannot run the code on different numbers of rows of ``Padded`` values.
    """
    try:
        return make(batch)
    except UnevenError as exc:
        if not isinstance(first_of(batch), UnevenBatch):
            raise
        error = exc
    try:
        step = make(_given_whole(batch))
    except Exception:  # the code fails on any rows
        raise error.cause from error.cause.__cause__
    warning.warn(error.cause)
    return lambda state, reads, batch: step(state, reads, _given_whole(batch))


def _given_whole(batch: Any) -> Any:
    """Return uneven batches as ones of which each replica computes all rows."""
    if isinstance(batch, BatchGroup):
        return BatchGroup([_given_whole(each) for each in batch.batches])
    return ReplicatedBatch(batch.batch)


def as_chief_has(batch: Any, workers: Workers) -> Any:
    """Return a batch of which each replica computes all rows with the chief's values, on all workers.

    Theirs may differ, as of rows that each augments at random. What they compute of it is not reduced, so
    that their variables would drift apart.
    """
    if isinstance(batch, BatchGroup):
        return BatchGroup([as_chief_has(each, workers) for each in batch.batches])
    if workers.size == 1 or not isinstance(batch, ReplicatedBatch):
        return batch

    def taken(array: Any) -> Any:
        return workers.broadcast([np.ascontiguousarray(array)])[0].reshape(np.shape(array))

    return jax.tree.map(functools.partial(by_numbers, taken), batch)


def first_of(batch: Any) -> Any:
    """Return the worker batch whose kind is that of all in a group."""
    return batch.batches[0] if isinstance(batch, BatchGroup) else batch


def is_uneven(batch: Any) -> bool:
    """Return whether the replicas may have different numbers of rows of a worker batch."""
    return isinstance(batch, UnevenBatch) or any(
        isinstance(leaf, Padded) for leaf in jax.tree.leaves(batch, is_leaf=_is_padded)
    )


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
    kinds = [kind for leaf in padded for kind in (leaf.shapes, leaf.sizes) if kind is not None]
    return Variants(_numbered(list(zip(*kinds, strict=True))))


def _numbered(kinds: list[Any]) -> tuple[int, ...]:
    """Number kinds by their first appearance."""
    numbers = {kind: number for number, kind in enumerate(dict.fromkeys(kinds))}
    return tuple(numbers[kind] for kind in kinds)


def _is_padded(leaf: Any) -> bool:
    return isinstance(leaf, Padded)
