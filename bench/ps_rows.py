"""Measure Estimators whose tables lie on parameter servers: a chief and a worker, by the size of the tables.

All kinds train in turn. ``make bench-peers`` installs TensorFlow, whose Estimators then take turns, too.
MUSTER_BENCH_ALTERNATIONS says how many turns there are, 3 by default. ``--linear`` measures only 1 to 16
trainers that sleep after each step.
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
LONG_STEPS = 20000  # where the first save, of a table of 10^7 rows, is to be no large part of it
ALTERNATIONS = int(os.environ.get("MUSTER_BENCH_ALTERNATIONS", "3"))
DEADLINE_SECS = 300


class Case(NamedTuple):
    """What is trained: the kind of the model, the rows of its tables, the servers, and the steps."""

    kind: str
    rows: int
    servers: int = 1
    steps: int = STEPS


CASES = (
    Case("embedding", 10**4),
    Case("embedding", 10**6),
    Case("embedding", 10**6, servers=2),
    Case("wide and deep", 10**6),
    Case("embedding", 10**4, steps=LONG_STEPS),
    Case("embedding", 10**7, steps=LONG_STEPS),
)
# With what a case is compared: the same steps, with another table or another number of servers.
BESIDE = {CASES[1]: CASES[0], CASES[2]: CASES[1], CASES[5]: CASES[4]}
# How many trainers sleep after each step, so that this machine has room for all of them.
TRAINERS, SLEEP_SECS, SLEEPING_STEPS = (1, 2, 4, 8, 16), 0.02, 400  # steps of each
PEERS = CASES[1], CASES[3]


def train(case: Case, which: str, trainers: int = 2, sleep_secs: float = 0) -> dict[str, dict[str, Any]]:
    """Return the steps a second and the most memory, in MB, of each task.

    Args:
        case: The case.
        which: ``muster`` or ``tensorflow``.
        trainers: The chief and its workers.
        sleep_secs: How long each sleeps after a step. Their figures are the times of their steps, then.
    """
    steps = trainers * SLEEPING_STEPS if sleep_secs else case.steps
    python = python_of("tensorflow") if which == "tensorflow" else sys.executable
    jobs = {"chief": 1, "worker": trainers - 1, "ps": case.servers}
    ports = iter(free_ports(sum(jobs.values())))
    cluster = {
        job: [f"127.0.0.1:{next(ports)}" for _ in range(count)] for job, count in jobs.items() if count
    }
    with tempfile.TemporaryDirectory() as folder:
        tasks = {}
        for job, addresses in cluster.items():
            for index in range(len(addresses)):
                task = {"cluster": cluster, "task": {"type": job, "index": index}}
                command = [str(python), str(JOB), f"{which} {case.kind}", str(case.rows), str(steps), folder]
                environment = os.environ | {"TF_CONFIG": json.dumps(task), "TF_CPP_MIN_LOG_LEVEL": "3"}
                if sleep_secs:
                    environment |= {"SLEEP_SECS": str(sleep_secs), "TRAINERS": str(trainers)}
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


def linear() -> dict[str, Any]:
    """Print and return the steps/s of trainers that sleep, while all of them train."""
    print(f"\n### Trainers that sleep {1e3 * SLEEP_SECS:.0f} ms a step, a table of 10^6 rows on a server\n")
    print("| trainers | steps/s | of as many times the first |\n|---|---|---|")
    figures: dict[str, Any] = {}
    for trainers in TRAINERS:
        found = train(Case("embedding", 10**6), "muster", trainers, SLEEP_SECS)
        times = [each["times"] for each in found.values() if "times" in each and each["times"]]
        begin, end = max(each[0] for each in times) + 1, min(each[-1] for each in times)
        rate = sum(begin <= time < end for each in times for time in each) / (end - begin)
        figures[str(trainers)] = rate
        print(f"| {trainers} | {rate:.1f} | {rate / trainers / figures['1']:.2f} |", flush=True)
    return figures


def _ratio(rates: list[float], others: list[float]) -> float | None:
    """Return how many times as fast one was as the other, the median of the turns; None if it was not run."""
    if not others:
        return None
    return statistics.median(rate / other for rate, other in zip(rates, others, strict=True))


def main() -> dict[str, Any]:
    """Print and return the figures."""
    if sys.argv[1:] == ["--linear"]:
        return {"linear": linear()}
    peer = python_of("tensorflow") is not None
    if not peer:
        print("TensorFlow is left out: `make bench-peers` installs it.\n")
    print(f"### Steps/s of a chief and a worker together, tables on servers, {ALTERNATIONS} turns each\n")
    measured: dict[Case, list[dict[str, dict[str, Any]]]] = {case: [] for case in CASES}
    theirs: dict[Case, list[float]] = {case: [] for case in CASES}
    for turn in range(ALTERNATIONS):
        for case in CASES:
            measured[case].append(train(case, "muster"))
            if peer and case in PEERS:
                theirs[case].append(summed(train(case, "tensorflow")))
        print(f"turn {turn + 1}: {[round(summed(found[-1])) for found in measured.values()]}", flush=True)
    columns = "model", "rows", "servers", "steps", "muster", "of the case beside it", "worker, MB"
    print("\n|", " | ".join((*columns, "server, MB", "TensorFlow", "times TensorFlow")), "|")
    print("|---" * 10 + "|")
    figures: dict[str, Any] = {}
    for case, turns in measured.items():
        rates = [summed(found) for found in turns]
        others = measured[BESIDE[case]] if case in BESIDE else []
        worker, server = (
            statistics.median(found[task]["MB"] for found in turns) for task in ("worker-0", "ps-0")
        )
        figures[" ".join(map(str, case))] = of_case = {
            "muster": statistics.median(rates),
            "beside": _ratio(rates, [summed(each) for each in others]),
            "worker_mb": worker,
            "server_mb": server,
            "tensorflow": statistics.median(theirs[case]) if theirs[case] else None,
            "ratio": _ratio(rates, theirs[case]),
        }
        cells = [case.kind, f"{case.rows:,}", str(case.servers), f"{case.steps:,}"]
        for name, digits in (("muster", 0), ("beside", 2), ("worker_mb", 0), ("server_mb", 0)):
            cells.append("-" if of_case[name] is None else f"{of_case[name]:.{digits}f}")
        for name in ("tensorflow", "ratio"):
            cells.append("-" if of_case[name] is None else f"{of_case[name]:.2f}")
        print("|", " | ".join(cells), "|", flush=True)
    return {"figures": figures, "linear": linear()}


if __name__ == "__main__":
    _results.write("ps_rows", main())
