"""A worker's iterator: a thread computes its elements, so that a waiting closure can be cancelled."""

import collections
import secrets
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from muster.data import Dataset
from muster.distribute.closures._messages import ArrayKind
from muster.distribute.engine._limits import Limits

# How many elements are made before they are asked for.
_AHEAD = 2


class DrawnElement(NamedTuple):
    """An element of a dataset.

    Attributes:
        leaves: Its arrays; none at the end of the dataset.
        kinds: Their shapes and dtypes; None at the end of the dataset.
    """

    leaves: Sequence[Any]
    kinds: tuple[ArrayKind, ...] | None


END = DrawnElement((), None)


class Batches:
    """Makes batches of elements, and checks that JAX can take their numbers."""

    def __init__(self) -> None:
        self._limits: Limits | None = None

    def of(self, element: Any) -> DrawnElement:
        """Return the batch of an element.

        Raises:
            DatasetError: It holds a number that JAX would cut off.
        """
        leaves = jax.tree.leaves(element)
        self._limits = self._limits or Limits(leaves)
        self._limits.check(leaves, element)
        return DrawnElement(leaves, tuple(map(kind_of, leaves)))


class Drawing:
    """One pass over a dataset, which is made and read on a thread of its own, a little ahead.

    Args:
        make: Makes the dataset.
        wake: Called, on the thread, when there is something new.
    """

    def __init__(self, make: Callable[[], Dataset], wake: Callable[[], None]) -> None:
        self._make = make
        self._wake = wake
        self._lock = threading.Lock()
        self._wanted = threading.Condition(self._lock)
        self._ahead: collections.deque[DrawnElement] = collections.deque()
        self._ended = self._closed = False
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._read, name="muster-draws", daemon=True)
        self._thread.start()

    def ready(self) -> bool:
        """Return whether `take` can be called."""
        with self._lock:
            return bool(self._ahead) or self._ended

    def take(self) -> DrawnElement:
        """Return the next element, or the end; call it when this is ready.

        Raises:
            Exception: What the dataset, or the code that makes it, has raised; from now on each time.
        """
        with self._lock:
            if self._ahead:
                batch = self._ahead.popleft()
                self._wanted.notify()
                return batch
            if self._error is not None:
                raise self._error
            return END

    def give_back(self, batches: Sequence[DrawnElement]) -> None:
        """Take back what was taken last: it is the next."""
        with self._lock:
            self._ahead.extendleft(batch for batch in reversed(batches) if batch.kinds is not None)

    def close(self) -> None:
        """Let the thread end, once the dataset has made the element that it is at."""
        with self._lock:
            self._closed = True
            self._wanted.notify()

    def join(self, timeout_secs: float) -> None:
        """Wait for the end of the thread: for what owns it."""
        self._thread.join(timeout_secs)

    def _read(self) -> None:
        try:
            dataset = self._make()
            del self._make  # it may hold data
            batches = Batches()
            # A worker's own order, also where all workers seed Python's random numbers alike.
            with dataset.iterator(seed=secrets.randbits(63)) as elements:
                for element in elements:
                    if not self._put(batches.of(element)):
                        return
        except Exception as exc:
            self._error = exc
        finally:
            with self._lock:
                self._ended = True
            self._wake()

    def _put(self, batch: DrawnElement) -> bool:
        with self._lock:
            self._ahead.append(batch)
        self._wake()
        with self._lock:
            self._wanted.wait_for(lambda: len(self._ahead) < _AHEAD or self._closed)
            return not self._closed


def kind_of(array: Any) -> ArrayKind:
    """Return the shape and dtype of an array or number."""
    dtype = getattr(array, "dtype", None)
    return ArrayKind(tuple(np.shape(array)), str(np.asarray(array).dtype if dtype is None else dtype))
