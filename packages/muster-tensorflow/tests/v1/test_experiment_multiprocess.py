"""Experiments on parameter servers: each task does the part that its schedule names."""

import re
from pathlib import Path

import pytest

from jobs import Job
from muster.checkpoint import latest_checkpoint, read_checkpoint

pytestmark = [pytest.mark.alone, pytest.mark.processes]

CHILD = Path(__file__).with_name("experiment_child.py")
STEPS = 100


def test_an_experiment_does_the_part_that_its_schedule_names(tmp_path):
    model_dir = str(tmp_path / "model")
    with Job(tmp_path / "job", [CHILD], chief=1, worker=1, ps=2) as job:

        def launch(kind, schedule, index=0):
            options = {"model_dir": model_dir, "max_steps": STEPS, "schedule": schedule}
            return job.start(kind, index, options)

        schedules = {"chief": "train", "worker": "train", "evaluator": "continuous_eval"}
        tasks = {kind: launch(kind, schedule) for kind, schedule in schedules.items()}
        for index in range(2):
            launch("ps", "run_std_server", index)
        job.all_end_well()
    own = [re.findall(r"^step (\d+)$", tasks[kind].log, re.M) for kind in ("chief", "worker")]
    assert all(own)
    assert sum(map(len, own)) == read_checkpoint(latest_checkpoint(model_dir)).step == STEPS
    assert f"Saving dict for global step {STEPS}" in tasks["evaluator"].log
