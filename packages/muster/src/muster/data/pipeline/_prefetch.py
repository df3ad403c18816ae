"""`prefetch` computes elements ahead of their reader, on a thread."""

import threading
import weakref
from collections import deque
from collections.abc import Generator
from functools import cached_property
from typing import Any

from muster.data.pipeline._node import Node, Ordering

AUTOTUNE = -1
_AUTOTUNE_ELEMENTS = 4
_JOIN_SECONDS = 2.0


class Prefetch(Ordering):
    """The elements of the source, which an iterator computes ahead of its reader.

    One thread runs the pipeline, wherever in it `prefetch` is, and buffers its final elements: 500 elements
    before a `batch(50)` are 10 batches.
    """

    def __init__(self, source: Node, buffer_size: int):
        super().__init__(source)
        self._buffer_size = _AUTOTUNE_ELEMENTS if buffer_size == AUTOTUNE else buffer_size

    @cached_property
    def description(self) -> str:
        # A position is valid with another buffer size, too.
        return self.source.description

    @cached_property
    def ahead(self) -> int:
        return self._buffer_size


class _Buffer:
    """A bounded queue that the producer and the consumer can end."""

    def __init__(self, capacity: int):
        self._capacity = capacity
        self._elements: deque[Any] = deque()
        self._changed = threading.Condition()
        self._ended = False
        self._closed = False
        self._error: BaseException | None = None

    def put(self, element: Any) -> bool:
        """Wait for room and add an element; return False if the consumer has closed the queue."""
        with self._changed:
            while len(self._elements) >= self._capacity and not self._closed:
                self._changed.wait()
            self._elements.append(element)
            self._changed.notify_all()
            return not self._closed

    def end(self, error: BaseException | None) -> None:
        """Mark the end of the elements, with the error that ended them, if any."""
        with self._changed:
            self._ended = True
            self._error = error
            self._changed.notify_all()

    def get(self) -> Any:
        """Return the next element.

        Raises:
            StopIteration: There are no more.
            BaseException: The producer's error, once, after the elements before it.
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
        """Drop the elements and stop the producer."""
        with self._changed:
            self._closed = True
            self._elements.clear()
            self._changed.notify_all()


class Prefetcher:
    """An iterator that another thread keeps ahead of its reader.

    The thread ends with the elements, and when the prefetcher is closed or no longer referenced.
    """

    def __init__(self, elements: Generator[Any, None, None], capacity: int):
        """Start the thread.

        Args:
            elements: The elements to compute; used and closed only by the thread.
            capacity: The number of elements to buffer.
        """
        self._buffer = _Buffer(capacity)
        # The thread refers to the buffer, not to the prefetcher, which it would keep alive.
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
        """Stop the thread and wait for its end."""
        self._finalize()


def _produce(elements: Generator[Any, None, None], buffer: _Buffer) -> None:
    error: BaseException | None = None
    try:
        for element in elements:
            if not buffer.put(element):
                break
        elements.close()
    except BaseException as exc:  # raised again where the elements are read
        error = exc
    buffer.end(error)


def _stop(buffer: _Buffer, thread: threading.Thread) -> None:
    buffer.close()
    # A generator that blocks cannot be stopped: the thread is a daemon.
    if thread is not threading.current_thread():
        thread.join(_JOIN_SECONDS)
