"""Measure Estimators whose tables lie on parameter servers: a chief and a worker, by the size of the tables.

All kinds train in turn. ``make bench-peers`` installs TensorFlow, whose Estimators then take turns, too.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from bench.peers import python_of
from bench.workers import free_ports

from bench import _results

JOB = Path(__file__).with_name("_ps_rows_job.py")
STEPS = 2000  # of both trainers together
ALTERNATIONS = int(os.environ.get("MUSTER_BENCH_ALTERNATIONS", "3"))
DEADLINE_SECS = 300


class Case(NamedTuple):
    """What is trained: the kind of the model, the rows of its tables, and the number of servers."""

    kind: str
    rows: int
    servers: int = 1


CASES = (
    Case("embedding", 10**4),
    Case("embedding", 10**6),
    Case("embedding", 10**6, servers=2),
    Case("embedding", 10**7),
    Case("wide and deep", 10**6),
)
PEERS = {10**6: ("embedding", "wide and deep")}


def train(case: Case, which: str) -> dict[str, dict[str, float]]:
    """Return the steps a second and the most memory, in MB, of each task.

    Args:
        case: The case.
        which: ``muster`` or ``tensorflow``.
    """
    python = python_of("tensorflow") if which == "tensorflow" else sys.executable
    jobs = {"chief": 1, "worker": 1, "ps": case.servers}
    ports = iter(free_ports(sum(jobs.values())))
    cluster = {job: [f"127.0.0.1:{next(ports)}" for _ in range(count)] for job, count in jobs.items()}
    with tempfile.TemporaryDirectory() as folder:
        tasks = {}
        for job, addresses in cluster.items():
            for index in range(len(addresses)):
                task = {"cluster": cluster, "task": {"type": job, "index": index}}
                command = [str(python), str(JOB), f"{which} {case.kind}", str(case.rows), str(STEPS), folder]
                environment = os.environ | {"TF_CONFIG": json.dumps(task), "TF_CPP_MIN_LOG_LEVEL": "3"}
                tasks[job, index] = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)
        try:
            for (job, index), task in tasks.items():
                if job == "ps" and which == "tensorflow":
                    continue  # it serves until it is killed
                _, errors = task.communicate(timeout=DEADLINE_SECS)
                if task.returncode:
                    raise RuntimeError(f"{job} {index} of {case} failed:\n{errors.decode()[-3000:]}")
        finally:
            for task in tasks.values():
                task.kill()
                task.wait()
        return {path.stem: json.loads(path.read_text()) for path in sorted(Path(folder).glob("*.json"))}


def summed(found: dict[str, dict[str, float]]) -> float:
    """Return the steps a second of all trainers."""
    return sum(each.get("rate", 0.0) for each in found.values())


def main() -> dict[str, Any]:
    """Print and return the figures."""
    peer = python_of("tensorflow") is not None
    if not peer:
        print("TensorFlow is left out: `make bench-peers` installs it.\n")
    print(f"### Steps/s of a chief and a worker together, tables on servers, {ALTERNATIONS} turns each\n")
    print("| model | rows | servers | muster | worker, MB | server, MB | TensorFlow | times TensorFlow |")
    print("|---" * 8 + "|")
    figures: dict[str, Any] = {}
    for case in CASES:
        compared = peer and case.servers == 1 and case.kind in PEERS.get(case.rows, ())
        turns = []
        for _ in range(ALTERNATIONS):
            ours = train(case, "muster")
            turns.append((ours, summed(train(case, "tensorflow")) if compared else None))
        rate = statistics.median(summed(ours) for ours, _ in turns)
        worker, server = (
            statistics.median(ours[task]["MB"] for ours, _ in turns) for task in ("worker-0", "ps-0")
        )
        theirs, ratio = None, None
        if compared:
            theirs = statistics.median(other for _, other in turns)
            ratio = statistics.median(summed(ours) / other for ours, other in turns)
        said = ["-" if each is None else f"{each:.1f}" for each in (theirs, ratio)]
        print(
            f"| {case.kind} | {case.rows:,} | {case.servers} | {rate:.0f} | {worker:.0f} | {server:.0f} | "
            f"{said[0]} | {said[1]} |",
            flush=True,
        )
        figures[" ".join(map(str, case))] = {
            "muster": rate,
            "worker_mb": worker,
            "server_mb": server,
            "tensorflow": theirs,
            "ratio": ratio,
        }
    return {"figures": figures}


if __name__ == "__main__":
    _results.write("ps_rows", main())
