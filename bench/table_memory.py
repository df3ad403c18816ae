"""Measure the memory of evaluation, export and the like with a table of 4 GB in a checkpoint."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import _results

SCRIPT = Path(__file__).with_name("_table_memory_job.py")
WAYS = ("start", "evaluate", "predict", "export", "serve", "inspect", "warm_start")


def measured(how: str, folder: str, rows: int) -> dict[str, float]:
    """Run a way to use the table in a new process, and return its peak of memory, and how long it takes."""
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, SCRIPT, how, folder, str(rows)], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{how} ended with {process.returncode}")
    return {"peak_bytes": usage.ru_maxrss * 1024, "secs": time.monotonic() - began}


def main() -> dict[str, Any]:
    """Print and return the figures by way."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--folder", help="where there is room for three times the table")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        written = subprocess.run(
            [sys.executable, SCRIPT, "write", folder, str(arguments.rows)],
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
        sizes = json.loads(written.stdout.splitlines()[-1])
        figures = {how: measured(how, folder, arguments.rows) for how in arguments.ways}
    table, checkpoint = sizes["table"] / 1e9, sizes["checkpoint"] / 1e9
    print(f"### A table of {table:.2f} GB in a checkpoint of {checkpoint:.2f} GB\n")
    print("| | peak of memory, GB | seconds |\n|---|---|---|")
    for how, found in figures.items():
        print(f"| {how} | {found['peak_bytes'] / 1e9:.2f} | {found['secs']:.1f} |")
    return {**sizes, "ways": figures}


if __name__ == "__main__":
    _results.write("table_memory", main())
