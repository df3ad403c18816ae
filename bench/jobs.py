"""Compare jobs of two workers as their documentation starts them: the start, the speed, the kill of a worker.

The contestants train the guide's model. ``make bench-peers`` installs PyTorch with Accelerate, and Ray Train;
``bench/peers.py`` says how peers are found.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bench.peers import python_of, say
from bench.workers import free_ports

from bench import _results

PEERS = Path(__file__).parent / "_peers"
BATCH, CHECK_STEPS = 64, 60  # those of bench/_peers/job.py
SAVE_STEPS, KILL_AT, PAUSE_SECS = 20, 30, 0.2  # of a job in which a worker is killed
ROUNDS = 3
DEADLINE_SECS = 60
# The name of each, its Python, and the package whose installation is weighed.
CONTESTANTS = {
    "muster": ("muster run", "muster", "muster-train"),
    "tensorflow": ("TensorFlow, Estimator", "tensorflow", "tensorflow-cpu"),
    "torchrun": ("torchrun", "torch", "torch"),
    "accelerate": ("Accelerate", "torch", "accelerate"),
    "ray": ("Ray Train", "ray", "ray"),
}
# The size of a distribution and of all that it needs, and the versions of some; run in each Python.
WEIGH = """
import importlib.metadata as m, json, re, sys
seen, todo = {}, [sys.argv[1], *sys.argv[2:]]
while todo:
    name = re.sub("[-_.]+", "-", todo.pop().lower())
    if name in seen:
        continue
    try:
        found = m.distribution(name)
    except m.PackageNotFoundError:
        continue  # for another system or Python
    seen[name] = sum(f.size or 0 for f in found.files or [])
    todo += [re.match(r"[\\w.-]+", r)[0] for r in found.requires or [] if "extra ==" not in r]
print(json.dumps({"bytes": sum(seen.values()), "version": m.version(sys.argv[1])}))
"""


def commands(contestant: str, folder: Path, *settings: float) -> list[tuple[list[str], dict[str, str]]]:
    """Return the commands of a job and what each has in its environment: one, if there is a launcher."""
    python = python_of(CONTESTANTS[contestant][1])
    arguments = [str(folder), *map(str, settings)]
    quiet = {"PYTHONPATH": str(PEERS), "RAY_USAGE_STATS_ENABLED": "0", "RAY_TRAIN_V2_ENABLED": "1"}
    if contestant == "muster":
        script = str(PEERS / "job_estimator.py")
        command = [python, "-m", "muster", "run", "--workers", "2", "--restarts", "3", script]
        return [([*command, *arguments], quiet | {"PYTHONPATH": os.environ.get("PYTHONPATH", "")})]
    if contestant == "tensorflow":
        addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
        jobs = [{"cluster": {"worker": addresses}, "task": {"type": "worker", "index": i}} for i in (0, 1)]
        command = [python, str(PEERS / "job_estimator.py"), *arguments]
        return [
            (command, quiet | {"TF_CONFIG": json.dumps(job), "TF_CPP_MIN_LOG_LEVEL": "3"}) for job in jobs
        ]
    if contestant == "ray":
        return [([python, str(PEERS / "job_ray.py"), *arguments], quiet)]
    launcher = [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    program = [str(PEERS / "job_torch.py"), *arguments, *(["accelerate"] * (contestant == "accelerate"))]
    return [([*launcher, "--max-restarts", "3", *program], quiet)]


@contextmanager
def started(contestant: str, folder: Path, *settings: float) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Start a job with these settings, those of ``bench/_peers/job.py``, and end what is left of it."""
    processes = []
    try:
        for command, environment in commands(contestant, folder, *settings):
            with (folder / "output").open("ab") as output:
                processes.append(
                    subprocess.Popen(
                        command,
                        env=os.environ | environment,
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                    )
                )
        yield processes
    finally:
        for each in processes:
            try:
                os.killpg(each.pid, signal.SIGTERM)
                each.wait(20)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                pass
            try:
                os.killpg(each.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            each.wait()


def notes(folder: Path, worker: int) -> list[dict[str, Any]]:
    """Return a worker's log so far, without a line that is still being written."""
    path = folder / f"{worker}.jsonl"
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def wait_for(
    folder: Path, worker: int, above: int, processes: Sequence[subprocess.Popen[bytes]]
) -> dict[str, Any]:
    """Wait until a worker has done a step above this one, and return its note."""
    deadline = time.monotonic() + DEADLINE_SECS
    while time.monotonic() < deadline:
        ended = all(each.poll() is not None for each in processes)
        for each in notes(folder, worker):
            if each["step"] > above:
                return each
        if ended:
            break
        time.sleep(0.005)
    raise RuntimeError(f"No step above {above}:\n{(folder / 'output').read_text(errors='replace')[-3000:]}")


def start_and_speed(contestant: str, steps: int) -> dict[str, float]:
    """Run a job to its end: seconds to the first step, images a second after CHECK_STEPS, memory."""
    with tempfile.TemporaryDirectory() as name:
        folder, began = Path(name), time.time()
        with started(contestant, folder, steps, steps, 0) as processes:
            first = max(wait_for(folder, worker, 0, processes)["when"] for worker in (0, 1))
            wait_for(folder, 0, steps - 1, processes)
            wait_for(folder, 1, steps - 1, processes)
            last = {each["step"]: each for each in notes(folder, 0)}
            seconds = last[steps]["when"] - last[CHECK_STEPS]["when"]
            peak = max(notes(folder, worker)[-1]["peak_kib"] for worker in (0, 1))
        return {
            "first_step_secs": first - began,
            "images_per_sec": 2 * BATCH * (steps - CHECK_STEPS) / seconds,
            "worker_mb": peak * 1024 / 1e6,
        }


def kill(contestant: str) -> dict[str, Any]:
    """Kill worker 1 of a job: what the job does then, the seconds lost, and what it trains on twice."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = (CHECK_STEPS, SAVE_STEPS, PAUSE_SECS)
        found: dict[str, Any] = {"next_new_step_after_secs": None, "other_worker_ends_after_secs": None}
        with started(contestant, folder, *settings) as processes:
            victim = wait_for(folder, 1, KILL_AT - 1, processes)
            killed = time.time()
            os.kill(victim["pid"], signal.SIGKILL)
            done = max(victim["step"], *(each["step"] for each in notes(folder, 0)))
            found["has_launcher"] = len(processes) == 1
            if found["has_launcher"]:
                with suppress(RuntimeError):
                    found["next_new_step_after_secs"] = wait_for(folder, 0, done, processes)["when"] - killed
                    wait_for(folder, 0, CHECK_STEPS - 1, processes)
            else:
                with suppress(subprocess.TimeoutExpired):
                    processes[0].wait(DEADLINE_SECS)
                    found["other_worker_ends_after_secs"] = time.time() - killed
        if not found["has_launcher"]:
            with started(contestant, folder, *settings) as processes:
                wait_for(folder, 0, CHECK_STEPS - 1, processes)
        return found | {
            "examples_twice": twice(notes(folder, 0)),
            "steps_again": steps_again(notes(folder, 0)),
        }


def twice(logged: Sequence[dict[str, Any]]) -> int:
    """Return how many examples the final model has seen twice: by both workers, in its first steps.

    A step that was made again counts as it was made last. No example is in two batches of a pass, and the
    steps are fewer than those of a pass.
    """
    first_examples = {each["step"]: each["first"] for each in logged}
    return 2 * BATCH * (len(first_examples) - len(set(first_examples.values())))


def steps_again(logged: Sequence[dict[str, Any]]) -> int:
    """Return how many steps were made more than once."""
    return len(logged) - len({each["step"] for each in logged})


def installed(contestant: str) -> dict[str, Any]:
    """Return the bytes of a contestant's installation, and its version."""
    _, library, package = CONTESTANTS[contestant]
    also = {"accelerate": ["torch"], "ray": ["torch", "pyarrow", "pandas", "pydantic", "fsspec"]}
    done = subprocess.run(
        [python_of(library), "-c", WEIGH, package, *also.get(contestant, [])],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def measure(contestants: Sequence[str], rounds: int, steps: int, rounds_of_kills: int) -> dict[str, Any]:
    """Measure the contestants in turn; the first round is not counted, since nothing is in memory yet."""
    found: dict[str, dict[str, list[float]]] = {name: {} for name in contestants}
    kills: dict[str, list[dict[str, Any]]] = {name: [] for name in contestants}
    for turn in range(rounds + 1):
        for name in contestants:
            figures = start_and_speed(name, steps)
            say(f"round {turn} of {rounds}: {name}: {figures}")
            if turn:
                for what, value in figures.items():
                    found[name].setdefault(what, []).append(value)
    for turn in range(1, rounds_of_kills + 1):
        for name in contestants:
            kills[name].append(kill(name))
            say(f"kill {turn} of {rounds_of_kills}: {name}: {kills[name][-1]}")
    return {name: {**found[name], "kills": kills[name], **installed(name)} for name in contestants}


def table(results: dict[str, Any]) -> str:
    """Return the figures as Markdown: medians, and ratios to muster."""
    lines = [
        "| | first step, s | images/s | muster is so many times as fast | MB of a worker | installed, MB |",
        "|---|---|---|---|---|---|",
    ]
    for name, each in results.items():
        speed = each["images_per_sec"]
        ratio = ""
        if name != "muster" and "muster" in results:
            ratios = sorted(a / b for a, b in zip(results["muster"]["images_per_sec"], speed, strict=True))
            ratio = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        first, memory = (statistics.median(each[what]) for what in ("first_step_secs", "worker_mb"))
        lines.append(
            f"| {CONTESTANTS[name][0]} {each['version']} | {first:.1f} | {statistics.median(speed):,.0f} "
            f"| {ratio} | {memory:.0f} | {each['bytes'] / 1e6:,.0f} |"
        )
    if not all(each["kills"] for each in results.values()):
        return "\n".join(lines)
    lines += [
        "",
        "| worker 1 is killed at step 30 | next new step, s | steps again | examples twice | the other |",
        "|---|---|---|---|---|",
    ]
    for name, each in results.items():
        kills, other = each["kills"], ""
        if kills[0]["has_launcher"]:
            stalled = middle(one["next_new_step_after_secs"] for one in kills)
        else:
            stalled = "not started again: it has no launcher"
            other = f"ends after {middle(one['other_worker_ends_after_secs'] for one in kills)} s"
        went_on = [one for one in kills if one["next_new_step_after_secs"] or not one["has_launcher"]]
        again = statistics.median([one["steps_again"] for one in went_on] or [0])
        both = statistics.median([one["examples_twice"] for one in went_on] or [0])
        lines.append(f"| {CONTESTANTS[name][0]} | {stalled} | {again:.0f} | {both:,.0f} | {other} |")
    return "\n".join(lines)


def middle(found: Iterable[float | None]) -> str:
    """Return the median of seconds, their range, and how often nothing happened within DEADLINE_SECS."""
    values = list(found)
    there = [value for value in values if value is not None]
    text = f"{statistics.median(there):.1f} ({min(there):.1f} to {max(there):.1f})" if there else ""
    if len(there) < len(values):
        text += f" not within {DEADLINE_SECS}, {len(values) - len(there)} times of {len(values)}"
    return text.strip()


def main() -> None:
    """Measure, and print tables."""
    parser = argparse.ArgumentParser(prog="python -m bench.jobs", description=__doc__)
    parser.add_argument("--contestants", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS))
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of each (default: %(default)s)")
    parser.add_argument(
        "--kills", type=int, default=ROUNDS, help="of a worker of each (default: %(default)s)"
    )
    parser.add_argument("--steps", type=int, default=CHECK_STEPS + 300, help="default: %(default)s")
    parser.add_argument("--results", type=Path, default=_results.RESULTS, help="folder for JSON")
    args = parser.parse_args()
    there = [name for name in args.contestants if python_of(CONTESTANTS[name][1])]
    for name in args.contestants:
        if name not in there:
            print(f"{CONTESTANTS[name][0]} is left out: it is not installed; `make bench-peers` does that.\n")
    results = measure(there, args.rounds, args.steps, args.kills)
    _results.write("jobs", {"jobs": results}, args.results)
    print(table(results))


if __name__ == "__main__":
    main()
