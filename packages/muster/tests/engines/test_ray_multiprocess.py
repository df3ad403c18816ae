"""Jobs in a real cluster of Ray: three nodes on this machine."""

import contextlib
import importlib.util
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from launched import CHILD, clean_environment, process_of, wait_until

pytestmark = [
    pytest.mark.alone,
    pytest.mark.processes,
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs Ray: make test-engines"),
]

DEADLINE = 120.0
# A head with its dashboard and the job start some twenty processes that import Ray. On 2 cores a submission
# took 16 s beside a load of 6, and 113 s where all others had a higher priority.
SUBMIT_SECS = 300.0
# Ray's workers, and so tasks, have the niceness 15 otherwise: beside other programs they wait.
PROMPT = {"RAY_worker_niceness": "0"}
TWO = ["--workers", "2"]
SERVED = ["--ps", "1", "--workers", "1"]


class RayCluster:
    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("ray_cluster.py")],
            env={**clean_environment(), **PROMPT, "RAY_health_check_period_ms": "1000"},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            start_new_session=True,
        )  # fmt: skip
        self.address = self.process.stdout.readline().strip()
        self.options = ["--on", f"ray:{self.address}"]

    def do(self, what):
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def end(self):
        self.process.communicate(timeout=DEADLINE)


@pytest.fixture(scope="module")
def ray():
    cluster = RayCluster()
    yield cluster
    cluster.end()


def test_tasks_have_a_place_each_and_know_each_other(launch, ray):
    job = launch("worker0=call:1", "worker1=accept", options=[*ray.options, *TWO, "--evaluator"])
    assert job.end(DEADLINE) == 0, job.text
    assert "worker 1    | heard hello" in job.lines
    assert len(list(job.log_dir.glob("*.log"))) == 3


def test_ctrl_c_is_as_at_home(launch, ray):
    job = launch("worker0=save", "worker1=save", options=[*ray.options, *TWO])
    job.read_until("worker 0 | ready", "worker 1 | ready")
    job.process.send_signal(signal.SIGINT)
    assert job.end(DEADLINE) == 130
    assert {"worker 0 | saved after SIGINT", "worker 1 | saved after SIGINT"} <= {*job.lines}


def test_a_task_that_is_killed_starts_again_with_its_peers(launch, ray):
    job = launch("worker0=train:1", "worker1=train:1", options=[*ray.options, *TWO, "--restarts", "1"])
    job.read_until("worker 0 | ready", "worker 1 | ready")
    os.kill(process_of(job, "worker1"), signal.SIGKILL)
    job.read_until("worker 1 failed: killed by SIGKILL", "restart 1 of 1")
    job.read_until("worker 0 | ready", "worker 1 | ready")
    job.process.send_signal(signal.SIGTERM)
    assert job.end(DEADLINE) == 143


def test_an_elastic_job_goes_on_without_an_actor_which_is_started_again_where_it_was(launch, ray):
    options = [*ray.options, "--workers", "1:2", "--restarts", "1"]
    job = launch("worker0=save", "worker1=save", options=options)
    job.read_until("worker 0 | ready", "worker 1 | ready")
    task = process_of(job, "worker1")
    agent = int(Path(f"/proc/{task}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(agent, signal.SIGKILL)
    job.read_until("worker 1 is started again when its host is back, restart 1 of 1", "worker 1 | ready")
    job.process.send_signal(signal.SIGTERM)
    assert job.end(DEADLINE) == 143
    assert job.lines.count("worker 0 | ready") == 1


def address_of(job, role):
    environ = Path(f"/proc/{process_of(job, role)}/environ").read_bytes().decode()
    return re.search(r'"ps": \["([\d.:]+)"', environ)[1]


def test_a_server_that_is_killed_starts_again_alone_at_its_address(launch, ray):
    deeds = ["chief0=save", "worker0=save", "ps0=sleep"]
    job = launch(*deeds, options=[*ray.options, *SERVED, "--restarts", "1"])
    job.read_until("chief 0  | ready", "worker 0 | ready", "ps 0     | ready")
    before = address_of(job, "ps0")
    os.kill(process_of(job, "ps0"), signal.SIGKILL)
    job.read_until("Starting ps 0 again, restart 1 of 1", "ps 0     | ready")
    assert address_of(job, "ps0") == before == address_of(job, "chief0")
    job.process.send_signal(signal.SIGTERM)
    assert job.end(DEADLINE) == 143


def test_nothing_outlives_a_launcher_that_is_killed(launch, ray):
    options = [*ray.options, *TWO, "--grace-secs", "0.5"]
    job = launch("worker0=save", "worker1=family:stay", options=options)
    job.read_until("worker 0 | ready", "worker 1 | ready")
    job.process.kill()
    job.end()
    wait_until(lambda: not job.left(), DEADLINE)


def test_one_model_is_trained_with_the_numbers_of_one_machine(trained, ray):
    assert trained(*ray.options) == trained("--oversubscribe")


TOO_LARGE = """\
import sys
from muster.__main__ import main
from muster.engines import _ray
_ray.ROOM_SECS = 1.0
main(sys.argv[1:])
"""


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--on", "ray:{address}", "--workers", "7"], "no room for 7 tasks within 1 s: CPU 7 of 4, of which"),
        (["--on", "ray:127.0.0.1:1"], "There is no cluster of Ray that can be used"),
        (["--on", "ray:{address}", "--workdir", "/no/such"], "there is no folder /no/such to run in"),
    ],
)
def test_what_the_cluster_lacks_is_told(options, told, ray):
    options = [each.format(address=ray.address) for each in options]
    done = subprocess.run(
        [sys.executable, "-c", TOO_LARGE, "run", *options, CHILD],
        env=clean_environment(),
        capture_output=True, text=True, timeout=DEADLINE, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert told in " ".join(done.stderr.split())


def test_a_lost_node_moves_its_tasks(launch):
    """Last, and with a cluster of its own, which has a node less then."""
    cluster = RayCluster()
    try:
        options = [*cluster.options, *TWO, "--cpus", "2", "--restarts", "1"]
        job = launch("worker0=train:1", "worker1=train:1", options=options)
        job.read_until("worker 0 | ready", "worker 1 | ready")
        cluster.do("remove 1")
        cluster.do("add")
        job.read_until("is lost with its host", "restart 1 of 1")
        job.read_until("worker 0 | ready", "worker 1 | ready")
        job.process.send_signal(signal.SIGTERM)
        assert job.end(DEADLINE) == 143
    finally:
        cluster.end()


@pytest.mark.skipif(importlib.util.find_spec("aiohttp_cors") is None, reason="needs ray[default]")
@pytest.mark.parametrize("mode", ["disabled", "token"])
@pytest.mark.timeout(2 * SUBMIT_SECS)
def test_ray_job_submit_runs_a_job(mode, tmp_path):
    """Whatever token lies in ``~/.ray``, by which Ray would choose a mode."""
    token = tmp_path / "token"
    token.write_text("2f" * 32)
    environ = {**clean_environment(), **PROMPT, "RAY_AUTH_MODE": mode, "RAY_AUTH_TOKEN_PATH": str(token)}
    with contextlib.ExitStack() as held:
        free = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
        port, dashboard, agent = (each.getsockname()[1] for each in free)
    command = Path(sys.executable).with_name("ray")
    folder = tempfile.mkdtemp(prefix="ray-")  # a short name: Ray has sockets in it
    head = subprocess.Popen(
        [command, "start", "--head", "--block", f"--port={port}", f"--dashboard-port={dashboard}",
         f"--dashboard-agent-listen-port={agent}", "--num-cpus=2", f"--temp-dir={folder}",
         "--object-store-memory=90000000"],
        env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        (tmp_path / "train.py").write_text("import os\nprint('here', os.path.basename(os.getcwd()))\n")
        submit = [
            command, "job", "submit", "--address", f"http://127.0.0.1:{dashboard}",
            "--runtime-env-json", json.dumps({"working_dir": str(tmp_path)}),
            "--", sys.executable, "-m", "muster", "run", "--on", "ray", *TWO, "train.py",
        ]  # fmt: skip
        done = []

        def has_agent():
            done.append(
                subprocess.run(
                    submit,
                    env=environ,
                    capture_output=True,
                    text=True,
                    timeout=SUBMIT_SECS,
                    check=False,
                )
            )
            return not re.search("No available agent|Failed to connect to Ray", done[-1].stderr)

        wait_until(has_agent, SUBMIT_SECS)
        assert done[-1].returncode == 0, done[-1].stdout + done[-1].stderr
        found = re.findall(r"worker (\d) \| here (\S+)", done[-1].stdout)
        assert sorted(task for task, _ in found) == ["0", "1"], done[-1].stdout
        assert all(name.startswith("_ray_pkg") for _, name in found)
        if mode == "token":
            outside = [sys.executable, "-m", "muster", "run", "--on", f"ray:127.0.0.1:{port}", "train.py"]
            stranger = {**environ, "RAY_AUTH_MODE": "disabled"}
            told = subprocess.run(
                outside,
                env=stranger,
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=DEADLINE,
                check=False,
            )
            assert told.returncode == 2, told.stdout + told.stderr
            assert "RAY_AUTH_MODE=token" in told.stderr
    finally:
        head.terminate()
        head.wait(DEADLINE)
        shutil.rmtree(folder, ignore_errors=True)
