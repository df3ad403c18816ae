"""Models with a `train_step(self, data)` of their own under `fit` of several workers."""

import json
from pathlib import Path

import pytest
from own_step_cases import DIES_AFTER, KINDS, check_outcome, outcome

from jobs import Job
from muster.cluster.roster._roster import EXIT_PEER_LOST
from muster.distribute import get_strategy

pytestmark = [pytest.mark.alone, pytest.mark.processes]

CHILD = Path(__file__).with_name("own_step_child.py")


def start(folder, **options):
    """A job of two workers, and where they report."""
    folder.mkdir()
    reports = [folder / f"report-{index}" for index in (0, 1)]
    job = Job(folder / "job", [CHILD], worker=2)
    for index, report in enumerate(reports):
        job.start("worker", index, {"report": str(report), **options})
    return job, reports


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_workers_together_train_as_no_strategy_does(tmp_path, kind):
    job, reports = start(tmp_path / "job", kind=kind)
    with job:
        job.all_end_well()
        for task in job.tasks:
            warnings = [line for line in task.log.splitlines() if "the rows of all" in line]
            # It compares each row of a batch with each; all else is divided among the workers.
            assert all("dot_general" in line for line in warnings), task.log
            assert bool(warnings) is (kind == "contrastive")
    first, second = (json.loads(report.read_text()) for report in reports)
    assert first == second
    check_outcome(first, outcome(get_strategy(), kind))


@pytest.mark.slow
def test_a_job_that_died_goes_on_at_the_next_step(tmp_path):
    """With the state of both optimizers of a GAN, and its seeds."""
    backup = str(tmp_path / "backup")
    job, _ = start(tmp_path / "died", backup=backup, dies=True)
    with job:
        assert [task.code() for task in job.tasks] == [EXIT_PEER_LOST, -9]
    job, reports = start(tmp_path / "again", backup=backup, dies=False)
    with job:
        job.all_end_well()
    first, second = (json.loads(report.read_text()) for report in reports)
    assert first == second
    resumed, expected = first["resumed"], first["left alone"]
    assert resumed["weights"] == expected["weights"]
    assert resumed["losses"] == expected["losses"]  # the callback's own list is in the backup, too
    # The first worker may end before the last step's backup is whole.
    assert expected["steps"] - resumed["steps"] in (DIES_AFTER - 1, DIES_AFTER)
