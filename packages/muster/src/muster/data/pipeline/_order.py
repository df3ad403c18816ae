"""Operations that select, repeat and count elements: take, skip, shard, repeat, assert_cardinality."""

import sys

from muster._errors import DatasetError
from muster.data.pipeline._handles import Chain, Handles, Stream
from muster.data.pipeline._node import INFINITE, UNKNOWN, Epoch, Node, Ordering, Run


class Take(Ordering):
    """The first `count` elements."""

    def __init__(self, source: Node, count: int):
        super().__init__(source, label=f"take({count})")
        self._count = count

    @property
    def cardinality(self) -> int:
        known = self.source.cardinality
        if known == INFINITE or self._count == 0:
            return self._count
        return UNKNOWN if known == UNKNOWN else min(known, self._count)

    def open(self, run: Run, epoch: Epoch) -> Stream:
        return _TakeStream(self.source.open(run, epoch), self._count)


class _TakeStream(Stream):
    def __init__(self, source: Stream, count: int):
        super().__init__(source)
        self._source = source
        self._left = count

    def pull(self, count: int) -> Handles:
        count = min(count, self._left)
        self._left -= count
        return self._source.pull(count) if count else []

    def skip(self, count: int) -> int:
        count = min(count, self._left)
        self._left -= count
        return self._source.skip(count)


class Skip(Ordering):
    """All but the first `count` elements."""

    def __init__(self, source: Node, count: int):
        super().__init__(source, label=f"skip({count})")
        self._count = count

    @property
    def cardinality(self) -> int:
        known = self.source.cardinality
        return known if known < 0 else max(0, known - self._count)

    def open(self, run: Run, epoch: Epoch) -> Stream:
        return _StridedStream(self.source.open(run, epoch), self._count, 1)


class Shard(Ordering):
    """The elements i where ``i % num_shards == index``."""

    def __init__(self, source: Node, num_shards: int, index: int):
        super().__init__(source, label=f"shard({num_shards}, {index})")
        self.num_shards = num_shards
        self._index = index

    @property
    def cardinality(self) -> int:
        known = self.source.cardinality
        return known if known < 0 else len(self.numbers)

    @property
    def numbers(self) -> range:
        """The positions of its elements in the source; endless if its cardinality is unknown."""
        known = self.source.cardinality
        return range(self._index, known if known >= 0 else sys.maxsize, self.num_shards)

    def open(self, run: Run, epoch: Epoch) -> Stream:
        return _StridedStream(self.source.open(run, epoch), self._index, self.num_shards)


class _StridedStream(Stream):
    """Every `stride`-th element from `first` on; skips the others as late as possible."""

    def __init__(self, source: Stream, first: int, stride: int):
        super().__init__(source)
        self._source = source
        self._gap = first
        self._stride = stride

    def pull(self, count: int) -> Handles:
        if not self._advance(self._gap) or not count:
            return []
        self._gap = self._stride - 1
        return self._source.pull((count - 1) * self._stride + 1)[:: self._stride]

    def skip(self, count: int) -> int:
        if not count or not self._advance(self._gap):
            return 0
        passed = self._source.skip((count - 1) * self._stride + 1)
        self._gap = self._stride - 1
        return -(-passed // self._stride)

    def _advance(self, count: int) -> bool:
        self._gap = 0
        return count == 0 or self._source.skip(count) == count


class Repeat(Ordering):
    """The source `count` times, or without end if that is None."""

    def __init__(self, source: Node, count: int | None):
        super().__init__(source, label=f"repeat({'' if count is None else count})")
        self._count = count

    @property
    def cardinality(self) -> int:
        known = self.source.cardinality
        if known == 0 or self._count == 0:
            return 0
        if self._count is None:
            return INFINITE
        return known if known < 0 else known * self._count

    def open(self, run: Run, epoch: Epoch) -> Stream:
        return _RepeatStream(self.source, self._count, run, epoch)


class _RepeatStream(Chain):
    def __init__(self, node: Node, count: int | None, run: Run, epoch: Epoch):
        super().__init__()
        self._node = node
        self._count = count
        self._run = run
        self._outer = epoch
        self._pass = 0

    def open_next(self) -> Stream | None:
        # An endless repeat of passes without elements would never return.
        if self._pass == self._count or self.empty:
            return None
        stream = self._node.open(self._run, (*self._outer, self._pass))
        self._pass += 1
        return stream

    def skip_unopened(self, count: int) -> int:
        # Complete passes need not be opened: the order of a pass depends on no other.
        known = self._node.cardinality
        if known <= 0:
            return 0
        passes = count // known
        if self._count is not None:
            passes = min(passes, self._count - self._pass)
        self._pass += passes
        return passes * known


class Counted(Ordering):
    """Elements of which the user says how many there are."""

    def __init__(self, source: Node, count: int):
        super().__init__(source, label=f"assert_cardinality({count})")
        self._count = count

    @property
    def cardinality(self) -> int:
        return self._count

    def open(self, run: Run, epoch: Epoch) -> Stream:
        return _CountedStream(self.source.open(run, epoch), self._count)


class _CountedStream(Stream):
    def __init__(self, source: Stream, expected: int):
        super().__init__(source)
        self._source = source
        self._expected = expected
        self._passed = 0

    def pull(self, count: int) -> Handles:
        handles = self._source.pull(count)
        self._count(len(handles), count)
        return handles

    def skip(self, count: int) -> int:
        return self._count(self._source.skip(count), count)

    def _count(self, found: int, wanted: int) -> int:
        self._passed += found
        expected = self._expected
        ended = found < wanted
        if expected >= 0 and (self._passed > expected or (ended and self._passed < expected)):
            more = "more" if self._passed > expected else f"only {self._passed}"
            raise DatasetError(f"assert_cardinality says {expected} elements, and the dataset has {more}.")
        if expected == INFINITE and ended:
            raise DatasetError(
                f"assert_cardinality says that the dataset has no end, and it has {self._passed} elements."
            )
        return found
