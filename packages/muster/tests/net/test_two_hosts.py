"""Two hosts: network namespaces with a link between them, which is slowed, disturbed and cut."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import namespaces
from muster.net import make_secret

pytestmark = pytest.mark.processes

TESTS = Path(__file__).parents[1]
CHILD = TESTS / "distribute" / "workers" / "bad_job_child.py"
SERVED_CHILD = TESTS / "estimator" / "parameter_server_child.py"
DEADLINE = 150.0
HOSTS = tuple(f"{namespaces.NETWORK}.{number}" for number in (1, 2))
PORT = 7811
# How long, in seconds, a host may be silent.
SILENCE = 6.0


@pytest.fixture
def net(tmp_path):
    """Two hosts, with a link between them."""
    with namespaces.network(tmp_path, 2) as made:
        yield made


class Worker:
    """A process on one of the hosts: the task of a cluster, which is its child's argument."""

    def __init__(self, host, cluster, task, child, folder, secret="", **options):
        kind, index = task
        self.log_path = folder / f"{kind}-{index}.log"
        environment = os.environ | {
            "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}}),
            "PYTHONUNBUFFERED": "1",
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        environment |= {"MUSTER_SECRET": secret} if secret else {}
        arguments = json.dumps({"model_dir": str(folder / "model"), **options})
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [*host.enter, sys.executable, str(child), arguments],
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    @property
    def log(self):
        return self.log_path.read_text()

    @property
    def steps(self):
        return max(map(int, re.findall(r"^step (\d+)$", self.log, re.MULTILINE)), default=0)

    def wait_for_step(self, step):
        deadline = time.monotonic() + DEADLINE
        while self.steps < step:
            assert self.process.poll() is None, "\n".join(
                path.read_text() for path in self.log_path.parent.glob("*.log")
            )
            assert time.monotonic() < deadline, self.log
            time.sleep(0.05)


@pytest.fixture
def job(net, tmp_path):
    """Start two workers, one a host."""
    started = []

    def start(**options):
        options = {"secret": make_secret(), "step_timeout": SILENCE, "steps": 10**6, **options}
        cluster = {"worker": [f"{host}:{PORT}" for host in HOSTS]}
        for index, host in enumerate(net.hosts):
            started.append(Worker(host, cluster, ("worker", index), CHILD, tmp_path, **options))
        for worker in started:
            worker.wait_for_step(3)
        return started

    yield start
    for worker in started:
        worker.process.kill()
        worker.process.wait(DEADLINE)


@pytest.fixture
def served(net, tmp_path):
    """Start a chief on the first host, a worker on the second, and a server on one of them."""
    started = {}

    def start(server, **options):
        addresses = {
            "chief": f"{HOSTS[0]}:{PORT}",
            "worker": f"{HOSTS[1]}:{PORT}",
            "ps": f"{HOSTS[server]}:{PORT + 1}",
        }
        cluster = {kind: [address] for kind, address in addresses.items()}
        options = {"secret": make_secret(), "max_steps": 10**6, "slow": 0.01, **options}
        for kind, host in (("ps", server), ("chief", 0), ("worker", 1)):
            started[kind] = Worker(net.hosts[host], cluster, (kind, 0), SERVED_CHILD, tmp_path, **options)
        for kind in ("chief", "worker"):
            started[kind].wait_for_step(3)
        return started

    yield start
    for task in started.values():
        task.process.kill()
        task.process.wait(DEADLINE)


def goes_on(workers):
    for worker in workers:
        worker.wait_for_step(worker.steps + 3)


@pytest.mark.skipif(shutil.which("ss") is None, reason="ss, which lists ports, is not installed")
def test_only_the_ports_of_tf_config_are_opened(net, job):
    workers = job()
    for host in net.hosts:
        listed = host.run("ss", "-Hltn")
        assert [line.split()[3] for line in listed.splitlines()] == [f"{host.address}:{PORT}"]
    assert all("has no secret" not in worker.log for worker in workers)


@pytest.mark.slow
def test_a_job_without_a_secret_is_warned_once(job):
    for worker in job(secret=""):
        assert worker.log.count("for it has no secret") == 1
        assert "MUSTER_SECRET_FILE" in worker.log


@pytest.mark.slow
def test_a_short_cut_is_survived(net, job):
    workers = job()
    net.cut(net.hosts[1])
    time.sleep(2.0)  # what is tested is that so long a cut is no loss
    net.mend(net.hosts[1])
    goes_on(workers)


def test_a_cut_for_good_ends_both_sides_which_name_each_other(net, job):
    workers = job()
    net.cut(net.hosts[1])
    began = time.monotonic()
    for index, worker in enumerate(workers):
        assert worker.process.wait(DEADLINE) == 175, worker.log
        assert f"This task ends, because it has lost worker {1 - index}" in worker.log
    assert time.monotonic() - began < SILENCE + 10.0


@pytest.mark.slow
def test_a_slow_and_lossy_link_only_slows(net, job):
    workers = job()
    net.slow(delay_secs=0.02, loss=0.01)
    goes_on(workers)


@pytest.mark.slow
@pytest.mark.parametrize("server", [0, 1])
def test_a_worker_that_is_cut_off_from_its_server_for_a_while_goes_on(net, served, server):
    tasks = served(server)
    cut, other = ("worker", "chief") if server == 0 else ("chief", "worker")
    net.cut(net.hosts[1])
    time.sleep(5.0)  # what is tested is that so long a cut costs the other nothing
    before = tasks[other].steps
    goes_on([tasks[other]])
    assert tasks[cut].steps < before - 100
    net.mend(net.hosts[1])
    goes_on([tasks[cut]])


@pytest.mark.slow
def test_training_ends_without_a_worker_that_is_cut_off_for_good(net, served):
    tasks = served(0, max_steps=600, stall=2.0)
    net.cut(net.hosts[1])
    assert tasks["chief"].process.wait(DEADLINE) == 0, tasks["chief"].log
    assert tasks["chief"].steps == 600
    assert tasks["ps"].process.wait(DEADLINE) == 0, tasks["ps"].log
    assert "worker 0 has sent nothing for" in tasks["ps"].log
