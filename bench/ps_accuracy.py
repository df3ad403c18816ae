"""Compare the accuracy that three workers reach with a parameter server and in step, on as many examples.

The models are those of ``examples/digits.py`` and, where MUSTER_DATA_DIR has MNIST or it can be downloaded,
``examples/mnist_estimator.py``, the guide's CNN.
"""

import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bench import _results

EXAMPLES = Path(__file__).parent.parent / "examples"
SERVED = ("--chief", "--workers", "2", "--ps", "1", "--evaluator")
IN_STEP = ("--workers", "3", "--evaluator")
TURNS = 3
DEADLINE_SECS = 550
# The program, its options, and those that make as many examples: a step of three workers in step takes the
# rows of three of the guide's steps, and of one of digits, whose batches they share.
CASES = {
    "digits": ("digits.py", (), {SERVED: ("--max-steps", "600"), IN_STEP: ("--max-steps", "600")}),
    "the guide's CNN": (
        "mnist_estimator.py",
        ("--learning-rate", "0.1"),
        {SERVED: ("--max-steps", "312"), IN_STEP: ("--max-steps", "104")},
    ),
}


def accuracy(script: str, job: tuple[str, ...], options: tuple[str, ...]) -> float:
    """Train once, and return the accuracy that the evaluator has found last, in percent."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "muster", "run", *job, EXAMPLES / script, *options]
        done = subprocess.run(
            [*command, "--model-dir", f"{folder}/model"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=DEADLINE_SECS,
        )
    found = re.findall(r"(?:images: |accuracy = )([\d.]+)(%?)", done.stdout)
    if done.returncode or not found:
        raise RuntimeError(done.stdout[-3000:])
    value, percent = found[-1]
    return float(value) if percent else 100 * float(value)


def main() -> dict[str, dict[str, list[float]]]:
    """Take turns, and print and return the accuracies."""
    figures = {}
    print("| test accuracy of three workers, in % | a server | in step | medians apart |\n|---|---|---|---|")
    for name, (script, options, ways) in CASES.items():
        found: dict[tuple[str, ...], list[float]] = {SERVED: [], IN_STEP: []}
        for turn in range(TURNS):
            for job, each in found.items():
                seed = ("--seed", str(turn + 1)) if script == "mnist_estimator.py" else ()
                each.append(accuracy(script, job, (*options, *ways[job], *seed)))
        served, in_step = found[SERVED], found[IN_STEP]
        apart = statistics.median(served) - statistics.median(in_step)
        figures[name] = {"server": served, "in_step": in_step}
        texts = (", ".join(f"{each:.2f}" for each in values) for values in (served, in_step))
        print(f"| {name} | {' | '.join(texts)} | {apart:+.2f} |")
    return figures


if __name__ == "__main__":
    _results.write("ps_accuracy", main())
