"""Jobs of sleeping workers, and what they measure of themselves."""

import subprocess
import sys
from pathlib import Path

from launched import clean_environment

from muster.launch._job_record import read_record
from muster.launch.scaling._measured_job import MeasuredJob

CHILD = Path(__file__).with_name("sleeping_child.py")
STEPS, SECS = 80, 0.1


def measured(folder, workers, servers, deadline=300.0):
    """Run a job, whose chief is one of its workers, and return what it has measured."""
    name = f"{workers}-{servers}"
    tasks = ["--workers", str(workers - 1), "--ps", str(servers)] if servers else ["--workers", str(workers)]
    command = [sys.executable, "-m", "muster", "run", *tasks, "--oversubscribe", "--log-dir", folder / name]
    done = subprocess.run(
        [*command, CHILD, folder / f"model-{name}", str(STEPS), str(SECS)],
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=deadline,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return MeasuredJob.of(read_record(folder / name))
