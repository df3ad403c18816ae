"""Measure all-reduces between two processes with a core each: muster, XLA's Gloo, PyTorch's Gloo."""

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.peers import python_of
from bench.workers import free_ports

from bench import _results

SCRIPT = Path(__file__).parent / "_peers" / "exchange.py"
ALTERNATIONS = 5
DEADLINE_SECS = 120


def seconds(python: str, name: str) -> dict[str, float]:
    """Return the seconds of an all-reduce, by the number of float32 values."""
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory() as folder:
        processes = [
            subprocess.Popen(
                [python, SCRIPT, name, folder, str(rank), str(port)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for rank in (0, 1)
        ]
        try:
            for process in processes:
                process.wait(DEADLINE_SECS)
        finally:
            for process in processes:
                process.kill()
                process.wait()
        found: dict[str, float] = json.loads(Path(folder, "0.json").read_text())
        return found


def main() -> dict[str, dict[str, float]]:
    """Print a table, and return the median seconds by contestant and number of values."""
    contestants = {"muster": sys.executable, "xla": sys.executable}
    if python := python_of("torch"):
        contestants["torch"] = python
    else:
        print("PyTorch is left out: `make bench-peers` installs it.\n")
    rounds = [
        {name: seconds(python, name) for name, python in contestants.items()} for _ in range(ALTERNATIONS)
    ]
    sizes = list(rounds[0]["muster"])
    medians = {
        name: {size: statistics.median(each[name][size] for each in rounds) for size in sizes}
        for name in contestants
    }
    print(
        f"| bytes | {' | '.join(f'{name}, ms' for name in contestants)} | muster is so many times as fast |"
    )
    print("|---" * (len(contestants) + 2) + "|")
    for size in sizes:
        ratios = []
        for name in list(contestants)[1:]:
            each = sorted(found[name][size] / found["muster"][size] for found in rounds)
            ratios.append(f"{name} {statistics.median(each):.2f} ({each[0]:.2f} to {each[-1]:.2f})")
        times = " | ".join(f"{1e3 * medians[name][size]:.3f}" for name in contestants)
        print(f"| {4 * int(size):,} | {times} | {', '.join(ratios)} |")
    return medians


if __name__ == "__main__":
    _results.write("exchange", main())
