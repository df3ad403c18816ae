"""How the launcher drives an engine: one that starts nothing, and does what a test tells it."""

import os
import signal
import time

import pytest

from muster.__main__ import main
from muster._errors import ClusterError, PlacementError
from muster.cluster import Task
from muster.cluster.roster import Termination
from muster.engines import EXIT_LOST, MachineResources, Place, TaskCondition, TaskExit, TaskRequest
from muster.launch import _engines
from muster.launch._job_record import read_record
from muster.launch._plan import JobShape
from muster.launch._run import RunOptions, describe_job, run_job
from muster.launch._view import JobView

W0, W1 = Task("worker", 0), Task("worker", 1)
HOST = MachineResources(cores=((0,), (1,)))


class ToldEngine:
    """Takes from a list what happens at each look at its events.

    Attributes:
        calls: What it was asked for.
    """

    is_local = False
    allots = False
    manifest = ""
    hosts_return = False

    def __init__(self, *course, hosts=("a", "b")):
        self.course = [*course]
        self.hosts = [*hosts]
        self.calls = []
        self.logs = {}
        self.reader, self.writer = os.pipe()
        os.write(self.writer, b"!")  # there is always something

    def place(self, tasks, request, program):
        if not self.hosts:
            raise PlacementError("nobody is left")
        self.calls.append(("place", *map(str, tasks)))
        return {
            task: Place(host=self.hosts[number % len(self.hosts)], address=f"h:{number + 1}", resources=HOST)
            for number, task in enumerate(tasks)
        }

    def check(self, tasks, request, program):
        return ""

    def detach(self, tasks, request, program):
        self.calls.append(("detach", *map(str, tasks), *program))
        return "the cluster has it"

    def start(self, start):
        self.calls.append(("start", str(start.task)))
        self.logs[start.task] = start.log
        self.started = start

    def fileno(self):
        return self.reader

    def events(self):
        exits = []
        for each in self.course.pop(0) if self.course else ():
            if callable(each):
                each(self)
            else:
                exits.append(each)
        return exits

    def news(self):
        return []

    def conditions(self):
        return {task: TaskCondition(pid=7, joined=True) for task in self.logs}

    def send(self, task, number):
        self.calls.append(("send", str(task), signal.Signals(number).name))

    def end_attempt(self):
        self.calls.append(("end_attempt",))
        return True

    def close(self, code=1):
        if self.reader >= 0:
            os.close(self.reader)
            os.close(self.writer)
            self.reader = -1
            self.calls.append(("close", code))


def run(engine, folder, restarts=0, **shape):
    options = RunOptions(
        shape=JobShape(**{"workers": 2, **shape}), program=("train.py",), restarts=restarts, grace_secs=1.0,
        log_dir=folder,
    )  # fmt: skip
    return run_job(options, engine, {"GIVEN": "1"}, JobView(options.shape.tasks))


def write(task, text):
    def add(engine):
        with engine.logs[task].open("a") as log:
            log.write(text)

    return add


def until_started(count):
    """Return what holds the course until so many tasks were started."""

    def look(engine):
        if [call[0] for call in engine.calls].count("start") < count:
            engine.course.insert(0, [look])

    return look


def test_a_job_takes_its_course_on_any_engine(tmp_path, capsys):
    engine = ToldEngine(
        [write(W0, "hello\n")], [], [TaskExit(task=W0, code=0), write(W1, "bye"), TaskExit(task=W1, code=0)]
    )
    assert run(engine, tmp_path) == 0
    assert engine.calls == [
        ("place", "worker 0", "worker 1"),
        ("start", "worker 0"),
        ("start", "worker 1"),
        ("end_attempt",),
        ("end_attempt",),
        ("close", 0),
    ]
    assert engine.started.environment["GIVEN"] == "1"
    assert '"index": 1' in engine.started.environment["TF_CONFIG"]
    assert capsys.readouterr().out == "worker 0 | hello\nworker 1 | bye\n"
    record = read_record(tmp_path)
    assert (record.code, [task.pid for task in record.tasks]) == (0, [7, 7])


def test_a_host_that_is_lost_ends_an_attempt_and_all_start_where_there_is_room(tmp_path, capsys):
    lost = TaskExit(task=W1, code=EXIT_LOST, told=Termination(W1, "worker 1 is lost."), lost=True)
    engine = ToldEngine(
        [lambda engine: engine.hosts.remove("b"), lost],
        [TaskExit(task=W0, code=-signal.SIGTERM)],
        [until_started(4)],
        [TaskExit(task=W0, code=0), TaskExit(task=W1, code=0)],
    )
    assert run(engine, tmp_path, restarts=1) == 0
    assert ("send", "worker 0", "SIGTERM") in engine.calls
    assert [call[0] for call in engine.calls].count("place") == 2
    said = capsys.readouterr().err
    assert "worker 1 is lost." in said
    assert "worker 1 runs on a now, and not on b." in said


def test_a_job_ends_if_there_is_no_place_for_another_attempt(tmp_path, capsys):
    engine = ToldEngine(
        [lambda engine: engine.hosts.clear(), TaskExit(task=W1, code=EXIT_LOST, lost=True)],
        [TaskExit(task=W0, code=-signal.SIGTERM)],
    )
    assert run(engine, tmp_path, restarts=1) == EXIT_LOST
    assert "nobody is left" in capsys.readouterr().err


def test_a_signal_ends_a_job_that_waits_for_places(tmp_path, capsys):
    def wait(engine):
        place = engine.place

        def signalled(*args):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)
            return place(*args)

        engine.place = signalled

    engine = ToldEngine([wait, TaskExit(task=W1, code=3)], [TaskExit(task=W0, code=-signal.SIGTERM)])
    began = time.monotonic()
    assert run(engine, tmp_path, restarts=1) == 130
    assert time.monotonic() - began < 30
    assert [call[0] for call in engine.calls].count("start") == 2


def test_no_place_at_the_start_is_an_error_and_leaves_nothing(tmp_path):
    engine = ToldEngine(hosts=())
    with pytest.raises(PlacementError, match="nobody is left"):
        run(engine, tmp_path / "logs")
    assert engine.calls == [("close", 1)]
    assert not (tmp_path / "logs").exists()


def test_too_many_tasks_for_a_host_are_refused_by_its_name(tmp_path):
    with pytest.raises(ClusterError, match="^a is too small for 9 tasks: 2 cores hold 8 tasks"):
        run(ToldEngine(hosts=["a"]), tmp_path, workers=9)


def test_a_dry_run_starts_nothing(tmp_path):
    engine = ToldEngine()
    options = RunOptions(
        shape=JobShape(workers=2), program=("train.py",), restarts=0, grace_secs=1.0, log_dir=None,
        request=TaskRequest(cpus=1),
    )  # fmt: skip
    told = describe_job(options, engine, {"MUSTER_SECRET": "hidden"})
    assert "program: train.py\nhanded to all: MUSTER_SECRET\nworker 0 on a at h:1, cores: 0\n" in told
    assert "hidden" not in told
    assert [call[0] for call in engine.calls] == ["place", "close"]


def test_a_job_that_is_detached_is_handed_over_and_left(monkeypatch, capsys):
    engine = ToldEngine()
    monkeypatch.setattr(_engines, "make_engine", lambda args, shape, program, environ: (engine, environ))
    assert main(["run", "--on", "told", "--detach", "--workers", "2", "train.py"]) == 0
    assert engine.calls == [("detach", "worker 0", "worker 1", "train.py"), ("close", 1)]
    assert capsys.readouterr().out == "the cluster has it\n"
