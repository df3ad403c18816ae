"""Measure the time until a program's first step is done: cold, and with an earlier run's compiled programs.

Times depend on this Python's packages: Keras imports more if more is installed, and most if it is imported
before muster. Lightning takes part where the Python of PyTorch has it: ``make bench-peers``.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from bench.peers import python_of, say

from bench import _results

ROUNDS = 4
EXAMPLE = Path(__file__).parent.parent / "examples" / "digits.py"
CHILD = Path(__file__).parent / "_small_job.py"
ALONE = [sys.executable, str(CHILD)]
KERAS_FIRST = [sys.executable, "-c", f"import keras, runpy; runpy.run_path({str(CHILD)!r})"]
TWO_WORKERS = [sys.executable, "-m", "muster", "run", "--workers", "2", str(CHILD)]
IMPORT = [sys.executable, "-c", "import muster.estimator"]
LIGHTNING = Path(__file__).parent / "_peers" / "start_lightning.py"
BY_FIT, BY_LIGHTNING = "two workers by fit", "two workers of Lightning by DDP"
PROCESSOR = "processor seconds until then"
JOBS = {
    "alone": ALONE,
    "alone, Keras imported first": KERAS_FIRST,
    "two workers": TWO_WORKERS,
    BY_FIT: [*TWO_WORKERS, "--fit"],
}
DEMO = [sys.executable, "-m", "muster", "run", "--workers", "2", "--evaluator", str(EXAMPLE)]


def seconds(
    command: Sequence[str], cache_home: Path, environ: Mapping[str, str] = MappingProxyType({})
) -> float:
    """Return the seconds that a command takes, with an empty cache directory for the user.

    Python may cache the bytecode of modules, as it does by default.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= environ
    began = time.perf_counter()
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**environment, "XDG_CACHE_HOME": str(cache_home), "KERAS_BACKEND": "jax"},
    )
    if done.returncode:
        raise RuntimeError(done.stdout.decode()[-4000:])
    return time.perf_counter() - began


def until_first_step(
    command: Sequence[str], folder: Path, environ: Mapping[str, str] = MappingProxyType({})
) -> dict[str, float]:
    """Return the seconds until a job's slowest worker has imported, and until it has done its first step.

    And the processor seconds that all workers have taken until then.
    """
    folder.mkdir(exist_ok=True)
    began = time.time()
    seconds([*command, str(folder), "2"], folder, environ)
    notes = []
    for file in folder.glob("*.json"):
        imported, step, *_ = map(json.loads, file.read_text().splitlines())
        notes.append((imported["when"] - began, step["when"] - began, step["processor"]))
        file.unlink()
    imported_at, stepped_at, processor = zip(*notes, strict=True)
    return {
        "imported": max(imported_at),
        "first step": max(stepped_at),
        PROCESSOR: sum(processor),
    }


def jobs() -> dict[str, tuple[list[str], tuple[str, ...]]]:
    """Return the commands that are measured, and in which states: Lightning compiles nothing."""
    found: dict[str, tuple[list[str], tuple[str, ...]]] = {
        name: (command, ("cold", "warm")) for name, command in JOBS.items()
    }
    torch = python_of("torch")
    has_it = torch and subprocess.run([torch, "-c", "import lightning"], capture_output=True).returncode == 0
    if torch and has_it:
        found[BY_LIGHTNING] = [torch, str(LIGHTNING)], ("warm",)
    else:
        say("Lightning is not installed: it is left out. `make bench-peers` installs it.")
    return found


def main(rounds: int = ROUNDS) -> dict[str, float]:
    """Print and return seconds, as medians over rounds; a round measures all in turn, but the demo once."""
    found: dict[str, list[float]] = {}
    measured = jobs()
    for number in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            say(f"Round {number + 1} of {rounds}")
            found.setdefault("import muster.estimator", []).append(seconds(IMPORT, Path(folder)))
            if number == 0:
                demo = [*DEMO, "--model-dir", f"{folder}/demo"]
                found["make demo, cold"] = [seconds(demo, Path(folder))]
            for name, (command, states) in measured.items():
                for state in states:
                    for what, when in until_first_step(command, Path(folder, name)).items():
                        found.setdefault(f"{name}, {state}: {what}", []).append(when)
    print(f"| | seconds, the median of {rounds} | from | to |\n|---|---|---|---|")
    figures = {name: statistics.median(each) for name, each in found.items()}
    for name, each in found.items():
        print(f"| {name} | {figures[name]:.2f} | {min(each):.2f} | {max(each):.2f} |")
    print()
    for name in JOBS:
        share = figures[f"{name}, warm: first step"] / figures[f"{name}, cold: first step"]
        print(f"With what an earlier run compiled, the first step, {name}, takes {share:.2f} of the time.")
    print("The bar is 0.5.")
    if BY_LIGHTNING in measured:
        theirs = figures[f"{BY_LIGHTNING}, warm: {PROCESSOR}"]
        ratios = [figures[f"{BY_FIT}, {state}: {PROCESSOR}"] / theirs for state in ("cold", "warm")]
        print(
            f"Processor time beside Lightning's: {ratios[0]:.2f} cold, {ratios[1]:.2f} warm. The bar is 1.3."
        )
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often each is measured")
    _results.write("start", main(parser.parse_args().rounds))
