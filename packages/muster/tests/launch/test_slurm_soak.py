"""The batch script under a real Slurm of two nodes, which are two daemons on this host."""

import contextlib
import os
import re
import signal
import sys
from pathlib import Path

import pytest
from slurm_cluster import Slurm, needs_slurm, running

from muster.__main__ import main

pytestmark = [pytest.mark.processes, pytest.mark.soak, needs_slurm]

TASK = """\
import json, os, signal, sys
config = json.loads(os.environ["TF_CONFIG"])
task = "{type} {index}".format(**config["task"])
print("here", task, json.dumps(config["cluster"]), flush=True)
if sys.argv[1] == "fail" and task == "worker 1":
    sys.exit(7)
if sys.argv[1] != "end":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    signal.sigwait({signal.SIGTERM})
    print("saved", task, flush=True)
    sys.exit(0 if sys.argv[1] == "wait" else 143)
"""


class BatchSlurm(Slurm):
    """One that runs batch scripts."""

    def submit(self, capsys, what, *options):
        (self.folder / "task.py").write_text(TASK)
        shape = ["--workers", "2", "--chief", "--evaluator", "--tasks-per-node", "3", "--restarts", "1"]
        shape = [*options] or shape
        script = ["--python", sys.executable, str(self.folder / "task.py"), what]
        assert main(["manifest", "slurm", "--name", "job", *shape, *script]) == 0
        (self.folder / "job.sh").write_text(capsys.readouterr().out)
        return self.call("sbatch", "--parsable", "job.sh")

    def kill_tasks(self):
        """Kill all tasks, as those end by themselves that have lost others."""
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (path / "environ").read_bytes()
                if b"TF_CONFIG=" in words and str(self.folder).encode() in words:
                    os.kill(int(path.name), signal.SIGKILL)

    def log(self, job):
        path = self.folder / f"job-{job}.log"
        return path.read_text() if path.exists() else ""

    def end_of(self, job):
        """Wait for a job's end, and return its state and exit code."""
        self.wait_for(lambda: "JobState=RUNNING" not in (told := self._show(job)) and "PENDING" not in told)
        self.wait_for(lambda: "COMPLETING" not in self._show(job))
        return re.search(r"JobState=(\w+).*ExitCode=(\d+)", self._show(job), re.DOTALL).groups()

    def _show(self, job):
        return self.call("scontrol", "show", "job", job)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    with running(tmp_path_factory.mktemp("slurm"), BatchSlurm) as cluster:
        yield cluster


def test_every_task_finds_its_place(slurm, capsys):
    job = slurm.submit(capsys, "end")
    assert slurm.end_of(job) == ("COMPLETED", "0")
    lines = sorted(line for line in slurm.log(job).splitlines() if line.startswith("here"))
    tasks, clusters = zip(*(line.removeprefix("here ").split(" {") for line in lines), strict=True)
    assert tasks == ("chief 0", "evaluator 0", "worker 0", "worker 1")
    assert clusters[0] == clusters[2] == clusters[3]
    addresses = re.findall(r"node\d:\d+", clusters[0])
    assert len(set(addresses)) == 4
    assert re.findall(r"node\d:\d+", clusters[1]) == addresses[:3]
    assert {address.split(":")[0] for address in addresses} == {"node1", "node2"}


@pytest.mark.parametrize("what", ["end", "fail"])
def test_types_of_tasks_with_options_of_their_own_are_one_step(slurm, capsys, what):
    options = ["--sbatch=worker:--cpus-per-task=2", "--cpus", "1", "--chief", "--workers", "2"]
    job = slurm.submit(capsys, what, *options, "--tasks-per-node", "2", "--restarts", "1")
    state, _ = slurm.end_of(job)
    assert state == ("COMPLETED" if what == "end" else "FAILED")
    log = slurm.log(job)
    lines = sorted(line for line in log.splitlines() if line.startswith("here"))
    tasks, clusters = zip(*(line.removeprefix("here ").split(" {") for line in lines), strict=True)
    assert sorted({*tasks}) == ["chief 0", "worker 0", "worker 1"]
    assert len({*clusters}) == 1
    chief, first, second = re.findall(r"(node\d):(\d+)", clusters[0])
    assert first[0] == second[0] != chief[0]
    assert first[1] != second[1]
    assert ("restart 1 of 1" in log) == (what == "fail")


def test_a_failure_starts_the_step_again(slurm, capsys):
    job = slurm.submit(capsys, "fail")
    state, code = slurm.end_of(job)
    assert state == "FAILED"
    assert code != "0"
    log = slurm.log(job)
    assert log.count("here worker 1") == 2
    assert log.count("saved chief 0") == 2
    assert log.count("Exited with exit code 7") == 2
    assert "restart 1 of 1" in log


@pytest.mark.parametrize(
    ("command", "state"),
    [(["scancel", "--signal=USR1", "--batch"], "COMPLETED"), (["scancel"], "CANCELLED")],
    ids=["time limit", "scancel"],
)
def test_tasks_may_save_and_are_not_started_again(slurm, capsys, command, state):
    job = slurm.submit(capsys, "wait")
    slurm.wait_for(lambda: slurm.log(job).count("here") == 4)
    slurm.call(*command, job)
    assert slurm.end_of(job)[0] == state
    slurm.wait_for(lambda: slurm.log(job).count("saved") == 4)
    assert "restart" not in slurm.log(job)


def test_a_job_whose_time_is_over_is_queued_again_and_goes_on(slurm, capsys):
    job = slurm.submit(capsys, "save")  # its tasks end with 143, as Estimators do
    slurm.wait_for(lambda: slurm.log(job).count("here") == 4)
    slurm.call("scancel", "--signal=USR1", "--batch", job)
    slurm.wait_for(lambda: "Restarts=1" in slurm._show(job))
    log = slurm.log(job)
    assert log.count("saved") == 4
    assert "the time limit has come: the job is queued again" in log
    # Slurm holds a job for a while that was queued again. Within a second it would take it for the old one.
    slurm.call("scontrol", "update", f"JobId={job}", "StartTime=now+3")
    slurm.wait_for(lambda: slurm.log(job).count("here") == 8)
    slurm.call("scancel", job)
    assert slurm.end_of(job)[0] == "CANCELLED"


def test_a_step_finds_its_tasks_without_a_manifest(slurm):
    shown = slurm.call("srun", "--nodes=2", "--ntasks=2", sys.executable, "-m", "muster", "where")
    assert shown.count("Started by: Slurm") == 2
    assert len(re.findall(r"This task: worker [01]\b", shown)) == 2
    assert len(set(re.findall(r"worker: (\[.*\])", shown))) == 1


def test_a_job_that_has_lost_a_node_is_queued_again(slurm, capsys):
    """Last: a node is gone then."""
    job = slurm.submit(capsys, "wait")
    slurm.wait_for(lambda: slurm.log(job).count("here") == 4)
    slurm.daemons[-1].kill()
    slurm.daemons[-1].wait()
    slurm.kill_tasks()
    slurm.wait_for(lambda: "a node does not answer: the job is queued again" in slurm.log(job))
    slurm.wait_for(lambda: "Restarts=1" in slurm._show(job))
    assert "restart 1 of 1" not in slurm.log(job)
    slurm.call("scancel", job)
