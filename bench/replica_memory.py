"""Measure the memory of a 200 MB model on four virtual devices, beside a hand-written jit loop."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench import _results

SCRIPT = Path(__file__).with_name("_replica_memory_job.py")
BY_HAND = "by hand"
CONTESTANTS = (BY_HAND, "loop", "fit", "Estimator")


def measured(how: str) -> dict[str, Any]:
    """Return the bytes that a way to train takes; ``copies`` is in units of all parameters."""
    done = subprocess.run(
        [sys.executable, SCRIPT, how],
        stdout=subprocess.PIPE,
        env=os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"},
        check=True,
        timeout=250,
    )
    told = json.loads(done.stdout)
    start, first, *later = told["said"]
    return {
        "parameters": told["parameters"],
        "copies": max(each["arrays"] for each in (first, *later)) / told["parameters"],
        "resident": later[-1]["resident"] - start["resident"],
        "peak_of_first_step": first["peak"] - start["resident"],
        "peak": max(each["peak"] for each in later) - start["resident"],
    }


def main() -> dict[str, Any]:
    """Print and return the figures by contestant."""
    figures = {how: measured(how) for how in CONTESTANTS}
    print("### A model of 200 MB on four virtual devices, trained by SGD\n")
    print("| | copies of all parameters | MB between steps | peak of the first step | of later ones |")
    print("|---" * 5 + "|")
    for how, found in figures.items():
        sizes = (found["resident"], found["peak_of_first_step"], found["peak"])
        print(f"| {how} | {found['copies']:.3f} | {' | '.join(f'{size / 1e6:,.0f}' for size in sizes)} |")
    print("\nWithout what the process takes before there is a model. Four are the replicas themselves.")
    return figures


if __name__ == "__main__":
    _results.write("replica_memory", main())
