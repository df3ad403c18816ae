"""The features of a batch of serialized Examples, read from their bytes all at once.

Examples of one program are alike: each feature is there, with as many values in each. NumPy finds them in the
bytes of all examples together; whatever is written otherwise is left to Protocol Buffers.

Source: tensorflow/core/util/example_proto_fast_parsing.cc, which likewise reads the bytes itself;
protobuf.dev/programming-guides/encoding.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_FIRST, _SECOND = 0x0A, 0x12  # tags of the fields 1 and 2 that have a length
_KINDS = {"bytes": 0x0A, "float": 0x12, "int64": 0x1A}
_LENGTH_BYTES, _NUMBER_BYTES = 4, 10
_SHORT, _FEW_SIZES = 64, 16
_ROOM = 256  # after the last example: what is read ahead of a check is no longer


@dataclass(frozen=True)
class Wanted:
    """A feature with a fixed number of values.

    Attributes:
        name: Its name.
        kind: ``bytes``, ``float`` or ``int64``.
        size: How many values it has.
    """

    name: str
    kind: str
    size: int


class _OtherwiseError(Exception):
    """The examples are not written as most are."""


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
    if not rows or not groups or not all(isinstance(row, bytes) for row in rows):
        return {}
    try:
        examples = _Examples(rows, [name for names in groups.values() for name in names])
    except _OtherwiseError:
        return {}
    found: dict[str, Array] = {}
    for (kind, size), names in groups.items():
        there = [name for name in names if examples.has(name, kind)]
        if not there:
            continue
        try:
            found |= zip(there, examples.values(there, kind, size), strict=True)
        except _OtherwiseError:
            for name in there:  # one of them alone may be otherwise
                try:
                    found[name] = examples.values([name], kind, size)[0]
                except _OtherwiseError:
                    continue
    return found


class _Examples:
    """The places of examples' features in their bytes.

    Raises:
        _OtherwiseError: The examples have other fields, or one has a feature twice.
    """

    def __init__(self, rows: Sequence[bytes], names: list[str]) -> None:
        self._joined = b"".join(rows)
        self._bytes = np.frombuffer(self._joined + bytes(_ROOM), np.uint8)
        self._count = len(rows)
        ends = np.cumsum(np.fromiter(map(len, rows), np.int64, len(rows)))
        starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
        of, begins, stops = self._entries(self._inside(starts, ends, _FIRST), ends)
        # An entry has a name, of fewer than 128 bytes, and a feature, which has one list.
        lengths = self._bytes[begins + 1].astype(np.int64)
        _require((self._bytes[begins] == _FIRST) & (lengths < 128) & (begins + 2 + lengths < stops))
        lists = self._inside(begins + 2 + lengths, stops, _SECOND)
        _require(lists < stops)
        self._kinds = self._bytes[lists]
        self._lists, self._stops = self._inside(lists, stops), stops
        self._places = self._found(names, of, begins + 2, lengths)

    def has(self, name: str, kind: str) -> bool:
        """Return whether all examples have a feature, and of this kind."""
        places = self._places.get(name)
        return places is not None and bool((self._kinds[places] == _KINDS[kind]).all())

    def values(self, names: Sequence[str], kind: str, size: int) -> Array:
        """Return the values of features, of shape (names, examples, size).

        Raises:
            _OtherwiseError: A feature has another number of values, or they are not packed.
        """
        places = np.concatenate([self._places[name] for name in names])
        shape, stops = (len(names), self._count, size), self._stops[places]
        begins = self._inside(self._lists[places], stops, _FIRST)
        if kind == "float":
            _require(stops - begins == 4 * size)
            return self._bytes[begins[:, None] + np.arange(4 * size)].view("<f4").reshape(shape)
        if kind == "int64":
            values, after = self._numbers(begins, _NUMBER_BYTES)
            _require(after == stops)
            return values.view(np.int64).reshape(shape)
        return self._texts(begins, stops - begins).reshape(shape)

    def _texts(self, begins: Array, sizes: Array) -> Array:
        """Return bytes; those of one size at once, as long as there are few sizes."""
        found = np.empty(len(begins), object)
        different = np.flatnonzero(np.bincount(sizes)) if sizes.max() < _SHORT else sizes
        if len(different) > _FEW_SIZES:
            parts = starmap(slice, zip(begins.tolist(), (begins + sizes).tolist(), strict=True))
            found[:] = list(map(self._joined.__getitem__, parts))
            return found
        for size in different.tolist():
            (at,) = np.nonzero(sizes == size)
            cut = self._bytes[begins[at][:, None] + np.arange(size)]
            found[at] = cut.view(f"V{size}")[:, 0].tolist() if size else b""
        return found

    def _entries(self, begins: Array, ends: Array) -> tuple[Array, Array, Array]:
        """Return the example, begin and end of each entry: the first ones of all, the second ones, …"""
        found, of = [], np.arange(self._count)
        while len(of):
            lengths, inside = self._lengths(begins, _FIRST)
            stops = inside + lengths
            _require(stops <= ends)
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
        _require(np.array(width <= 128))
        sought = np.zeros((len(encoded), width), np.uint8)
        for row, key in zip(sought, encoded, strict=True):
            row[: len(key)] = list(key)
        keys = self._bytes[begins[:, None] + np.arange(width)]
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
        _require(np.array(np.count_nonzero(places >= 0) == len(entries)))  # none twice
        there: Any = (places >= 0).all(axis=1)
        return {name: row for name, row, all_there in zip(names, places, there, strict=True) if all_there}

    def _inside(self, begins: Array, ends: Array, tag: int | None = None) -> Array:
        """Return where the content of fields begins that go to an end; with a tag, all must have it."""
        lengths, inside = self._lengths(begins, tag)
        _require(inside + lengths == ends)
        return inside

    def _lengths(self, begins: Array, tag: int | None) -> tuple[Array, Array]:
        """Return how long fields are, and where their content begins."""
        if tag is not None:
            _require(self._bytes[begins] == tag)
        values, after = self._numbers(begins + 1, _LENGTH_BYTES)
        return values.astype(np.int64), after

    def _numbers(self, begins: Array, most: int) -> tuple[Array, Array]:
        """Return numbers that are written in seven bits a byte, and where the bytes after them begin."""
        parts = self._bytes[begins]
        values, after = (parts & 127).astype(np.uint64), begins + 1
        more = parts > 127
        for place in range(1, most):
            if not more.any():
                return values, after
            parts = self._bytes[after]
            values |= np.where(more, (parts & 127).astype(np.uint64) << np.uint64(7 * place), np.uint64(0))
            after = after + more
            more &= parts > 127
        _require(~more)
        return values, after


def _sums(words: Array) -> Array:
    weights = np.random.default_rng(0).integers(1 << 63, size=words.shape[1], dtype=np.uint64) | np.uint64(1)
    total: Array = (words * weights).sum(axis=1, dtype=np.uint64)
    return total


def _require(holds: Array) -> None:
    if not holds.all():
        raise _OtherwiseError
