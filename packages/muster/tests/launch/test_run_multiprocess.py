"""``muster run`` with real processes: tiny programs that import nothing heavy."""

import fcntl
import hashlib
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from launched import CHILD, DEADLINE, clean_environment, process_of, wait_until

from muster.cluster.roster._roster import EXIT_PEER_LOST

pytestmark = [pytest.mark.alone, pytest.mark.processes]

SERVED = ["--ps", "1"]


def test_all_end_well(launch):
    job = launch("worker0=write:1", options=["--workers", "2", "--chief", "--evaluator"])
    assert job.end() == 0
    assert job.of_tasks == ["worker 0    | write 0 end"]
    logs = {path.name: path.read_text().splitlines() for path in job.log_dir.glob("*.log")}
    assert sorted(logs) == ["chief-0.log", "evaluator-0.log", "worker-0.log", "worker-1.log"]
    assert re.fullmatch(
        r"=== [\d: -]+ worker 0 of job \w+-1: .*launch_child.py worker0=write:1", logs["worker-0.log"][0]
    )
    assert logs["worker-0.log"][1:] == ["write 0 end"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["trainer.task", "trainer"])
def test_a_module_is_run_as_python_does(tmp_path, name):
    package = tmp_path / "trainer"
    package.mkdir()
    (package / "__init__.py").write_text("STEPS = 7\n")
    module = package / ("task.py" if name == "trainer.task" else "__main__.py")
    module.write_text("import sys\nfrom trainer import STEPS\nprint(__name__, STEPS, sys.argv[1:])\n")
    done = subprocess.run(
        [sys.executable, "-m", "muster", "run", "--workers", "2", "-m", name, "--workers", "3", "-m", "x"],
        env=clean_environment(), cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = "__main__ 7 ['--workers', '3', '-m', 'x']"
    assert sorted(done.stdout.splitlines()) == [f"worker 0 | {told}", f"worker 1 | {told}"]


@pytest.mark.slow
def test_what_a_task_is_given(launch):
    job = launch(
        "worker0=show",
        "worker1=show",
        options=["--workers", "2", "--devices-per-worker", "3"],
        environ={"XLA_FLAGS": "--xla_cpu_enable_fast_math=false", "JAX_PLATFORMS": "cpu"},
    )
    assert job.end() == 0
    first, second = (json.loads(line.partition(" | ")[2]) for line in sorted(job.of_tasks))
    assert first["XLA_FLAGS"] == "--xla_cpu_enable_fast_math=false --xla_force_host_platform_device_count=3"
    assert first["MUSTER_JOB_ID"] == second["MUSTER_JOB_ID"]
    assert first["PYTHONHASHSEED"] == second["PYTHONHASHSEED"]
    assert (first["name"], first["argv0"]) == ("__main__", str(CHILD))
    mine = os.sched_getaffinity(0)
    assert first["cores"]
    assert set(first["cores"]) | set(second["cores"]) <= mine
    if len(mine) > 1:
        assert not set(first["cores"]) & set(second["cores"])
        assert first["OMP_NUM_THREADS"] == str(len(first["cores"]))
    assert json.loads(second["TF_CONFIG"])["task"] == {"type": "worker", "index": 1}


@pytest.mark.slow
def test_a_task_has_its_port_from_the_first_moment(launch):
    # Worker 0 calls at once; worker 1 accepts on the socket that it inherited.
    job = launch("worker0=call:1", "worker1=accept", options=["--workers", "2"])
    assert job.end() == 0
    assert "worker 1 | heard hello" in job.lines


@pytest.mark.slow
def test_lines_of_tasks_are_never_mixed(launch):
    job = launch(*(f"worker{i}=write:500" for i in range(4)), options=["--workers", "4"])
    assert job.end() == 0
    for i in range(4):
        mine = [line for line in job.lines if line.startswith(f"worker {i} | ")]
        assert mine == [f"worker {i} | write {number} end" for number in range(500)]
    assert len(job.of_tasks) == 2000


@pytest.mark.slow
def test_odd_output_is_shown_as_lines(launch):
    job = launch("worker0=bytes")
    assert job.end() == 0
    assert job.of_tasks == [
        "worker 0 | caf\u00e9 \ufffd\x1b[31mred\x1b[0m",
        "worker 0 | progress 100%",
        "worker 0 | no end",
    ]


def test_a_failure_ends_the_job_and_is_named_with_its_last_lines(launch):
    job = launch("worker0=save", "worker1=raise:out of cheese", options=["--workers", "2"])
    assert job.end() == 1
    assert job.lines[0] == f"muster   | Starts worker 0, worker 1. Logs: {job.log_dir}"
    assert "muster   | worker 1 failed: exit code 1." in job.lines  # its last lines are just above
    assert "worker 1 | RuntimeError: out of cheese" in job.lines
    assert job.lines[-1] == f"muster   | Logs: {job.log_dir}"
    # Plain Python: the traceback starts in the user's file.
    assert re.search(r'worker 1 \|   File ".*launch_child.py", line \d+, in <module>', job.text)
    assert "runpy" not in job.text
    shown = replayed(job.log_dir)
    assert "    TaskEnded(Task(TaskType.WORKER, 1), 1, joined=False)" in shown
    assert "  → Finish(1)" in shown


def replayed(log):
    """Return what ``muster replay`` prints, which finds the same actions as the job's."""
    command = [sys.executable, "-m", "muster", "replay", str(log)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("the same actions as then.\n")
    return done.stdout.splitlines()


@pytest.mark.slow
def test_a_task_killed_by_a_signal_is_named(launch):
    job = launch("worker0=sleep", f"worker1=kill:{signal.SIGKILL:d}", options=["--workers", "2"])
    assert job.end() == 137
    assert "worker 1 failed: killed by SIGKILL" in job.text


@pytest.mark.slow
def test_a_task_that_lost_its_peer_is_not_the_cause(launch):
    job = launch("worker0=savefail", f"worker1=exit:{EXIT_PEER_LOST}", options=["--workers", "2"])
    assert job.end() == 1
    assert "worker 0 failed: exit code 1" in job.text
    assert "muster   | worker 1 ended because of that." in job.lines


def test_the_task_that_was_killed_is_the_cause_and_not_those_that_lost_it(launch):
    job = launch("worker0=train:1", "worker1=train:1", "worker2=train:1", options=["--workers", "3"])
    job.read_until(*(f"worker {index} | ready" for index in range(3)))
    os.kill(process_of(job, "worker1"), signal.SIGKILL)
    assert job.end() == 137
    assert "worker 1 failed: killed by SIGKILL" in job.text
    # What a task that it left behind had seen of it.
    shown = replayed(min(job.log_dir.glob("worker-[02].watch.events")))
    assert any(line.startswith("  → Lose(Task('worker', 1)") for line in shown)
    assert "worker 0 failed" not in job.text


def test_a_task_that_ignores_sigterm_is_killed_after_the_grace_time(launch):
    job = launch("worker0=stubborn", "worker1=accept", options=["--workers", "2", "--grace-secs", "0.5"])
    job.read_until("worker 0 | ready", "worker 1 | ready")
    started = time.monotonic()
    job.process.send_signal(signal.SIGTERM)
    assert job.end() == 143
    assert 0.5 <= time.monotonic() - started < 5
    assert "muster   | Killing worker 0." in job.lines


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_grace_time_begins_when_a_step_is_finished_and_saved(launch, number):
    job = launch("worker0=slowsave:2", options=["--grace-secs", "0.5"])
    job.read_until("ready")
    job.process.send_signal(number)
    assert job.end() == 128 + number
    assert "worker 0 | saved" in job.lines


@pytest.mark.slow
def test_tasks_finish_and_save_when_the_launcher_is_killed(launch):
    job = launch("worker0=slowsave:2", options=["--grace-secs", "0.5"])
    job.read_until("ready")
    job.process.kill()
    job.end()
    wait_until(lambda: not job.left(), timeout=10)
    assert "saved" in (job.log_dir / "worker-0.log").read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_passed_on_and_tasks_save(launch, number):
    job = launch(
        "worker0=save", "worker1=save", "evaluator0=sleep", options=["--workers", "2", "--evaluator"]
    )
    job.read_until("worker 0    | ready", "worker 1    | ready", "evaluator 0 | ready")
    started = time.monotonic()
    job.process.send_signal(number)
    assert job.end() == 128 + number
    assert time.monotonic() - started < 5
    passed_on = "SIGINT" if number == signal.SIGINT else "SIGTERM"
    for worker in (0, 1):
        assert f"worker {worker}    | saved after {passed_on}" in job.lines
    assert "failed" not in job.text


def test_ctrl_c_before_a_task_has_shown_anything_leaves_no_traceback(launch, tmp_path):
    started = tmp_path / "started"
    job = launch(f"worker0=silent:{started}", "worker1=save", options=["--workers", "2"])
    job.read_until("worker 1 | ready")
    wait_until(started.exists)
    job.process.send_signal(signal.SIGINT)
    assert job.end() == 130
    assert "worker 1 | saved after SIGINT" in job.lines
    for unwanted in ("Traceback", "KeyboardInterrupt", "killed by", "Killing", "failed"):
        assert unwanted not in job.text


def test_a_second_ctrl_c_kills_at_once(launch):
    job = launch("worker0=stubborn", options=["--grace-secs", "60"])
    job.read_until("ready")
    job.process.send_signal(signal.SIGINT)
    job.read_until("may save and end")
    time.sleep(1.1)  # within a second of the first it would be the first
    job.process.send_signal(signal.SIGINT)
    assert job.end(timeout=5) == 130


@pytest.mark.slow
def test_no_restart_after_ctrl_c(launch):
    job = launch("worker0=savefail", options=["--restarts", "3"])
    job.read_until("ready")
    job.process.send_signal(signal.SIGINT)
    assert job.end() == 1
    assert "RuntimeError: disk full" in job.text
    assert "again," not in job.text


def test_the_job_is_started_again_with_new_ports_and_another_id(launch, tmp_path):
    job = launch(
        f"worker0=once:{tmp_path / 'marker'}", "worker1=save", "worker0=show",
        options=["--workers", "2", "--restarts", "2"],
    )  # fmt: skip
    job.read_until("restart 1 of 2", "worker 0 | {")
    job.process.send_signal(signal.SIGTERM)
    assert job.end() == 143
    assert "worker 0 failed: exit code 9. It has written nothing." in job.text
    log = (job.log_dir / "worker-1.log").read_text()
    ids = re.findall(r"=== .* worker 1 of job (\w+)-(\d):", log)
    assert [attempt for _, attempt in ids] == ["1", "2"]
    assert len({name for name, _ in ids}) == 1


@pytest.mark.slow
def test_a_job_that_ends_well_after_a_restart_has_ended_well(launch, tmp_path):
    job = launch(f"worker0=once:{tmp_path / 'marker'}", options=["--restarts", "1"])
    assert job.end() == 0


@pytest.mark.slow
def test_restarts_are_used_up(launch):
    job = launch("worker0=exit:4", options=["--restarts", "1"])
    assert job.end() == 4
    assert job.text.count("worker 0 failed: exit code 4") == 2


@pytest.mark.slow
def test_an_evaluator_is_started_again_alone_at_its_old_place(launch, tmp_path):
    job = launch(
        "worker0=save", f"evaluator0=once:{tmp_path / 'marker'}", "evaluator0=show",
        options=["--evaluator", "--restarts", "1"],
    )  # fmt: skip
    job.read_until("worker 0    | ready", "Starting evaluator 0 again", "evaluator 0 | {")
    told = json.loads(job.lines[-1].partition(" | ")[2])
    worker = re.search(r"of job (\S+):", (job.log_dir / "worker-0.log").read_text())[1]
    assert told["MUSTER_JOB_ID"] == worker
    job.process.send_signal(signal.SIGTERM)
    assert job.end() == 143


@pytest.mark.slow
@pytest.mark.parametrize("how", ["leave", "stay"])
def test_what_a_task_has_started_ends_with_the_job(launch, how):
    job = launch(f"worker0=family:{how}", "worker1=accept", options=["--workers", "2"])
    job.read_until("worker 0 | ready", "worker 1 | ready")
    job.process.send_signal(signal.SIGTERM)
    assert job.end() == 143


def test_nothing_outlives_a_launcher_that_is_killed(launch):
    job = launch(
        "worker0=family:stay", "worker1=save", "evaluator0=stubborn",
        options=["--workers", "2", "--evaluator", "--grace-secs", "0.5"],
    )  # fmt: skip
    job.read_until("worker 0    | ready", "worker 1    | ready", "evaluator 0 | ready")
    assert len(job.left()) == 7  # launcher, keeper, three tasks, two grandchildren
    job.process.kill()
    assert job.end() == -signal.SIGKILL
    wait_until(lambda: not job.left(), timeout=10)
    assert "saved after SIGTERM" in (job.log_dir / "worker-1.log").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["end", "term", "kill"])
def test_what_a_task_has_sent_away_ends_with_the_job(launch, how):
    job = launch("worker0=daemon:stay" if how != "end" else "worker0=daemon:go")
    job.read_until("left ")
    left = int(job.lines[-1].rpartition(" ")[2])
    if how == "kill":
        time.sleep(2.5)  # the keeper looks once a second
        job.process.kill()
    elif how == "term":
        job.process.terminate()
    assert job.end() == {"end": 0, "term": 143, "kill": -signal.SIGKILL}[how]
    wait_until(lambda: not Path(f"/proc/{left}/cmdline").exists(), timeout=10)


@pytest.mark.slow
def test_what_is_not_the_jobs_is_left_alone(tmp_path):
    """Such as what the script has started that then became the launcher."""
    run = f"{sys.executable} -m muster run --log-dir {tmp_path} {CHILD} worker0=family:go"
    script = f"sleep 300 > /dev/null 2>&1 & echo $!; exec {run}"
    ended = subprocess.run(["sh", "-c", script], stdout=subprocess.PIPE, text=True, timeout=DEADLINE)
    assert ended.returncode == 0
    os.kill(int(ended.stdout.split()[0]), signal.SIGTERM)  # which is an error if it is gone


@pytest.mark.slow
def test_tasks_end_with_the_launcher_also_when_the_keeper_was_killed(launch):
    job = launch("worker0=sleep", "worker1=save", options=["--workers", "2"])
    job.read_until("worker 0 | ready", "worker 1 | ready")
    (keeper,) = [process for process, command in job.left().items() if "_keeper.py" in command]
    os.kill(keeper, signal.SIGKILL)
    job.process.kill()
    job.end()
    wait_until(lambda: not job.left(), timeout=10)


@pytest.mark.slow
def test_a_job_goes_on_when_the_keeper_was_killed(launch):
    job = launch("worker0=save")
    job.read_until("ready")
    (keeper,) = [process for process, command in job.left().items() if "_keeper.py" in command]
    os.kill(keeper, signal.SIGKILL)
    job.process.send_signal(signal.SIGTERM)
    assert job.end() == 143
    assert "worker 0 | saved after SIGTERM" in job.lines


@pytest.mark.slow
def test_a_reader_that_leaves_does_not_end_the_job(launch):
    job = launch("worker0=accept", "worker1=write:1", options=["--workers", "2"])
    job.read_until("worker 0 | ready", "write 0")
    environment = Path(f"/proc/{process_of(job, 'worker0')}/environ").read_bytes().decode()
    address = re.search(r'"worker": \["([\d.:]+)"', environment)[1]
    job.process.stdout.close()
    host, port = address.split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(b"you")
    assert job.process.wait(DEADLINE) == 0
    assert "heard you" in (job.log_dir / "worker-0.log").read_text()


@pytest.mark.slow
def test_a_terminal_shows_a_line_a_task_below_the_output(tmp_path):
    control, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    environment = {**clean_environment(), "TERM": "xterm", "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "muster", "run", "--evaluator", CHILD, "worker0=train:1234"]
    with subprocess.Popen(
        [*command, "evaluator0=exit:3"], env=environment, stdin=terminal, stdout=terminal, stderr=terminal
    ) as launcher:
        os.close(terminal)
        shown, told = "", False
        for piece in iter(lambda: _read(control), b""):
            shown += piece.decode()
            if not told and re.search(r"1234 +12\.3 +0\.5 +7% +training", _without_styles(shown)):
                launcher.send_signal(signal.SIGTERM)
                told = True
        assert launcher.wait(DEADLINE) == 3
    os.close(control)
    shown = _without_styles(shown)
    assert re.search(r"task +step +steps/s +loss +input wait +state", shown)
    assert re.search(r"worker 0 +- +- +- +- +running", shown)
    assert "evaluator 0 | about to end" in shown
    assert re.search(r"evaluator 0 +- +- +- +- +exit code 3", shown)
    assert "muster      | evaluator 0 failed: exit code 3." in shown


@pytest.mark.slow
def test_the_table_shows_what_parameter_servers_do(tmp_path):
    control, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    environment = {**clean_environment(), "TERM": "xterm", "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "muster", "run", *SERVED, CHILD, "chief0=sleep", "ps0=serve:345"]
    with subprocess.Popen(command, env=environment, stdin=terminal, stdout=terminal, stderr=terminal) as job:
        os.close(terminal)
        shown = ""
        for piece in iter(lambda: _read(control), b""):
            shown += piece.decode()
            if re.search(r"ps 0 +- +- +- +- +345 +12 +3 +1\.2 +training", _without_styles(shown)):
                job.send_signal(signal.SIGTERM)
                break
        for _ in iter(lambda: _read(control), b""):
            pass
        assert job.wait(DEADLINE) == 143
    os.close(control)
    assert re.search(r"input wait +pulls +pushes +queue +stale +state", _without_styles(shown))


def _read(control):
    try:
        return os.read(control, 1 << 16)
    except OSError:  # the other end was closed
        return b""


def _without_styles(text):
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


@pytest.mark.parametrize(
    ("arguments", "environ", "told"),
    [
        (["nowhere.py"], {}, "there is no nowhere.py in "),
        ([CHILD.parent], {}, "is a folder without a __main__.py"),
        (["-m"], {}, "argument -m: expected the name of a module"),
        (["-m", "--workers", "2"], {}, "argument -m: expected the name of a module"),
        (["-m", "nowhere"], {}, "there is no module nowhere, in "),
        (["-m", "muster.nowhere"], {}, "there is no module muster.nowhere, in "),
        (["-m", "muster._version.nowhere"], {}, "muster._version is a module, and no package"),
        (["-m", "muster.launch"], {}, "muster.launch is a package without a __main__.py"),
        (["--workers", "0", CHILD], {}, "at least one task that trains"),
        (["--workers", "-1", CHILD], {}, "argument --workers: '-1' is neither a number from 0 nor a range"),
        (["--workers", "two", CHILD], {}, "'two' is neither a number from 0 nor a range"),
        (["--devices-per-worker", "0", CHILD], {}, "must be 1 or more, given: 0"),
        (["--grace-secs", "-1", CHILD], {}, "must be a number of seconds, 0 or more, given: '-1'"),
        ([CHILD], {"TF_CONFIG": "{}"}, "TF_CONFIG is set"),
        ([CHILD], {"MUSTER_SECRET": "hunter2"}, "must have at least 16 characters"),
        ([CHILD], {"MUSTER_TLS": "/no/such"}, "finds no ca.crt"),
        ([], {}, "the following arguments are required: SCRIPT, or -m MODULE"),
    ],
)
def test_bad_usage_is_told(arguments, environ, told):
    done = subprocess.run(
        [sys.executable, "-m", "muster", "run", *arguments],
        env={**clean_environment(), **environ},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert done.returncode == 2
    assert told in done.stderr
    assert done.stdout == ""


@pytest.mark.slow
def test_a_log_folder_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").touch()
    done = subprocess.run(
        [sys.executable, "-m", "muster", "run", "--log-dir", tmp_path / "file", CHILD],
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert done.returncode == 1
    assert "File exists" in done.stderr
    assert "Traceback" not in done.stderr


def digests(job):
    return [line.rpartition(" ")[2] for line in job.lines if " | digest " in line]


def test_all_tasks_have_one_secret_that_only_their_environment_tells(launch, tmp_path):
    job = launch(
        "worker0=digest", f"worker0=once:{tmp_path / 'marker'}", "worker1=digest", "evaluator0=digest",
        "worker0=sleep", "worker1=sleep", "evaluator0=sleep",
        options=["--workers", "2", "--evaluator", "--restarts", "1"],
    )  # fmt: skip
    job.read_until("restart")
    job.read_until(*(f"{task} | ready" for task in ("worker 0   ", "worker 1   ", "evaluator 0")))
    commands = job.left()
    assert len(commands) == 5  # the launcher, its keeper and the tasks
    secrets = set()
    for process in commands:
        environ = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
        secrets |= {
            each.partition(b"=")[2].decode() for each in environ if each.startswith(b"MUSTER_SECRET=")
        }
    (secret,) = secrets
    assert len(secret) == 64
    job.process.send_signal(signal.SIGINT)
    job.end()
    told = digests(job)
    assert len(told) >= 4  # that of worker 0 before the restart, and three after it
    assert set(told) == {hashlib.sha256(secret.encode()).hexdigest()}
    assert secret not in job.text
    assert not [command for command in commands.values() if secret in command]
    assert not [log for log in job.log_dir.iterdir() if secret in log.read_text()]


@pytest.mark.slow
def test_each_job_has_a_secret_of_its_own(launch):
    first = launch("worker0=digest")
    assert first.end() == 0
    second = launch("worker0=digest")  # not beside the first: both write into one folder of logs
    assert second.end() == 0
    assert len(set(digests(first) + digests(second))) == 2


@pytest.mark.slow
def test_a_secret_that_is_given_is_kept(launch):
    secret = "correct horse battery staple"
    job = launch("worker0=digest", environ={"MUSTER_SECRET": secret})
    assert job.end() == 0
    assert digests(job) == [hashlib.sha256(secret.encode()).hexdigest()]


@pytest.mark.slow
def test_a_file_of_a_secret_is_handed_on(launch, tmp_path):
    path = tmp_path / "secret"
    path.write_text("correct horse battery staple")
    path.chmod(0o600)
    job = launch("worker0=digest", environ={"MUSTER_SECRET_FILE": str(path)})
    assert job.end() == 1
    assert "KeyError: 'MUSTER_SECRET'" in job.text  # which tells it by the file alone


@pytest.mark.slow
@pytest.mark.parametrize(("deed", "kept"), [("exit:0", False), ("exit:3", True)])
def test_the_temporary_folder_stays_only_after_a_failure(deed, kept, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "muster", "run", CHILD, f"worker0={deed}"],
        env={**clean_environment(), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    folders = list(tmp_path.glob("muster-run-*"))
    assert len(folders) == kept
    assert [f"Logs: {folder}" in done.stderr for folder in folders] == [True] * kept
    assert "worker 0 | about to end" in done.stdout.splitlines()


def address_of_server(process):
    environment = Path(f"/proc/{process}/environ").read_bytes().decode()
    return re.search(r'"ps": \["([\d.:]+)"', environment)[1]


@pytest.mark.slow
def test_a_server_is_started_again_alone_at_its_address(launch, tmp_path):
    job = launch(
        "chief0=save", "worker0=save", f"ps0=once:{tmp_path / 'marker'}", "ps0=accept",
        options=[*SERVED, "--restarts", "1"],
    )  # fmt: skip
    job.read_until(
        "worker 0 | ready", "chief 0  | ready", "Starting ps 0 again, restart 1 of 1", "ps 0     | ready"
    )
    address = address_of_server(process_of(job, "ps0"))
    assert address == address_of_server(process_of(job, "chief0"))
    host, port = address.split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(b"you")
    job.read_until("ps 0     | heard you")
    job.process.send_signal(signal.SIGTERM)
    assert job.end() == 143
    for task, starts in (("chief", 1), ("worker", 1), ("ps", 2)):
        log = (job.log_dir / f"{task}-0.log").read_text()
        assert len(re.findall(r"=== .* of job \w+-1:", log)) == starts


@pytest.mark.slow
def test_nobody_else_gets_the_port_of_a_task_that_is_started_again(launch, tmp_path):
    job = launch(
        "chief0=save", "worker0=save", f"ps0=once:{tmp_path / 'marker'}", "ps0=sleep",
        options=[*SERVED, "--restarts", "1"],
    )  # fmt: skip
    job.read_until("Starting ps 0 again")
    host, port = address_of_server(process_of(job, "chief0")).split(":")
    with socket.socket() as other, pytest.raises(OSError, match="Address already in use"):
        other.bind((host, int(port)))
    job.read_until("ps 0     | ready")
    job.process.send_signal(signal.SIGTERM)
    assert job.end() == 143


@pytest.mark.slow
def test_the_end_of_the_chief_ends_a_job_with_servers(launch, tmp_path):
    job = launch("chief0=exit:0", "ps0=sleep", options=[*SERVED, "--workers", "0", "--restarts", "1"])
    assert job.end() == 0
    assert "muster  | Ending ps 0, as the chief has ended the job." in job.lines


@pytest.mark.slow
def test_training_goes_on_without_a_worker_that_is_killed(launch):
    job = launch("chief0=accept", "worker0=sleep", "ps0=sleep", options=SERVED)
    job.read_until("chief 0  | ready", "worker 0 | ready", "ps 0     | ready")
    os.kill(process_of(job, "worker0"), signal.SIGKILL)
    job.read_until("Training goes on without it; the job will count as failed.")
    environment = Path(f"/proc/{process_of(job, 'chief0')}/environ").read_bytes().decode()
    host, port = re.search(r'"chief": \["([\d.:]+)"', environment)[1].split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(b"end")
    assert job.end() == 137
    assert "chief 0  | heard end" in job.lines
