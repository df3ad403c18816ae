"""Measure how long a job stalls when a worker is killed: until the next step that it had not made before."""

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import _results

ROUNDS = 3
KILL_AT = 30  # between the checkpoints of steps 20 and 40
DEADLINE_SECS = 300
JOB = Path(__file__).parent / "_small_job.py"


def notes(folder: Path, worker: int) -> list[dict[str, Any]]:
    """Return a worker's log so far, without a line that is still being written."""
    path = folder / f"{worker}.json"
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def next_step(folder: Path, above: int, job: subprocess.Popen[bytes]) -> dict[str, Any]:
    """Wait until worker 0 has done a step above this one, and return its log entry."""
    deadline = time.monotonic() + DEADLINE_SECS
    while time.monotonic() < deadline:
        for each in notes(folder, 0):
            if each["what"] != "imported" and each["what"] > above:
                return each
        if job.poll() is not None:
            raise RuntimeError(
                f"The job ended with {job.returncode}:\n{(folder / 'output').read_text()[-4000:]}"
            )
        time.sleep(0.01)
    raise TimeoutError(f"There was no step above {above} within {DEADLINE_SECS} seconds.")


def seconds_to_recover(folder: Path) -> float:
    """Run a job of two workers, kill the second, and return the seconds until the first new step."""
    command = [sys.executable, "-m", "muster", "run", "--workers", "2", "--restarts", "1"]
    with (folder / "output").open("wb") as output:
        job = subprocess.Popen(
            [*command, str(JOB), str(folder), "10000"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            next_step(folder, KILL_AT, job)
            killed = time.time()
            os.kill(notes(folder, 1)[-1]["pid"], signal.SIGKILL)
            reached = max(each["what"] for each in notes(folder, 0) if each["what"] != "imported")
            again: float = next_step(folder, reached + 1, job)["when"]
            return again - killed
        finally:
            job.send_signal(signal.SIGINT)
            job.wait(DEADLINE_SECS)


def main() -> dict[str, float]:
    """Print and return the seconds, as the median of rounds."""
    found = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            found.append(seconds_to_recover(Path(folder)))
    median = statistics.median(found)
    print("### A worker of two is killed, and the job restarted from its last checkpoint\n")
    print(f"{median:.1f} s until the next new step (from {min(found):.1f} to {max(found):.1f})")
    return {"seconds": median}


if __name__ == "__main__":
    _results.write("recovery", main())
