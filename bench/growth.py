"""Measure how the times of a training grow with the number of variables: 10, 100, 1,000.

A stack of small dense layers, trained by Adam, so that nearly all of the time is spent on variables: in
Keras' own ``fit``, in ``fit`` of a strategy, a loop of one's own, an Estimator, and beside a parameter
server; beside a step of plain JAX. Each is a process with an empty compilation cache. The first step is
counted from the making of the model on; imports are not.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench._growth_job import WAYS
from bench.peers import ROOT, say

from bench import _results

COUNTS = (10, 100, 1000)
DEADLINE_SECS = 600


def turn(way: str, count: int) -> dict[str, float]:
    """Train in a process of its own, and return its times."""
    command = [sys.executable, "-m", "bench._growth_job", way, str(count)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ}, capture_output=True, text=True, timeout=DEADLINE_SECS
    )
    if done.returncode:
        raise RuntimeError(f"{way} ended with code {done.returncode}:\n{done.stderr[-3000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> dict[str, Any]:
    """Print, write and return the times by way and number of variables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--counts", type=int, nargs="*", default=COUNTS, help="numbers of variables")
    parser.add_argument("--ways", nargs="*", default=list(WAYS), choices=list(WAYS), help="ways to train")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured, in turn")
    parser.add_argument("--results", type=Path, default=_results.RESULTS, help="the folder for growth.json")
    options = parser.parse_args()
    found: dict[str, dict[str, list[dict[str, float]]]] = {
        way: {str(count): [] for count in options.counts} for way in options.ways
    }
    for number in range(options.rounds):
        for count in options.counts:
            for way in options.ways:
                found[way][str(count)].append(times := turn(way, count))
                say(f"round {number + 1}: {way}, {count} variables: {times['first']:.1f} s to the first step")
    columns = "first step, s | processors, s | of it XLA | the rest, s | that per variable, ms | a step, ms"
    print(f"| | variables | {columns} |")
    print("|---" * 8 + "|")
    for way, by_count in found.items():
        for count, turns in by_count.items():
            first, processor, compiling, step = (
                statistics.median(each[name] for each in turns)
                for name in ("first", "processor", "compiling", "step_ms")
            )
            rest = first - compiling
            print(
                f"| {way} | {int(count):,} | {first:.2f} | {processor:.2f} | {compiling:.2f} | {rest:.2f} | "
                f"{1e3 * rest / int(count):.2f} | {step:.3f} |"
            )
    figures = {"rounds": options.rounds, "ways": found}
    _results.write("growth", figures, options.results)
    return figures


if __name__ == "__main__":
    main()
