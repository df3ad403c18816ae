"""Compare training steps of muster with those of its peers, in turn in one run, on several models.

``make bench-peers`` installs TensorFlow and PyTorch in virtual environments in ``.peers``;
MUSTER_BENCH_TENSORFLOW and MUSTER_BENCH_TORCH name other Pythons. Peers that are not installed are left out.
"""

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from bench.cases._shared import step_cost

from bench import _results, _roofline

ROOT = Path(__file__).parent.parent
CASES = ("mlp", "cnn", "resnet", "mobilenet", "lstm", "gru", "transformer", "wide_and_deep")
CONTESTANTS = {
    "muster": ("muster, Estimator", "estimator"),
    "keras": ("Keras 3 on JAX, fit", "keras_fit"),
    "tensorflow": ("TensorFlow, Estimator", "estimator"),
    "torch": ("PyTorch, a loop", "torch_loop"),
}
AGREEMENT = 1e-3
ANSWER_SECS = 900


def python_of(contestant: str) -> str | None:
    """Return the Python that has a contestant's packages, or None if they are not installed."""
    if contestant in ("muster", "keras"):
        return sys.executable
    path = os.environ.get(f"MUSTER_BENCH_{contestant.upper()}", ROOT / ".peers" / contestant / "bin/python")
    return str(path) if Path(path).exists() else None


class Contestant:
    """A process that trains a case during its turns, and is idle otherwise.

    Attributes:
        losses: The losses of the first steps, each on another batch.
        versions: The versions of the packages that compute.
    """

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        """Wait until the process has trained its first steps."""
        self._process, self._log = process, log
        answer = self._answer()
        self.losses: list[float] = answer["losses"]
        self.versions: dict[str, str] = answer["versions"]

    def seconds_per_turn(self) -> float:
        """Let it train one turn."""
        with suppress(BrokenPipeError):  # it has ended: the answer says how
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        return self._answer()["seconds"]

    def _answer(self) -> dict[str, Any]:
        watchdog = threading.Timer(ANSWER_SECS, self._process.kill)
        watchdog.start()
        try:
            line = self._process.stdout.readline()
        finally:
            watchdog.cancel()
            watchdog.join()
        if not line:
            code, tail = self._process.wait(), self._log.read_text()[-2000:]
            raise RuntimeError(f"{self._process.args} ended with code {code}. Its last words:\n{tail}")
        return json.loads(line)


@contextmanager
def started(
    contestant: str, case: str, steps: int, program: str | None = None, *arguments: Any
) -> Iterator[Contestant]:
    """Start a contestant on a case, and end it afterwards.

    Args:
        contestant: One of CONTESTANTS.
        case: A module of bench.cases.
        steps: The number of steps in a turn.
        program: The module of bench._peers to run; None for the contestant's own.
        *arguments: Further arguments of the program.

    Raises:
        RuntimeError: It ends by itself, or does not answer within ANSWER_SECS.
    """
    with tempfile.TemporaryDirectory() as folder, ExitStack() as undo:
        log = Path(folder) / "log"
        command = [
            python_of(contestant),
            "-m",
            f"bench._peers.{program or CONTESTANTS[contestant][1]}",
            case,
            str(steps),
            *map(str, arguments),
        ]
        stderr = undo.enter_context(log.open("w"))
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True, cwd=ROOT
        )
        try:
            yield Contestant(process, log)
        finally:
            with suppress(BrokenPipeError):
                process.stdin.close()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()


def widest_gap(losses: Mapping[str, Sequence[float]]) -> tuple[float, str]:
    """Return the largest difference between losses of the same step, and a text that says where."""
    widest, where = 0.0, "nowhere"
    for step, values in enumerate(zip(*losses.values(), strict=True), 1):
        named = sorted(zip(values, losses, strict=True))
        (low, lower), (high, higher) = named[0], named[-1]
        # A NaN would compare as False, and its place among the sorted losses means nothing.
        gap = high - low if all(value == value for value in values) else float("inf")
        if gap > widest:
            widest, where = gap, f"step {step}: {lower} has {low:.6f}, {higher} has {high:.6f}"
    return widest, where


def measure(case: str, contestants: Sequence[str], alternations: int, steps: int | None) -> dict[str, Any]:
    """Check that the contestants compute equal losses on a case, and time them in turn.

    Args:
        case: One of CASES.
        contestants: The ones of CONTESTANTS to run.
        alternations: The number of turns for each, after one that is not counted.
        steps: The number of steps in a turn; None takes the case's.

    Returns:
        Values for JSON: the losses' agreement, milliseconds per step in each turn, versions, and the step's
        cost.

    Raises:
        RuntimeError: A contestant fails, or losses differ by more than AGREEMENT.
    """
    module = importlib.import_module(f"bench.cases.{case}")
    steps = steps or module.STEPS
    with ExitStack() as undo:
        running = {}
        for name in contestants:
            say(f"{case}: {name} trains its first steps")
            running[name] = undo.enter_context(started(name, case, steps))
        gap, where = widest_gap({name: each.losses for name, each in running.items()})
        if gap > AGREEMENT:
            raise RuntimeError(f"{case}: the losses differ by {gap:.2g}, more than {AGREEMENT}, at {where}.")
        times: dict[str, list[float]] = {name: [] for name in contestants}
        for turn in range(alternations + 1):
            say(f"{case}: turn {turn} of {alternations}" if turn else f"{case}: warm-up")
            for name in contestants if turn % 2 else reversed(contestants):
                seconds = running[name].seconds_per_turn()
                if turn:
                    times[name].append(1e3 * seconds / steps)
        first = next(iter(running.values())).losses
        multiply_adds, moved = step_cost(module.LAYERS)
        return {
            "case": case,
            "description": module.__doc__,
            "batch": module.BATCH,
            "steps_per_turn": steps,
            "loss_gap": gap,
            "losses": [first[0], first[-1]],
            "ms_per_step": times,
            "contestants": {name: each.versions for name, each in running.items()},
            "multiply_adds_per_step": multiply_adds,
            "bytes_per_step": moved,
        }


def table(result: Mapping[str, Any]) -> str:
    """Return a result as Markdown: times, ratios to muster with their spread, and the roofline."""
    times = result["ms_per_step"]
    turns = len(next(iter(times.values())))
    lines = [
        f"### {result['case']}\n",
        f"{result['description']} Batches of {result['batch']}.\n",
        f"| | ms a step, the median of {turns} turns | muster is so many times as fast |\n|---|---|---|",
    ]
    for name, each in times.items():
        ratio = "1" if name == "muster" else ""
        if name != "muster" and "muster" in times:
            ratios = sorted(theirs / ours for theirs, ours in zip(each, times["muster"], strict=True))
            ratio = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        lines.append(f"| {CONTESTANTS[name][0]} | {statistics.median(each):.3f} | {ratio or '1'} |")
    least, machine = result["roofline_ms"], result["machine_probe"]
    sentence = (
        f"\nOne step is {result['multiply_adds_per_step'] / 1e6:,.0f} million multiply-adds and moves "
        f"{result['bytes_per_step'] / 1e6:,.1f} MB: {least:.3f} ms at the "
        f"{machine['multiply_adds_per_sec'] / 1e9:.0f} billion a second and "
        f"{machine['bytes_per_sec'] / 1e9:.1f} GB/s that this machine was measured to do."
    )
    if "muster" in times:
        sentence += f" muster takes {statistics.median(times['muster']) / least:.1f} times as long."
    first, last = result["losses"]
    lines.append(sentence)
    lines.append(
        f"The losses, from {first:.3f} to {last:.3f} in the first steps, agree to {result['loss_gap']:.1g}."
    )
    return "\n".join(lines)


def say(progress: str) -> None:
    """Print progress to standard error, apart from the tables."""
    print(progress, file=sys.stderr, flush=True)


def main() -> int:
    """Measure the cases; return 1 if one of them failed."""
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--contestants", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS))
    parser.add_argument("--alternations", type=int, default=10, help="turns of each (default: %(default)s)")
    parser.add_argument("--steps", type=int, help="of a turn (default: what takes about a second)")
    parser.add_argument("--results", type=Path, default=_results.RESULTS, help="folder for JSON")
    args = parser.parse_args()
    there = [name for name in args.contestants if python_of(name)]
    for name in args.contestants:
        if name not in there:
            print(f"{CONTESTANTS[name][0]} is left out: it is not installed; `make bench-peers` does that.\n")
    say("Measuring the machine")
    machine = _roofline.probe()
    failed = False
    for case in args.cases:
        try:
            result = measure(case, there, args.alternations, args.steps)
        except RuntimeError as error:
            failed = True
            print(f"### {case}\n\nFailed. {error}\n", flush=True)
            continue
        least = machine.least_secs(result["multiply_adds_per_step"], result["bytes_per_step"])
        result |= {"roofline_ms": 1e3 * least, "machine_probe": vars(machine)}
        _results.write(f"peers_{case}", result, args.results)
        print(table(result) + "\n", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
