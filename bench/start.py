"""Measure the time until a program's first step is done: cold, and with an earlier run's compiled programs.

Times depend on this Python's packages: Keras imports more if more is installed, and most if it is imported
before muster.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import _results

ROUNDS = 5
EXAMPLE = Path(__file__).parent.parent / "examples" / "digits.py"
CHILD = Path(__file__).parent / "_small_job.py"
ALONE = [sys.executable, str(CHILD)]
KERAS_FIRST = [sys.executable, "-c", f"import keras, runpy; runpy.run_path({str(CHILD)!r})"]
TWO_WORKERS = [sys.executable, "-m", "muster", "run", "--workers", "2", str(CHILD)]
IMPORT = [sys.executable, "-c", "import muster.estimator"]
JOBS = {
    "alone": ALONE,
    "alone, Keras imported first": KERAS_FIRST,
    "two workers": TWO_WORKERS,
    "two workers by fit": [*TWO_WORKERS, "--fit"],
}
DEMO = [sys.executable, "-m", "muster", "run", "--workers", "2", "--evaluator", str(EXAMPLE)]


def seconds(command: list[str], cache_home: Path) -> float:
    """Return the seconds that a command takes, with an empty cache directory for the user.

    Python may cache the bytecode of modules, as it does by default.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
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


def until_first_step(command: list[str], folder: Path) -> dict[str, float]:
    """Return the seconds until a job's slowest worker has imported, and until it has done its first step.

    And the processor seconds that all workers have taken until then.
    """
    folder.mkdir(exist_ok=True)
    began = time.time()
    seconds([*command, str(folder), "2"], folder)
    notes = []
    for file in folder.glob("*.json"):
        imported, step, *_ = map(json.loads, file.read_text().splitlines())
        notes.append((imported["when"] - began, step["when"] - began, step["processor"]))
        file.unlink()
    imported_at, stepped_at, processor = zip(*notes, strict=True)
    return {
        "imported": max(imported_at),
        "first step": max(stepped_at),
        "processor seconds until then": sum(processor),
    }


def main() -> dict[str, float]:
    """Print and return seconds, as medians over rounds; a round measures all in turn."""
    found: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            found.setdefault("import muster.estimator", []).append(seconds(IMPORT, Path(folder)))
            demo = [*DEMO, "--model-dir", f"{folder}/demo"]
            found.setdefault("make demo, cold", []).append(seconds(demo, Path(folder)))
            for name, command in JOBS.items():
                own = Path(folder, name)
                for state in ("cold", "warm"):
                    for what, when in until_first_step(command, own).items():
                        found.setdefault(f"{name}, {state}: {what}", []).append(when)
    print(f"| | seconds, the median of {ROUNDS} | from | to |\n|---|---|---|---|")
    figures = {name: statistics.median(each) for name, each in found.items()}
    for name, each in found.items():
        print(f"| {name} | {figures[name]:.2f} | {min(each):.2f} | {max(each):.2f} |")
    print()
    for name in JOBS:
        share = figures[f"{name}, warm: first step"] / figures[f"{name}, cold: first step"]
        print(f"With what an earlier run compiled, the first step, {name}, takes {share:.2f} of the time.")
    print("The bar is 0.5.")
    return figures


if __name__ == "__main__":
    _results.write("start", main())
