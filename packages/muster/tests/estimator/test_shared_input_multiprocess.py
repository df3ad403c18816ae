"""Workers share an input although some of them are killed: real processes."""

import re
import signal
import time
from pathlib import Path

import pytest
from shared_input import COUNT

from jobs import DEADLINE, Job
from muster.checkpoint import latest_checkpoint, read_checkpoint

pytestmark = [pytest.mark.alone, pytest.mark.processes]

CHILD = Path(__file__).with_name("shared_input_child.py")


def steps(*tasks):
    return [int(step) for task in tasks for step in re.findall(r"^step (\d+)$", task.log, re.M)]


def until(condition, *tasks):
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, [task.log[-2000:] for task in tasks]
        time.sleep(0.02)


def test_every_example_of_a_pass_is_visited_once_although_workers_are_killed(tmp_path):
    with Job(tmp_path / "job", [CHILD], chief=1, worker=2, ps=2) as job:

        def start(kind, index=0):
            return job.start(kind, index, {"model_dir": str(tmp_path / "model"), "slow": 0.05, "shards": 2})

        servers, chief = [start("ps"), start("ps", 1)], start("chief")
        workers = [start("worker", index) for index in range(2)]
        for index in (0, 1):
            until(lambda index=index: len(steps(workers[index])) > 5, chief, *workers)
            workers[index].process.kill()
            assert workers[index].code() == -signal.SIGKILL
        again = start("worker")
        for task in (chief, again, *servers):
            assert task.code() == 0, task.log
    found = read_checkpoint(latest_checkpoint(tmp_path / "model"))
    assert found.variables["visits/seen"].tolist() == [1.0] * COUNT
    assert found.step == COUNT // 4
    assert steps(again)  # it came back, and had its share


def test_a_job_that_is_killed_goes_on_with_what_its_checkpoint_has_not_seen(tmp_path):
    model = tmp_path / "model"
    with Job(tmp_path / "job", [CHILD], chief=1, worker=2, ps=1) as job:

        def start(kind, index=0, slow=0.05):
            return job.start(kind, index, {"model_dir": str(model), "slow": slow})

        def start_all():  # the last one has the ticket of a step that others have left behind
            return [start("ps"), start("chief"), start("worker"), start("worker", 1, slow=1.0)]

        tasks = start_all()
        until(lambda: steps(tasks[-1]), *tasks)
        left_behind = steps(tasks[-1])[0] + 20
        until(lambda: int((latest_checkpoint(model) or "-0").rpartition("-")[2]) >= left_behind, *tasks)
        for task in tasks:
            task.process.kill()
            task.code()
        before = read_checkpoint(latest_checkpoint(model))
        assert 0 < before.variables["visits/seen"].sum() < COUNT
        assert before.variables["visits/seen"].max() == 1.0
        tasks = start_all()
        for task in tasks:
            assert task.code() == 0, task.log
    found = read_checkpoint(latest_checkpoint(model))
    assert found.variables["visits/seen"].tolist() == [1.0] * COUNT
