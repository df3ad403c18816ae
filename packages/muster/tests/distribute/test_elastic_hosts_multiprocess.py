"""Elastic jobs on hosts with disks of their own that are cut off: the others go on, with the same losses."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import namespaces
from jobs import DEADLINE, QUICKLY_BY_FLAGS
from muster.cluster.roster import EXIT_PEER_LOST
from muster.net import make_secret

pytestmark = [pytest.mark.alone, pytest.mark.processes, pytest.mark.slow]

CHILD = Path(__file__).with_name("elastic_child.py")
STEPS = 300
# How long the others may take until they go on, in seconds: a worker may be silent for three.
GOES_ON = 12.0
OPTIONS = ("deterministic", "noticing")
# What a step takes at least, in seconds, so that who comes back comes in time; until there is a file "go".
STEP = 0.2


class Worker:
    """A worker on a host, or without a cluster."""

    def __init__(self, folder, number, host=None, cluster=None, secret="", environ=None):
        self.report = folder / (f"worker-{number}" if host else "alone-0")
        self.log_path = folder / f"{self.report.name}.log"
        disk = host.disk if host else folder
        environment = {**os.environ, "XLA_FLAGS": QUICKLY_BY_FLAGS, **(environ or {})}
        environment.pop("TF_CONFIG", None)
        if host:
            task = {"type": "worker", "index": number}
            environment |= {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}
            environment |= {"MUSTER_SECRET": secret}
        command = [sys.executable, CHILD, disk / "model", folder, STEPS, STEP if host else 0, *OPTIONS]
        # With the disk of the host, as well as its network.
        before = host.enter_with_disk if host else []
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [*before, *map(str, command)], env=environment, stdout=log, stderr=subprocess.STDOUT
            )

    @property
    def log(self):
        return self.log_path.read_text()

    @property
    def lines(self):
        text = self.report.read_text() if self.report.exists() else ""
        return [tuple(line.split()[:2]) for line in text.splitlines() if line.count(" ") == 2]

    def wait_for(self, steps, secs=DEADLINE):
        deadline = time.monotonic() + secs
        while len(self.lines) < steps:
            assert self.process.poll() is None, self.log[-5000:]
            assert time.monotonic() < deadline, f"{len(self.lines)} of {steps} steps\n{self.log[-5000:]}"
            time.sleep(0.02)

    def code(self):
        return self.process.wait(DEADLINE)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    worker = Worker(tmp_path_factory.mktemp("undisturbed"), 0)
    assert worker.code() == 0, worker.log
    return worker.lines


@pytest.fixture
def start(tmp_path):
    """Return a function that starts the worker of a host, of those whose number is the test's."""
    started, secret = [], make_secret()

    def run(net, number, environ=None):
        cluster = {"worker": [f"{host.address}:7800" for host in net.hosts]}
        started.append(Worker(tmp_path, number, net.hosts[number], cluster, secret, environ))
        return started[-1]

    yield run
    for worker in started:
        worker.process.kill()
        worker.process.wait(DEADLINE)


@pytest.mark.parametrize("away", [1, 0], ids=["a worker", "the chief"])
def test_a_host_is_cut_off_and_comes_back(away, undisturbed, start, tmp_path):
    with namespaces.network(tmp_path, 3) as net:
        workers = [start(net, number) for number in range(3)]
        last = workers[2]
        last.wait_for(15)
        net.cut(net.hosts[away])
        time.sleep(0.1)  # what was on its way has come
        last.wait_for(len(last.lines) + 5, GOES_ON)
        stood = len(workers[away].lines)
        last.wait_for(len(last.lines) + 20)
        assert len(workers[away].lines) == stood
        net.mend(net.hosts[away])
        assert workers[away].code() == EXIT_PEER_LOST, workers[away].log[-3000:]
        again = start(net, away, {"MUSTER_STARTED_ALONE": "1"})
        again.wait_for(stood + 2)
        (tmp_path / "go").touch()
        assert {last.code(), again.code()} == {0}, last.log[-3000:] + again.log[-3000:]
        found = {line for worker in workers for line in worker.lines}
        assert found == {*undisturbed}


def test_of_two_hosts_that_of_the_chief_goes_on(undisturbed, start, tmp_path):
    with namespaces.network(tmp_path, 2) as net:
        first, second = (start(net, number) for number in range(2))
        first.wait_for(15)
        net.cut(net.hosts[1])
        time.sleep(0.1)  # what was on its way has come
        stood = len(second.lines)
        first.wait_for(len(first.lines) + 5, GOES_ON)
        (tmp_path / "go").touch()
        assert first.code() == 0, first.log[-3000:]
        assert len(second.lines) <= stood + 1
        assert {*first.lines} == {*undisturbed}
        assert f"ckpt-{STEPS}" in net.hosts[0].run("ls", f"{net.hosts[0].disk}/model64")
