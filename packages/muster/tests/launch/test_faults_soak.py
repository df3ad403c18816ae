"""Hundreds of random faults, one job after the other: each ends in time, names its culprit, and goes on.

``MUSTER_SOAK_FAULTS`` is the number of faults (200), ``MUSTER_SOAK_SEED`` that of the draw (1).
"""

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from muster.checkpoint import latest_checkpoint, read_checkpoint
from muster.cluster.roster import EXIT_PEER_LOST

pytestmark = [pytest.mark.alone, pytest.mark.soak, pytest.mark.timeout(3 * 3600), pytest.mark.processes]

CHILD = Path(__file__).with_name("faults_child.py")
MARK = "MUSTER_FAULTS_TEST"
SILENCE_SECS = 6.0  # after which a trainer counts as standing still
# How long a job may take to end after a fault, once it is noticed; and to begin training.
END_SECS = 30.0
BEGIN_SECS = 120.0
TRAINERS = ("chief 0", "worker 0")
EVALUATOR = "evaluator 0"
# What the launcher says that names nobody as a culprit.
NO_BLAME = re.compile("Waiting for|may save and end|may still finish|Killing|Training goes on|Logs:")


class Running:
    """A job under ``muster run``."""

    def __init__(self, folder, number, max_steps=None, pause=0.005):
        self.folder = folder
        self.mark = f"{MARK}={folder}-{number}"
        self.output = folder / f"{number}.log"
        self.report = folder / f"{number}.steps"
        self.report.mkdir()
        options = {
            "model_dir": str(folder / "model"),
            "report": str(self.report),
            "max_steps": max_steps,
            "pause": pause,
            "silence": SILENCE_SECS,
        }
        command = [sys.executable, "-m", "muster", "run", "--chief", "--workers", "1", "--evaluator"]
        with self.output.open("wb") as output:
            self.launcher = subprocess.Popen(
                [*command, CHILD, json.dumps(options)],
                env=os.environ | {MARK: f"{folder}-{number}"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def text(self):
        return self.output.read_text(errors="replace")

    def blamed(self):
        """Return what the launcher has said of culprits."""
        said = re.findall(r"^muster +\| (.*)$", self.text, re.MULTILINE)
        return [
            line
            for line in said
            if re.match(r"(chief|worker|evaluator) \d", line) and not NO_BLAME.search(line)
        ]

    def step(self, task):
        """Return the last step of a trainer; 0 before the first."""
        with contextlib.suppress(OSError, ValueError):
            return int((self.report / task.replace(" ", "-")).read_text())
        return 0

    def processes(self):
        """Return the processes that run: tasks by name, the launcher and what else there is by number."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                environment = (folder / "environ").read_bytes().decode(errors="replace").split("\0")
                values = dict(each.partition("=")[::2] for each in environment)
                if values.get(MARK) == self.mark.partition("=")[2]:
                    task = json.loads(values.get("TF_CONFIG", "{}")).get("task")
                    name = f"{task['type']} {task['index']}" if task else folder.name
                    found[name] = int(folder.name)
        return found

    def until(self, condition, secs):
        """Wait until a condition holds, for so long at most; returns whether it does."""
        deadline = time.monotonic() + secs
        while not (holds := condition()) and time.monotonic() < deadline:
            time.sleep(0.02)
        return holds

    def trains(self):
        return all(self.step(task) for task in TRAINERS)

    def ended(self):
        return self.launcher.poll() is not None

    def require(self, held, what):
        assert held, f"{what}\n{self.text[-6000:]}"


def signal_to(processes, number):
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)


class Faults:
    """Does harm to a job, and checks what becomes of it."""

    def __init__(self, job, draw):
        self.job, self.draw = job, draw
        self.evaluator_code = 0  # once it is dead
        self.done = []

    def one(self):
        """Do one thing; returns whether the job has ended."""
        job, draw = self.job, self.draw
        if draw.random() < 0.3 and not job.trains():
            time.sleep(draw.uniform(0.0, 8.0))
        else:
            job.require(job.until(lambda: job.trains() or job.ended(), BEGIN_SECS), "it does not begin")
            time.sleep(draw.uniform(0.0, 2.0))
        job.require(job.until(lambda: job.processes().keys() >= {*TRAINERS}, BEGIN_SECS), "it does not start")
        trained, processes = job.trains(), job.processes()
        kind = draw.choice(["kill", "stop", "freeze", "term", "int", "launcher"])
        target = draw.choice([task for task in (*TRAINERS, EVALUATOR) if task in processes])
        whom = target if kind in ("kill", "stop", "term", "int") else "job"
        self.done.append(f"{kind} {whom} {'training' if trained else 'starting'}")
        if kind == "freeze":
            return self.freeze([processes[task] for task in (*TRAINERS, EVALUATOR) if task in processes])
        if kind == "launcher":
            return self.tell_launcher(draw.choice([signal.SIGINT, signal.SIGTERM, signal.SIGKILL]))
        if kind == "stop":
            return self.stop(target, processes[target], trained)
        number = {"kill": signal.SIGKILL, "term": signal.SIGTERM, "int": signal.SIGINT}[kind]
        return self.send(target, processes[target], number)

    def freeze(self, processes):
        if self.draw.random() < 0.5:
            processes.append(self.job.launcher.pid)
        signal_to(processes, signal.SIGSTOP)
        time.sleep(SILENCE_SECS + 2.0)
        signal_to(processes, signal.SIGCONT)
        job, before = self.job, self.job.step("chief 0")
        job.require(
            job.until(lambda: job.step("chief 0") > before + 5 or job.ended(), BEGIN_SECS), "it stands still"
        )
        job.require(not job.ended(), "it does not survive that all stand still")
        return False

    def tell_launcher(self, number):
        self.job.launcher.send_signal(number)
        codes = {-number} if number == signal.SIGKILL else {128 + number}
        if self.evaluator_code and number != signal.SIGKILL:
            codes = {self.evaluator_code}
        self.require_end(codes, None, END_SECS)
        return True

    def stop(self, target, process, trained):
        signal_to([process], signal.SIGSTOP)
        if not trained or target == EVALUATOR:  # everyone waits for it
            time.sleep(2.0)
            signal_to([process], signal.SIGCONT)
            return False
        self.require_end({EXIT_PEER_LOST}, f"{target} at .* stands still", SILENCE_SECS + END_SECS)
        return True

    def send(self, target, process, number):
        signal_to([process], number)
        job, said = self.job, len(self.job.blamed())
        if target == EVALUATOR:
            job.require(
                job.until(lambda: len(job.blamed()) > said or job.ended(), END_SECS), "nothing is said"
            )
            job.require(job.blamed()[said].startswith(EVALUATOR), "another is named")
            self.evaluator_code = 128 + number
            return False
        self.require_end({128 + number}, target, END_SECS)
        return True

    def require_end(self, codes, culprit, secs):
        job = self.job
        job.require(job.until(job.ended, secs), f"it does not end within {secs} s")
        job.require(job.until(lambda: not job.processes(), secs), f"left running: {job.processes()}")
        job.require(job.launcher.returncode in codes, f"code {job.launcher.returncode}, not {codes}")
        if culprit is not None:
            first = next(
                iter([line for line in job.blamed() if not line.startswith(EVALUATOR)] or job.blamed()), ""
            )
            job.require(re.match(culprit, first), f"{first!r} does not name {culprit}")


def test_random_faults(tmp_path):
    count, seed = (
        int(os.environ.get("MUSTER_SOAK_FAULTS", "200")),
        int(os.environ.get("MUSTER_SOAK_SEED", "1")),
    )
    draw, faults, jobs = random.Random(seed), 0, 0
    while faults < count:
        jobs += 1
        job = Running(tmp_path, jobs)
        harm = Faults(job, draw)
        try:
            over = False
            while not over:
                faults += 1
                over = harm.one()
        finally:
            print(f"{faults}: {', '.join(harm.done)}; at step {job.step('chief 0')}", flush=True)
            if not job.ended():
                job.launcher.kill()
                signal_to(job.processes().values(), signal.SIGKILL)
                job.launcher.wait()
    last = read_checkpoint(latest_checkpoint(tmp_path / "model")).step + 20
    ends = []
    for folder in (tmp_path, tmp_path / "alone"):
        folder.mkdir(exist_ok=True)
        job = Running(folder, "end", max_steps=last, pause=0.0)
        assert job.launcher.wait(3600) == 0, job.text[-6000:]
        ends.append(read_checkpoint(latest_checkpoint(folder / "model")))
    assert [end.step for end in ends] == [last, last]
    values, expected = (end.variables for end in ends)
    assert values.keys() == expected.keys()
    assert all(values[path].tobytes() == expected[path].tobytes() for path in expected)
    print(f"{faults} faults in {jobs} jobs, {last} steps")
