"""`shuffle`: a random order that follows from (seed, iteration, epoch).

It works like TensorFlow's buffer (tensorflow/core/kernels/data/shuffle_dataset_op.cc): an output is drawn
uniformly from a buffer of `buffer_size` elements, and the next input takes its place. A buffer as large as
the input gives a uniform permutation. The draws differ from TensorFlow's.
"""

from functools import cached_property
from typing import Any

import numpy as np

from muster.data.pipeline._handles import Handles, Stream, join
from muster.data.pipeline._node import Epoch, Node, Ordering, RandomOrder, Run

_BLOCK = 4096


class Shuffle(Ordering):
    """The source in random order."""

    def __init__(self, source: Node, buffer_size: int, seed: int | None, reshuffle: bool):
        seeded = "" if seed is None else f", seed={seed}"
        fixed = "" if reshuffle else ", reshuffle_each_iteration=False"
        super().__init__(source, label=f"shuffle({buffer_size}{seeded}{fixed})")
        self._buffer_size = buffer_size
        self._order = RandomOrder(seed, reshuffle)

    @cached_property
    def random_orders(self) -> list[RandomOrder]:
        return [*self.source.random_orders, self._order]

    def open(self, run: Run, epoch: Epoch) -> Stream:
        seed, iteration = run.orders[self._order]
        key = (iteration, *epoch) if self._order.reshuffle else ()
        # SeedSequence takes no negative numbers.
        draws, rest = np.random.SeedSequence(seed % 2**64, spawn_key=key).spawn(2)
        return _ShuffleStream(self.source.open(run, epoch), self._buffer_size, draws, rest)


class _ShuffleStream(Stream):
    def __init__(
        self, source: Stream, size: int, draws: np.random.SeedSequence, rest: np.random.SeedSequence
    ):
        super().__init__(source)
        self._source = source
        self._size = size
        self._draws = np.random.Generator(np.random.PCG64(draws))
        self._rest = np.random.Generator(np.random.PCG64(rest))
        self._slots: np.ndarray[Any, Any] = np.empty(0, dtype=np.int64)
        """Slots that are drawn and not yet used. They are drawn in blocks, so that the order does not depend
        on the sizes of pulls."""
        self._buffer: Handles | None = None
        self._ahead: Handles = []
        """Handles from the source that are not yet in the buffer."""
        self._ready: Handles = []
        """Handles in their final order, of which the first `_next` have been pulled."""
        self._next = 0
        self._drained = False

    def pull(self, count: int) -> Handles:
        ready = self._ready[self._next : self._next + count]
        self._next += len(ready)
        if len(ready) == count:
            return ready
        parts = [ready]
        missing = count - len(ready)
        while missing and not self._drained:
            self._refill(missing)
            parts.append(self._ready[:missing])
            self._next = len(parts[-1])
            missing -= self._next
        return join(parts)

    def _refill(self, count: int) -> None:
        """Set `_ready` to the next handles: at least `count`, fewer only at the end."""
        if self._buffer is None:
            # One more than fits shows whether the input ends in the buffer.
            read = self._source.pull(self._size + 1)
            self._buffer, self._ahead = read[: self._size], read[self._size :]
            if not len(self._ahead):
                self._drain()
                return
            if isinstance(self._buffer, np.ndarray):
                self._buffer = self._buffer.copy()
        if isinstance(self._buffer, np.ndarray):
            # Reading row numbers ahead costs nothing.
            count = max(count, _BLOCK)
        incoming = join([self._ahead, self._source.pull(count - len(self._ahead))])
        self._ahead = []
        if not len(incoming):
            self._drain()
            return
        while len(self._slots) < len(incoming):
            self._slots = np.concatenate([self._slots, self._draws.integers(self._size, size=_BLOCK)])
        slots, self._slots = self._slots[: len(incoming)], self._slots[len(incoming) :]
        if isinstance(self._buffer, np.ndarray) and isinstance(incoming, np.ndarray):
            self._ready = _exchange(self._buffer, slots, incoming)
        else:
            ready = []
            for slot, handle in zip(slots.tolist(), incoming, strict=True):
                ready.append(self._buffer[slot])
                self._buffer[slot] = handle
            self._ready = ready

    def _drain(self) -> None:
        """Move the rest of the buffer to `_ready`, in random order."""
        buffer: Handles = [] if self._buffer is None else self._buffer
        order = self._rest.permutation(len(buffer))
        self._ready = buffer[order] if isinstance(buffer, np.ndarray) else [buffer[i] for i in order.tolist()]
        self._buffer = []
        self._drained = True


def _exchange(
    buffer: np.ndarray[Any, Any], slots: np.ndarray[Any, Any], incoming: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """Replace ``buffer[slots[i]]`` by ``incoming[i]``, for i in order, and return the replaced rows.

    A row replaced at a repeated slot is the one that the previous i with this slot put there.

    Args:
        buffer: Shape (size,) or (size, width); changed in place.
        slots: Shape (n,).
        incoming: Shape (n,) or (n, width).

    Returns:
        The replaced rows, in the shape of `incoming`.
    """
    order = np.argsort(slots, kind="stable")
    visited = slots[order]
    again = np.zeros(len(slots), dtype=bool)
    again[1:] = visited[1:] == visited[:-1]
    out = np.empty_like(incoming)
    out[order[~again]] = buffer[visited[~again]]
    repeats = np.flatnonzero(again)
    out[order[repeats]] = incoming[order[repeats - 1]]
    last = np.ones(len(slots), dtype=bool)
    last[:-1] = ~again[1:]
    buffer[visited[last]] = incoming[order[last]]
    return out
