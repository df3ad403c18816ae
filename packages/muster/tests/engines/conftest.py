"""Hosts for the tests of engines: addresses of the loopback, each with a sshd of its own."""

import contextlib
import functools
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "launch"))

from launched import Launched, clean_environment, left_of, wait_until

import namespaces
from muster.checkpoint import restore_latest
from muster.summary import read_events

SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
HOSTS = ("127.0.0.2", "127.0.0.3")
FARM, FARM_PORT = 4, 2222
MARK = "MUSTER_TEST_HOST"

CONFIG = """\
ListenAddress {host}:{port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
PidFile none
StrictModes no
UsePAM no
SetEnv {mark}={folder}
"""
CLIENT = """\
Host *
  Port {port}
  IdentityFile {folder}/user_key
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
"""


def make_keys(folder, port):
    """Make the keys of hosts and of a user, and return the command that reaches the hosts with them."""
    for name in ("host_key", "user_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    (folder / "client").write_text(CLIENT.format(port=port, folder=folder))
    return f"ssh -F {folder}/client"


class Hosts:
    """Two hosts that ssh reaches.

    Attributes:
        options: Those of ``muster run`` that name them.
    """

    names = HOSTS

    def __init__(self, folder):
        self.folder = folder
        with socket.create_server((HOSTS[0], 0)) as free:
            self.port = free.getsockname()[1]
        self.options = ["--on", f"ssh:{','.join(HOSTS)}", "--ssh-command", make_keys(folder, self.port)]
        self.daemons = {}

    def start(self, host):
        config = self.folder / f"{host}.conf"
        config.write_text(CONFIG.format(host=host, port=self.port, folder=self.folder, mark=MARK))
        log = (self.folder / f"{host}.log").open("wb")
        with log:
            self.daemons[host] = subprocess.Popen([SSHD, "-D", "-e", "-f", config], stderr=log)

        def listens():
            with contextlib.suppress(OSError), socket.create_connection((host, self.port), 1.0):
                return True

        wait_until(listens)

    def stop(self, host):
        """End a daemon; its sessions go on."""
        self.daemons[host].kill()
        self.daemons[host].wait()

    def left(self):
        """Return the agents and the keepers that run, and the tasks, by process."""
        return left_of(f"{MARK}={self.folder}")

    def agent(self, task_pid):
        """Return the agent that has started a task."""
        return int(Path(f"/proc/{task_pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.fixture
def ssh_folder(tmp_path):
    if SSHD is None or os.geteuid():
        pytest.skip("Needs sshd, run by root: apt-get install openssh-server")
    folder = tmp_path / "ssh"
    folder.mkdir(mode=0o700)
    Path("/run/sshd").mkdir(exist_ok=True)
    return folder


@pytest.fixture
def hosts(ssh_folder):
    made = Hosts(ssh_folder)
    try:
        for host in HOSTS:
            made.start(host)
        yield made
        wait_until(lambda: not made.left())
    finally:
        for process in made.left():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        for host in made.daemons:
            made.stop(host)


class Farm:
    """Hosts that are network namespaces, with daemons of ssh, and one more for the launcher.

    Attributes:
        options: Those of ``muster run`` that name the hosts.
        disk: The folder that is another one on each of them.
    """

    def __init__(self, net, folder, command):
        self.net, self.disk = net, net.hosts[0].disk
        *self.hosts, self.launcher = net.hosts
        self.mark = f"{MARK}={folder}"
        names = ",".join(host.address for host in self.hosts)
        self.options = ["--on", f"ssh:{names}", "--ssh-command", command, "--env", "JAX_PLATFORMS=cpu"]

    def left(self):
        return left_of(self.mark)


@pytest.fixture
def farm(ssh_folder, tmp_path):
    command = make_keys(ssh_folder, FARM_PORT)
    config = ssh_folder / "config"
    config.write_text(CONFIG.format(host="0.0.0.0", port=FARM_PORT, folder=ssh_folder, mark=MARK))
    setup = f"{SSHD} -D -e -f {config} 2> {tmp_path}/sshd-$(hostname).log &"
    with namespaces.network(tmp_path, FARM + 1, setup) as net:
        made = Farm(net, ssh_folder, command)
        yield made
        wait_until(lambda: not made.left())


TRAINING = """\
import os, sys
import numpy as np
import muster
from muster import keras
from muster.data import Dataset
from muster.distribute import MultiWorkerMirroredStrategy
from muster.estimator import Estimator, EstimatorSpec, EvalSpec, RunConfig, TrainSpec, train_and_evaluate

x = np.random.default_rng(0).normal(size=(32, 4)).astype(np.float32)

def model_fn(features, labels, mode):
    predictions = keras.layers.Dense(1, kernel_initializer="zeros")(features)
    loss = keras.ops.mean((predictions - labels) ** 2)
    train_op = muster.minimize(keras.optimizers.SGD(0.1), loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op)

def input_fn(input_context=None):
    data = Dataset.from_tensor_slices((x, x.sum(axis=1, keepdims=True)))
    if input_context is not None:
        data = data.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
    return data.batch(4)

strategy = None if '"ps"' in os.environ["TF_CONFIG"] else MultiWorkerMirroredStrategy()
config = RunConfig(sys.argv[1], train_distribute=strategy, max_staleness=None if strategy else 0)
train = TrainSpec(lambda input_context=None: input_fn(input_context).repeat(), max_steps=20)
evaluate = EvalSpec(input_fn, steps=None, start_delay_secs=0, throttle_secs=0)
train_and_evaluate(Estimator(model_fn, config=config), train, evaluate)
"""
SHAPES = ["--workers", "2", "--evaluator"], ["--ps", "1", "--workers", "1", "--evaluator"]


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """Return a function of options of ``muster run``: what two workers, and workers of a server, come to.

    With so many ``launchers``, which need a file with their secret, the same line is started as often.
    """
    made = tmp_path_factory.mktemp("trained")
    program = made / "train.py"
    program.write_text(TRAINING)
    numbers = itertools.count()

    @functools.cache  # several engines are compared with this machine
    def train(*options, launchers=1, secret=None):
        found = []
        for shape in SHAPES:
            folder = made / f"model-{next(numbers)}"
            environ = {} if secret is None else {"MUSTER_SECRET_FILE": str(secret)}
            started = [
                subprocess.Popen(
                    [sys.executable, "-m", "muster", "run", *options, *shape, program, folder],
                    env={**clean_environment(), "JAX_PLATFORMS": "cpu", **environ},
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                )
                for _ in range(launchers)
            ]  # fmt: skip
            try:
                said = [each.communicate(timeout=120)[0] for each in started]
            finally:
                for each in started:
                    each.kill()
            assert [each.returncode for each in started] == [0] * launchers, said
            weights = restore_latest(folder)
            assert weights.step == 20
            losses = [float(each.value) for each in read_events(folder / "eval") if each.tag == "loss"]
            assert 0 < losses[-1] < 1
            found.append(({name: each.tolist() for name, each in weights.variables.items()}, losses[-1]))
        return found

    return train


@pytest.fixture
def launch(tmp_path):
    """Start ``muster run OPTIONS child DEEDS``, as the tests of the launcher do."""
    started = []

    def start(*deeds, options=(), **more):
        started.append(Launched(tmp_path, options, deeds, **more))
        return started[-1]

    yield start
    for job in started:
        if job.process.poll() is None:
            job.process.kill()
            job.end()
            pytest.fail(f"the job did not end:\n{job.text}")
        wait_until(lambda job=job: not job.left())
        job.process.stdout.close()
