"""Workers whose data ends at different steps go on exactly where they were killed."""

import functools
import json
import signal
from pathlib import Path

import pytest

from jobs import Job

pytestmark = [pytest.mark.alone, pytest.mark.processes]

CHILD = Path(__file__).with_name("uneven_child.py")
STEPS = 12


def run(folder, more, kill_at=None):
    """Run two workers on the model of a folder; what each has told in all runs so far, and their logs."""
    files = [folder / f"told{index}" for index in (0, 1)]
    with Job(folder, [CHILD], worker=2) as job:
        for index, file in enumerate(files):
            options = {"model_dir": str(folder / "model"), "told": str(file), "more": more}
            job.start("worker", index, {**options, "kill_at": kill_at})
        if kill_at is None:
            job.all_end_well()
        else:
            assert -signal.SIGKILL in [task.code() for task in job.tasks], [task.log for task in job.tasks]
    told = [[json.loads(line) for line in file.read_text().splitlines()] for file in files]
    return told, [task.log for task in job.tasks]


@pytest.fixture(scope="module")
def left_alone(tmp_path_factory):
    """What a job tells that nobody kills."""
    return functools.cache(lambda more: run(tmp_path_factory.mktemp("left alone"), more))


@pytest.mark.samples("0-6")
@pytest.mark.parametrize(("more", "kill_at"), [(0, 6), (1, 6), (1, STEPS)])
def test_a_job_goes_on_after_one_worker_has_read_all_of_its_data(tmp_path, left_alone, more, kill_at):
    (expected, _), _ = left_alone(more)
    assert [step for step, _ in expected] == list(range(1, STEPS + 1))
    run(tmp_path / "killed", more, kill_at)
    (told, other), logs = run(tmp_path / "killed", more)
    assert told == expected
    assert {tuple(line) for line in other} <= {tuple(line) for line in expected}
    assert not any("starts again" in log for log in logs)
