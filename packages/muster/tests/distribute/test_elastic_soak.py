"""An elastic job that is not left in peace: its losses are those of an undisturbed run.

Every five seconds a worker is killed, told to end, stopped for a moment or for longer than the others wait,
or one comes. Two to five workers are there, beside an evaluator; virtual replicas are for four of them.
"""

import dataclasses
import math
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jobs import DEADLINE, QUICKLY_BY_FLAGS, SOON, Job, Task
from muster.cluster.roster import EXIT_PEER_LOST

pytestmark = pytest.mark.processes

CHILD = Path(__file__).with_name("elastic_soak_child.py")
WORKERS, LEAST, AT_START = 5, 2, 3
EVENT_SECS = 5.0
# The least time of a step and how many of them are taken for a minute, in which workers also come and go.
STEP_SECS, STEPS_A_MINUTE = 0.08, 400
# What happens to a worker: "end" is SIGTERM, and one that freezes stands still until the others go on.
EVENTS = ("kill", "end", "pause", "freeze")
# How long the others wait for one that stands still, in seconds.
SILENCE_SECS = 10.0
# How long all may stand, in seconds: two that are stopped in turn, and some work.
STALL_SECS = 60.0


@dataclasses.dataclass
class Life:
    """A process of a worker.

    Attributes:
        task: It.
        lines: How many lines its report had before it.
        codes: The exit codes that are right, after what was done to it.
        goes_on_at: When it goes on, if it is stopped.
    """

    task: Task
    lines: int
    codes: set[int] = dataclasses.field(default_factory=lambda: {0})
    goes_on_at: float = math.inf

    @property
    def is_left_alone(self) -> bool:
        """Whether nothing has been done to it."""
        return self.codes == {0} and self.goes_on_at == math.inf


class Disturbed:
    """A job, and what happens to it by a seed.

    Args:
        job: The job.
        seed: The seed.
        minutes: When steps take no longer than they need, so that it ends soon on a busy machine, too.
    """

    def __init__(self, job: Job, seed: int, minutes: float) -> None:
        self._job, self._random = job, random.Random(seed)
        self.happened: list[str] = []
        self._begun = time.monotonic()
        self._hurries_at = self._begun + 60 * minutes
        self._lives = {index: self._born(index) for index in range(AT_START)}
        self._evaluator = job.start("evaluator")

    def run(self) -> None:
        """Disturb it until the first worker has come to the end; then all end well."""
        next_at = time.monotonic() + EVENT_SECS
        steps, moved_at = 0, time.monotonic()
        while not self._look():
            now = time.monotonic()
            if now >= self._hurries_at:
                (self._job.folder / "go").touch()
            if (count := self._steps()) > steps:
                steps, moved_at = count, now
            elif now - moved_at > STALL_SECS:
                pytest.fail(f"There was no step for {STALL_SECS:.0f} s after {steps} of them.{self.told()}")
            if now >= next_at and self._disturb():
                next_at = now + EVENT_SECS
            time.sleep(0.02)
        for life in self._lives.values():
            life.task.process.send_signal(signal.SIGCONT)
        for index, life in self._lives.items():
            if len(lines_of(self._job, index)) == life.lines:
                life.codes.add(EXIT_PEER_LOST)  # it may have come when the others had gone
            self._check(index, life, self._wait(life.task))
        assert self._wait(self._evaluator) == 0, self._evaluator.log[-5000:] + self.told()

    def told(self) -> str:
        """What happened, and the ends of all logs, for a message."""
        logs = (f"\n--- {task.name}\n{task.log[-1500:]}" for task in self._job.tasks[-12:])
        return "\n" + "\n".join(self.happened[-30:]) + "".join(logs)

    def _born(self, index: int, environ: dict[str, str] | None = None) -> Life:
        return Life(self._job.start("worker", index, environ=environ or {}), len(lines_of(self._job, index)))

    def _steps(self) -> int:
        return sum(len(lines_of(self._job, index)) for index in range(WORKERS))

    def _wait(self, task: Task) -> int:
        try:
            return task.process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            return pytest.fail(f"{task.name} did not end:\n{task.log[-5000:]}{self.told()}")

    def _look(self) -> bool:
        """Let those go on whose time has come; return whether a worker has come to the end."""
        for index, life in list(self._lives.items()):
            if time.monotonic() >= life.goes_on_at:
                life.goes_on_at = math.inf
                life.task.process.send_signal(signal.SIGCONT)
            if (code := life.task.process.poll()) is not None:
                self._check(index, life, code)
                del self._lives[index]
                if code == 0:
                    return True
        return False

    def _check(self, index: int, life: Life, code: int) -> None:
        self._note(f"worker {index} has ended with {code}")
        told = f"worker {index} has ended with {code}: {life.task.log[-5000:]}"
        assert code in life.codes, told + self.told()

    def _disturb(self) -> bool:
        """Let something happen, if something can."""
        steady = [
            index
            for index, life in self._lives.items()
            if life.is_left_alone and len(lines_of(self._job, index)) > life.lines
        ]
        absent = [index for index in range(WORKERS) if index not in self._lives]
        possible = ["come"] if absent else []
        if len(steady) > LEAST:
            stands = any(life.goes_on_at < math.inf for life in self._lives.values())
            possible += [each for each in EVENTS if each != "freeze" or not stands]
        if not possible:
            return False
        what = self._random.choice(possible)
        if what == "come":
            index = self._random.choice(absent)
            self._lives[index] = self._born(index, {"MUSTER_STARTED_ALONE": "1"})  # as by a launcher
            self._note(f"worker {index} comes")
            return True
        index = self._random.choice(steady)
        life = self._lives[index]
        self._note(f"worker {index}: {what}; steady are {steady}")
        match what:
            case "kill":
                life.codes = {-signal.SIGKILL, 0}
                life.task.process.kill()
                life.task.process.wait(SOON)
            case "end":
                # It may have come to the end of its training, or of its program.
                life.codes = {128 + signal.SIGTERM, -signal.SIGTERM, 0}
                life.task.process.send_signal(signal.SIGTERM)
            case "pause":
                life.task.process.stop()
                life.goes_on_at = time.monotonic() + self._random.uniform(0.5, SILENCE_SECS / 3)
            case "freeze":
                life.codes = {EXIT_PEER_LOST, 0}
                life.task.process.stop()
                life.goes_on_at = time.monotonic() + 2.5 * SILENCE_SECS
        return True

    def _note(self, text: str) -> None:
        passed = time.monotonic() - self._begun
        self.happened.append(f"{time.strftime('%H:%M:%S')} {passed:.1f} s, {self._steps()} lines: {text}")
        (self._job.folder / "happened").write_text("\n".join(self.happened))


def lines_of(job: Job, index: int) -> list[tuple[int, str]]:
    """The steps and losses that a worker has reported."""
    return read(job.folder / f"worker-{index}")


def read(report: Path) -> list[tuple[int, str]]:
    """The steps and losses of a report."""
    lines = report.read_text().splitlines() if report.exists() else []
    return [(int(step), loss) for step, loss, *_ in map(str.split, lines)]


def undisturbed(folder: Path, steps: int) -> set[tuple[int, str]]:
    """The steps and losses of a process that computes all virtual replicas."""
    folder.mkdir()
    environ = {name: text for name, text in os.environ.items() if name != "TF_CONFIG"}
    done = subprocess.run(
        [sys.executable, CHILD, folder / "model", folder, str(steps), "0", "10"],
        env=environ | {"XLA_FLAGS": QUICKLY_BY_FLAGS},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    return set(read(folder / "alone-0"))


@pytest.mark.parametrize(
    ("minutes", "seed"),
    [
        pytest.param(2, 1, id="two minutes", marks=[pytest.mark.slow, pytest.mark.timeout(900)]),
        pytest.param(30, 2, id="half an hour", marks=[pytest.mark.soak, pytest.mark.timeout(5400)]),
    ],
)
def test_workers_come_and_go_all_the_time_and_the_losses_are_those_of_an_undisturbed_run(
    tmp_path, minutes, seed
):
    steps = minutes * STEPS_A_MINUTE
    expected = undisturbed(tmp_path / "undisturbed", steps)
    folder = tmp_path / "job"
    command = [CHILD, folder / "model", folder, steps, STEP_SECS, SILENCE_SECS]
    with Job(folder, command, worker=WORKERS, evaluator=1) as job:
        disturbed = Disturbed(job, seed, minutes)
        disturbed.run()
        found = [lines_of(job, index) for index in range(WORKERS)]
        print("\n".join(disturbed.happened))
    for index, lines in enumerate(found):
        taken = [step for step, _ in lines]
        assert taken == sorted(set(taken)), f"worker {index} has made a step twice.{disturbed.told()}"
    assert {line for lines in found for line in lines} == expected, disturbed.told()
    assert len(disturbed.happened) > 6 * minutes
