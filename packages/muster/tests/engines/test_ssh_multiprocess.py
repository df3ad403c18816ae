"""Jobs on two hosts that a real ssh reaches: two addresses of the loopback."""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from launched import CHILD, DEADLINE, clean_environment, process_of, wait_until

from muster import __version__

pytestmark = [pytest.mark.alone, pytest.mark.processes]

TWO = ["--workers", "2"]


def test_tasks_run_on_both_hosts_and_know_each_other(launch, hosts):
    job = launch("worker0=call:1", "worker1=accept", options=[*hosts.options, *TWO])
    assert job.end() == 0, job.text
    assert "worker 1 | heard hello" in job.lines
    assert sorted(path.name for path in job.log_dir.glob("*.log")) == ["worker-0.log", "worker-1.log"]


@pytest.mark.slow
def test_what_tasks_are_given(launch, hosts):
    environ = {"JAX_PLATFORMS": "cpu", "OTHER": "stays here"}
    options = [*hosts.options, *TWO, "--evaluator", "--devices-per-worker", "3", "--env", "SEEN=1"]
    job = launch("worker0=show", "worker1=show", "evaluator0=show", options=options, environ=environ)
    assert job.end() == 0, job.text
    told = [json.loads(line.partition(" | ")[2]) for line in sorted(job.of_tasks)]
    cluster = json.loads(told[1]["TF_CONFIG"])["cluster"]
    assert [address.rpartition(":")[0] for address in cluster["worker"]] == [*hosts.names]
    assert cluster["evaluator"][0].startswith(f"{hosts.names[1]}:")
    assert len({each["PYTHONHASHSEED"] for each in told}) == 1
    assert told[1]["XLA_FLAGS"] == "--xla_force_host_platform_device_count=3"
    title = (job.log_dir / "worker-0.log").read_text().splitlines()[0]
    assert re.fullmatch(rf"=== [\d: -]+ worker 0 of job \w+-1: {sys.executable} {CHILD} .*", title)


@pytest.mark.slow
def test_one_model_is_trained_with_the_numbers_of_one_machine(trained, hosts):
    assert trained(*hosts.options) == trained("--oversubscribe")


@pytest.mark.slow
def test_the_secret_goes_over_the_connection_alone(launch, hosts):
    deeds = ["worker0=digest", "worker1=digest", "worker0=sleep", "worker1=sleep"]
    job = launch(*deeds, options=[*hosts.options, *TWO])
    job.read_until("worker 0 | ready", "worker 1 | ready")
    told = {line.rpartition(" ")[2] for line in job.lines if " | digest " in line}
    environ = Path(f"/proc/{process_of(job, 'worker0')}/environ").read_bytes()
    secret = re.search(rb"MUSTER_SECRET=(\w{64})", environ)[1]
    assert told == {hashlib.sha256(secret).hexdigest()}
    everything = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert any(b"muster.engines._agent" in line for line in everything)
    assert not [line for line in everything if secret in line]
    job.process.send_signal(signal.SIGINT)
    assert job.end() == 130
    assert "worker 0 failed" not in job.text


@pytest.mark.slow
def test_tasks_save_at_ctrl_c_as_at_home(launch, hosts):
    job = launch("worker0=save", "worker1=slowsave:2", options=[*hosts.options, *TWO, "--grace-secs", "0.5"])
    job.read_until("worker 0 | ready", "worker 1 | ready")
    job.process.send_signal(signal.SIGINT)
    assert job.end() == 130
    assert "worker 0 | saved after SIGINT" in job.lines
    assert "worker 1 | saved" in job.lines


@pytest.mark.slow
def test_a_task_that_is_killed_is_named_with_what_others_saw(launch, hosts):
    job = launch("worker0=train:1", "worker1=train:1", options=[*hosts.options, *TWO])
    job.read_until("worker 0 | ready", "worker 1 | ready")
    os.kill(process_of(job, "worker1"), signal.SIGKILL)
    assert job.end() == 137
    assert "worker 1 failed: killed by SIGKILL" in job.text
    assert (job.log_dir / "worker-0.watch.events").exists()


def test_an_agent_that_is_killed_loses_its_tasks_and_leaves_nothing(launch, hosts):
    job = launch("worker0=save", "worker1=family:stay", options=[*hosts.options, *TWO])
    job.read_until("worker 0 | ready", "worker 1 | ready")
    os.kill(hosts.agent(process_of(job, "worker1")), signal.SIGKILL)
    assert job.end() == 255
    assert "worker 1 is lost with its host: the connection of ssh to 127.0.0.3 has ended" in job.text
    assert "worker 0 | saved after SIGTERM" in job.lines
    wait_until(lambda: not job.left())


@pytest.mark.slow
def test_tasks_finish_and_save_when_the_connection_breaks(launch, hosts, tmp_path):
    program = tmp_path / "saves.py"
    program.write_text(
        "import os, pathlib, signal, sys, time\n"
        "def save(number, frame):\n"
        "    time.sleep(1)\n"
        f"    pathlib.Path({str(tmp_path)!r}, f'saved-{{os.getpid()}}').touch()\n"
        "    sys.exit(143)\n"
        "signal.signal(signal.SIGTERM, save)\n"
        "print('ready', flush=True)\n"
        "time.sleep(600)\n"
    )
    job = launch(options=[*hosts.options, *TWO, "--grace-secs", "0.2"], program=program)
    job.read_until("worker 0 | ready", "worker 1 | ready")
    (ssh, *_) = [pid for pid, command in job.left().items() if command.startswith("ssh -F")]
    os.kill(ssh, signal.SIGKILL)
    assert job.end() == 255
    wait_until(lambda: len(list(tmp_path.glob("saved-*"))) == 2)


@pytest.mark.slow
def test_tasks_finish_and_save_when_the_launcher_is_killed(launch, hosts):
    job = launch("worker0=save", "worker1=family:stay", options=[*hosts.options, *TWO])
    job.read_until("worker 0 | ready", "worker 1 | ready")
    job.process.kill()
    job.end()
    wait_until(lambda: not job.left() and not hosts.left())


@pytest.mark.slow
def test_a_job_starts_again_on_the_hosts_that_are_left(launch, hosts):
    deeds = ["worker0=train:1", "worker1=train:1"]
    job = launch(*deeds, options=[*hosts.options, *TWO, "--restarts", "1"])
    job.read_until("worker 0 | ready", "worker 1 | ready")
    hosts.stop(hosts.names[1])
    os.kill(hosts.agent(process_of(job, "worker1")), signal.SIGKILL)
    job.read_until("restart 1 of 1")
    job.read_until("worker 1 runs on 127.0.0.2 now", "worker 0 | ready", "worker 1 | ready")
    job.process.send_signal(signal.SIGTERM)
    assert job.end() == 143


@pytest.mark.slow
def test_a_server_is_started_again_alone_and_all_if_its_host_is_lost(launch, hosts, tmp_path):
    options = [*hosts.options, "--ps", "2", "--workers", "1", "--restarts", "2"]
    deeds = ["chief0=save", "worker0=save", f"ps0=once:{tmp_path / 'marker'}", "ps0=sleep", "ps1=sleep"]
    job = launch(*deeds, options=options)
    job.read_until("Starting ps 0 again, restart 1 of 2", "ps 0     | ready")
    job.read_until("ps 1     | ready") if "ps 1     | ready" not in job.lines else None
    os.kill(hosts.agent(process_of(job, "ps1")), signal.SIGKILL)
    job.read_until("Starting the job again, restart 2 of 2")
    job.read_until("ps 0     | ready", "ps 1     | ready")
    job.process.send_signal(signal.SIGTERM)
    assert job.end() == 143


def shell(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def run(*options, cwd=None):
    return subprocess.run(
        [sys.executable, "-m", "muster", "run", *options],
        env=clean_environment(), cwd=cwd, capture_output=True, text=True, timeout=DEADLINE, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("on", "options", "told"),
    [
        ("ssh:", [], "Each host must be named once, given: none"),
        ("ssh:a,a", [], "Each host must be named once, given: a, a"),
        ("ssh:-oProxyCommand=x", [], "A host for ssh must be HOST, USER@HOST or HOST=ADDRESS"),
        ("moon", [], "There is no engine 'moon'"),
        ("local", ["--sync"], "--sync is for tasks on other hosts"),
        ("ssh:a", ["--python", "/no/such/python"], "there is no /no/such/python on it"),
        ("ssh:a", ["--python", "{empty}"], "starts no agent of muster on it, and ends with code 1"),
        ("ssh:a", ["--python", "{bare}"], "No module named 'muster'). If it lacks muster, install"),
        ("ssh:a", ["--python", "{other}"], "a has muster 0.0.1, and this host has"),
        ("ssh:a", ["--python", "{old}"], "a runs Python 3.1.2, and this host"),
        ("ssh:a", ["--ssh-command", "/no/such/ssh"], "/no/such/ssh cannot be started"),
        ("ssh:a", ["--ssh-command", "{refuses}"], "cannot connect to it: no route to host"),
        ("ssh:127.0.0.2", ["--workdir", "/no/such"], "127.0.0.2: there is no folder /no/such to run in"),
        ("ssh:127.0.0.2", ["--workdir", "/"], "127.0.0.2: there is no train.py in /"),
    ],
)  # fmt: skip
def test_what_a_host_lacks_is_told(on, options, told, tmp_path):
    (tmp_path / "train.py").touch()
    python = "{}.{}.0".format(*sys.version_info)
    greet = "echo; echo 'muster-agent {}'; cat > /dev/null"
    named = {
        "empty": shell(tmp_path, "empty", "echo no module >&2; exit 1"),
        "bare": shell(tmp_path, "bare", f'exec {sys.executable} -S "$@"'),
        "other": shell(tmp_path, "other", greet.format(json.dumps({"muster": "0.0.1", "python": python}))),
        "old": shell(tmp_path, "old", greet.format(json.dumps({"muster": __version__, "python": "3.1.2"}))),
        "refuses": shell(tmp_path, "refuses", "echo no route to host >&2; exit 255"),
    }
    remote = ["--ssh-command", shell(tmp_path, "remote", 'shift; exec sh -c "$*"')]
    options = [each.format(**named) for each in options]
    if "--ssh-command" not in options and on.startswith("ssh"):
        options += remote
    done = run("--on", on, *options, "train.py", cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_ctrl_c_ends_a_connection_that_does_not_come_about(tmp_path):
    (tmp_path / "train.py").touch()
    remote = shell(tmp_path, "remote", f"touch {tmp_path}/called; exec sleep 600")
    job = subprocess.Popen(
        [sys.executable, "-m", "muster", "run", "--on", "ssh:a", "--ssh-command", remote, "train.py"],
        env=clean_environment(), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    wait_until((tmp_path / "called").exists)
    job.send_signal(signal.SIGINT)
    said, _ = job.communicate(timeout=10)
    assert job.returncode == 130, said
    assert "Traceback" not in said


def test_the_files_of_a_folder_are_sent(tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("WORD = 'sent'\n")
    (tmp_path / "train.py").write_text(
        "import os, package\nprint(package.WORD, os.path.exists('.hidden'), os.getcwd())\n"
    )
    (tmp_path / ".hidden").touch()
    remote = shell(tmp_path, "remote", 'shift; echo welcome; exec sh -c "$*"')
    done = run(
        "--on", "ssh:h=127.0.0.2", "--ssh-command", remote, "--sync", str(tmp_path / "train.py"), cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert line.startswith("worker 0 | sent False /")
    folder = Path(line.rpartition(" ")[2])
    assert folder.name == "files"
    assert folder != tmp_path
    assert not folder.exists()
