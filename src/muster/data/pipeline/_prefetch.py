"""`prefetch`: elements are computed ahead of their reader, on a thread."""

import threading
import weakref
from collections import deque
from collections.abc import Generator
from functools import cached_property
from typing import Any

from muster.data.pipeline._node import Epoch, Node, Ordering, Run, Stream

AUTOTUNE = -1
_AUTOTUNE_ELEMENTS = 4
_JOIN_SECONDS = 2.0


class Prefetch(Ordering):
    """The source as it is, with the wish that an iterator reads ahead.

    One thread runs the whole pipeline, wherever in it this stands. What waits are finished elements:
    500 elements ahead of a batch of 50 are 10 batches.
    """

    def __init__(self, source: Node, buffer_size: int):
        super().__init__(source)
        self._buffer_size = buffer_size

    @property
    def label(self) -> str:
        return f"prefetch({self._buffer_size})"

    @cached_property
    def description(self) -> str:
        # It changes no element: a position holds with another buffer size, too.
        return self.source.description

    @property
    def cardinality(self) -> int:
        return self.source.cardinality

    @cached_property
    def ahead(self) -> int:
        return _AUTOTUNE_ELEMENTS if self._buffer_size == AUTOTUNE else self._buffer_size

    def open(self, run: Run, epoch: Epoch) -> Stream:
        return self.source.open(run, epoch)


class _Buffer:
    """A bounded queue that either side can end."""

    def __init__(self, capacity: int):
        self._capacity = capacity
        self._elements: deque[Any] = deque()
        self._changed = threading.Condition()
        self._ended = False
        self._closed = False
        self._error: BaseException | None = None

    def put(self, element: Any) -> bool:
        """Add an element once there is room; False when nobody wants it any more."""
        with self._changed:
            while len(self._elements) >= self._capacity and not self._closed:
                self._changed.wait()
            self._elements.append(element)
            self._changed.notify_all()
            return not self._closed

    def end(self, error: BaseException | None) -> None:
        """Say that there are no more elements, and why."""
        with self._changed:
            self._ended = True
            self._error = error
            self._changed.notify_all()

    def get(self) -> Any:
        """Return the next element.

        Raises:
            StopIteration: There is none.
            BaseException: What the producer raised, once, after the elements before it.
        """
        with self._changed:
            while not self._elements and not self._ended:
                self._changed.wait()
            if self._elements:
                element = self._elements.popleft()
                self._changed.notify_all()
                return element
            error, self._error = self._error, None
            raise StopIteration if error is None else error

    def close(self) -> None:
        """Let the producer stop."""
        with self._changed:
            self._closed = True
            self._elements.clear()
            self._changed.notify_all()


class Prefetcher:
    """An iterator that another thread keeps ahead of its reader.

    The thread ends when the elements do, and when the prefetcher is closed or nobody holds it any more.
    """

    def __init__(self, elements: Generator[Any, None, None], capacity: int):
        """Start to read.

        Args:
            elements: What to read; used and closed on the thread alone.
            capacity: How many elements may wait.
        """
        self._buffer = _Buffer(capacity)
        # The thread knows the buffer but not the prefetcher, so that it does not keep it alive.
        thread = threading.Thread(
            target=_produce, args=(elements, self._buffer), name="muster-prefetch", daemon=True
        )
        self._finalize = weakref.finalize(self, _stop, self._buffer, thread)
        thread.start()

    def __iter__(self) -> "Prefetcher":
        return self

    def __next__(self) -> Any:
        return self._buffer.get()

    def close(self) -> None:
        """Stop the thread and wait until it has gone."""
        self._finalize()


def _produce(elements: Generator[Any, None, None], buffer: _Buffer) -> None:
    error: BaseException | None = None
    try:
        for element in elements:
            if not buffer.put(element):
                break
        elements.close()
    except BaseException as exc:  # it is raised where the elements are read
        error = exc
    buffer.end(error)


def _stop(buffer: _Buffer, thread: threading.Thread) -> None:
    buffer.close()
    # A generator that waits for something for ever cannot be stopped; the thread is a daemon.
    if thread is not threading.current_thread():
        thread.join(_JOIN_SECONDS)
