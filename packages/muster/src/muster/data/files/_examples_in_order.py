"""The features of a batch of Examples that have the same ones in the same order, as most batches do.

Then the first example says which names there are, and where each feature begins in the others follows from
the lengths of those before it: the bytes of a feature are compared with what they must be, in all examples
at once, eight at a time.
"""

import itertools
from collections.abc import Sequence

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

_SHORT = 0x80  # lengths below it take a byte
_HEAD = 6  # bytes before the values of a feature: tags and lengths of the feature, its list, and its values
_STEP = 1 << 8 | 1 << 24 | 1 << 40  # each of these lengths grows with what a feature has left
_BYTES = np.uint64(0xFFFF_FFFF_FFFF)
_LENGTH, _LONG = np.uint64(0xFF00), np.uint64(0x8000)
_ALL = np.uint64(0xFFFF_FFFF_FFFF_FFFF)


class ExamplesInOrder:
    """Examples with the same features in the same order, none of them longer than a length of one byte says.

    Args:
        found: Their bytes.

    Raises:
        OtherwiseError: They are written otherwise.
    """

    def __init__(self, found: ExampleBytes) -> None:
        self._found = found
        begins, stops = self._entries()
        lengths = found.bytes[begins[:, 0] + 1].astype(np.int64)
        require((lengths < _SHORT) & (begins[:, 0] + 2 + lengths < stops[:, 0]))
        self._require_names(begins, lengths)
        lists = begins + 2 + lengths[:, None]
        left = stops - lists
        require((left >= _HEAD) & (left < _SHORT))
        kinds = found.bytes[lists[:, 0] + 2]
        heads = found.words[lists] & _BYTES
        require(heads == (_of_kinds(kinds)[:, None] + left * _STEP).view(np.uint64))
        self._begins, self._stops, self._kinds = lists + _HEAD, stops, kinds
        first = found.bytes[: int(found.ends[0])].tobytes()
        places = zip((begins[:, 0] + 2).tolist(), lengths.tolist(), strict=True)
        self._places = {first[begin : begin + length]: place for place, (begin, length) in enumerate(places)}
        require(np.array(len(self._places) == len(begins)))  # none twice

    def values(self, names: Sequence[str], kind: str, size: int) -> dict[str, Array]:
        """Return the values of those features that have them packed, and only them.

        Args:
            names: The features.
            kind: ``bytes``, ``float`` or ``int64``.
            size: How many values one has; of bytes and int64 one.

        Returns:
            Name -> array of shape (examples, size).
        """
        there = {name: self._places.get(name.encode(), -1) for name in names}
        there = {name: at for name, at in there.items() if at >= 0 and self._kinds[at] == KINDS[kind]}
        places = list(there.values())
        if not places:
            return {}
        begins, stops = self._begins[places], self._stops[places]
        try:
            values = self._found.values(begins.ravel(), stops.ravel(), kind, size)
        except OtherwiseError:
            return {}
        return dict(zip(there, values.reshape(len(places), self._found.count, size), strict=True))

    def _entries(self) -> tuple[Array, Array]:
        """Return where the entries of features begin and stop, of shape (features, examples)."""
        found, ends = self._found, self._found.ends
        first = found.inside(found.starts, ends, FIRST)
        at, end, count = int(first[0]), int(ends[0]), 0
        while at < end:
            at, count = at + 2 + int(found.bytes[at + 1]), count + 1
        require(np.array(count > 0))
        at_lengths = np.empty((count + 1, found.count), np.int64)
        at_lengths[0] = first + 1
        lengths = np.empty(found.count, np.uint8)
        # Places without the two bytes of each entry before them: to look from there takes no addition.
        for number, (row, following) in enumerate(itertools.pairwise(at_lengths)):
            found.bytes[2 * number :].take(row, out=lengths, mode="clip")
            np.add(row, lengths, out=following)
        at_lengths += 2 * np.arange(count + 1)[:, None]
        begins = at_lengths[:-1] + 1
        stops = np.concatenate([begins[1:] - 2, ends[None]])
        require(at_lengths[-1] - 1 == ends)
        return begins, stops

    def _require_names(self, begins: Array, lengths: Array) -> None:
        """Refuse examples whose names are not those of the first, or are not where entries begin."""
        first = self._found.bytes[begins[:, 0] - 2], self._found.bytes[begins[:, 0]]
        require((first[0] == FIRST) & (first[1] == FIRST))
        rest = lengths + 4  # with the tag and the length of the entry and of its name
        for offset in range(0, int(rest.max()), 8):
            (longer,) = np.nonzero(rest > offset)
            words = self._found.words[begins[longer] + (offset - 2)]
            masks = (_ALL >> ((8 - np.minimum(rest[longer] - offset, 8)) * 8).astype(np.uint64))[:, None]
            if not offset:  # the length of the entry may be another one, of a byte
                require(words & _LONG == 0)
                masks &= ~_LENGTH
            require((words ^ words[:, :1]) & masks == 0)


def _of_kinds(kinds: Array) -> Array:
    """Return what the first bytes of features are, but for what their lengths add."""
    tags = SECOND | (kinds.astype(np.int64) << 16) | (FIRST << 32)
    head: Array = tags - (2 << 8) - (4 << 24) - (6 << 40)
    return head
