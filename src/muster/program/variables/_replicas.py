"""Replicas: the copies of a step that run side by side, and how their values meet."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

Array = Any

# What tells one replica's random seeds from another's; the first replica's stay as they are.
_SEED_STRIDE = 0x9E3779B9


@dataclass(frozen=True, kw_only=True)
class Replicas:
    """The copies of a step in one program, as one of them sees them.

    A batch that the replicas cannot share equally is given whole to each of them; then only the first one
    counts, in every reduction.

    Attributes:
        index: which of them this is: int32 or uint32, from 0.
        add: adds a flat array over all of them; the sum is the same on each.
        count: how many there are, over all processes.
        active: how many of them count: all, or one.
        bytes_per_pack: values are added in packs that are closed once they exceed this; 0 makes one pack.
    """

    index: Array
    add: Callable[[Array], Array]
    count: int
    active: int
    bytes_per_pack: int = 0

    def sum(self, arrays: Sequence[Array]) -> list[Array]:
        """The sums over the replicas that count, one collective a pack.

        Args:
            arrays: per replica, of any shapes and dtypes; a collective adds those of one dtype in a pack.

        Returns:
            The sums in the same order, equal on all replicas.
        """
        sums: list[Array] = [None] * len(arrays)
        order = list(reversed(range(len(arrays))))  # gradients are ready from the last to the first
        for pack in packs([arrays[i].nbytes for i in order], self.bytes_per_pack):
            by_dtype: dict[Any, list[int]] = {}
            for place in pack:
                by_dtype.setdefault(arrays[order[place]].dtype, []).append(order[place])
            for indices in by_dtype.values():
                self._sum_together(indices, arrays, sums)
        return sums

    def _sum_together(self, indices: Sequence[int], arrays: Sequence[Array], sums: list[Array]) -> None:
        """Add the arrays at some indices, which are of one dtype, in one collective."""
        flat = jnp.concatenate([arrays[i].reshape(-1) for i in indices])
        if self.active < self.count:
            flat = jnp.where(self.index < self.active, flat, jnp.zeros_like(flat))
        flat = self.add(flat)
        start = 0
        for i in indices:
            sums[i] = flat[start : start + arrays[i].size].reshape(arrays[i].shape)
            start += arrays[i].size

    def mean(self, arrays: Sequence[Array]) -> list[Array]:
        """The means over the replicas that count; floating-point arrays, otherwise as ``sum``."""
        return [total / self.active for total in self.sum(arrays)]

    def first(self, arrays: Sequence[Array]) -> list[Array]:
        """The first replica's values, on all of them."""
        return self.sum([jnp.where(self.index == 0, array, jnp.zeros_like(array)) for array in arrays])

    def combined(self, aggregation: str, array: Array) -> Array:
        """What the replicas' values come to: their "sum", their "mean", or that of "only_first_replica"."""
        match aggregation:
            case "sum":
                return self.sum([array])[0]
            case "mean":
                return self.mean([array])[0]
        return self.first([array])[0]

    def share(self, total: Array) -> Array:
        """This replica's part of a value, all of which add up to it."""
        if jnp.issubdtype(total.dtype, jnp.inexact):
            return total / self.count
        rest = jnp.where(self.index == 0, total % self.count, jnp.zeros_like(total))
        return total // self.count + rest

    def gather(self, array: Array) -> Array:
        """The values of all replicas that count, one after the other along a new first axis."""
        if self.active < self.count:
            return self.sum([array])[0][None]
        wide = array.astype(jnp.int32) if array.dtype == jnp.bool_ else array
        placed = jnp.zeros((self.count, *array.shape), wide.dtype).at[self.index].set(wide)
        return self.sum([placed])[0].astype(array.dtype)

    def own_seed(self, seed: Array) -> Array:
        """A seed generator's state, uint32[2], turned into this replica's own."""
        return seed.at[0].add(self._seed_offset(seed))

    def common_seed(self, seed: Array) -> Array:
        """The inverse of ``own_seed``: equal on all replicas again."""
        return seed.at[0].add(-self._seed_offset(seed))

    def _seed_offset(self, seed: Array) -> Array:
        return (self.index * jnp.uint32(_SEED_STRIDE)).astype(seed.dtype)


def packs(sizes: Sequence[int], bytes_per_pack: int) -> list[list[int]]:
    """Which values are added together.

    Args:
        sizes: bytes of each value.
        bytes_per_pack: a pack is closed once it holds more than this; 0 makes a single one.

    Returns:
        The values' indices, pack by pack.

    Source: tensorflow/python/distribute/cross_device_utils.py, ``group_by_size``.
    """
    if bytes_per_pack == 0:
        return [list(range(len(sizes)))]
    groups: list[list[int]] = []
    held = bytes_per_pack + 1
    for i, size in enumerate(sizes):
        if held > bytes_per_pack:
            groups.append([])
            held = 0
        groups[-1].append(i)
        held += size
    return groups
