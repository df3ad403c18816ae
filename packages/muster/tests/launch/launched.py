"""``muster run`` as a process, for its tests."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jobs import QUICKLY_BY_FLAGS

CHILD = Path(__file__).with_name("launch_child.py")
DEADLINE = 30.0
MARK = "MUSTER_LAUNCH_TEST"


class Launched:
    """A running ``muster run``, its output read line by line; started by the words ``before``, if any."""

    def __init__(self, tmp_path, options, deeds, environ=None, program=CHILD, before=()):
        self.log_dir = tmp_path / "logs"
        self.mark = f"{MARK}={tmp_path}"
        self.lines = []
        self.process = subprocess.Popen(
            [
                *(*before, sys.executable, "-m", "muster", "run"),
                *("--log-dir", self.log_dir, *options, program, *deeds),
            ],
            env={**clean_environment(), **(environ or {}), MARK: str(tmp_path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,  # or else what is read ahead of a line would be kept from `communicate`
        )

    def read_until(self, *texts):
        """Read lines until each text has been seen in one."""
        missing = set(texts)
        for line in iter(self.process.stdout.readline, b""):
            line = line.decode().removesuffix("\n")
            self.lines.append(line)
            missing -= {text for text in missing if text in line}
            if not missing:
                return
        pytest.fail(f"never said: {missing}\n{self.text}")

    def end(self, timeout=DEADLINE):
        """Wait for the end, and return the exit code."""
        output, _ = self.process.communicate(timeout=timeout)
        self.lines += output.decode().splitlines()
        return self.process.returncode

    @property
    def text(self):
        return "\n".join(self.lines)

    @property
    def of_tasks(self):
        """The lines that tasks have written."""
        return [line for line in self.lines if not line.startswith("muster ")]

    def left(self):
        """Return what still runs of all that was started for this test, the launcher and keeper too."""
        return left_of(self.mark)


def left_of(mark):
    """Return the commands of processes, by id, that have a variable such as ``"NAME=value"``."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
    return found


def clean_environment():
    """The environment of this process without what says who it is, in which programs are compiled quickly."""
    dropped = {"TF_CONFIG", "XLA_FLAGS", "OMP_NUM_THREADS"}
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in dropped and not name.startswith("MUSTER_")
    }
    return kept | {"XLA_FLAGS": QUICKLY_BY_FLAGS}


def wait_until(condition, timeout=DEADLINE):
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "the condition was never met"
        time.sleep(0.01)


def process_of(job, role):
    task = json.dumps({"type": role[:-1], "index": int(role[-1])}).encode()
    for process in job.left():
        if task in Path(f"/proc/{process}/environ").read_bytes():
            return process
    return pytest.fail(f"no {role}")
