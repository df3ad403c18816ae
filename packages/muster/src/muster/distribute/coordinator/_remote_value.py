"""RemoteValue: the result of a closure, which may not have run yet."""

import enum
import threading
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster.distribute.replicas._values import is_array


class RemoteValueStatus(enum.Enum):
    """The states of a closure's result.

    Source: tensorflow/python/distribute/coordinator/remote_value.py, ``RemoteValueStatus``.
    """

    NOT_READY = "NOT_READY"
    ABORTED = "ABORTED"
    READY = "READY"


class RemoteValue:
    """The result that a function will have which was scheduled; it survives the worker that computed it.

    Args:
        ended: Notified when the closure has ended; its lock guards this object.
        on_fetch: Called when the result is first fetched.

    Source: tensorflow/python/distribute/coordinator/remote_value.py, ``RemoteValue``.
    """

    __slots__ = ("__weakref__", "_arrays", "_ended", "_error", "_finish", "_is_ready", "_on_fetch")

    def __init__(self, ended: threading.Condition, on_fetch: Callable[[], None]) -> None:
        self._ended = ended
        self._on_fetch: Callable[[], None] | None = on_fetch
        self._is_ready = False
        self._error: BaseException | None = None
        self._arrays: Sequence[Any] = ()
        self._finish: Callable[[Sequence[Any]], Any] | None = None

    def fetch(self) -> Any:
        """Wait for the result and return it, in the structure that the function returned, as NumPy values.

        Raises:
            Exception: What the function has raised.
            CancelledError: It was cancelled, since another function had raised an error.
        """
        return jax.tree.map(_on_host, self._result())

    def get(self) -> Any:
        """Wait for the result and return it, its arrays as JAX's; raises as `fetch` does."""
        return jax.tree.map(lambda leaf: jnp.asarray(leaf) if is_array(leaf) else leaf, self._result())

    def peek(self) -> Any:
        """Return the result if it is there, else None; raises nothing.

        Functions that run next need not see what this one has done, as they do after `fetch`.
        """
        with self._ended:
            finish = self._finish
        return None if finish is None else finish(self._arrays)

    @property
    def status(self) -> RemoteValueStatus:
        """`READY` if the closure has ended: with a result, an error, or cancelled."""
        return RemoteValueStatus.READY if self._is_ready else RemoteValueStatus.NOT_READY

    def is_of(self, ended: threading.Condition) -> bool:
        """Return whether this result belongs to the coordinator that notifies this condition."""
        return self._ended is ended

    def end(self, finish: Callable[[Sequence[Any]], Any], arrays: Sequence[Any]) -> None:
        """Take the result; call it with the lock.

        Args:
            finish: Makes the result of its arrays.
            arrays: The arrays.
        """
        self._finish, self._arrays, self._is_ready = finish, arrays, True

    def fail(self, error: BaseException) -> None:
        """Take an error; call it with the lock."""
        self._error, self._is_ready = error, True

    def _result(self) -> Any:
        with self._ended:
            self._ended.wait_for(lambda: self._is_ready)
            on_fetch, self._on_fetch = self._on_fetch, None
        if on_fetch is not None:
            on_fetch()
        if self._error is not None:
            raise self._error.with_traceback(None)
        return None if self._finish is None else self._finish(self._arrays)


def _on_host(leaf: Any) -> Any:
    return np.asarray(leaf)[()] if is_array(leaf) else leaf
