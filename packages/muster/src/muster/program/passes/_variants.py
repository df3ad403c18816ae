"""Combine the variants of a step that different replicas run, at their common reductions.

A collective must not depend on which variant a replica runs. So the variants are cut where they reduce
values: each replica runs its variant of a part, all of them add what the parts return, and so on.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core as jex

from muster._errors import TraceError
from muster.program.passes._jaxprs import Segment

Shapes = tuple[tuple[int, ...], ...]
"""The shape of a value in each variant."""


def combined(
    split: Sequence[tuple[list[Segment], jax.tree_util.PyTreeDef]],
    chosen: jax.Array,
    all_reduce: Callable[[jax.Array], jax.Array],
    *args: Any,
) -> tuple[Any, list[Shapes]]:
    """Run one of several variants of a step, all of which reduce the same values.

    Args:
        split: What `split_at_all_reduces` makes of the steps. Their results have one structure.
        chosen: The number of the variant that this replica runs: an integer, shape ().
        all_reduce: Adds a flat array over all replicas.
        args: The arguments of the variants, in nested structures.

    Returns:
        The results, padded with zeros to the largest shape that a variant gives them; and the shapes of each
        flat result.

    Raises:
        TraceError: The variants do not reduce values of the same shapes.
    """
    levels = [parts for parts, _ in split]
    if len({structure for _, structure in split}) > 1 or len(set(map(len, levels))) > 1:
        raise TraceError(UNLIKE_REDUCTIONS.format("other values"))
    carried = _Carried(jax.tree.leaves(args), len(split))
    for number, parts in enumerate(zip(*levels, strict=True)):
        later = [{i for part in of_variant[number + 1 :] for i in part.takes} for of_variant in levels]
        results, shapes = carried.run(chosen, parts, later)
        if parts[0].sums:
            if any(len(set(each)) > 1 for each in shapes):
                raise TraceError(UNLIKE_REDUCTIONS.format("values of other shapes"))
            carried.add_sums(parts, [all_reduce(value) for value in results])
    return jax.tree.unflatten(split[0][1], results), shapes


UNLIKE_REDUCTIONS = (
    "The replicas have different numbers of rows of this batch, and those with more of them reduce {} than "
    "others do. Reduce sums or means over the rows, whose shapes do not depend on their number, or batch the "
    "dataset with drop_remainder=True."
)
"""Template of the error that replicas with different numbers of rows do not reduce the same values."""


class _Carried:
    """The values of the variants from part to part.

    Args:
        arguments: The flat arguments of the step.
        count: The number of variants.
    """

    def __init__(self, arguments: Sequence[jax.Array], count: int) -> None:
        # What all variants share: arguments and sums, by the numbers of each variant.
        self._common = [dict(enumerate(arguments)) for _ in range(count)]
        # What each variant has computed by itself lies in slots that all use, flat: number -> slot, shape.
        self._slots: list[jax.Array] = []
        self._places: list[dict[int, tuple[int, tuple[int, ...]]]] = [{} for _ in range(count)]

    def add_sums(self, parts: Sequence[Segment], sums: Sequence[jax.Array]) -> None:
        """Take the sums of what parts returned over all replicas."""
        for known, part in zip(self._common, parts, strict=True):
            known.update(zip(part.sums, sums, strict=True))

    def run(
        self, chosen: jax.Array, parts: Sequence[Segment], later: Sequence[set[int]]
    ) -> tuple[list[jax.Array], list[Shapes]]:
        """Run the chosen variant of a part, and keep what later parts take.

        Returns:
            The addends, or the results of the last part, padded; and the shapes of each by variant.
        """
        made = [
            jax.eval_shape(lambda slots, v=v, part=part: self._computed(v, part, slots), self._slots)
            for v, part in enumerate(parts)
        ]
        returned = [
            results[: len(part.sums)] if part.sums else results
            for part, results in zip(parts, made, strict=True)
        ]
        shapes = [tuple(each.shape for each in of_variants) for of_variants in zip(*returned, strict=True)]
        if any(len({*map(len, each)}) > 1 for each in shapes):
            raise TraceError(UNLIKE_REDUCTIONS.format("values of other ranks"))
        largest = [tuple(map(max, zip(*each, strict=True))) if each[0] else () for each in shapes]
        if self._agree(parts):
            results = self._computed(0, parts[0], self._slots)
            count = len(parts[0].sums) or len(results)
            for known, part in zip(self._common, parts, strict=True):
                known.update(zip(part.keeps, results[count:], strict=True))
            return results[:count], shapes
        kept = [
            self._kept(v, part, results, later[v])
            for v, (part, results) in enumerate(zip(parts, made, strict=True))
        ]
        kinds, places = _slots_for(kept)

        def branch(v: int, slots: list[jax.Array]) -> tuple[list[jax.Array], list[jax.Array]]:
            part = parts[v]
            results = self._computed(v, part, slots)
            count = len(part.sums) or len(results)
            values = {i: self._value(v, i, slots) for i in kept[v] if i in self._places[v]}
            values |= zip(part.keeps, results[count:], strict=True)
            flat = {place: values[i].reshape(-1) for i, (place, _) in places[v].items()}
            filled = [
                _padded(flat[place], (size,)) if place in flat else jnp.zeros(size, dtype)
                for place, (dtype, size) in enumerate(kinds)
            ]
            return [_padded(*pair) for pair in zip(results[:count], largest, strict=True)], filled

        branches = [lambda slots, v=v: branch(v, slots) for v in range(len(parts))]
        results, self._slots = jax.lax.switch(chosen, branches, self._slots)
        self._places = places
        return results, shapes

    def _value(self, v: int, number: int, slots: Sequence[jax.Array]) -> jax.Array:
        if number in self._common[v]:
            return self._common[v][number]
        place, shape = self._places[v][number]
        return slots[place][: int(np.prod(shape))].reshape(shape)

    def _computed(self, v: int, part: Segment, slots: Sequence[jax.Array]) -> list[jax.Array]:
        return part.function(*(self._value(v, i, slots) for i in part.takes))

    def _kept(
        self, v: int, part: Segment, made: Sequence[jax.ShapeDtypeStruct], later: set[int]
    ) -> dict[int, jax.ShapeDtypeStruct]:
        """Return the shapes of what a variant has computed by itself and later parts take, by number."""
        new = dict(zip(part.keeps, made[len(part.sums) :], strict=True)) if part.keeps else {}
        old = {
            i: jax.ShapeDtypeStruct(shape, self._slots[place].dtype)
            for i, (place, shape) in self._places[v].items()
        }
        return {i: shape for i, shape in (old | new).items() if i in later}

    def _agree(self, parts: Sequence[Segment]) -> bool:
        """Return whether all variants of a part compute the same from values that they share."""
        texts = []
        for known, part in zip(self._common, parts, strict=True):
            if any(i not in known for i in part.takes):
                return False
            takes = [known[i] for i in part.takes]
            closed: jex.ClosedJaxpr = jax.make_jaxpr(part.function)(*takes)
            if closed.consts:
                return False
            texts.append((list(map(id, takes)), str(closed)))
        return all(text == texts[0] for text in texts)


_Kinds = list[tuple[Any, int]]


def _slots_for(
    kept: Sequence[dict[int, jax.ShapeDtypeStruct]],
) -> tuple[_Kinds, list[dict[int, tuple[int, tuple[int, ...]]]]]:
    """Find slots for the values of all variants: as few and as small ones as hold those of any.

    Returns:
        The dtype and the size of each slot; and for each variant number -> slot and shape.
    """
    slots: dict[tuple[str, int], tuple[int, Any, int]] = {}  # by dtype and rank in it: number, dtype, size
    places: list[dict[int, tuple[int, tuple[int, ...]]]] = []
    for values in kept:
        ranks: dict[str, int] = {}
        found = {}
        for i, value in sorted(values.items(), key=lambda item: -item[1].size):
            kind = str(value.dtype)
            key = kind, ranks.setdefault(kind, 0)
            ranks[kind] += 1
            number, dtype, size = slots.get(key, (len(slots), value.dtype, 0))
            slots[key] = number, dtype, max(size, value.size)
            found[i] = number, value.shape
        places.append(found)
    return [(dtype, size) for _, dtype, size in slots.values()], places


def _padded(array: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Pad an array with zeros at the end of each axis; random keys with keys of zeros."""
    if np.shape(array) == shape:  # a literal has no attribute `shape`
        return array
    if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        numbers = jax.random.key_data(array)
        padded = _padded(numbers, shape + numbers.shape[array.ndim :])
        keys: jax.Array = jax.random.wrap_key_data(padded, impl=jax.random.key_impl(array))
        return keys
    return jnp.pad(array, [(0, size - own) for size, own in zip(shape, array.shape, strict=True)])
