"""Run the tasks of a job on this machine, beside each other on its one card, each with its TF_CONFIG.

``muster run`` would refuse: it gives no card to two tasks.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from bench._gpu._part import Part
from bench.workers import free_ports

# The part's own time after its tasks.
_REST_SECS = 6.0
_GRACE_SECS = 5.0
_TAIL_LINES = 25


def run_tasks(part: Part, program: str, names: Sequence[str], arguments: Sequence[object]) -> dict[str, Any]:
    """Run a program as each task of a job, and return their reports, of those that wrote one.

    What goes wrong becomes a failure of the part, with the end of the task's output.

    Args:
        part: The part; tasks that run until shortly before its end are killed.
        program: A module of ``bench._gpu``, which writes its report, in JSON, to the file that
            MUSTER_BENCH_REPORT names.
        names: The tasks, such as ``worker 0``.
        arguments: The program's arguments.
    """
    cluster: dict[str, list[str]] = {}
    for name, port in zip(names, free_ports(len(names)), strict=True):
        cluster.setdefault(name.split()[0], []).append(f"127.0.0.1:{port}")
    reports = {name: part.folder / f"{part.name}-{name.replace(' ', '-')}.json" for name in names}
    tasks = {}
    try:
        for name, report in reports.items():
            kind, index = name.split()
            job = {"cluster": cluster, "task": {"type": kind, "index": int(index)}}
            environment = os.environ | {
                "TF_CONFIG": json.dumps(job),
                "MUSTER_BENCH_REPORT": str(report),
                # Each would take most of the card's memory at its start.
                "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
                "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.4",
            }
            if kind == "ps":
                environment["JAX_PLATFORMS"] = "cpu"  # as under muster run
            command = [sys.executable, "-m", f"bench._gpu.{program}", *map(str, arguments)]
            with report.with_suffix(".log").open("w") as log:
                tasks[name] = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        ended = _wait(tasks, part.ends_at - _REST_SECS)
    finally:
        for task in tasks.values():
            task.kill()
            task.wait()
    for name, report in reports.items():
        if ended.get(name) != 0:
            what = f"ended with code {ended[name]}" if name in ended else "did not end, and was killed"
            lines = report.with_suffix(".log").read_text(errors="replace").splitlines()[-_TAIL_LINES:]
            part.fail("\n".join([f"{name} {what}. Its last lines:", *lines]))
    return {name: json.loads(report.read_text()) for name, report in reports.items() if report.exists()}


def _wait(tasks: dict[str, subprocess.Popen[bytes]], until: float) -> dict[str, int]:
    """Return the exit codes of the tasks that end in time, which is short once one has failed."""
    ended: dict[str, int] = {}
    while len(ended) < len(tasks) and time.monotonic() < until:
        for name, task in tasks.items():
            if name not in ended and task.poll() is not None:
                ended[name] = task.returncode
                if task.returncode:
                    until = min(until, time.monotonic() + _GRACE_SECS)
        time.sleep(0.05)
    return ended
