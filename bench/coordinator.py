"""Measure a ClusterCoordinator: functions that do nothing, and ``fit`` with two workers and a server.

``closures`` schedules functions beside TensorFlow's coordinator, in turn, and has muster's run 100,000 of
them, to see whether memory grows. ``fit`` trains the guide's model beside TensorFlow's ``fit`` under the same
strategy, and beside muster's asynchronous Estimator. ``bench/peers.py`` says how peers are found.
"""

import argparse
import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.peers import python_of
from bench.ps_training import summed_speed
from bench.workers import free_ports

from bench import _results

PEERS = Path(__file__).parent / "_peers"
JOBS = {"chief": 1, "worker": 2, "ps": 1}
EMPTY, FETCHES, ROUNDS = 2000, 200, 10
MEMORY_CLOSURES, MEMORY_PARTS = 100_000, 10
FIT_STEPS, FIT_EPOCHS, FIT_ROUNDS = 300, 4, 5
ANSWER_SECS = 300.0


class Chief:
    """The coordinator of a cluster, which answers lines.

    Attributes:
        tasks: The process of each task.
    """

    def __init__(self, tasks: dict[str, subprocess.Popen[str]], log: Path) -> None:
        self.tasks = tasks
        self._log = log

    def line(self) -> str:
        """Return its next line."""
        process = self.tasks["chief 0"]
        watchdog = threading.Timer(ANSWER_SECS, process.kill)
        watchdog.start()
        try:
            line = process.stdout.readline()
        finally:
            watchdog.cancel()
        if not line:
            raise RuntimeError(f"The chief has ended. Its last words:\n{self._log.read_text()[-3000:]}")
        return line

    def ask(self, question: str) -> Any:
        """Return its answer to a question."""
        self.tasks["chief 0"].stdin.write(f"{question}\n")
        self.tasks["chief 0"].stdin.flush()
        return json.loads(self.line())


@contextlib.contextmanager
def cluster(python: str, script: str, *arguments: Any, pinned: bool = False) -> Iterator[Chief]:
    """Start a chief, two workers and a server, and end them afterwards.

    Args:
        python: What runs the script.
        script: A module of ``bench._peers``.
        *arguments: Its arguments.
        pinned: Whether each worker has a core.
    """
    names = [(job, index) for job, count in JOBS.items() for index in range(count)]
    ports = iter(free_ports(len(names)))
    jobs = {job: [f"127.0.0.1:{next(ports)}" for _ in range(count)] for job, count in JOBS.items()}
    cores = sorted(os.sched_getaffinity(0))
    tasks: dict[str, subprocess.Popen[str]] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as opened:
        try:
            for job, index in names:
                command = [python, str(PEERS / f"{script}.py"), *map(str, arguments)]
                if pinned and job == "worker":
                    command = ["taskset", "-c", str(cores[index % len(cores)]), *command]
                config = json.dumps({"cluster": jobs, "task": {"type": job, "index": index}})
                log = opened.enter_context((Path(folder) / f"{job}-{index}.log").open("w"))
                tasks[f"{job} {index}"] = subprocess.Popen(
                    command,
                    env=os.environ | {"TF_CONFIG": config, "TF_CPP_MIN_LOG_LEVEL": "3"},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                )
            yield Chief(tasks, Path(folder) / "chief-0.log")
        finally:
            for task in tasks.values():  # TensorFlow's servers never end
                task.kill()
                task.communicate()


def contestants() -> dict[str, str]:
    """Return the Python of each contestant."""
    found = {"muster": sys.executable}
    if python := python_of("tensorflow"):
        found["TensorFlow"] = python
    else:
        print("TensorFlow is left out: `make bench-peers` installs it.\n")
    return found


def in_turn(turns: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Let contestants take turns, in the other order at every round; return what each turn gave."""
    found: dict[str, list[float]] = {name: [] for name in turns}
    for number in range(rounds):
        for name in list(turns)[:: 1 if number % 2 else -1]:
            found[name].append(turns[name]())
            print(f"round {number + 1}: {name}: {found[name][-1]:.4g}", file=sys.stderr)
    return found


def spread(values: list[float]) -> str:
    """Return the median of values with the lowest and the highest."""
    return f"{statistics.median(values):.4g} ({min(values):.4g} to {max(values):.4g})"


def ratios(found: dict[str, list[float]]) -> dict[str, Any]:
    """Print and return the medians, and how many times as fast muster's turns were as those of others."""
    figures: dict[str, Any] = {name: round(statistics.median(each), 1) for name, each in found.items()}
    for name, each in found.items():
        if name != "muster":
            times = [ours / theirs for ours, theirs in zip(found["muster"], each, strict=True)]
            figures[f"over {name}"] = round(statistics.median(times), 2)
            print(f"muster is {spread(times)} times as fast as {name}.")
    return figures


def closures() -> dict[str, Any]:
    """Print and return functions a second, how long one takes to its result, and how memory grows."""
    with contextlib.ExitStack() as opened:
        chiefs = {
            name: opened.enter_context(cluster(python, "coordinator"))
            for name, python in contestants().items()
        }
        for chief in chiefs.values():
            chief.line()
        speeds = in_turn(
            {name: lambda chief=chief: EMPTY / chief.ask(f"empty {EMPTY}") for name, chief in chiefs.items()},
            ROUNDS,
        )
        fetches = in_turn(
            {
                name: lambda chief=chief: 1 / statistics.median(chief.ask(f"fetch {FETCHES}"))
                for name, chief in chiefs.items()
            },
            ROUNDS,
        )
        print("| two workers | functions of nothing a second | schedule and fetch, ms |\n|---|---|---|")
        for name in chiefs:
            print(f"| {name} | {spread(speeds[name])} | {spread([1e3 / each for each in fetches[name]])} |")
        figures = {"empty_per_sec": ratios(speeds), "fetches_per_sec": ratios(fetches)}
        figures["memory"] = memory(chiefs["muster"])
    return figures


def memory(chief: Chief) -> dict[str, list[int]]:
    """Print and return the memory of each task, in bytes, while 100,000 functions are scheduled."""
    sizes: dict[str, list[int]] = {name: [] for name in chief.tasks}
    for _ in range(MEMORY_PARTS):
        chief.ask(f"empty {MEMORY_CLOSURES // MEMORY_PARTS}")
        for name, task in chief.tasks.items():
            sizes[name].append(resident(task.pid))
    for name, each in sizes.items():
        print(
            f"{name}: {each[0] / 1e6:.1f} MB after {MEMORY_CLOSURES // MEMORY_PARTS} functions, "
            f"{each[-1] / 1e6:.1f} MB after {MEMORY_CLOSURES}"
        )
    return sizes


def resident(process: int) -> int:
    """Return the memory of a process now, in bytes."""
    status = Path(f"/proc/{process}/status").read_text()
    return 1024 * int(re.search(r"VmRSS:\s+(\d+) kB", status)[1])


def fit_speed(python: str) -> float:
    """Return the steps a second of ``fit``, by its fastest epoch after the first, which compiles."""
    with cluster(python, "coordinated_fit", FIT_STEPS, FIT_EPOCHS, pinned=True) as chief:
        return FIT_STEPS / min(json.loads(chief.line())[1:])


def fit() -> dict[str, Any]:
    """Print and return the steps a second of both workers."""
    turns: dict[str, Callable[[], float]] = {
        name: lambda python=python: fit_speed(python) for name, python in contestants().items()
    }
    turns["the Estimator"] = lambda: summed_speed(sys.executable)
    found = in_turn(turns, FIT_ROUNDS)
    print("| two trainers and a server | batches/s of both |\n|---|---|")
    for name, each in found.items():
        print(f"| {name} | {spread(each)} |")
    return ratios(found)


PARTS = {"closures": closures, "fit": fit}


def main() -> dict[str, Any]:
    """Print and return all figures that were asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench.coordinator", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="what to measure (default: both)")
    return {part: PARTS[part]() for part in parser.parse_args().parts or PARTS}


if __name__ == "__main__":
    _results.write("coordinator", main())
