"""Measure how many rows a second a CSV file and the host's part of feature columns give, beside TensorFlow's.

The columns are like those of the Adult data: vocabularies, hash buckets, crosses. Both make the same ids,
which is checked. ``make bench-peers`` installs TensorFlow; without it, muster is measured alone.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.cases.adult import write_rows
from bench.peers import ROOT, python_of

from bench import _results


def turn(library: str, path: Path, seconds: float, cores: int) -> dict[str, Any]:
    """Let a library read for some seconds, in a process of its own."""
    command = [python_of(library), "-m", "bench._peers.columns", library, path, str(seconds), str(cores)]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        list(map(str, command)), cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )
    if done.returncode:
        raise RuntimeError(f"{library} ended with code {done.returncode}:\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> dict[str, Any]:
    """Print, write and return the rows a second of each library."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0, help="how long to read in a turn")
    parser.add_argument("--turns", type=int, default=3, help="how many turns each library has")
    options = parser.parse_args()
    libraries = [library for library in ("muster", "tensorflow") if python_of(library)]
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        write_rows(path)
        for cores, where in ((1, "one core"), (0, "all cores")):
            turns: dict[str, list[Any]] = {library: [] for library in libraries}
            for _ in range(options.turns):
                for library in libraries:
                    turns[library].append(turn(library, path, options.seconds, cores))
            sums = {library: done[0]["sums"] for library, done in turns.items()}
            if len(set(map(tuple, sums.values()))) > 1:
                sys.exit(f"The libraries make other ids: {sums}")
            speeds = {
                library: [round(each["rows_per_second"]) for each in done] for library, done in turns.items()
            }
            for library, rows in speeds.items():
                print(f"{where:10} {library:12} {statistics.median(rows):>9,.0f} rows a second  {rows}")
            figures[where] = {"rows_per_second": speeds}
    _results.write("columns", figures)
    return figures


if __name__ == "__main__":
    main()
