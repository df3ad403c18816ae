"""Real processes that find each other, die, stand still, fail, and stay away."""

import contextlib
import http.client
import json
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest

from muster.cluster import ClusterSpec, TFConfig
from muster.cluster.roster._roster import EXIT_PEER_LOST
from muster.cluster.roster._roster_address import query_status
from muster.cluster.roster._roster_messages import TaskState

pytestmark = [pytest.mark.alone, pytest.mark.processes]

CHILD = Path(__file__).with_name("roster_child.py")
DEADLINE = 60.0
# How soon the survivors of a kill have to be gone, in seconds: far below any heartbeat's deadline.
SOON = 5.0


class Child:
    """One task, as a process."""

    def __init__(self, cluster, kind, index, log, environ, options, pass_fds=()):
        self.task = kind, index
        self.name = f"{kind} {index}"
        self.address = cluster.task_address(kind, index)
        config = TFConfig(cluster=cluster, task_type=kind, task_index=index)
        self._log = log
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, CHILD, json.dumps(options)],
                env={**os.environ, "TF_CONFIG": config.to_json(), **environ},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                pass_fds=pass_fds,
            )
        self._replies = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self._replies.put(json.loads(line))

    def tell(self, *command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def reply(self):
        try:
            return self._replies.get(timeout=DEADLINE)
        except queue.Empty:
            pytest.fail(f"{self.name} did not reply. Its log:\n{self.log}")

    def ask(self, *command):
        self.tell(*command)
        return self.reply()

    def end(self, timeout=DEADLINE):
        """Let it come to its end, and return its exit code."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        return self.code(timeout)

    def code(self, timeout=DEADLINE):
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            pytest.fail(f"{self.name} did not end within {timeout} s. Its log:\n{self.log}")

    @property
    def log(self):
        return self._log.read_text()

    def clean_up(self):
        self.process.kill()
        self.process.wait()
        self._reader.join()
        self.process.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()


@pytest.fixture
def start(tmp_path):
    """Start a task: ``start(cluster, "worker", 1, MUSTER_JOB_ID="x", heartbeat_secs=3.0)``."""
    children = []

    def start_child(cluster, kind, index, *, pass_fds=(), **settings):
        environ = {key: value for key, value in settings.items() if key.isupper()}
        options = {key: value for key, value in settings.items() if not key.isupper()}
        log = tmp_path / f"{len(children)}-{kind}-{index}.log"
        children.append(Child(cluster, kind, index, log, environ, options, pass_fds))
        return children[-1]

    yield start_child
    for child in children:
        child.clean_up()


def workers(count):
    """A cluster of workers at free ports of this host."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return ClusterSpec({"worker": [f"127.0.0.1:{sock.getsockname()[1]}" for sock in sockets]})


@pytest.fixture
def three(start):
    """Three workers that have reached."""

    def start_three(**options):
        cluster = workers(3)
        tasks = [start(cluster, "worker", index, **options) for index in range(3)]
        for task in tasks:
            task.tell("wait", DEADLINE)
        for task in tasks:
            assert [task.reply(), task.reply()] == ["here", None]
        return tasks

    return start_three


def hear_each_other(tasks):
    """Let every task announce its name, and look up what every task has announced."""
    for task in tasks:
        task.tell("announce", "name", task.name)
        for other in tasks:
            task.tell("lookup", *other.task, "name", DEADLINE)
    for task in tasks:
        assert [task.reply() for _ in (None, *tasks)] == [None, *(other.name for other in tasks)]


@pytest.mark.slow
def test_tasks_meet_in_any_order_tell_each_other_things_and_end(start):
    ports = workers(3).job_tasks("worker")
    cluster = ClusterSpec({"chief": ports[:1], "worker": ports[1:]})
    tasks = []
    for kind, index in (("worker", 1), ("worker", 0), ("chief", 0)):
        tasks.append(start(cluster, kind, index))
        assert tasks[-1].reply() == "here"
        tasks[-1].tell("wait", DEADLINE)
    assert [task.reply() for task in tasks] == [None] * 3
    chief = tasks[2]
    chief.tell("announce", "coordinator", "127.0.0.1:9999")
    assert tasks[0].ask("lookup", "chief", 0, "coordinator", DEADLINE) == "127.0.0.1:9999"
    assert chief.reply() is None
    hear_each_other(tasks)
    # Those that leave early are not missed.
    assert [task.end() for task in tasks] == [0, 0, 0], [task.log for task in tasks]
    assert not any("lost" in task.log for task in tasks)


def test_a_killed_task_is_known_at_once(three):
    zero, one, two = three(heartbeat_secs=60.0)
    one.process.kill()
    for survivor in (zero, two):
        assert survivor.code(SOON) == EXIT_PEER_LOST
        assert f"lost worker 1: worker 1 at {one.address} has ended without a word" in survivor.log


@pytest.mark.slow
def test_a_killed_task_is_known_at_once_though_its_children_live(three):
    zero, one, two = three(heartbeat_secs=60.0)
    orphan = one.ask("fork")
    one.process.kill()
    try:
        for survivor in (zero, two):
            assert survivor.code(SOON) == EXIT_PEER_LOST
    finally:
        os.kill(orphan, signal.SIGKILL)


@pytest.mark.slow
def test_a_task_that_hangs_ends_all_the_same_when_another_is_lost(three):
    zero, one, two = three(heartbeat_secs=60.0)
    assert zero.ask("hang") == "hangs"
    one.process.kill()
    assert two.code(SOON) == EXIT_PEER_LOST
    assert zero.code(15.0) == EXIT_PEER_LOST


def test_a_stopped_task_is_known_within_the_deadline(three):
    zero, one, two = three(heartbeat_secs=3.0)
    began = time.monotonic()
    one.process.send_signal(signal.SIGSTOP)
    for survivor in (zero, two):
        assert survivor.code() == EXIT_PEER_LOST
        assert f"lost worker 1: worker 1 at {one.address} stands still: it has not answered" in survivor.log
    assert time.monotonic() - began > 1.5
    # Who wakes up again learns that the others have given it up.
    one.process.send_signal(signal.SIGCONT)
    assert one.code() == EXIT_PEER_LOST
    assert re.search(r"lost worker [02]: worker [02] at .*because it lost this task: worker 1", one.log)


@pytest.mark.slow
def test_a_short_stop_is_forgiven(three):
    zero, one, two = three(heartbeat_secs=8.0)
    one.process.send_signal(signal.SIGSTOP)
    one.process.send_signal(signal.SIGCONT)
    hear_each_other([zero, one, two])


@pytest.mark.slow
def test_a_job_that_was_stopped_as_a_whole_goes_on(three):
    tasks = three(heartbeat_secs=4.0)
    for task in tasks:
        task.process.send_signal(signal.SIGSTOP)
    time.sleep(6.0)  # the stop itself, longer than a task may be silent
    for task in tasks:
        task.process.send_signal(signal.SIGCONT)
    hear_each_other(tasks)


def test_an_exception_is_told_to_the_others(three):
    zero, one, two = three(heartbeat_secs=60.0)
    one.tell("raise", "the bad thing")
    assert one.code(SOON) == 1
    for survivor in (zero, two):
        assert survivor.code(SOON) == EXIT_PEER_LOST
        assert f"lost worker 1: worker 1 at {one.address} failed: KeyError: 'the bad thing'" in survivor.log


@pytest.mark.slow
def test_an_exception_before_all_have_met_is_told_to_who_is_there(start):
    cluster = workers(3)
    zero, one = (start(cluster, "worker", index) for index in (0, 1))
    zero.tell("wait", DEADLINE)
    one.tell("raise", "the bad thing")
    assert one.code() == 1
    assert zero.code(SOON) == EXIT_PEER_LOST
    assert "KeyError: 'the bad thing'" in zero.log


@pytest.mark.slow
def test_a_task_that_never_starts_is_named(start):
    cluster = workers(2)
    zero = start(cluster, "worker", 0)
    assert zero.reply() == "here"
    zero.tell("wait", 1.0)
    assert zero.code() == 1
    missing = cluster.task_address("worker", 1)
    assert f"MissingPeerError: worker 0 has waited 1 s for worker 1 at {missing} (conn" in zero.log


@pytest.mark.slow
def test_a_second_job_on_the_same_ports_is_told_who_is_there(three, start):
    first = three()
    cluster = ClusterSpec({"worker": [task.address for task in first]})
    second = start(cluster, "worker", 1, MUSTER_JOB_ID="two")
    assert second.code() == 1
    assert re.search(
        f"AddressInUseError: worker 1 cannot listen at its address {first[1].address}: there is worker 1 of "
        rf"job [0-9a-f]+ \(process {first[1].process.pid} on .*\) already, which is (waiting|starting)",
        second.log,
    )
    assert [task.end() for task in first] == [0, 0, 0]


@pytest.mark.slow
def test_strangers_do_no_harm(three):
    tasks = three()
    with contextlib.ExitStack() as opened:
        for task in tasks:
            with pytest.raises(http.client.BadStatusLine, match="muster"):
                urllib.request.urlopen(f"http://{task.address}/", timeout=DEADLINE)
            host, port = task.address.split(":")
            for data in (b"", b"{", b"{}\n", b"\xff\x00" * 50_000, b"{" * 50_000, b'{"muster": 1}\n'):
                caller = opened.enter_context(socket.create_connection((host, int(port)), timeout=DEADLINE))
                with contextlib.suppress(OSError):
                    caller.sendall(data)
        hear_each_other(tasks)
    assert [task.end() for task in tasks] == [0, 0, 0]


@pytest.mark.slow
def test_different_versions_are_named_by_all(start):
    cluster = workers(2)
    versions = {"jax": "0.10.2", "keras": "3.15.1"}
    one = start(cluster, "worker", 1, versions=versions | {"jax": "0.11.0"})
    one.tell("wait", DEADLINE)
    assert one.reply() == "here"
    zero = start(cluster, "worker", 0, versions=versions)
    zero.tell("wait", DEADLINE)
    for task, theirs, ours in ((zero, "0.11.0", "0.10.2"), (one, "0.10.2", "0.11.0")):
        assert task.code(20.0) == 1
        assert re.search(
            f"MismatchError: worker . at .* has jax {theirs}, and worker . has jax {ours}", task.log
        )


@pytest.mark.slow
def test_a_socket_from_the_launcher_is_used_and_lasts_no_longer_than_the_task(start):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        cluster = ClusterSpec({"worker": [address]})
        descriptor = listener.fileno()
        task = start(cluster, "worker", 0, MUSTER_LISTEN_FD=str(descriptor), pass_fds=[descriptor])
    assert task.reply() == "here"
    assert task.ask("report", {"state": "training", "step": 7, "loss": float("nan")}) is None
    orphan = task.ask("fork")
    try:
        deadline = time.monotonic() + DEADLINE
        while (status := query_status(address, DEADLINE)).progress.step != 7:
            assert time.monotonic() < deadline
        assert (status.pid, status.state) == (task.process.pid, TaskState.TRAINING)
        assert status.progress.loss != status.progress.loss
        assert task.end() == 0
        with pytest.raises(ConnectionRefusedError):
            query_status(address, DEADLINE)
    finally:
        os.kill(orphan, signal.SIGKILL)
