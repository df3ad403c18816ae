"""The features of a batch of serialized Examples, read from their bytes all at once.

Examples of one program are alike: each feature is there, with as many values in each. NumPy finds them in the
bytes of all examples together; whatever is written otherwise is left to Protocol Buffers.

Source: tensorflow/core/util/example_proto_fast_parsing.cc, which likewise reads the bytes itself;
protobuf.dev/programming-guides/encoding.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from muster.data.files._example_bytes import (
    FIRST,
    KINDS,
    SECOND,
    Array,
    ExampleBytes,
    OtherwiseError,
    require,
)
from muster.data.files._examples_in_order import ExamplesInOrder


class Wanted(NamedTuple):
    """A feature with a fixed number of values.

    Attributes:
        name: Its name.
        kind: ``bytes``, ``float`` or ``int64``.
        size: How many values it has.
    """

    name: str
    kind: str
    size: int


def columns(rows: Sequence[bytes], wanted: Sequence[Wanted]) -> dict[str, Array]:
    """Return the values of those features that all examples have alike.

    Args:
        rows: Serialized Examples.
        wanted: The features.

    Returns:
        Name -> array of shape (examples, size), of float32, int64 or Python's bytes; without the features
        that an example lacks, that have another kind or size in one, or that are written in a rarer way.
    """
    groups: dict[tuple[str, int], list[str]] = {}
    for each in wanted:
        if each.size == 1 or (each.kind == "float" and each.size):
            groups.setdefault((each.kind, each.size), []).append(each.name)
    if not rows or not groups or not all(issubclass(kind, bytes) for kind in set(map(type, rows))):
        return {}
    joined = ExampleBytes(rows)
    found: dict[str, Array] = {}
    try:
        in_order = ExamplesInOrder(joined)
        for (kind, size), names in groups.items():
            found |= in_order.values(names, kind, size)
    except OtherwiseError:
        found = {}
    groups = {key: [name for name in names if name not in found] for key, names in groups.items()}
    left = [name for names in groups.values() for name in names]
    if not left:
        return found
    try:
        examples = _Examples(joined, left)
    except OtherwiseError:
        return found
    for (kind, size), names in groups.items():
        there = [name for name in names if examples.has(name, kind)]
        if not there:
            continue
        try:
            found |= zip(there, examples.values(there, kind, size), strict=True)
        except OtherwiseError:
            for name in there:  # one of them alone may be otherwise
                try:
                    found[name] = examples.values([name], kind, size)[0]
                except OtherwiseError:
                    continue
    return found


class _Examples:
    """The places of examples' features in their bytes.

    Raises:
        OtherwiseError: The examples have other fields, or one has a feature twice.
    """

    def __init__(self, joined: ExampleBytes, names: list[str]) -> None:
        self._joined, self._count = joined, joined.count
        of, begins, stops = self._entries(joined.inside(joined.starts, joined.ends, FIRST), joined.ends)
        # An entry has a name, of fewer than 128 bytes, and a feature, which has one list.
        lengths = joined.bytes[begins + 1].astype(np.int64)
        require((joined.bytes[begins] == FIRST) & (lengths < 128) & (begins + 2 + lengths < stops))
        lists = joined.inside(begins + 2 + lengths, stops, SECOND)
        require(lists < stops)
        self._kinds = joined.bytes[lists]
        self._lists, self._stops = joined.inside(lists, stops), stops
        self._places = self._found(names, of, begins + 2, lengths)

    def has(self, name: str, kind: str) -> bool:
        """Return whether all examples have a feature, and of this kind."""
        places = self._places.get(name)
        return places is not None and bool((self._kinds[places] == KINDS[kind]).all())

    def values(self, names: Sequence[str], kind: str, size: int) -> Array:
        """Return the values of features, of shape (names, examples, size).

        Raises:
            OtherwiseError: A feature has another number of values, or they are not packed.
        """
        places = np.concatenate([self._places[name] for name in names])
        shape, stops = (len(names), self._count, size), self._stops[places]
        begins = self._joined.inside(self._lists[places], stops, FIRST)
        return self._joined.values(begins, stops, kind, size).reshape(shape)

    def _entries(self, begins: Array, ends: Array) -> tuple[Array, Array, Array]:
        """Return the example, begin and end of each entry: the first ones of all, the second ones, …"""
        found, of = [], np.arange(self._count)
        while len(of):
            lengths, inside = self._joined.lengths(begins, FIRST)
            stops = inside + lengths
            require(stops <= ends)
            found.append((of, inside, stops))
            if (more := stops < ends).all():
                begins = stops
            else:
                of, begins, ends = of[more], stops[more], ends[more]
        of, begins, stops = map(np.concatenate, zip(*found, strict=True))
        return of, begins, stops

    def _found(self, names: Sequence[str], of: Array, begins: Array, lengths: Array) -> dict[str, Array]:
        """Return the entry of each example with a name; none of names that an example lacks."""
        encoded = [name.encode() for name in names]
        width = -(-max(map(len, encoded)) // 8) * 8
        require(np.array(width <= 128))
        sought = np.zeros((len(encoded), width), np.uint8)
        for row, key in zip(sought, encoded, strict=True):
            row[: len(key)] = list(key)
        keys = self._joined.words[begins[:, None] + np.arange(0, width, 8)].view(np.uint8)
        keys[np.arange(width) >= lengths[:, None]] = 0
        # Eight bytes are a number, and names are compared where their sums, by fixed weights, are equal.
        sums, others = _sums(keys.view(np.uint64)), _sums(sought.view(np.uint64))
        order = np.argsort(others)
        numbers = order[np.searchsorted(others, sums, sorter=order).clip(max=len(order) - 1)]
        same = (keys.view(np.uint64) == sought.view(np.uint64)[numbers]).all(axis=1)
        same &= lengths == np.array(list(map(len, encoded)))[numbers]
        (entries,) = np.nonzero(same)
        places = np.full((len(encoded), self._count), -1)
        places[numbers[entries], of[entries]] = entries
        require(np.array(np.count_nonzero(places >= 0) == len(entries)))  # none twice
        there: Any = (places >= 0).all(axis=1)
        return {name: row for name, row, all_there in zip(names, places, there, strict=True) if all_there}


def _sums(words: Array) -> Array:
    weights = np.random.default_rng(0).integers(1 << 63, size=words.shape[1], dtype=np.uint64) | np.uint64(1)
    total: Array = (words * weights).sum(axis=1, dtype=np.uint64)
    return total
