"""Workers whose data ends at different steps go on exactly where they were killed, also if they are fewer."""

import functools
import json
import signal
from pathlib import Path

import pytest

from jobs import Job

pytestmark = [pytest.mark.alone, pytest.mark.processes]

CHILD = Path(__file__).with_name("uneven_child.py")
STEPS = 12
# Two rows a batch: pipelines of 12 and 3 batches, and of 6, 2 and 4.
UNEVEN = ([[0, 24], [24, 30]], [[24, 30], [0, 24]])
OF_THREE = [[0, 12], [12, 16], [16, 24]]


def run(folder, rows, kill_at=None, workers=2):
    """Run workers on the model of a folder; what each has told in all runs so far, and their logs."""
    files = [folder / f"told{index}" for index in range(workers)]
    with Job(folder, [CHILD], worker=workers) as job:
        for index, file in enumerate(files):
            options = {"model_dir": str(folder / "model"), "told": str(file), "rows": rows}
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
    return functools.cache(lambda more: run(tmp_path_factory.mktemp("left alone"), UNEVEN[more]))


@pytest.mark.samples("0-6")
@pytest.mark.parametrize(("more", "kill_at"), [(0, 6), (1, 6), (1, STEPS)])
def test_a_job_goes_on_after_one_worker_has_read_all_of_its_data(tmp_path, left_alone, more, kill_at):
    (expected, _), _ = left_alone(more)
    assert [step for step, _ in expected] == list(range(1, STEPS + 1))
    run(tmp_path / "killed", UNEVEN[more], kill_at)
    (told, other), logs = run(tmp_path / "killed", UNEVEN[more])
    assert told == expected
    assert {tuple(line) for line in other} <= {tuple(line) for line in expected}
    assert not any("starts again" in log for log in logs)


def test_two_workers_go_on_with_the_pipelines_of_three(tmp_path):
    (expected, *_), _ = run(tmp_path / "alone", OF_THREE, workers=3)
    assert [step for step, _ in expected] == list(range(1, 7))
    run(tmp_path / "killed", OF_THREE, kill_at=1, workers=3)
    (told, _), logs = run(tmp_path / "killed", OF_THREE, workers=2)
    assert [step for step, _ in told] == [step for step, _ in expected]
    # Two workers divide the rows otherwise than three, and so round otherwise.
    assert [loss for _, loss in told] == pytest.approx([loss for _, loss in expected], rel=1e-5)
    assert not any("starts again" in log for log in logs)
    assert "Worker 0 of 2 reads input pipelines 0 and 1 of 3" in logs[0]
