"""Measure how many rows a second a CSV file and the host's part of feature columns give, beside TensorFlow's.

The columns are like those of the Adult data: vocabularies, hash buckets, crosses. Both make the same ids,
which is checked. Then they read lines of text by ``map``: CSV by ``decode_csv``, and libsvm by
``string_split`` and ``string_to_number``; and records of 40 features, by ``parse_single_example`` before
``batch`` (``records``) and ``parse_example`` after it (``batches``). ``make bench-peers`` installs
TensorFlow; without it, muster is measured alone.
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
from bench.cases.lines import write_lines
from bench.peers import ROOT, python_of

from bench import _results

KINDS = ("columns", "csv", "libsvm", "records", "batches")


def turn(library: str, peer: str, *arguments: Any) -> dict[str, Any]:
    """Let a library read for some seconds, in a process of its own."""
    command = [python_of(library), "-m", f"bench._peers.{peer}", library, *arguments]
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
    parser.add_argument("--kinds", nargs="*", default=KINDS, choices=KINDS, help="what to read")
    parser.add_argument("--turns", type=int, default=3, help="how many turns each library has")
    options = parser.parse_args()
    libraries = [library for library in ("muster", "tensorflow") if python_of(library)]
    figures: dict[str, Any] = {}

    def measure(name: str, where: str, peer: str, *arguments: Any) -> dict[str, list[int]]:
        turns: dict[str, list[Any]] = {library: [] for library in libraries}
        for _ in range(options.turns):
            for library in libraries:
                turns[library].append(turn(library, peer, *arguments))
        sums = {library: done[0]["sums"] for library, done in turns.items()}
        if len(set(map(tuple, sums.values()))) > 1:
            sys.exit(f"The libraries read {name} otherwise: {sums}")
        speeds = {
            library: [round(each["rows_per_second"]) for each in done] for library, done in turns.items()
        }
        for library, rows in speeds.items():
            print(f"{name:8} {where:10} {library:12} {statistics.median(rows):>9,.0f} rows a second  {rows}")
        return speeds

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        write_rows(path)
        places = ((1, "one core"), (0, "all cores"))
        figures = {where: {} for _, where in places}
        if "columns" in options.kinds:
            for cores, where in places:
                speeds = measure("columns", where, "columns", path, options.seconds, cores)
                figures[where] = {"rows_per_second": speeds}
        for kind in [each for each in options.kinds if each != "columns"]:
            path = Path(folder) / f"lines.{kind}"
            write_lines("records" if kind == "batches" else kind, path)
            for cores, where in places:
                speeds = measure(kind, where, "lines", kind, path, options.seconds, cores)
                figures[where][f"{kind}_lines_per_second"] = speeds
    _results.write("columns", figures)
    return figures


if __name__ == "__main__":
    main()
