"""Bound the time of a training step from below, by this machine's measured arithmetic and memory speed."""

import dataclasses
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

_MATRIX = 2048
_COPIED_BYTES = 128 * 2**20  # by each core: more than its share of any cache
_TRIES = 5


@dataclasses.dataclass(frozen=True)
class Machine:
    """The speed of all cores together.

    Attributes:
        multiply_adds_per_sec: In a product of large float32 matrices.
        bytes_per_sec: Read from and written to memory.
    """

    multiply_adds_per_sec: float
    bytes_per_sec: float

    def least_secs(self, multiply_adds: int, moved_bytes: int) -> float:
        """Return the time of the arithmetic or of the memory traffic, whichever takes longer."""
        return max(multiply_adds / self.multiply_adds_per_sec, moved_bytes / self.bytes_per_sec)


def probe() -> Machine:
    """Measure this machine, in about two seconds."""
    left, right = np.random.default_rng(0).random((2, _MATRIX, _MATRIX), np.float32)
    cores = len(os.sched_getaffinity(0))
    pairs = [np.ones((2, _COPIED_BYTES // 2), np.uint8) for _ in range(cores)]
    with ThreadPoolExecutor(cores) as pool:
        copying = _least(lambda: list(pool.map(lambda pair: np.copyto(*pair), pairs)))
    return Machine(_MATRIX**3 / _least(lambda: left @ right), cores * _COPIED_BYTES / copying)


def _least(call: Callable[[], object]) -> float:
    """Return the shortest time of several calls, in seconds."""
    times = []
    for _ in range(_TRIES):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return min(times)
