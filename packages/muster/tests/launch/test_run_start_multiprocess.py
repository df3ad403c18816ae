"""Signals that come while ``muster run`` starts tasks."""

import re
import signal
import subprocess
import sys

import pytest
from launched import DEADLINE, MARK, clean_environment, left_of

pytestmark = pytest.mark.processes

# It gets the signal when two of its tasks run.
LAUNCHER = """\
import os, pathlib, signal, sys, time
from muster.__main__ import main
from muster.engines import _local

class Task(_local.TaskProcess):
    count = 0

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        Task.count += 1
        if Task.count == 2:
            while len(list(pathlib.Path({folder!r}).glob("*.runs"))) < 2:
                time.sleep(0.01)
            os.kill(os.getpid(), {number})

_local.TaskProcess = Task
code = main(["run", "--workers", "4", "--oversubscribe", "--log-dir", {folder!r}, {program!r}])
print("started", Task.count)
sys.exit(code)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_what_was_started(tmp_path, number):
    program = tmp_path / "program.py"
    folder = tmp_path / "logs"
    # Ctrl-C is a program's own business: this one takes it for the end.
    program.write_text(
        "import os, pathlib, signal\n"
        "signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
        f"pathlib.Path({str(folder)!r}, f'{{os.getpid()}}.runs').touch()\n"
        "signal.pause()\n"
    )
    script = LAUNCHER.format(number=int(number), folder=str(folder), program=str(program))
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=clean_environment() | {MARK: str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=4 * DEADLINE,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 128 + number, said
    assert "started 2\n" in done.stdout
    assert f"{number.name}: worker 0 and worker 1 may save and end" in said
    assert not re.search("Traceback|failed", said)
    assert sorted(path.name for path in folder.glob("*.log")) == ["worker-0.log", "worker-1.log"]
    assert left_of(f"{MARK}={tmp_path}") == {}
