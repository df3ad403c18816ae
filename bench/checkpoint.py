"""Measure writing and reading checkpoints, and how long saving blocks the training thread.

Measured in turn beside them: the safetensors package's ``save_file`` and ``load_file``, with fsync like a
checkpoint but without checksums, and a plain sequential write of the same bytes, the limit of the disk.
"""

import os
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from bench import _results
from muster.checkpoint import Checkpointer, read_checkpoint, write_checkpoint

SIZES = (50_000_000, 500_000_000)  # bytes
ARRAYS = 50
ALTERNATIONS = 5


def timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def longest_standstill(checkpointer: Checkpointer, variables: dict[str, np.ndarray]) -> tuple[float, float]:
    """Return the seconds that save() blocks, and the longest gap in a loop that runs during the write."""
    returned = timed(lambda: checkpointer.save(1, variables, {}))
    done = threading.Event()
    waiter = threading.Thread(target=lambda: (checkpointer.wait(), done.set()))
    waiter.start()
    longest, last = 0.0, time.perf_counter()
    while not done.is_set():
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    waiter.join()
    return returned, longest


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def safetensors_save(path: Path, variables: dict[str, np.ndarray]) -> None:
    path.parent.mkdir(exist_ok=True)
    safetensors.numpy.save_file(variables, path)
    sync(path)


def plain_write(path: Path, variables: dict[str, np.ndarray]) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("wb", buffering=0) as file:
        for array in variables.values():
            file.write(array)
    sync(path)


def measure(directory: Path, size: int) -> dict[str, Any]:
    """Print and return the seconds of each call, and the seconds that the training thread is blocked."""
    variables = {
        f"layer_{i}": np.random.default_rng(i).random(size // ARRAYS // 4, np.float32) for i in range(ARRAYS)
    }
    path = write_checkpoint(directory, 0, variables, {})
    new = directory / "ckpt-1"
    other = directory / "other.safetensors"
    calls: dict[str, Callable[[], object]] = {
        "muster write": lambda: write_checkpoint(directory, 1, variables, {}),
        "safetensors write, fsync": lambda: safetensors_save(new / "x", variables),
        "plain write, fsync": lambda: plain_write(new / "x", variables),
        "muster read, checked": lambda: read_checkpoint(path),
        "safetensors read": lambda: safetensors.numpy.load_file(other),
    }
    secs: dict[str, list[float]] = {name: [] for name in calls}
    safetensors_save(other, variables)
    for _ in range(ALTERNATIONS):
        for name, call in calls.items():
            secs[name].append(timed(call))
            # Each call writes a new file, to an idle disk.
            shutil.rmtree(new, ignore_errors=True)
            os.sync()
    print(f"{size / 1e6:.0f} MB in {ARRAYS} arrays, median of {ALTERNATIONS} in turn:")
    for name, values in secs.items():
        median = statistics.median(values)
        print(
            f"  {name:26} {median:7.3f} s  {size / median / 1e6:6.0f} MB/s"
            f"  ({min(values):.3f} to {max(values):.3f})"
        )
    with Checkpointer(directory / "background") as checkpointer:
        stalls = [longest_standstill(checkpointer, variables) for _ in range(ALTERNATIONS)]
    returned, longest = (statistics.median(column) * 1e3 for column in zip(*stalls, strict=True))
    print(
        f"  save() returns after {returned:.2f} ms; "
        f"the longest standstill beside the write is {longest:.1f} ms"
    )
    return {"bytes": size, "secs": secs, "save_returns_ms": returned, "longest_standstill_ms": longest}


def main() -> dict[str, Any]:
    figures = []
    for size in SIZES:
        with tempfile.TemporaryDirectory() as directory:
            figures.append(measure(Path(directory), size))
    return {"sizes": figures}


if __name__ == "__main__":
    _results.write("checkpoint", main())
