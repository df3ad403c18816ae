"""An evaluator beside a training, both as processes."""

import json
import signal
import time
from pathlib import Path

import pytest

from jobs import DEADLINE, SOON, Job
from muster.summary import read_events

pytestmark = [pytest.mark.alone, pytest.mark.processes]

CHILD = Path(__file__).with_name("sidecar_child.py")


def start(folder, saves, *, epochs=3, ends="well"):
    """A job of a training and an evaluator, which has not ended, and where the evaluator reports."""
    report = folder / "report.json"
    options = {
        "directory": str(folder / "models"),
        "report": str(report),
        "saves": saves,
        "epochs": epochs,
        "ends": ends,
    }
    job = Job(folder / "job", [CHILD], worker=1)
    job.start("evaluator", options=options)
    job.start("worker", options=options)
    return job, report


@pytest.mark.slow
@pytest.mark.parametrize("saves", ["checkpoint", ".weights.h5", ".keras"])
def test_each_new_checkpoint_is_evaluated_until_training_has_ended(tmp_path, saves):
    job, report = start(tmp_path, saves)
    with job:
        job.all_end_well()
    found = json.loads(report.read_text())
    steps = [iterations for _, iterations, _ in found]
    assert steps[0] == 4
    assert steps[-1] == 12
    assert steps == sorted(set(steps))
    assert found[-1][2]["loss"] == pytest.approx(float(report.with_suffix(".loss").read_text()), rel=1e-5)
    folder = tmp_path / "models" / "board" / "validation"
    assert len(list(folder.iterdir())) == 1
    written = [event.step for event in read_events(folder) if event.tag == "evaluation_loss_vs_iterations"]
    assert written == steps


def test_ctrl_c_ends_an_evaluator_with_what_it_has_evaluated(tmp_path):
    job, report = start(tmp_path, "checkpoint", ends="killed")
    with job:
        evaluator, worker = job.tasks
        assert worker.code() == -signal.SIGKILL
        deadline = time.monotonic() + DEADLINE
        # The last checkpoint may be evaluated before or after the training's end is seen.
        while not all(each in evaluator.log for each in ("had not ended", "evaluation after 12 steps")):
            assert time.monotonic() < deadline, evaluator.log
            time.sleep(0.05)
        evaluator.process.send_signal(signal.SIGINT)
        assert evaluator.code(SOON) == 0, evaluator.log
    assert "it was interrupted" in evaluator.log
    assert json.loads(report.read_text())[-1][1] == 12
