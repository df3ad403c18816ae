"""Workers that are told to end, or that leave by themselves: saved, together, and nobody waits for ever."""

import re
import signal
import time
from pathlib import Path

import pytest

from jobs import DEADLINE, SOON, Job
from muster.checkpoint import latest_checkpoint, list_checkpoints, read_checkpoint
from muster.cluster.roster._roster import EXIT_PEER_LOST

pytestmark = [pytest.mark.alone, pytest.mark.processes]

CHILD = Path(__file__).with_name("interrupted_child.py")


def started(job, tmp_path, **options):
    """Two workers that train, once each has made some steps."""
    options = {"model_dir": str(tmp_path / "model"), **options}
    tasks = [job.start("worker", index, options) for index in (0, 1)]
    deadline = time.monotonic() + DEADLINE
    while not all("step 20\n" in task.log or "step 21\n" in task.log for task in tasks):
        assert all(task.process.poll() is None for task in tasks), [task.log[-3000:] for task in tasks]
        assert time.monotonic() < deadline, [task.log[-3000:] for task in tasks]
        time.sleep(0.02)
    return tasks


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (signal.SIGINT, (0, 1)),
        (signal.SIGTERM, (0, 1)),
        (signal.SIGTERM, (0,)),
        (signal.SIGINT, (1,)),
    ],
)
def test_workers_that_are_told_to_end_save_and_end_together(tmp_path, number, told):
    with Job(tmp_path, [CHILD], worker=2) as job:
        tasks = started(job, tmp_path, save_secs=1.5)
        for index in told:
            tasks[index].process.send_signal(number)
        for task in tasks:
            # Python ends itself by the signal after Ctrl-C, which a shell shows as 130.
            expected = 143 if number == signal.SIGTERM else -signal.SIGINT
            assert task.code(SOON) == expected, task.log[-3000:]
            assert "has lost worker" not in task.log
            name = f"worker {told[0]}"
            reason = f"{name} was told to end: it got {signal.Signals(number).name}."
            assert len(told) > 1 or (str(task.told.culprit), task.told.reason) == (name, reason)
    last = read_checkpoint(latest_checkpoint(tmp_path / "model"))
    steps = [int(re.findall(r"^step (\d+)$", task.log, re.MULTILINE)[-1]) for task in tasks]
    assert steps == [last.step, last.step], [task.log[-3000:] for task in tasks]
    assert [position["elements"] for position in last.metadata["input"]["pipelines"]] == steps


@pytest.mark.slow
def test_a_worker_that_is_told_to_end_after_the_last_step_waits_for_the_save_and_all_end_together(tmp_path):
    with Job(tmp_path, [CHILD], worker=2) as job:
        options = {"model_dir": str(tmp_path / "model"), "max_steps": 4, "save_secs": 1.5}
        tasks = [
            job.start("worker", index, {**options, "interrupted_at_end": index == 1}) for index in (0, 1)
        ]
        for task in tasks:
            assert task.code() == -signal.SIGINT, task.log[-3000:]
            assert "has lost worker" not in task.log
            assert "Loss for final step" not in task.log
    assert "Saved step 4; run again to go on." in tasks[0].log
    assert read_checkpoint(latest_checkpoint(tmp_path / "model")).step == 4


@pytest.mark.slow
@pytest.mark.parametrize("leave", ["exit", "input"])
def test_a_worker_that_leaves_by_itself_ends_the_job(tmp_path, leave):
    with Job(tmp_path, [CHILD], worker=2) as job:
        options = {"model_dir": str(tmp_path / "model")}
        stays, leaves = job.start("worker", 0, options), job.start("worker", 1, {**options, "leave": leave})
        assert leaves.code() in (1, EXIT_PEER_LOST), leaves.log
        assert stays.code(SOON) in (1, EXIT_PEER_LOST), stays.log
    assert "there is nothing to do" in leaves.log
    assert "worker 1" in stays.log
    assert "Fatal Python error" not in stays.log + leaves.log
    assert "*** Check failure stack trace" not in stays.log + leaves.log


@pytest.mark.slow
def test_several_steps_at_once_are_single_ones_with_several_workers(tmp_path):
    with Job(tmp_path, [CHILD], worker=2) as job:
        options = {
            "model_dir": str(tmp_path / "model"),
            "steps_per_execution": 5,
            "save_checkpoints_steps": 7,
            "max_steps": 23,
        }
        tasks = [job.start("worker", index, {**options, "examples": 32 - 3 * index}) for index in (0, 1)]
        job.all_end_well()
    for task in tasks:  # its hook would do with any run, but all are of one step
        assert re.findall(r"^step (\d+)$", task.log, re.MULTILINE) == ["1", "2", "3", "4"]
    assert list_checkpoints(tmp_path / "model")[-1].step == 4
