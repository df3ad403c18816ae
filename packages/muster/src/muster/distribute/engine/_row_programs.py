"""The programs of replicas with different numbers of rows, and what they reduce together."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from muster._errors import TraceError
from muster.distribute.engine._split import UnevenBatch, sizes_of
from muster.distribute.engine._traced import Reads, State, Traced
from muster.distribute.replicas._values import Padded
from muster.distribute.workers._workers import Workers
from muster.program import Gathers, Replicas, Shares, corrected
from muster.program.passes import (
    UNLIKE_REDUCTIONS,
    Segment,
    all_reduce_on_host,
    combined,
    split_at_all_reduces,
)

Split: TypeAlias = tuple[list[Segment], Any]


class UnevenError(TraceError):
    """Code cannot run on replicas with different numbers of rows.

    Args:
        cause: What it raises then.
    """

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


@dataclass
class RowPrograms:
    """The programs of replicas with different numbers of rows.

    Args:
        of_replica: For each replica, the number of its program.
        sizes: The number of rows of each replica, of an ``UnevenBatch``; None if values of a batch are
            ``Padded``, and say themselves.
        workers: The processes, if each runs the program of its own replica alone; None if this one runs all.
        alike: Whether workers' programs cannot differ but in the lengths of what they gather.
    """

    of_replica: tuple[int, ...]
    sizes: tuple[int, ...] | None = None
    workers: Workers | None = None
    alike: bool = False
    _shapes: Any = None
    _gathers: Gathers | None = None

    def of(self, traced: Traced) -> Traced:
        """Return code for replicas with equally many rows, padded or not, that runs other code by these."""
        if self.workers is None:
            return replace(traced, run=functools.partial(self._run_chosen, traced), of_all=self._of_all)
        return replace(traced, run=functools.partial(self._run_own, traced), cut=self._cut_own)

    def _run(
        self,
        traced: Traced,
        like: int,
        gathers: Gathers | None,
        state: State,
        reads: Reads,
        batch: Any,
        replicas: Replicas,
    ) -> tuple[State, Any]:
        """Run code as a replica that has as many rows as one with a number."""
        shares = None if self.sizes is None else Shares(self.sizes, self.sizes[like])
        one = replace(replicas, shares=shares, program_of=like, gathers=gathers)
        return traced.run(state, reads, self._own(batch, like), one)

    def _run_own(
        self, traced: Traced, state: State, reads: Reads, batch: Any, replicas: Any
    ) -> tuple[State, Any]:
        """Run code as the replica of this process."""
        return self._run(traced, replicas.program_of, self._gathers, state, reads, batch, replicas)

    def _cut_own(self, step: Callable[..., Any], *args: Any, donated: int) -> Split:
        """Cut a step of the replica of this process at its reductions."""

        def cut(like: int, gathers: Gathers) -> Split:
            self._gathers = gathers  # which JAX does not see: another function is traced anew
            return split_at_all_reduces(lambda *args: step(*args), *args, donated=donated)

        return self._settled([0], cut)[0]

    def _run_chosen(
        self, traced: Traced, state: State, reads: Reads, batch: Any, replicas: Any
    ) -> tuple[State, Any]:
        """Run code as any replica; results are padded to shapes equal on all replicas."""
        args = state, reads, batch, replicas.index

        def cut(like: int, gathers: Gathers) -> Split:
            def program(state: State, reads: Reads, batch: Any, index: jax.Array) -> tuple[State, Any]:
                one = replace(replicas, index=index, all_reduce=all_reduce_on_host)
                return self._run(traced, like, gathers, state, reads, batch, one)

            return split_at_all_reduces(program, *args, donated=0)

        split = self._settled([*map(self.of_replica.index, sorted(set(self.of_replica)))], cut)
        chosen = jnp.asarray(self.of_replica)[replicas.index]
        try:
            (state, results), shapes = combined(split, chosen, replicas.all_reduce, *args)
        except TraceError as exc:
            raise UnevenError(exc) from exc
        self._shapes = shapes[len(jax.tree.leaves(state)) :]
        return state, results

    def _settled(self, likes: Sequence[int], cut: Callable[[int, Gathers], Split]) -> list[Split]:
        """Trace the programs of some replicas, again and again until the lengths of what they gather fit.

        Raises:
            UnevenError: They cannot run on different numbers of rows. All workers raise it.
        """
        known: list[tuple[int, ...]] | None = []
        while known is not None:
            gathers = [Gathers(known) for _ in likes]
            split, failure = [], None
            for like, each in zip(likes, gathers, strict=True):
                try:
                    split.append(cut(like, each))
                except Exception as exc:  # of the code: what it has gathered may be shorter than assumed
                    if self.alike:
                        raise
                    failure = exc
            known, failure = self._corrected(gathers, split, failure)
            if failure is not None and known is None:
                raise UnevenError(failure) from failure
        return split

    def _corrected(
        self, gathers: Sequence[Gathers], split: Sequence[Split], failure: Exception | None
    ) -> tuple[list[tuple[int, ...]] | None, Exception | None]:
        """Return the lengths to assume next, None if those assumed fit; and why the programs cannot run."""
        if self.workers is None:
            return corrected([gathers[number].made for number in self.of_replica]), failure
        (own,) = gathers
        if self.alike:  # if one worker gathers, all do
            return corrected(self.workers.all_gather_object(own.made)) if own.made else None, None
        lengths = None if failure is not None else [part.lengths for part in split[0][0]]
        told = self.workers.all_gather_object([own.made, lengths])
        if failure is None and any(each is None for _, each in told):
            failure = TraceError("The code has failed on the rows of another worker.")
        elif failure is None and any(each != told[0][1] for _, each in told):
            failure = TraceError(UNLIKE_REDUCTIONS.format("values of other shapes"))
        return corrected([made for made, _ in told]), failure

    def _of_all(self, results: Any, sharded: Any, own: slice = slice(None)) -> Any:
        """Return the results of replicas: of an ``UnevenBatch`` their rows one after the other.

        Args:
            results: Arrays of these replicas, padded.
            sharded: Which of them the replicas have parts of: bools, or a prefix.
            own: The numbers of the replicas; all by default.
        """
        leaves, structure = jax.tree.flatten(results)
        flags = jax.tree.leaves(jax.tree.broadcast(sharded, results))
        found = [
            self._result(leaf, shapes, own) if flag and len(set(shapes)) > 1 else leaf
            for leaf, flag, shapes in zip(leaves, flags, self._shapes, strict=True)
        ]
        return jax.tree.unflatten(structure, found)

    def _result(self, array: jax.Array, by_program: tuple[tuple[int, ...], ...], own: slice) -> Any:
        shapes = [by_program[number] for number in self.of_replica]
        if self.sizes is None:
            return Padded(array, tuple(shape[1:] for shape in shapes))
        shapes = shapes[own]
        largest = array.shape[0] // len(shapes)
        places = np.concatenate([r * largest + np.arange(shape[0]) for r, shape in enumerate(shapes)])
        return array[places]

    def _own(self, batch: Any, like: int) -> Any:
        """Return the rows of a replica without their padding."""
        if self.sizes is not None:
            rows = self.sizes[like]
            return jax.tree.map(lambda leaf: leaf[:rows] if leaf.ndim else leaf, batch)
        return own_values(batch, like)


def own_values(batch: Any, number: int) -> Any:
    """Return the values of the replica with this number, which alone are given, without their padding."""
    return jax.tree.map(
        lambda leaf: leaf.of_replica(number) if _is_padded(leaf) else leaf, batch, is_leaf=_is_padded
    )


def padded_in(batch: Any) -> list[Padded]:
    """Return the values of a batch of which replicas may have others in number or shape."""
    return [leaf for leaf in jax.tree.leaves(batch, is_leaf=_is_padded) if _is_padded(leaf)]


def programs_of(batch: Any, replicas: int, workers: Workers | None = None) -> RowPrograms | None:
    """Return the programs for batches like this one; None if all replicas have equally many rows.

    Args:
        batch: A worker batch.
        replicas: The number of replicas.
        workers: The processes, if each runs the program of its own replica alone.
    """
    if isinstance(batch, UnevenBatch):
        sizes = sizes_of(batch.rows, replicas)
        return RowPrograms(_numbered(list(sizes)), sizes, workers)
    padded = padded_in(batch)
    if not padded:
        # Workers may gather other lengths of equally many rows, too.
        return None if workers is None else RowPrograms((), None, workers, alike=True)
    kinds = [kind for leaf in padded for kind in (leaf.shapes, leaf.sizes) if kind is not None]
    return RowPrograms(_numbered(list(zip(*kinds, strict=True))), None, workers)


def _numbered(kinds: list[Any]) -> tuple[int, ...]:
    """Number kinds by their first appearance."""
    numbers = {kind: number for number, kind in enumerate(dict.fromkeys(kinds))}
    return tuple(numbers[kind] for kind in kinds)


def _is_padded(leaf: Any) -> bool:
    return isinstance(leaf, Padded)
