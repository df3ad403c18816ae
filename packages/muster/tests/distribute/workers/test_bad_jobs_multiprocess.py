"""Jobs that cannot work: each says why, at the end of its log, and ends in time with a code that says so."""

import contextlib
import http.server
import re
import signal
import socket
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from jobs import DEADLINE, SOON, Job
from muster.checkpoint import latest_checkpoint, restore_latest
from muster.cluster import ClusterSpec, Task
from muster.cluster.roster._roster import EXIT_PEER_LOST, Roster
from muster.cluster.roster._roster_address import query_status
from muster.cluster.roster._roster_messages import TaskState

pytestmark = [pytest.mark.alone, pytest.mark.processes]

CHILD = Path(__file__).with_name("bad_job_child.py")


@pytest.fixture
def job(tmp_path):
    """Two workers; ``start(index, **options)`` starts one."""
    with Pair(tmp_path / "job") as job:
        yield job


class Pair(Job):
    def __init__(self, folder):
        super().__init__(folder, [CHILD], worker=2)
        self.addresses = self.cluster["worker"]

    def start(self, index, **options):
        return super().start("worker", index, {"model_dir": str(self.folder / "model"), **options})


def end_one_after_the_other(*tasks):
    """The codes of tasks that end, the others soon after the first."""
    deadline = time.monotonic() + DEADLINE
    while all(task.process.poll() is None for task in tasks) and time.monotonic() < deadline:
        time.sleep(0.05)
    return [task.code(SOON) for task in tasks]


def takes_steps(task):
    """Wait until a task has taken a step; returns how many it has taken."""
    deadline = time.monotonic() + DEADLINE
    while not (steps := re.findall(r"^step (\d+)$", task.log, re.M)):
        assert task.process.poll() is None, task.log
        assert time.monotonic() < deadline, task.log
        time.sleep(0.05)
    return int(steps[-1])


def one_fails_with(error, *tasks):
    """Let tasks end: one with an error of its own at least, the others with it or because it is lost."""
    codes = end_one_after_the_other(*tasks)
    assert 1 in codes, [task.log for task in tasks]
    assert set(codes) <= {1, EXIT_PEER_LOST}
    for code, task in zip(codes, tasks, strict=True):
        assert re.search(error, task.last_line), task.log
        if code == EXIT_PEER_LOST:
            assert "This task ends, because it has lost worker" in task.last_line


@contextlib.contextmanager
def bound(address):
    with socket.socket() as sock:
        sock.bind(address)
        yield


@contextlib.contextmanager
def silent(address):
    with socket.create_server(address):
        yield


@contextlib.contextmanager
def web(address):
    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *args):
            pass

    with http.server.HTTPServer(address, Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.05])
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def other_job(address):
    host, port = address
    with Roster(ClusterSpec({"worker": [f"{host}:{port}"]}), Task("worker", 0), job_id="another"):
        yield


def at(address):
    host, port = address.split(":")
    return host, int(port)


@pytest.mark.parametrize(
    ("occupant", "told"),
    [
        (bound, "it is in use, and nothing answers there (Connection refused)"),
        (silent, "it is in use, by something that does not answer"),
        (web, "it is in use, by something that is not muster"),
        (other_job, "there is worker 0 of job another (process "),
    ],
    ids=["nothing", "silence", "http", "another job"],
)
def test_a_port_that_is_in_use(job, occupant, told):
    with occupant(at(job.addresses[1])):
        task = job.start(1)
        assert task.code() == 1
    assert task.last_line.startswith(
        f"muster.AddressInUseError: worker 1 cannot listen at its address {job.addresses[1]}: {told}"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("occupant", "told"),
    [
        (web, "it is something else: it sends b'<!DOCTYPE HTML>"),
        (other_job, "it is worker 0 of job another"),
    ],
    ids=["http", "another job"],
)
def test_a_stray_process_where_another_worker_should_be(job, occupant, told):
    with occupant(at(job.addresses[1])):
        task = job.start(0, stray_secs=2.0)
        assert task.code() == 1
    assert task.last_line.startswith(
        f"muster.StrayPeerError: What answers is not worker 1 at {job.addresses[1]}: {told}"
    ), task.log


@pytest.mark.slow
def test_a_worker_that_never_starts(job):
    task = job.start(0, timeout=3.0)
    assert task.code() == 1
    assert task.last_line.startswith(
        f"muster.MissingPeerError: worker 0 has waited 3 s for worker 1 at {job.addresses[1]} "
    ), task.log


@pytest.mark.slow
def test_a_second_job_on_the_same_ports_does_not_harm_the_first(job):
    first = [job.start(index, steps=10**6) for index in (0, 1)]
    before = takes_steps(first[0])
    deadline = time.monotonic() + DEADLINE
    while query_status(job.addresses[0], SOON).state is not TaskState.TRAINING:
        assert time.monotonic() < deadline, first[0].log
    second = job.start(0)
    assert second.code() == 1
    assert re.match(
        f"muster.AddressInUseError: worker 0 cannot listen at its address {job.addresses[0]}: there "
        rf"is worker 0 of job \w+ \(process {first[0].process.pid} on .*\) already, which is training",
        second.last_line,
    ), second.log
    deadline = time.monotonic() + DEADLINE
    while takes_steps(first[0]) <= before + 1:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert [task.process.poll() for task in first] == [None, None]


@pytest.mark.slow
def test_different_versions(job):
    tasks = [job.start(0), job.start(1, jax="0.1.2")]
    one_fails_with("has jax .*Install the same versions everywhere", *tasks)
    assert "worker 1" in tasks[0].last_line
    assert "jax 0.1.2" in tasks[0].last_line


@pytest.mark.slow
def test_nccl_without_gpus_is_no_bad_job(job):
    tasks = [job.start(index, implementation="nccl") for index in (0, 1)]
    assert end_one_after_the_other(*tasks) == [0, 0], [task.log for task in tasks]
    for task in tasks:
        assert "CommunicationImplementation.NCCL is for GPUs, and JAX has none here" in task.log


@pytest.mark.slow
def test_another_strategys_scope(job):
    one_fails_with(
        "RuntimeError: Mixing different tf.distribute.Strategy objects: the scope of "
        "MultiWorkerMirroredStrategy was entered inside of the scope of MirroredStrategy",
        *[job.start(index, scope=True) for index in (0, 1)],
    )


@pytest.mark.slow
def test_a_worker_with_a_strategy_for_one_process(job):
    other = job.start(0, timeout=3.0)
    task = job.start(1, strategy="mirrored")
    assert task.code() == 1
    assert task.last_line.startswith(
        "muster.ClusterError: worker 1 cannot train: the cluster has 2 training tasks, and "
        "MirroredStrategy trains with 1"
    )
    assert other.code() == 1
    assert f"for worker 1 at {job.addresses[1]}" in other.last_line


@pytest.mark.slow
def test_fewer_examples_than_workers(job):
    tasks = [job.start(index, examples=1) for index in (0, 1)]
    one_fails_with("gave no batch: its dataset is empty. It reads none of the 1 examples", *tasks)


@pytest.mark.parametrize("different", [{"as_dict": True}, {"dtype": "int32"}])
def test_input_of_another_structure(job, different):
    tasks = [job.start(0), job.start(1, **different)]
    one_fails_with("MismatchError: The batches of worker 0 and worker 1 differ", *tasks)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["input_error", "hook_error"])
def test_an_exception_before_the_first_step_is_told_to_the_other_worker(job, where):
    other, task = job.start(0), job.start(1, **{where: "the shelf is empty"})
    assert task.code() == 1
    assert other.code(SOON) == EXIT_PEER_LOST
    assert task.last_line == "LookupError: the shelf is empty"
    assert re.search(
        f"has lost worker 1: worker 1 at {job.addresses[1]} failed: LookupError: the shelf is empty",
        other.last_line,
    ), other.log
    assert "Traceback" not in other.log


def test_a_worker_that_is_killed_when_all_are_there_and_before_it_connects(job):
    other, task = job.start(0), job.start(1, before_connecting="SIGKILL")
    assert task.code() == -signal.SIGKILL
    assert other.code(SOON) == EXIT_PEER_LOST
    assert f"worker 1 at {job.addresses[1]} has ended without a word" in other.told.reason, other.log


def test_a_worker_that_is_stopped_when_all_are_there_and_before_it_connects(job):
    other, task = (
        job.start(index, step_timeout=4.0, **more)
        for index, more in enumerate([{}, {"before_connecting": "SIGSTOP"}])
    )
    assert other.code() == EXIT_PEER_LOST
    assert other.told.culprit == Task("worker", 1)
    assert f"worker 1 at {job.addresses[1]} stands still: it has not answered" in other.told.reason, other.log
    task.process.send_signal(signal.SIGCONT)
    assert task.code(SOON) != 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stuck", "timeout"), [("slow_input", {"start_timeout": 4.0}), ("slow_hook", {"step_timeout": 4.0})]
)
def test_a_worker_that_lives_and_keeps_the_other_waiting(job, stuck, timeout):
    other, task = job.start(0, **timeout), job.start(1, **{stuck: 1000.0})
    assert other.code() == 1
    assert task.code(SOON) == EXIT_PEER_LOST
    error = "MissingPeerError: worker 0 has waited [45] s for worker 1, to whom it is connected"
    assert re.search(error, other.last_line), other.log
    assert re.search(f"has lost worker 0: .* because it lost this task: .*{error}", task.last_line), task.log
    for each in (task, other):
        assert each.told.culprit == Task("worker", 1)
        assert re.search(error, each.told.reason)
    # Where the user looks stands where the other one is stuck.
    assert re.search(rf"^worker 1 is here:\nThread 'MainThread'[^$]*{stuck}", other.log, re.M), other.log


# With several devices a worker, JAX's runtimes are connected, and one aborts when the chief is gone.
@pytest.mark.slow
@pytest.mark.parametrize(("holder", "devices"), [(0, 1), (1, 1), (1, 2)])
def test_a_worker_that_holds_the_interpreter_stands_still(job, holder, devices):
    options = {"step_timeout": 4.0, "steps": 10**6, "devices": devices}
    tasks = [job.start(index, **options, **{"hold": 12.0} if index == holder else {}) for index in (0, 1)]
    for task in tasks:
        assert task.code() == EXIT_PEER_LOST, task.log
        assert task.told.culprit == Task("worker", holder)
        # Not always the last line: threads of XLA may write another one at that moment.
        stands_still = f"worker {holder} at {job.addresses[holder]} stands still"
        assert re.search(f"This task ends, because it has lost worker .*{stands_still}", task.log), task.log


@pytest.mark.slow
def test_an_abort_ends_a_worker_as_ever(job):
    options = {"steps": 10**6, "devices": 2}
    other, task = job.start(0, **options), job.start(1, **options, abort=True)
    assert task.code() == -signal.SIGABRT
    assert re.search(r"^  File .* in after_run$", task.log, re.M), task.log
    assert other.code(SOON) == EXIT_PEER_LOST
    assert "has ended without a word" in other.last_line


@pytest.mark.slow
def test_the_first_wait_says_when_it_ends(job):
    other, task = job.start(0), job.start(1, slow_hook=1000.0)
    deadline = time.monotonic() + DEADLINE
    while not re.search(
        r"^worker 0 has waited 1\d s for worker 1, and gives up in 5\d\d s\.$", other.log, re.M
    ):
        assert other.process.poll() is None, other.log
        assert time.monotonic() < deadline, other.log
        time.sleep(0.05)
    assert task.process.poll() is None


@pytest.mark.slow
def test_a_chief_that_evaluates_may_take_its_time(job):
    options = {"step_timeout": 4.0, "slow_evaluation": 6.0}
    for index in (0, 1):
        job.start(index, **options)
    job.all_end_well()


@pytest.mark.slow
def test_workers_with_disks_of_their_own_train_as_with_one(job):
    for steps in (3, 12):
        for index in (0, 1):
            job.start(index, steps=steps)
        job.all_end_well()
    folders = [str(job.folder / name) for name in ("chief", "elsewhere")]
    for steps in (3, 12):
        tasks = [job.start(index, steps=steps, model_dir=folder) for index, folder in enumerate(folders)]
        job.all_end_well()
        assert f"{folders[1]} is not the chief's folder" in tasks[1].log
    assert not latest_checkpoint(folders[1])
    shared, own = (restore_latest(folder).variables for folder in (job.folder / "model", folders[0]))
    assert shared.keys() == own.keys()
    for name, value in shared.items():
        np.testing.assert_array_equal(own[name], value)
