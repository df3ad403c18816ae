"""Measure two workers, or devices, in step on a model with a table: whether a step costs what its rows cost.

Both sizes train in turn. ``make bench-peers`` installs TensorFlow, whose Estimator then takes its turns, too.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.peers import python_of
from bench.workers import free_ports

from bench import _results

JOB = Path(__file__).with_name("_tables_in_step_job.py")
SIZES = (10**4, 10**6)
KINDS = ("Estimator Adagrad", "fit SGD", "fit Adagrad", "fit Adam", "mirrored Adagrad")
STEPS = 400
SLOW_STEPS = 60  # of what computes all rows of a large table
ALTERNATIONS = 3
DEADLINE_SECS = 300


def rate(kind: str, rows: int) -> float:
    """Return the steps a second of two workers; of one with two devices if it is mirrored."""
    slow = rows == SIZES[-1] and kind in ("fit Adam", "tensorflow Adagrad")
    steps = SLOW_STEPS if slow else STEPS
    python = python_of("tensorflow") if kind.startswith("tensorflow") else sys.executable
    mirrored = kind.startswith("mirrored")
    addresses = [f"127.0.0.1:{port}" for port in free_ports(1 if mirrored else 2)]
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    if mirrored:
        environment["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
    with tempfile.TemporaryDirectory() as folder:
        tasks = []
        for index in range(len(addresses)):
            task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
            tasks.append(
                subprocess.Popen(
                    [str(python), str(JOB), kind, str(rows), str(steps), folder],
                    env=environment if mirrored else environment | {"TF_CONFIG": json.dumps(task)},
                    stderr=subprocess.PIPE,
                )
            )
        try:
            for task in tasks:
                _, errors = task.communicate(timeout=DEADLINE_SECS)
                if task.returncode:
                    raise RuntimeError(f"{kind} on {rows:,} rows failed:\n{errors.decode()[-3000:]}")
        finally:
            for task in tasks:
                task.kill()
                task.wait()
        return float(json.loads(Path(folder, "rate.json").read_text()))


def main() -> dict[str, Any]:
    """Print and return the figures."""
    kinds = list(KINDS)
    if python_of("tensorflow") is None:
        print("TensorFlow is left out: `make bench-peers` installs it.\n")
    else:
        kinds.append("tensorflow Adagrad")
    small, large = SIZES
    print(f"### Steps/s of two in step, a table of 16 columns, {ALTERNATIONS} turns each\n")
    print(f"| trained by | {small:,} rows | {large:,} rows | large over small |")
    print("|---" * 4 + "|")
    figures: dict[str, Any] = {}
    for kind in kinds:
        pairs = [(rate(kind, small), rate(kind, large)) for _ in range(ALTERNATIONS)]
        first, second = (statistics.median(each) for each in zip(*pairs, strict=True))
        ratio = statistics.median(b / a for a, b in pairs)
        print(f"| {kind} | {first:.1f} | {second:.1f} | {ratio:.2f} |", flush=True)
        figures[kind] = {str(small): first, str(large): second, "ratio": ratio}
    print("\nThe bar is 0.8 where an optimizer leaves rows without a gradient as they are; Adam does not.")
    return {"figures": figures}


if __name__ == "__main__":
    _results.write("tables_in_step", main())
