"""Canned Estimators on two workers, and beside parameter servers: real processes."""

import json
import re
from pathlib import Path

import pytest

import canned_models
from canned_models import OF_EACH_KIND, check_same, made, trained, values_of
from jobs import Job

pytestmark = [
    pytest.mark.processes,
    pytest.mark.alone,
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),  # Keras' own
]

CHILD = Path(canned_models.__file__).with_name("canned_child.py")


@pytest.mark.slow
def test_workers_train_as_one_device_does(tmp_path):
    options = {"folder": str(tmp_path / "models"), "names": OF_EACH_KIND}
    told = [tmp_path / f"told{index}" for index in (0, 1)]
    with Job(tmp_path / "job", [CHILD], worker=2) as job:
        for index, file in enumerate(told):
            job.start("worker", index, {**options, "told": str(file)})
        job.all_end_well()
    losses = [json.loads(file.read_text()) for file in told]
    for name in OF_EACH_KIND:
        expected = trained(name, tmp_path / "one" / name)
        for of_worker in losses:
            check_same((of_worker[name], values_of(made(name, tmp_path / "models" / name))), expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["DNNLinearCombinedEstimator", "RNNClassifier"])
def test_tasks_that_train_in_step_beside_servers_train_as_one_device_does(tmp_path, name):
    """A chief and a worker, two servers that hold half of the rows each, and an evaluator."""
    options = {"folder": str(tmp_path / "models"), "names": [name]}
    with Job(tmp_path / "job", [CHILD], chief=1, worker=1, ps=2) as job:
        for part, kind in enumerate(["chief", "worker"]):
            job.start(kind, 0, {**options, "part": part})
        for index in (0, 1):
            job.start("ps", index, options)
        evaluator = job.start("evaluator", 0, options)
        job.all_end_well()
        assert re.search(rf"global_step = {canned_models.STEPS}\b", evaluator.log)
    losses, values = trained(name, tmp_path / "one")
    check_same((losses, values_of(made(name, tmp_path / "models" / name))), (losses, values))
