"""Jobs in a real cluster of Slurm: two nodes, which are two daemons on this host."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from launched import clean_environment, process_of, wait_until
from slurm_cluster import DEADLINE, Slurm, needs_slurm, running

pytestmark = [pytest.mark.alone, pytest.mark.processes, pytest.mark.slow, needs_slurm]

ON, TWO = ["--on", "slurm"], ["--workers", "2"]


class Nodes(Slurm):
    """One that gives allocations."""

    @property
    def environ(self):
        return {name: self.environment[name] for name in ("PATH", "SLURM_CONF")}

    def jobs(self):
        return self.call("squeue", "--noheader", "--format=%i").split()

    def is_free(self):
        return not self.jobs()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with running(tmp_path_factory.mktemp("slurm"), Nodes) as made:
        yield made


@pytest.fixture
def slurm(cluster):
    """The cluster, which no job may keep nodes of."""
    yield cluster
    try:
        cluster.wait_for(cluster.is_free)
    finally:
        cluster.call("scancel", "--user=root", "--quiet") if cluster.jobs() else None
        cluster.wait_for(cluster.is_free)


@pytest.fixture
def start(launch, slurm):
    return lambda *deeds, options: launch(*deeds, options=[*ON, *options], environ=slurm.environ)


def test_tasks_run_on_their_nodes_and_know_each_other(start):
    deeds = ["worker0=call:1", "worker1=accept", "worker1=show"]
    job = start(*deeds, options=[*TWO, "--evaluator", "--tasks-per-node", "2", "--cpus", "1"])
    assert job.end(DEADLINE) == 0, job.text
    assert "worker 1    | heard hello" in job.lines
    shown = json.loads(next(line for line in job.lines if "worker 1    | {" in line).partition(" | ")[2])
    cluster = json.loads(shown["TF_CONFIG"])["cluster"]
    assert {address.split(":")[0] for address in cluster["worker"]} <= {"127.0.0.2", "127.0.0.3"}
    assert len(list(job.log_dir.glob("*.log"))) == 3


def test_types_of_tasks_with_options_of_their_own_have_nodes_of_their_own(start):
    options = ["--chief", *TWO, "--tasks-per-node", "2", "--sbatch=worker:--cpus-per-task=2"]
    job = start("worker1=show", options=options)
    assert job.end(DEADLINE) == 0, job.text
    shown = json.loads(next(line for line in job.lines if "worker 1 | {" in line).partition(" | ")[2])
    cluster = json.loads(shown["TF_CONFIG"])["cluster"]
    hosts = [address.split(":")[0] for address in [*cluster["chief"], *cluster["worker"]]]
    assert hosts[0] != hosts[1] == hosts[2]


def test_one_model_is_trained_with_the_numbers_of_one_machine(trained, slurm, monkeypatch):
    here = trained("--oversubscribe")
    for name, value in slurm.environ.items():
        monkeypatch.setenv(name, value)
    assert trained(*ON, "--cpus", "1", "--tasks-per-node", "2") == here


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_is_as_at_home(start, number, code):
    job = start("worker0=save", "worker1=slowsave:2", options=[*TWO, "--grace-secs", "0.5"])
    job.read_until("worker 0 | ready", "worker 1 | ready")
    job.process.send_signal(number)
    assert job.end(DEADLINE) == code
    assert f"worker 0 | saved after {signal.Signals(number).name}" in job.lines
    assert "worker 1 | saved" in job.lines


def test_a_task_that_fails_is_started_again_in_the_same_allocation_and_its_code_is_the_jobs(start, slurm):
    job = start("worker0=train:1", "worker1=train:1", options=[*TWO, "--restarts", "1"])
    job.read_until("worker 0 | ready", "worker 1 | ready")
    allocation = slurm.jobs()
    os.kill(process_of(job, "worker1"), signal.SIGKILL)
    job.read_until("worker 1 failed: killed by SIGKILL", "restart 1 of 1")
    job.read_until("worker 0 | ready", "worker 1 | ready")
    assert slurm.jobs() == allocation
    os.kill(process_of(job, "worker1"), signal.SIGKILL)
    assert job.end(DEADLINE) == 137


def agent_of(task_pid):
    return int(Path(f"/proc/{task_pid}/stat").read_text().rpartition(")")[2].split()[1])


TIMELY = ["worker0=slowsave:0", "worker1=slowsave:0"]


def test_when_the_time_is_over_tasks_save_and_go_on_in_another_allocation(start, slurm):
    job = start(*TIMELY, options=[*TWO, "--restarts", "1"])
    job.read_until("worker 0 | ready", "worker 1 | ready")
    (first,) = slurm.jobs()
    slurm.call("scancel", "--signal=TERM", first)  # as it does by itself, a minute before the limit
    job.read_until("worker 0 | saved", "worker 1 | saved")
    job.read_until("Starting the job again, elsewhere.")
    job.read_until("worker 0 | ready", "worker 1 | ready")
    assert f"the time of the allocation {first} is nearly over" in job.text
    (second,) = slurm.jobs()
    assert second != first
    # That was none of the restarts.
    os.kill(agent_of(process_of(job, "worker1")), signal.SIGKILL)
    job.read_until("worker 1 is lost with its host: srun on node", "restart 1 of 1")
    job.read_until("worker 0 | ready", "worker 1 | ready")
    assert slurm.jobs() not in ([first], [second])
    job.process.send_signal(signal.SIGTERM)
    assert job.end(DEADLINE) == 143


def test_a_node_that_is_dead_is_avoided(tmp_path_factory, launch):
    """Slurm notices that after its SlurmdTimeout; with a cluster of its own, which has a node less then."""
    with running(tmp_path_factory.mktemp("dying"), Nodes) as cluster:
        options = [*ON, "--workers", "1", "--restarts", "1"]
        job = launch("worker0=save", options=options, environ=cluster.environ)
        job.read_until("worker 0 | ready")
        task = process_of(job, "worker0")
        (node,) = cluster.call("squeue", "--noheader", "--format=%N").split()
        for daemon in cluster.daemons[2:]:
            if node in daemon.args:
                daemon.kill()
        os.kill(agent_of(task), signal.SIGKILL)
        other = {"node1": "node2", "node2": "node1"}[node]
        job.read_until(
            "worker 0 is lost with its host",
            f"worker 0 runs on {other} now, and not on {node}.",
            f"Slurm was asked for other nodes than {node}.",
            "worker 0 | ready",
        )
        job.process.send_signal(signal.SIGTERM)
        assert job.end(DEADLINE) == 143


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_time_limit_is_waited_for(start, slurm):
    """Some two minutes: a minute is the shortest limit, and the signal comes a minute before it."""
    job = start(*TIMELY, options=[*TWO, "--sbatch=--time=2"])
    job.read_until("worker 0 | ready", "worker 1 | ready")
    (first,) = slurm.jobs()
    job.read_until("worker 0 | saved", "worker 1 | saved")
    assert job.end(DEADLINE) == 143
    assert f"the time of the allocation {first} is nearly over" in job.text


def test_without_restarts_the_job_ends_when_the_time_is_over(start, slurm):
    job = start(*TIMELY, options=TWO)
    job.read_until("worker 0 | ready", "worker 1 | ready")
    slurm.call("scancel", "--signal=TERM", *slurm.jobs())
    assert job.end(DEADLINE) == 143
    assert {"worker 0 | saved", "worker 1 | saved"} <= {*job.lines}


def test_a_job_that_is_cancelled_saves_and_is_not_started_again(start, slurm):
    job = start("worker0=save", "worker1=save", options=[*TWO, "--restarts", "9"])
    job.read_until("worker 0 | ready", "worker 1 | ready")
    slurm.call("scancel", *slurm.jobs())
    assert job.end(DEADLINE) == 143
    assert {"worker 0 | saved after SIGTERM", "worker 1 | saved after SIGTERM"} <= {*job.lines}
    assert "again" not in job.text.replace("Ctrl-C again", "")


def test_an_elastic_job_goes_on_while_a_node_is_lost_and_takes_it_back(start):
    options = ["--workers", "1:2", "--restarts", "1"]
    job = start("worker0=save", "worker1=save", options=options)
    job.read_until("worker 0 | ready", "worker 1 | ready")
    os.kill(agent_of(process_of(job, "worker1")), signal.SIGKILL)
    job.read_until("worker 1 is started again when its host is back, restart 1 of 1", "worker 1 | ready")
    job.process.send_signal(signal.SIGTERM)
    assert job.end(DEADLINE) == 143
    assert job.lines.count("worker 0 | ready") == 1


def test_nothing_outlives_a_launcher_that_is_killed(start, slurm):
    job = start("worker0=save", "worker1=family:stay", options=[*TWO, "--grace-secs", "0.5"])
    job.read_until("worker 0 | ready", "worker 1 | ready")
    job.process.kill()
    job.end(DEADLINE)
    wait_until(lambda: not job.left(), DEADLINE)


def test_a_job_in_the_queue_says_why_and_leaves_it_at_ctrl_c(start, slurm):
    slurm.call("sbatch", "--exclusive", "--nodes=2", "--output=/dev/null", "--wrap=sleep 600")
    slurm.wait_for(lambda: slurm.call("squeue", "--noheader", "--format=%T") == "RUNNING")
    job = start("worker0=save", "worker1=save", options=TWO)
    job.read_until("wait: Resources")
    job.process.send_signal(signal.SIGINT)
    assert job.end(DEADLINE) == 130
    slurm.wait_for(lambda: len(slurm.jobs()) == 1)
    slurm.call("scancel", *slurm.jobs())


def run(cluster, folder, *options):
    return subprocess.run(
        [sys.executable, "-m", "muster", "run", *ON, *options],
        env={**clean_environment(), **cluster.environ}, cwd=folder, capture_output=True, text=True,
        timeout=DEADLINE, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--sbatch=--partition=moon"], "Slurm refuses the job: invalid partition specified: moon"),
        (["--cpus", "99"], "Requested node configuration is not available"),
        (["--sbatch=--no-such-option"], "unrecognized option '--no-such-option'"),
        (["--python", "/no/such/python"], "srun starts no agent of muster on it, and ends with code 127"),
        (["--setup", "echo no module >&2; exit 3"], "ends with code 3"),
        (["--workdir", "/no/such"], "there is no folder /no/such to run in"),
    ],
)
def test_what_is_wrong_is_told_in_slurms_words(slurm, tmp_path, options, told):
    (tmp_path / "train.py").touch()
    done = run(slurm, tmp_path, *options, "train.py")
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_a_job_that_is_detached_needs_no_launcher(slurm, tmp_path):
    options = ["--name", "left", *TWO, "--restarts", "1", "--python", sys.executable]
    (tmp_path / "train.py").write_text("import os; print(os.environ['TF_CONFIG'])")
    shown = run(slurm, tmp_path, "--dry-run", *options, "train.py")
    assert shown.returncode == 0, shown.stderr
    assert "#SBATCH --requeue" in shown.stdout
    assert slurm.is_free()
    done = run(slurm, tmp_path, "--detach", *options, "train.py")
    number = re.match(r"Slurm has the job (\d+)\.", done.stdout)[1]
    slurm.wait_for(slurm.is_free)
    assert (tmp_path / f"left-{number}.log").read_text().count('{"cluster"') == 2
