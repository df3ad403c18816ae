"""Measure a model of four large tables: trained on two servers, killed, and trained on by three.

Then it is evaluated and exported. Nobody but the servers holds tables.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.workers import free_ports

from bench import _results

JOB = Path(__file__).with_name("_large_tables_job.py")
SAVE_STEPS = 4000
KILL_AT, MORE = 9000, 3000
DEADLINE_SECS = 420


@contextmanager
def job(folder: Path, rows: int, servers: int, steps: int) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """Start a chief, a worker and servers; kill what is left of them at the end."""
    counts = {"chief": 1, "worker": 1, "ps": servers}
    ports = iter(free_ports(sum(counts.values())))
    cluster = {name: [f"127.0.0.1:{next(ports)}" for _ in range(count)] for name, count in counts.items()}
    tasks = {}
    try:
        for name, addresses in cluster.items():
            for index in range(len(addresses)):
                task = {"cluster": cluster, "task": {"type": name, "index": index}}
                with (folder / f"{name}-{index}.log").open("ab") as log:
                    tasks[f"{name}-{index}"] = subprocess.Popen(
                        [sys.executable, JOB, "train", str(rows), str(folder), str(steps)],
                        env=os.environ | {"TF_CONFIG": json.dumps(task)},
                        stdout=log,
                        stderr=subprocess.STDOUT,
                    )
        yield tasks
    finally:
        for each in tasks.values():
            each.send_signal(signal.SIGKILL)
            each.wait()


def figures_of(folder: Path, name: str) -> dict[str, Any]:
    """Return what a task has written so far."""
    path = folder / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def wait_until(done: Any, folder: Path, tasks: dict[str, subprocess.Popen[bytes]]) -> None:
    """Wait until something is done; raises RuntimeError if a task fails, or at the deadline."""
    deadline = time.monotonic() + DEADLINE_SECS
    while not done():
        failed = [name for name, each in tasks.items() if each.poll()]
        if failed or time.monotonic() > deadline:
            name = failed[0] if failed else "chief-0"
            raise RuntimeError(f"{name}:\n{(folder / f'{name}.log').read_text()[-3000:]}")
        time.sleep(0.1)


def pauses(chief: dict[str, Any]) -> list[float]:
    """Return for how long each periodic save has kept the chief from its next step, in seconds.

    No listener looks at saves here: the hook would wait for the disk, since listeners are told when they are
    there.
    """
    times, steps = chief["times"], chief["steps"]
    gaps = [b - a for a, b in zip(times, times[1:], strict=False)]
    usual = statistics.median(gaps)
    # The chief's own steps have other numbers between them: a save is at the first one that is due.
    due = range(SAVE_STEPS, steps[-1], SAVE_STEPS)
    near = [[gap for at, gap in zip(steps, gaps, strict=False) if -50 <= at - step < 100] for step in due]
    return [max(each) - usual for each in near if each]


def killed_and_restored(folder: Path, rows: int) -> dict[str, Any]:
    """Train on two servers, kill all tasks, go on with three; return what was seen."""
    began = time.time()
    with job(folder, rows, 2, 10 * KILL_AT) as tasks:
        wait_until(lambda: [*figures_of(folder, "chief-0").get("steps", [0])][-1] >= KILL_AT, folder, tasks)
        memory = {
            name: int(Path(f"/proc/{each.pid}/status").read_text().split("VmHWM:")[1].split()[0]) * 1024
            for name, each in tasks.items()
        }
    first = figures_of(folder, "chief-0")
    span = [first["times"][0], first["times"][-1]]
    killed = time.time()
    (folder / "chief-0.json").unlink()
    with job(folder, rows, 3, first["steps"][-1] + MORE) as tasks:
        wait_until(lambda: all(each.poll() == 0 for each in tasks.values()), folder, tasks)
    second = figures_of(folder, "chief-0")
    return {
        "first_step_secs": span[0] - began,
        "steps_per_sec": (first["steps"][-1] - first["steps"][0]) / (span[1] - span[0]),
        "pauses_secs": pauses(first),
        "peak_bytes": memory,
        "restored": {
            "first_step": second["steps"][0],
            "after_secs": second["times"][0] - killed,
            "last_step": second["steps"][-1],
            "peak_bytes": {name: figures_of(folder, name).get("peak_bytes") for name in tasks},
        },
    }


def main() -> dict[str, Any]:
    """Print and return the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.large_tables", description=__doc__)
    parser.add_argument(
        "--rows", type=int, default=10**7, help="of each of four tables (default: %(default)s)"
    )
    parser.add_argument("--folder", help="where there is room for 6 times the tables and their slots")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        found = killed_and_restored(folder, arguments.rows)
        for what in ("evaluate", "export"):
            began = time.monotonic()
            subprocess.run(
                [sys.executable, JOB, what, str(arguments.rows), name, "0"],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            found[what] = {**figures_of(folder, what), "secs": time.monotonic() - began}
    gb = 4 * arguments.rows * 16 * 4 / 1e9
    print(f"### Four tables of {arguments.rows:,} rows: {gb:.2f} GB, and slots as large\n")
    print("| | |\n|---|---|")
    print(f"| first step after | {found['first_step_secs']:.1f} s |")
    print(f"| steps/s of a chief and a worker, saves included | {found['steps_per_sec']:.0f} |")
    print(
        f"| pause of the chief for a save | {', '.join(f'{1e3 * s:.0f}' for s in found['pauses_secs'])} ms |"
    )
    for task, peak in found["peak_bytes"].items():
        print(f"| most memory of {task} | {peak / 1e9:.2f} GB |")
    restored = found["restored"]
    print(f"| all killed; with three servers the first step is | {restored['first_step']} |")
    print(f"| after | {restored['after_secs']:.1f} s |")
    for what in ("evaluate", "export"):
        each = found[what]
        print(f"| {what} | {each['secs']:.1f} s, {each['peak_bytes'] / 1e9:.2f} GB |")
    return found


if __name__ == "__main__":
    _results.write("large_tables", main())
