"""`fit` of a model with a hashed table, with real processes, all of which are killed."""

import json
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from jobs import DEADLINE, Job
from muster.checkpoint import list_checkpoints, list_tables

pytestmark = pytest.mark.processes

_HERE = Path(__file__).parent
_SERVER = [_HERE.parent / "coordinator" / "server_child.py"]
_COORDINATOR = [_HERE / "hashed_child.py"]


class Fit:
    """A job of servers, a worker and a coordinator."""

    def __init__(self, folder, backup, servers, **options):
        self.report = folder / "report"
        self.job = Job(folder, _SERVER, worker=1, ps=servers)
        self.chief = Job(folder / "chief", _COORDINATOR)
        self.chief.cluster = self.job.cluster
        self.servers = servers
        self.options = {"backup": str(backup), "report": str(self.report), "stops_at": -1, "saves": 0}
        self.options |= options

    def __enter__(self):
        self.job.__enter__()
        self.chief.__enter__()
        for index in range(self.servers):
            self.job.start("ps", index)
        self.job.start("worker")
        self.task = self.chief.start("chief", options=self.options)
        return self

    def __exit__(self, *error):
        self.chief.__exit__(*error)
        self.job.__exit__(*error)

    def result(self):
        assert self.task.code() == 0, self.task.log
        self.job.all_end_well()
        return json.loads(self.report.read_text())


def test_when_all_are_killed_training_goes_on_with_the_same_rows_on_other_servers(tmp_path):
    with Fit(tmp_path / "whole", tmp_path / "other", 1) as whole:
        expected = whole.result()
    backup = tmp_path / "backup"
    with Fit(tmp_path / "first", backup, 2, stops_at=13, saves=6) as first:
        deadline = time.monotonic() + DEADLINE
        while "stopped" not in first.task.log:
            assert time.monotonic() < deadline, first.task.log
            assert first.task.process.poll() is None, first.task.log
            threading.Event().wait(0.05)
        tasks = [first.task, *first.job.tasks]
        for task in tasks:
            task.process.kill()
        assert {task.code() for task in tasks} == {-signal.SIGKILL}
    (table,) = list_tables(list_checkpoints(backup)[-1].path).values()
    assert len(table) > 10 < table.waiting
    with Fit(tmp_path / "second", backup, 3) as second:
        found = second.result()
    assert found["steps"] == expected["steps"] == 32
    # The epoch in which it was killed counts the steps before, too.
    assert found["loss"] == pytest.approx(expected["loss"][1:], rel=1e-4)
    np.testing.assert_allclose(found["found"], expected["found"], rtol=1e-4, atol=1e-5)
