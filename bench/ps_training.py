"""Compare a chief, a worker and a parameter server on the guide's model: batches a second of both trainers.

Each trainer has a core, and the server runs where there is room. ``bench/peers.py`` says how peers are found.
Then, of muster alone, parameter servers and MultiWorkerMirroredStrategy, with a slower and slower worker.
"""

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.peers import python_of
from bench.workers import free_ports

from bench import _results

SCRIPT = Path(__file__).parent / "_peers" / "served_estimator.py"
STEPS = 1500
WARM_SECS = 1.0  # without those at the beginning of the time in which both train
ALTERNATIONS = 10
SLOW_MS = (0, 5, 20)
SLOW_STEPS, SLOW_ALTERNATIONS = 800, 2
DEADLINE_SECS = 300


def summed_speed(python: str, *, steps: int = STEPS, slow_ms: float = 0, served: bool = True) -> float:
    """Train once, and return the batches a second while both trainers make some.

    Args:
        python: What runs the script.
        steps: The global step to end at.
        slow_ms: How long the worker sleeps after each step.
        served: Whether there is a parameter server; without one, both train in step.
    """
    names = ("chief", "worker", "ps") if served else ("chief", "worker")
    cluster = {name: [f"127.0.0.1:{port}"] for name, port in zip(names, free_ports(len(names)), strict=True)}
    cores = sorted(os.sched_getaffinity(0))[:2]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tasks = {}
        for number, task in enumerate(names):
            command = [python, str(SCRIPT), str(steps), name]
            if task != "ps":
                command = ["taskset", "-c", str(cores[number]), *command]
            job = {"cluster": cluster, "task": {"type": task, "index": 0}}
            environment = os.environ | {
                "TF_CONFIG": json.dumps(job),
                "TF_CPP_MIN_LOG_LEVEL": "3",
                "SLOW_SECS": str(1e-3 * slow_ms),
            }
            with (folder / f"{task}.log").open("w") as log:
                tasks[task] = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            for task in ("chief", "worker"):  # TensorFlow's servers never end
                if tasks[task].wait(DEADLINE_SECS):
                    raise RuntimeError((folder / f"{task}.log").read_text()[-3000:])
        finally:
            for task in tasks.values():
                task.send_signal(signal.SIGKILL)
                task.wait()
        times = [json.loads((folder / f"{task}.json").read_text()) for task in ("chief", "worker")]
    start = max(each[0] for each in times) + WARM_SECS
    end = min(each[-1] for each in times)
    return sum(start <= time <= end for each in times for time in each) / (end - start)


def beside_peers() -> dict[str, object]:
    """Take turns, and print and return the medians and the ratio."""
    contestants = {"muster": sys.executable}
    if python := python_of("tensorflow"):
        contestants["TensorFlow"] = python
    else:
        print("TensorFlow is left out: `make bench-peers` installs it.\n")
    speeds: dict[str, list[float]] = {name: [] for name in contestants}
    for alternation in range(ALTERNATIONS):
        for name, executable in contestants.items():
            speeds[name].append(speed := summed_speed(executable))
            print(f"round {alternation + 1}: {name}: {speed:.1f} steps/s", file=sys.stderr)
    print("| chief, worker and one server | batches/s of both |\n|---|---|")
    for name, each in speeds.items():
        print(f"| {name} | {statistics.median(each):.1f} ({min(each):.1f} to {max(each):.1f}) |")
    figures: dict[str, object] = {name: round(statistics.median(each), 1) for name, each in speeds.items()}
    if "TensorFlow" in speeds:
        ratios = [a / b for a, b in zip(speeds["muster"], speeds["TensorFlow"], strict=True)]
        figures["ratio"] = round(statistics.median(ratios), 2)
        print(f"\nmuster is {figures['ratio']} times as fast ({min(ratios):.2f} to {max(ratios):.2f}).")
    return figures


def crossover() -> dict[str, dict[str, float]]:
    """Print and return the batches a second with a slower and slower worker, with a server and in step."""
    print("\n| the worker sleeps after a step | a server | in step | ratio |\n|---|---|---|---|")
    figures = {}
    for slow_ms in SLOW_MS:
        speeds: dict[bool, list[float]] = {True: [], False: []}
        for _ in range(SLOW_ALTERNATIONS):
            for served, each in speeds.items():
                steps = SLOW_STEPS if served else SLOW_STEPS // 2
                each.append(summed_speed(sys.executable, steps=steps, slow_ms=slow_ms, served=served))
        apart, together = (statistics.median(each) for each in speeds.values())
        figures[f"{slow_ms} ms"] = {"server": round(apart, 1), "in_step": round(together, 1)}
        print(f"| {slow_ms} ms | {apart:.1f} | {together:.1f} | {apart / together:.2f} |")
    return figures


def main() -> dict[str, object]:
    """Print and return all figures."""
    return {"beside_peers": beside_peers(), "slower_worker": crossover()}


if __name__ == "__main__":
    _results.write("ps_training", main())
