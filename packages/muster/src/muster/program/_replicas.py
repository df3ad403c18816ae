"""Describe the replicas that run a step in parallel, and reduce their values."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

# Tells one replica's random seeds from another's; the first replica's stay unchanged.
_SEED_STRIDE = 0x9E3779B9


@dataclass(frozen=True)
class Shares:
    """The rows of a batch that replicas share unequally, in the order of the replicas.

    Attributes:
        sizes: The number of rows of each replica.
        own: The number of rows of this replica, one of the sizes.
    """

    sizes: tuple[int, ...]
    own: int

    @property
    def total(self) -> int:
        """The number of rows of all replicas."""
        return sum(self.sizes)

    @property
    def starts(self) -> list[int]:
        """The number of rows before those of each replica."""
        return [*itertools.accumulate(self.sizes[:-1], initial=0)]


class Gathers:
    """The lengths of what replicas with different numbers of rows gather, in the order of their code.

    One replica's code cannot tell how long the values of others are: it assumes that an array as long as its
    rows has the rows of each replica, and that others are equally long. Where that was wrong, the code is
    traced again with what is known since. Along other axes than that of the gather, values are equally long.

    Args:
        known: The lengths on all replicas of the first values that are gathered.
        equal: Whether to assume that all replicas' values are equally long.

    Attributes:
        knows: Whether any lengths are known.
        made: For each value its length on this replica, those on all that were taken, its shape, if values
            are joined, and the axis.
    """

    def __init__(self, known: Sequence[tuple[int, ...]] = (), *, equal: bool = False) -> None:
        self._known = known
        self._equal = equal
        self.knows = bool(known)
        self.made: list[Gathered] = []

    def lengths(
        self, shape: tuple[int, ...], axis: int, assumed: tuple[int, ...], *, joins: bool
    ) -> tuple[int, ...]:
        """Return the lengths along an axis on all replicas of the next value, which has a shape here.

        Args:
            shape: The shape.
            axis: The axis.
            assumed: The lengths, if none are known.
            joins: Whether the values are joined along the axis, and not only counted.
        """
        number, own = len(self.made), shape[axis]
        if self._equal:
            assumed = (own,) * len(assumed)
        lengths = self._known[number] if number < len(self._known) else assumed
        self.made.append((own, lengths, shape if joins else (), axis))
        return lengths


Gathered: TypeAlias = tuple[int, tuple[int, ...], tuple[int, ...], int]


def corrected(made: Sequence[Sequence[Gathered]]) -> list[tuple[int, ...]] | None:
    """Return the lengths to assume of what replicas gather, up to the first that were wrong; None if all fit.

    Args:
        made: What ``Gathers.made`` is on each replica.

    Raises:
        ValueError: Two replicas gather values that cannot be joined.
    """
    lengths: list[tuple[int, ...]] = []
    for gathers in zip(*made, strict=False):
        if all(shape for _, _, shape, _ in gathers):
            require_joinable([tuple(shape) for _, _, shape, _ in gathers], gathers[0][3])
        lengths.append(tuple(own for own, *_ in gathers))
        if any(tuple(assumed) != lengths[-1] for _, assumed, *_ in gathers):
            return lengths
    return None


def require_joinable(shapes: Sequence[tuple[int, ...]], axis: int) -> None:
    """Check that the values of replicas can be joined along an axis.

    Args:
        shapes: The shape of each replica's value.
        axis: The axis, from 0.

    Raises:
        ValueError: Two shapes differ in their rank, or elsewhere than along the axis.
    """
    rest = [(*shape[:axis], *shape[axis + 1 :]) for shape in shapes]
    for number, other in enumerate(rest):
        if other != rest[0]:
            raise ValueError(
                f"The values that replicas join along axis {axis} differ elsewhere, too: replica 0 has one "
                f"of shape {list(shapes[0])}, and replica {number} one of {list(shapes[number])}. Join them "
                "along the axis in which they differ, or give them one size in all others."
            )


@dataclass(frozen=True, kw_only=True)
class Replicas:
    """The replicas of a step, as one of them sees them.

    A batch with fewer rows than replicas is replicated: every replica computes all of it. Then only the first
    one is active: it alone counts in reductions. If replicas have different numbers of rows, each counts in a
    mean by its rows, so that the mean of the replicas' means is the mean over all rows.

    Attributes:
        index: The number of this replica, from 0: int32 or uint32.
        all_reduce: Adds a flat array over all replicas.
        count: The number of replicas, over all processes.
        active: The number of replicas that count in reductions: all, or one.
        bytes_per_pack: Values are added in packs that are closed once they exceed this; 0 makes one pack.
        shares: The rows of the replicas if they differ; None if all have equally many.
        program_of: The number of a replica with as many rows as this one, whose program it runs: its own or
            another's.
        gathers: The lengths of what replicas gather whose rows differ in number; None if nobody checks them.
        recorded: Whether the code is only recorded, and nothing is added.
    """

    index: jax.Array
    all_reduce: Callable[[jax.Array], jax.Array]
    count: int
    active: int
    bytes_per_pack: int = 0
    shares: Shares | None = None
    program_of: int = 0
    gathers: Gathers | None = None
    recorded: bool = False

    @property
    def weight(self) -> float:
        """The weight of this replica's value in a mean over the active replicas."""
        return 1 / self.active if self.shares is None else self.shares.own / self.shares.total

    @property
    def kind(self) -> tuple[Any, ...]:
        """All that reductions depend on, but for the values of arrays and the function that adds them."""
        # Parts of code that were compiled before stay valid until it is known that values differ.
        matter = self.gathers is not None and (self.shares is not None or self.gathers.knows)
        gathers = self.gathers if matter else None
        return (
            self.count,
            self.active,
            self.recorded,
            self.bytes_per_pack,
            self.shares,
            self.program_of,
            gathers,
        )

    def sum(self, arrays: Sequence[jax.Array]) -> list[jax.Array]:
        """Add arrays over the active replicas, with one collective per pack and dtype.

        Args:
            arrays: Per replica, of any shapes and dtypes.

        Returns:
            The sums in the same order, equal on all replicas.
        """
        arrays = arrays[::-1]  # gradients are ready from the last to the first
        sums: dict[int, jax.Array] = {}
        for pack in packs([array.nbytes for array in arrays], self.bytes_per_pack):
            by_dtype: dict[Any, list[int]] = {}
            for i in pack:
                by_dtype.setdefault(arrays[i].dtype, []).append(i)
            for indices in by_dtype.values():
                sums.update(zip(indices, self._add_flattened([arrays[i] for i in indices]), strict=True))
        return [sums[i] for i in reversed(range(len(arrays)))]

    def _add_flattened(self, arrays: list[jax.Array]) -> list[jax.Array]:
        """Add arrays of one dtype in one collective."""
        flat, unflatten = ravel_pytree(arrays)
        if self.active < self.count:
            flat = jnp.where(self.index < self.active, flat, jnp.zeros_like(flat))
        sums: list[jax.Array] = unflatten(self.all_reduce(flat))
        return sums

    def mean(self, arrays: Sequence[jax.Array]) -> list[jax.Array]:
        """Average arrays over the active replicas, weighted by their rows, as `sum` adds them."""
        if self.shares is None:
            return [total / self.active for total in self.sum(arrays)]
        # In float32 at least: weights that are rounded to fewer digits do not add up to one.
        dtypes = [jnp.result_type(array, float) for array in arrays]
        wide = [
            array.astype(jnp.promote_types(dtype, jnp.float32)) * self.weight
            for array, dtype in zip(arrays, dtypes, strict=True)
        ]
        return [total.astype(dtype) for total, dtype in zip(self.sum(wide), dtypes, strict=True)]

    def broadcast_first(self, arrays: Sequence[jax.Array]) -> list[jax.Array]:
        """Return the first replica's values, on all replicas."""
        chosen = [jnp.where(self.index == 0, array, jnp.zeros_like(array)) for array in arrays]
        wide = [each.astype(jnp.int32) if each.dtype == jnp.bool_ else each for each in chosen]
        return [total.astype(each.dtype) for total, each in zip(self.sum(wide), chosen, strict=True)]

    def reduce(self, aggregation: str, array: jax.Array) -> jax.Array:
        """Reduce replica values by `aggregation`: "sum", "mean" or "only_first_replica"."""
        match aggregation:
            case "sum":
                return self.sum([array])[0]
            case "mean":
                return self.mean([array])[0]
        return self.broadcast_first([array])[0]

    def partial(self, total: jax.Array) -> jax.Array:
        """Return this replica's part of a value that is the same on all; the parts add up to the value."""
        if jnp.issubdtype(total.dtype, jnp.inexact):
            return total / self.count
        rest = jnp.where(self.index == 0, total % self.count, jnp.zeros_like(total))
        return total // self.count + rest

    def all_gather(
        self, array: jax.Array, axis: int = 0, lengths: Sequence[int] | None = None
    ) -> list[jax.Array]:
        """Return the values of all active replicas (an all-gather).

        Args:
            array: Per replica.
            axis: The axis along which the replicas' values may have different lengths.
            lengths: The lengths of all values, if they are known.
        """
        if self.active < self.count:
            return self.sum([array])
        wide = array.astype(jnp.int32) if array.dtype == jnp.bool_ else array
        lengths = self._lengths(array, axis, joins=True) if lengths is None else lengths
        if len(set(lengths)) > 1:
            starts = [*itertools.accumulate(lengths[:-1])]
            placed = self.placed(wide, lengths, axis)
            return jnp.split(self.sum([placed])[0].astype(array.dtype), starts, axis)
        placed = jnp.zeros((self.count, *array.shape), wide.dtype).at[self.index].set(wide)
        return list(self.sum([placed])[0].astype(array.dtype))

    def placed(self, array: jax.Array, lengths: Sequence[int], axis: int = 0) -> jax.Array:
        """Return zeros with this replica's array at its place: the sum has the arrays of all active replicas.

        Args:
            array: Per replica.
            lengths: How long the arrays of the active replicas are along the axis.
            axis: The axis along which they follow each other.
        """
        if self.active < self.count:
            return array
        *starts, total = itertools.accumulate(lengths, initial=0)
        shape = (*array.shape[:axis], total, *array.shape[axis + 1 :])
        start = jnp.asarray(starts)[self.index]
        return jax.lax.dynamic_update_slice_in_dim(jnp.zeros(shape, array.dtype), array, start, axis)

    def row_counts(self, ids: jax.Array) -> tuple[int, ...]:
        """Return how many ids each active replica has, if all have as many for a row as this one."""
        own = ids.size
        if self.active < self.count:
            return (own,)
        sizes = (1,) * self.count if self.shares is None else self.shares.sizes
        each = own if self.shares is None else own // self.shares.own
        assumed = tuple(size * each for size in sizes)
        if self.gathers is None or self.recorded:
            return assumed
        return self.gathers.lengths(ids.shape, 0, assumed, joins=True)

    def element_counts(self, array: jax.Array, axes: Sequence[int]) -> list[int]:
        """Return how many elements the arrays of all replicas have along axes; one number if equally many."""
        by_axis = [
            self._lengths(array, axis, joins=False) or (array.shape[axis],) * self.count for axis in axes
        ]
        return [math.prod(lengths) for lengths in zip(*by_axis, strict=True)] or [1]

    def _lengths(self, array: jax.Array, axis: int, *, joins: bool) -> tuple[int, ...]:
        """Return how long the arrays of all replicas are along an axis; nothing if equally."""
        if not array.ndim or (self.shares is None and (self.gathers is None or self.recorded)):
            return ()
        own = array.shape[axis]
        has_rows = self.shares is not None and own == self.shares.own
        assumed = self.shares.sizes if has_rows and self.shares is not None else (own,) * self.count
        return (
            assumed if self.gathers is None else self.gathers.lengths(array.shape, axis, assumed, joins=joins)
        )

    def fold_into_seed(self, seed: jax.Array) -> jax.Array:
        """Make the state of a seed generator, uint32[2], different on each replica."""
        return seed.at[0].add(self._seed_offset(seed))

    def common_seed(self, seed: jax.Array) -> jax.Array:
        """Undo `fold_into_seed`: the seed is equal on all replicas again."""
        return seed.at[0].add(-self._seed_offset(seed))

    def _seed_offset(self, seed: jax.Array) -> jax.Array:
        offset: jax.Array = (self.index * jnp.uint32(_SEED_STRIDE)).astype(seed.dtype)
        return offset


def packs(sizes: Sequence[int], bytes_per_pack: int) -> list[list[int]]:
    """Group values into packs that are reduced together.

    Args:
        sizes: The bytes of each value.
        bytes_per_pack: A pack is closed once it holds more than this; 0 makes a single one.

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
