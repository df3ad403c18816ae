"""Kill a worker of a job and measure how long that stalls: an elastic job, one started again, the peers'.

All train the guide's model in step. Then: what it costs to be elastic while nothing happens.
"""

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from bench.jobs import notes
from bench.peers import python_of, say, widest_gap

from bench import _results

JOB, PEERS = Path(__file__).parent / "_elastic_job.py", Path(__file__).parent / "_peers"
ROUNDS, WORKERS, JOBS = 3, (2, 3, 4), 2
KILL_AT, SAVE_STEPS, PAUSE_SECS = 30, 20, 0.1
TURNS, TURN_STEPS = 20, 100
# How long anything may take, and a start, in seconds.
DEADLINE_SECS, START_SECS = 60, 300
LOSSES_AGREE_WITHIN = 1e-3
KILLED = {
    "elastic": "elastic job",
    "restarted": "`--restarts`: all start again from the last checkpoint",
    "torchrun": "torchrun `--max-restarts`",
    "ray": "Ray Train, `FailureConfig`",
}
# The environments of those that are not muster, as `make bench-peers` names them.
PEER_ENVIRONMENTS = {"torchrun": "torch", "ray": "ray"}
_FOUR = ["--workers", "1:2", "--virtual-replicas", "4"]


class Timed(NamedTuple):
    """A job of two workers whose steps are timed.

    Args:
        label: Its name, for people.
        options: Those of ``muster run``.
        arguments: The last ones of the job.
        environ: What it has in its environment.
        beside: The name of that which it is compared with; empty for the first one.
        replicas: Those with as many read the same data in the same order, and have the same losses.
    """

    label: str
    options: Sequence[str]
    arguments: Sequence[str] = ()
    environ: Mapping[str, str] = MappingProxyType({})
    beside: str = ""
    replicas: int = 2


QUIET = {
    "plain": Timed("MultiWorkerMirroredStrategy", ["--workers", "2"]),
    "elastic": Timed("elastic, two virtual replicas", ["--workers", "1:2"]),
    "deterministic": Timed("elastic, deterministic", ["--workers", "1:2"], ["deterministic"]),
    "four": Timed("elastic, four virtual replicas", _FOUR, replicas=4),
    "four deterministic": Timed(
        "elastic, four, deterministic; beside the line before",
        _FOUR,
        ["deterministic"],
        beside="four",
        replicas=4,
    ),
}


def command(contestant: str, workers: int, folder: Path) -> tuple[list[str], dict[str, str]]:
    """Return the command of a job that notes its steps, and what it has in its environment."""
    run = [sys.executable, "-m", "muster", "run", "--oversubscribe", "--restarts", "9"]
    settings = [str(SAVE_STEPS), str(PAUSE_SECS)]
    match contestant:
        case "elastic":
            return [*run, "--workers", f"1:{workers}", str(JOB), str(folder), *settings, "0"], {}
        case "restarted":
            return [*run, "--workers", str(workers), str(JOB), str(folder), *settings, "0"], {}
        case "ray":
            program = [str(PEERS / "job_ray.py"), str(folder), "100000", *settings, str(workers)]
            quiet = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_TRAIN_V2_ENABLED": "1"}
            return [str(python_of("ray")), *program], quiet | {"PYTHONPATH": str(PEERS)}
        case _:
            launcher = ["--standalone", "--nproc-per-node", str(workers), "--max-restarts", "9"]
            program = [str(PEERS / "job_torch.py"), str(folder), "100000", *settings]
            return [str(python_of("torch")), "-m", "torch.distributed.run", *launcher, *program], {
                "PYTHONPATH": str(PEERS)
            }


@contextlib.contextmanager
def started(
    line: Sequence[str], environment: Mapping[str, str], folder: Path
) -> Iterator[Callable[[], None]]:
    """Start a job, and end it at the end of the block; gives what raises an error if the job has ended."""
    with (folder / "output").open("wb") as output:
        job = subprocess.Popen(
            line,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def check() -> None:
        if job.poll() is not None:
            tail = (folder / "output").read_text(errors="replace")[-4000:]
            raise RuntimeError(f"The job ended with {job.returncode}:\n{tail}")

    try:
        yield check
    finally:
        job.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            job.wait(30)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)  # Ray's own processes, too
        job.wait()


def wait_for(
    found: Callable[[], Any], check: Callable[[], None], what: str, secs: float = DEADLINE_SECS
) -> Any:
    """Wait until a function returns something, and return that.

    Raises:
        RuntimeError: The job has ended, as `check` says.
        TimeoutError: It has not in that time.
    """
    deadline = time.monotonic() + secs
    while time.monotonic() < deadline:
        if (value := found()) is not None:
            return value
        check()
        time.sleep(0.005)
    raise TimeoutError(f"There was no {what} within {secs:.0f} s.")


def kill(contestant: str, workers: int) -> dict[str, float]:
    """Kill the last worker of a job.

    Returns:
        ``seconds`` from the kill to the next new step, unless a peer ends, or makes none within
        DEADLINE_SECS; ``again`` how many steps were made twice. An elastic job has ``noticed``, the seconds
        until the first worker knew, and ``joined``, the longest time between two steps while the worker that
        was started again joined the others.
    """
    with tempfile.TemporaryDirectory() as name:
        folder, last = Path(name), workers - 1

        def step_above(worker: int, step: int, after: float = 0.0) -> dict[str, Any] | None:
            lines = (each for each in notes(folder, worker) if each["when"] > after)
            return next((each for each in lines if each["step"] > step), None)

        with started(*command(contestant, workers, folder), folder) as check:
            victim = wait_for(lambda: step_above(last, KILL_AT - 1), check, f"step {KILL_AT}", START_SECS)
            killed = time.time()
            os.kill(victim["pid"], signal.SIGKILL)
            known = max(each["step"] for worker in range(workers) for each in notes(folder, worker))
            figures: dict[str, float] = {}
            try:
                new = wait_for(lambda: step_above(0, known, killed), check, f"step above {known}")
            except (TimeoutError, RuntimeError) as error:
                if contestant not in PEER_ENVIRONMENTS:
                    raise
                say(f"{contestant} made no new step: {str(error).splitlines()[0]}")
                return {"again": 0}
            figures["seconds"] = new["when"] - killed
            figures["again"] = len(notes(folder, 0)) - len({each["step"] for each in notes(folder, 0)})
            if contestant == "elastic":
                wait_for(lambda: step_above(last, 0, killed), check, f"step of worker {last} again")
                back = notes(folder, 0)[-1]["step"] + 5
                wait_for(lambda: step_above(0, back), check, f"step {back}")
                times = [each["when"] for each in notes(folder, 0) if each["when"] >= new["when"]]
                figures["joined"] = max(b - a for a, b in zip(times, times[1:], strict=False))
                figures["noticed"] = noticed(folder, range(last), killed) - killed
        return figures


def noticed(folder: Path, workers: Sequence[int], killed: float) -> float:
    """Return when the first of these workers has left the step after the kill, as their logs say."""
    lines = (line for worker in workers for line in (folder / f"{worker}.log").read_text().splitlines())
    times = (float(line.split()[0]) for line in lines if " leaves the step: " in line)
    return min(when for when in times if when >= killed)


def turns(
    count: int, starts: int = 1, contestants: Mapping[str, Timed] = QUIET
) -> tuple[dict[str, list[float]], dict[str, list[float]], float]:
    """Time the steps of jobs of two workers in turn.

    Args:
        count: The number of turns.
        starts: How many jobs of each strategy take them: two that do the same differ by some percent, as long
            as they live.

    Returns:
        Milliseconds a step of each turn, by the contestants' names; those of the processors, of both workers;
        and how far their first losses are apart.
    """
    times: dict[str, list[float]] = {name: [] for name in contestants}
    spent: dict[str, list[float]] = {name: [] for name in contestants}
    with contextlib.ExitStack() as stack:
        jobs: dict[tuple[str, int], Any] = {}
        losses: dict[int, dict[str, Any]] = {}
        order = [(name, start) for start in range(starts) for name in contestants]
        for name, start in order:
            each = contestants[name]
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            run = [sys.executable, "-m", "muster", "run", *each.options, str(JOB), str(folder)]
            line = [*run, str(10**9), "0", str(TURN_STEPS), *each.arguments]
            check = stack.enter_context(started(line, each.environ, folder))
            stack.callback(begin, folder, 0)  # so that it ends soon
            jobs[name, start] = folder, check
            wait_for(partial(of_both, folder, "losses", None), check, "losses", START_SECS)
            losses.setdefault(each.replicas, {})[f"{name} {start}"] = notes(folder, 0)[0]["losses"]
        gap, where = max(widest_gap(each) for each in losses.values())  # four replicas read in another order
        if gap > LOSSES_AGREE_WITHIN:
            raise RuntimeError(f"The losses differ by {gap:.2g} at {where}: not the same work.")
        for turn in range(1, count + 2):
            for name, start in order if turn % 2 else reversed(order):
                folder, check = jobs[name, start]
                begin(folder, turn)
                both = wait_for(partial(of_both, folder, "turn", turn), check, "turn")
                if turn > 1:
                    times[name].append(1e3 * both[0]["seconds"] / TURN_STEPS)
                    spent[name].append(1e3 * sum(each["processor"] for each in both) / TURN_STEPS)
            say(f"turn {turn - 1} of {count}" if turn > 1 else "warm-up")
    return times, spent, gap


def begin(folder: Path, turn: int) -> None:
    """Let a job begin a turn; 0 lets it end."""
    (folder / "turn.new").write_text(str(turn))
    (folder / "turn.new").replace(folder / "turn")


def of_both(folder: Path, what: str, value: int | None) -> list[dict[str, Any]] | None:
    """Return each worker's note with this value, any for None, once both have one."""
    found = [
        next((each for each in notes(folder, worker) if what in each and value in (None, each[what])), None)
        for worker in (0, 1)
    ]
    return None if None in found else found


def spread(values: Sequence[float], form: str = ".2f") -> str:
    """Return the median, and the lowest and the highest in brackets."""
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def kill_table(found: dict[str, list[dict[str, float]]]) -> str:
    """Return figures of `kill` as Markdown."""
    lines = [
        "| | next new step, s | times as long | steps again | noticed after, s | stall at its return, s |",
        "|---|---|---|---|---|---|",
    ]
    for name, each in found.items():
        pairs = [
            (one["seconds"], own["seconds"])
            for one, own in zip(each, found["elastic"], strict=True)
            if "seconds" in one
        ]
        seconds = [one for one, _ in pairs]
        took = spread(seconds) if pairs else ""
        if missed := len(each) - len(pairs):
            took += f" none within {DEADLINE_SECS} s, {missed} times of {len(each)}"
        ratio = ratios(seconds, [own for _, own in pairs], ".1f") if pairs and name != "elastic" else ""
        again = statistics.median(one["again"] for one in each)
        cells = [KILLED[name], took.strip(), ratio, f"{again:.0f}"]
        for what in ("noticed", "joined"):
            cells.append(spread([one[what] for one in each]) if what in each[0] else "")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def turn_table(
    times: dict[str, list[float]],
    spent: dict[str, list[float]],
    contestants: Mapping[str, Timed] = QUIET,
) -> str:
    """Return milliseconds a step as Markdown."""
    lines = [
        f"| median of {len(next(iter(times.values())))} turns | ms a step | times as long "
        "| ms of the processors | times as much |",
        "|---|---|---|---|---|",
    ]
    for name in times:
        cells = [contestants[name].label]
        for of_each in (times, spent):
            beside = contestants[name].beside or next(iter(of_each))
            ratio = "1" if name == beside else ratios(of_each[name], of_each[beside], ".3f")
            cells += [spread(of_each[name]), ratio]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def ratios(values: Sequence[float], others: Sequence[float], form: str) -> str:
    """Return the spread of the ratios of each round."""
    return spread([a / b for a, b in zip(values, others, strict=True)], form)


def main() -> None:
    """Measure, and print tables."""
    parser = argparse.ArgumentParser(prog="python -m bench recovery", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="kills of each (default: %(default)s)")
    parser.add_argument("--workers", type=int, nargs="+", default=WORKERS, help="default: 2 3 4; up to 8")
    parser.add_argument("--turns", type=int, default=TURNS, help="default: %(default)s; 0 leaves them out")
    parser.add_argument("--jobs", type=int, default=JOBS, help="of each strategy (default: %(default)s)")
    parser.add_argument("--results", type=Path, default=_results.RESULTS, help="folder for JSON")
    args = parser.parse_args()
    names = [name for name in KILLED if name not in PEER_ENVIRONMENTS or python_of(PEER_ENVIRONMENTS[name])]
    for name in KILLED.keys() - names:
        print(f"{name} is left out: it is not installed; `make bench-peers` does that.\n")
    kills: dict[str, dict[str, list[dict[str, float]]]] = {}
    for workers in args.workers if args.rounds else ():
        found = kills[str(workers)] = {name: [] for name in names}
        for turn in range(1, args.rounds + 1):
            for name in names:
                found[name].append(kill(name, workers))
                say(f"{workers} workers, kill {turn}: {name}: {json.dumps(found[name][-1])}")
        print(
            f"### One of {workers} workers is killed at step {KILL_AT}\n\n{kill_table(found)}\n", flush=True
        )
    figures: dict[str, Any] = {"kills": kills}
    if args.turns:
        times, spent, gap = turns(args.turns, args.jobs)
        figures |= {"ms_per_step": times, "processor_ms_per_step": spent, "loss_gap": gap}
        print("### Two workers, none of which is lost\n")
        print(f"The losses of 50 steps agree within {gap:.1g}.\n")
        print(turn_table(times, spent))
    _results.write("recovery", figures, args.results)


if __name__ == "__main__":
    main()
