"""What the record of a job says of trainings of each kind, once they have ended."""

import re
from pathlib import Path

import pytest

from muster.launch._job_record import read_curves, read_record

pytestmark = [pytest.mark.alone, pytest.mark.processes]

CHILD = Path(__file__).with_name("seen_child.py")
DEADLINE = 120.0


@pytest.fixture
def seen(launch):
    """Run a job that ends well, and return its record, and the job."""

    def run(how, *options):
        job = launch(how, options=options, program=CHILD)
        assert job.end(DEADLINE) == 0, job.text
        record = read_record(job.log_dir)
        return record, {f"{each.type}-{each.index}": each for each in record.tasks}, job

    return run


def test_a_fit_of_short_epochs(seen):
    record, tasks, job = seen("fit", "--workers", "2")
    first, second = (tasks[name].progress for name in ("worker-0", "worker-1"))
    assert (first.epoch, first.epochs, first.step, first.max_steps) == (3, 3, 12, 12)
    assert (second.epoch, second.step, second.loss) == (first.epoch, first.step, first.loss)
    assert first.loss > 0
    assert first.steps_per_sec > 0
    assert {"mae", "val_loss", "val_mae"} <= first.metrics.keys()
    assert first.totals.steps > 0
    assert first.totals.communication > 0
    assert first.totals.nbytes > 0
    assert tasks["worker-0"].waits["communication"] > 0
    assert tasks["worker-0"].host
    (evaluated,) = {event.text for event in record.events if "epoch 3" in event.text}
    assert re.fullmatch(r"Evaluated epoch 3: val_loss [\d.e-]+, val_mae [\d.e-]+", evaluated)
    assert read_curves(job.log_dir).keys() <= {"worker-0", "worker-1"}


@pytest.mark.slow
def test_workers_of_an_estimator(seen):
    record, tasks, _ = seen("estimator", "--workers", "2")
    first, second = (tasks[name].progress for name in ("worker-0", "worker-1"))
    assert (first.step, second.step, first.max_steps) == (60, 60, 60)
    assert first.loss == second.loss
    assert first.checkpoint == 60
    assert "worker 0 has saved checkpoint 60" in [event.text for event in record.events]
    assert first.totals.input > 10 * 0.02  # each batch takes so long to make
    assert first.input_wait > 0.1


@pytest.mark.slow
def test_a_loop_of_the_users(seen):
    _, tasks, _ = seen("loop", "--workers", "2")
    first, second = (tasks[name].progress for name in ("worker-0", "worker-1"))
    assert (first.step, second.step) == (12, 12)
    assert 2 < first.steps_per_sec < 1 / 0.15
    assert first.totals.communication > 0
    assert first.totals.nbytes > 0


def test_a_coordinators_closures(seen):
    _, tasks, job = seen("coordinator", "--workers", "2", "--ps", "1")
    (added,) = re.findall(r"added (\d+)", job.text)
    assert tasks["chief-0"].progress.closures == int(added)
    assert tasks["chief-0"].progress.closures_per_sec > 0
    workers = [tasks[f"worker-{n}"].progress for n in range(2)]
    assert sum(each.closures for each in workers) == int(added)
    trained = [each for each in workers if each.closures]  # one that is there late may get none
    assert all(each.totals.communication > 0 and each.totals.nbytes > 0 for each in trained)
    server = tasks["ps-0"].progress
    assert server.pushes == int(added)
    assert 0 < server.totals.compute < server.totals.secs


@pytest.mark.slow
def test_a_fit_by_a_coordinator(seen):
    _, tasks, _ = seen("coordinated_fit", "--workers", "1", "--ps", "1")
    chief = tasks["chief-0"].progress
    assert (chief.epoch, chief.epochs, chief.step, chief.max_steps) == (3, 3, 60, 60)
    assert (chief.state, chief.closures) == ("coordinating", 60)
    assert chief.loss > 0
