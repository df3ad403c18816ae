"""Measure all-reduces between 2 to 32 processes: muster, exchanging directly, XLA's Gloo, PyTorch's Gloo.

From the processor time follows what a message and a byte cost, and from that how long sums take between more
workers with a core each.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np
from bench.peers import python_of
from bench.workers import free_ports

from bench import _results
from muster.distribute.workers import _schedules as schedules

SCRIPT = Path(__file__).parent / "_peers" / "exchange.py"
WORKERS = (2, 4, 8, 16, 32)
ALTERNATIONS = 3
GLOO_WORKERS = 16  # more take minutes to start on two cores
PREDICTED = (8, 16, 32, 64, 256, 1000)
PREDICTED_BYTES = (1_024, 100_000, 1_400_000, 10_000_000)
DEADLINE_SECS = 300

Times: TypeAlias = dict[str, tuple[float, float]]
"""Number of float32 values -> the seconds of an all-reduce, and the processor seconds of all workers."""


def measure(python: str, name: str, workers: int) -> Times:
    """Let a contestant all-reduce arrays in so many processes."""
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory() as folder:
        with subprocess.Popen(
            [python, SCRIPT, name, folder, str(workers), str(port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as job:
            try:
                job.wait(DEADLINE_SECS)
            except BaseException:
                os.killpg(job.pid, 9)
                raise
        found: Times = json.loads(Path(folder, "result.json").read_text())
        return found


def compare(workers: int, pythons: Mapping[str, str]) -> dict[str, Times]:
    """Print a table for so many workers, and return the medians by contestant."""
    contestants = dict(pythons)
    if workers <= schedules.DIRECT_WORKERS:
        del contestants["direct"]  # it is what muster does
    if workers > GLOO_WORKERS:
        contestants = {name: contestants[name] for name in ("muster", "direct")}
    rounds = [
        {name: measure(python, name, workers) for name, python in contestants.items()}
        for _ in range(ALTERNATIONS)
    ]
    sizes = list(rounds[0]["muster"])
    medians: dict[str, Times] = {
        name: {
            size: (
                statistics.median(each[name][size][0] for each in rounds),
                statistics.median(each[name][size][1] for each in rounds),
            )
            for size in sizes
        }
        for name in contestants
    }
    print(f"\n{workers} workers, ms of an all-reduce; in brackets the processor ms of all\n")
    print(f"| bytes | {' | '.join(contestants)} | muster is so many times as fast |")
    print("|---" * (len(contestants) + 2) + "|")
    for size in sizes:
        ratios = []
        for name in list(contestants)[1:]:
            each = sorted(found[name][size][0] / found["muster"][size][0] for found in rounds)
            ratios.append(f"{name} {statistics.median(each):.2f} ({each[0]:.2f} to {each[-1]:.2f})")
        times = " | ".join(
            f"{1e3 * secs:.3f} ({1e3 * cpu_secs:.2f})"
            for secs, cpu_secs in (medians[name][size] for name in contestants)
        )
        print(f"| {4 * int(size):,} | {times} | {', '.join(ratios)} |", flush=True)
    return medians


def messages_and_bytes(workers: int, nbytes: int, direct: bool) -> tuple[int, float]:
    """Return how many messages and bytes worker 0 sends or receives, whichever are more in each round."""
    schedule = (schedules.direct_sum if direct else schedules.all_reduce)(workers, 0, nbytes)
    messages = blocks = 0
    for each in schedule:
        ways = [[sum(map(len, runs)) for runs in way.values()] for way in (each.sends, each.receives)]
        messages += max(map(len, ways))
        blocks += max(map(sum, ways))
    return messages, blocks * nbytes / workers


def fit(found: Mapping[int, Mapping[str, Times]]) -> tuple[float, float]:
    """Return the seconds that a message and a byte cost a core, so that relative errors are smallest."""
    rows = []
    for workers, contestants in found.items():
        for name in contestants.keys() & {"muster", "direct"}:
            for size, (_, cpu_secs) in contestants[name].items():
                messages, sent = messages_and_bytes(workers, 4 * int(size), name == "direct")
                rows.append((workers * messages / cpu_secs, workers * sent / cpu_secs))
    costs = np.linalg.lstsq(np.array(rows), np.ones(len(rows)), rcond=None)[0]
    return float(costs[0]), float(costs[1])


def predict(message_secs: float, byte_secs: float) -> None:
    """Print how long sums would take between workers with a core each, on a network that is no bottleneck."""
    print("\nPredicted for a core a worker, in ms: directly, and as muster does\n")
    print(f"| bytes | {' | '.join(f'{workers} workers' for workers in PREDICTED)} |")
    print("|---" * (len(PREDICTED) + 1) + "|")
    for nbytes in PREDICTED_BYTES:
        cells = []
        for workers in PREDICTED:
            direct, chosen = (
                messages * message_secs + sent * byte_secs
                for messages, sent in (messages_and_bytes(workers, nbytes, way) for way in (True, False))
            )
            cells.append(f"{1e3 * direct:.2f}, {1e3 * chosen:.2f}")
        print(f"| {nbytes:,} | {' | '.join(cells)} |")


def main() -> dict[str, object]:
    """Print tables, and return the median seconds by workers, contestant and number of values."""
    pythons = {"muster": sys.executable, "direct": sys.executable, "xla": sys.executable}
    if python := python_of("torch"):
        pythons["torch"] = python
    else:
        print("PyTorch is left out: `make bench-peers` installs it.")
    found = {workers: compare(workers, pythons) for workers in WORKERS}
    message_secs, byte_secs = fit(found)
    print(f"\nA message costs a core {1e6 * message_secs:.0f} µs, a byte {1e9 * byte_secs:.2f} ns.")
    predict(message_secs, byte_secs)
    return {"workers": found, "message_secs": message_secs, "byte_secs": byte_secs}


if __name__ == "__main__":
    _results.write("exchange", main())
