"""Jobs of two launchers, started by the same command: two addresses of the loopback."""

import json
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from launched import CHILD, DEADLINE, MARK, Launched, clean_environment, process_of, wait_until

from muster.net import make_secret

pytestmark = [pytest.mark.alone, pytest.mark.processes]


def listens(address):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", int(address.split(":")[1]))) == 0


@pytest.fixture
def pair(tmp_path):
    """Start the two launchers of a job: the one that runs it, and the other one."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    secret = tmp_path / "secret"
    secret.write_text(make_secret())
    secret.chmod(0o600)
    started = []

    def start(*deeds, options=(), environ=None):
        environ = {"MUSTER_SECRET_FILE": str(secret), **(environ or {})}
        options = ["--nodes", "2", "--rendezvous", address, "--workers", "2", *options]
        started.append(Launched(tmp_path, options, deeds, environ=environ))
        wait_until(lambda: listens(address))
        command = [sys.executable, "-m", "muster", "run", *options, "--address", "127.0.0.2", CHILD, *deeds]
        start.environ = {**clean_environment(), **environ, MARK: str(tmp_path)}
        started.append(
            subprocess.Popen(
                command,
                env=start.environ,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )
        )  # fmt: skip
        return started

    yield start
    job, other = started
    for process in (job.process, other):
        if process.poll() is None:
            process.kill()
            process.communicate()
            pytest.fail(f"a launcher did not end:\n{job.text}")
    wait_until(lambda: not job.left())
    job.process.stdout.close()
    other.stdout.close()


def told(process):
    output, _ = process.communicate(timeout=DEADLINE)
    return output


def test_the_same_command_on_both_hosts_is_one_job(pair):
    job, other = pair("worker0=call:1", "worker1=accept", "worker1=show", options=["--env", "A=1"])
    assert job.end() == 0, job.text
    assert "worker 1 | heard hello" in job.lines
    shown = json.loads(next(line for line in job.lines if "worker 1 | {" in line).partition(" | ")[2])
    cluster = json.loads(shown["TF_CONFIG"])["cluster"]
    assert [address.split(":")[0] for address in cluster["worker"]] == ["127.0.0.1", "127.0.0.2"]
    assert "runs the job and shows its output" in (text := told(other))
    assert "the job has ended, with exit code 0" in text
    assert other.returncode == 0


@pytest.mark.slow
def test_one_model_is_trained_with_the_numbers_of_one_machine(trained, tmp_path):
    """The same line twice."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    secret = tmp_path / "secret"
    secret.write_text(make_secret())
    secret.chmod(0o600)
    options = ["--nodes", "2", "--rendezvous", address, "--oversubscribe"]
    assert trained(*options, launchers=2, secret=secret) == trained("--oversubscribe")


@pytest.mark.slow
def test_both_launchers_end_with_the_code_of_the_job(pair):
    job, other = pair("worker0=sleep", "worker1=exit:7")
    assert job.end() == 7
    assert "worker 1 failed: exit code 7" in job.text
    told(other)
    assert other.returncode == 7


@pytest.mark.slow
@pytest.mark.parametrize("whose", ["first", "other"])
def test_ctrl_c_at_either_host_ends_the_job(pair, whose):
    job, other = pair("worker0=save", "worker1=save")
    job.read_until("worker 0 | ready", "worker 1 | ready")
    (job.process if whose == "first" else other).send_signal(signal.SIGINT)
    assert job.end() == 130
    assert {"worker 0 | saved after SIGINT", "worker 1 | saved after SIGINT"} <= {*job.lines}
    told(other)
    assert other.returncode == 130


@pytest.mark.slow
def test_a_job_starts_again_without_a_host_that_is_lost(pair):
    job, other = pair("worker0=train:1", "worker1=train:1", options=["--restarts", "1"])
    job.read_until("worker 0 | ready", "worker 1 | ready")
    other.kill()
    job.read_until("worker 1 is lost with its host: its launcher has closed the connection")
    job.read_until("worker 1 runs on 127.0.0.1 now", "worker 0 | ready", "worker 1 | ready")
    job.process.send_signal(signal.SIGTERM)
    assert job.end() == 143
    told(other)


@pytest.mark.slow
def test_an_elastic_job_goes_on_without_a_host_and_takes_it_back_when_it_calls_again(pair):
    job, other = pair("worker0=save", "worker1=save", options=["--workers", "1:2", "--restarts", "1"])
    job.read_until("worker 0 | ready", "worker 1 | ready")
    other.kill()
    told(other)
    job.read_until("worker 1 is started again when its host is back, restart 1 of 1")
    again = subprocess.Popen(
        other.args, env=pair.environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    job.read_until("worker 1 | ready")
    job.process.send_signal(signal.SIGTERM)
    assert job.end() == 143
    assert job.lines.count("worker 0 | ready") == 1
    assert "worker 1 | saved after SIGTERM" in job.lines
    told(again)
    assert again.returncode == 143


@pytest.mark.slow
def test_tasks_end_with_the_launcher_that_runs_the_job(pair):
    job, other = pair("worker0=save", "worker1=family:stay", options=["--grace-secs", "0.5"])
    job.read_until("worker 0 | ready", "worker 1 | ready")
    worker = process_of(job, "worker1")
    job.process.kill()
    job.end()
    told(other)
    assert other.returncode == 255
    assert not Path(f"/proc/{worker}").exists()


def run(*options, environ=None):
    return subprocess.run(
        [sys.executable, "-m", "muster", "run", *options, CHILD],
        env={**clean_environment(), **(environ or {})},
        capture_output=True, text=True, timeout=DEADLINE, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("options", "environ", "said"),
    [
        (["--nodes", "2"], {}, "--nodes needs --rendezvous HOST:PORT"),
        (["--nodes", "2", "--rendezvous", "127.0.0.1:1", "--on", "ssh:a"], {}, "goes without --on"),
        (["--nodes", "2", "--rendezvous", "127.0.0.1:4111"], {}, "need a secret, the same on all hosts"),
        (["--nodes", "2", "--rendezvous", "nowhere"], {"MUSTER_SECRET": "x" * 32}, "must be host:port"),
    ],
)
def test_what_launchers_need_is_told(options, environ, said):
    done = run(*options, environ=environ)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())


def test_another_secret_is_refused(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    options = ["--nodes", "2", "--rendezvous", address]
    first = subprocess.Popen(
        [sys.executable, "-m", "muster", "run", *options, CHILD],
        env={**clean_environment(), "MUSTER_SECRET": "a" * 32},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip

    wait_until(lambda: listens(address))
    done = run(*options, environ={"MUSTER_SECRET": "b" * 32})
    assert done.returncode == 1
    assert re.search(r"What answers at the rendezvous .* is not the one", done.stderr), done.stderr
    first.send_signal(signal.SIGINT)
    _, said = first.communicate(timeout=DEADLINE)
    assert first.returncode == 130, said
    assert "Traceback" not in said
