"""Collect workers' results of the steps of ``fit``, ``evaluate`` and ``predict`` as they arrive."""

import collections
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from muster.data import GetNext
from muster.distribute.coordinator._remote_value import RemoteValue


class Results:
    """The results of the steps since all of those before had ended.

    Args:
        explain: Called with a batch after which the loss is NaN; may raise.

    Attributes:
        logs: Of all steps whose results have arrived, those of the one that was scheduled last. This dict
            is filled as results arrive: who was given it finds the last results there in the end.
        seeds: The seeds of the worker that took that step, after it.
        arrived: How many calls' results have ever arrived.
    """

    def __init__(self, explain: Callable[[Any], None]) -> None:
        self._explain = explain
        self.arrived = 0
        self._awaited: collections.deque[tuple[int, RemoteValue, Sequence[Any]]] = collections.deque()
        self.begin()

    def begin(self) -> None:
        """Forget all results."""
        self.logs: dict[str, Any] = {}
        self.seeds: Sequence[Any] = ()
        self._awaited.clear()
        self._expected, self._newest, self._have_ended = 0, -1, False
        self._unexplained: int | None = None

    @property
    def begun(self) -> bool:
        """True if there are steps that may still run."""
        return self._expected > 0 and not self._have_ended

    def expect(self, value: RemoteValue, batches: Sequence[Any]) -> None:
        """Add the result of a call on some batches."""
        if self._have_ended:
            self.begin()
        self._awaited.append((self._expected, value, batches))
        self._expected += 1

    def collect(self) -> None:
        """Take the results that have arrived."""
        arrived = [(number, value.peek(), batches) for number, value, batches in self._awaited]
        self._awaited = collections.deque(
            each for each, (_, result, _) in zip(self._awaited, arrived, strict=True) if result is None
        )
        for number, result, batches in arrived:
            if result is None:
                continue
            self.arrived += 1
            logs, seeds = result
            if number > self._newest:
                self._newest, self.seeds = number, seeds
                if isinstance(logs, dict):
                    self.logs.update(logs)
            if isinstance(logs, dict):
                self._check(logs, batches)

    def end(self) -> None:
        """Take the last results: all steps have ended. The next one begins anew."""
        self.collect()
        self._awaited.clear()
        self._have_ended = True

    def _check(self, logs: dict[str, Any], batches: Sequence[Any]) -> None:
        """Explain a loss that is NaN: a mean stays so, and a batch of another step may be the reason."""
        loss = logs.get("loss", 0.0)
        if np.ndim(loss) or not math.isnan(loss):
            return
        if self._unexplained is None:
            self._unexplained = 1 + len(self._awaited)
        if self._unexplained > 0:
            self._unexplained -= 1
            for batch in batches:
                if not isinstance(batch, GetNext):
                    self._explain(batch)


class PendingArray:
    """An array that a worker returns, for what takes arrays; to look at it waits for it.

    Args:
        value: The result that it is a part of.
        number: Its number in there.
    """

    def __init__(self, value: RemoteValue, number: int) -> None:
        self._value = value
        self._number = number

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = np.asarray(jax.tree.leaves(self._value.fetch())[self._number])
        return array if dtype is None else array.astype(dtype)
