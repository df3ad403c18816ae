"""A real Slurm for tests: two nodes, which are two daemons on this host, at two addresses of the loopback."""

import contextlib
import getpass
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time

import pytest

PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"
DEADLINE = 60.0

needs_slurm = pytest.mark.skipif(
    any(shutil.which(name, path=PATH) is None for name in ("slurmctld", "slurmd", "sbatch", "munged")),
    reason="Slurm is not installed: apt-get install slurm-wlm",
)

CONFIG = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={control}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
StateSaveLocation={folder}
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/control.pid
SlurmdPidFile={folder}/%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
KillWait=5
SchedulerParameters=bf_interval=2
SlurmdParameters=config_overrides
NodeName=node1 NodeHostname={host} NodeAddr=127.0.0.2 Port={first} CPUs=8
NodeName=node2 NodeHostname={host} NodeAddr=127.0.0.3 Port={second} CPUs=8
PartitionName=all Nodes=ALL Default=YES State=UP
"""


class Slurm:
    """A running Slurm.

    Attributes:
        environment: The variables by which its commands find it.
        daemons: Its processes, those of the nodes last.
    """

    def __init__(self, folder):
        self.folder = folder
        self.environment = {**os.environ, "PATH": PATH, "SLURM_CONF": str(folder / "slurm.conf")}
        self.daemons = []

    def call(self, *command):
        done = subprocess.run(
            command,
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def wait_for(self, condition):
        deadline = time.monotonic() + DEADLINE
        while not condition():
            assert time.monotonic() < deadline, "".join(p.read_text() for p in self.folder.glob("*.log"))
            time.sleep(0.1)

    def start(self, *command):
        with (self.folder / f"daemon{len(self.daemons)}.log").open("w") as log:
            daemon = subprocess.Popen(
                command, env=self.environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        self.daemons.append(daemon)

    def end(self):
        for daemon in reversed(self.daemons):
            daemon.send_signal(signal.SIGTERM)
            daemon.wait(DEADLINE)


@contextlib.contextmanager
def running(folder, made=Slurm):
    """Run a Slurm that keeps its files in a folder."""
    for parent in (folder, *folder.parents[:2]):
        parent.chmod(0o711)  # munge insists that others can reach its socket
    ports = []
    for _ in range(3):
        with socket.create_server(("127.0.0.1", 0)) as sock:
            ports.append(sock.getsockname()[1])
    (folder / "slurm.conf").write_text(
        CONFIG.format(
            host=socket.gethostname().split(".")[0],
            user=getpass.getuser(),
            folder=folder,
            control=ports[0],
            first=ports[1],
            second=ports[2],
        )
    )
    (folder / "key").write_bytes(secrets.token_bytes(1024))
    (folder / "key").chmod(0o400)
    munge = [f"--{name}={folder / f'munge.{name}'}" for name in ("pid-file", "log-file", "seed-file")]
    munge += [f"--key-file={folder / 'key'}", f"--socket={folder / 'munge.sock'}"]
    cluster = made(folder)
    try:
        cluster.start("munged", "--foreground", "--force", *munge)
        cluster.wait_for(lambda: (folder / "munge.sock").exists())
        cluster.start("slurmctld", "-D")
        for node in ("node1", "node2"):
            cluster.start("slurmd", "-D", "-N", node)
        cluster.wait_for(lambda: (folder / "control.pid").exists())
        cluster.wait_for(lambda: cluster.call("sinfo", "-h", "-o", "%D %t") == "2 idle")
        yield cluster
    finally:
        cluster.end()
