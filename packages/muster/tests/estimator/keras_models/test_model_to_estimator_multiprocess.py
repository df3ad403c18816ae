"""Estimators of Keras models on two workers, and beside parameter servers: real processes."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import keras_model_child
from canned_models import check_same, values_of
from jobs import Job
from keras_model_child import BATCH, ROWS, STEPS, batches, made, trained

pytestmark = [
    pytest.mark.processes,
    pytest.mark.alone,
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),  # Keras' own
]

CHILD = Path(keras_model_child.__file__)


def evaluated(estimator):
    return estimator.evaluate(batches, steps=ROWS // BATCH)


def learned(estimator):
    """All variables but the means of outputs' losses, of which each task beside servers has its own."""
    values = values_of(estimator)
    return {name: value for name, value in values.items() if not name.startswith("compile_loss/")}


def check_alike(estimator, expected):
    """Check that an Estimator has found the same variables and metrics as another one."""
    check_same(([], learned(estimator)), ([], learned(expected)))
    metrics = evaluated(expected)
    assert metrics["global_step"] == STEPS
    assert metrics.keys() > {"loss", "sum_mae", "even_accuracy"}
    for name, value in evaluated(estimator).items():
        np.testing.assert_allclose(value, metrics[name], rtol=1e-5, err_msg=name)


@pytest.mark.slow
def test_workers_train_as_one_device_does(tmp_path):
    told = [tmp_path / f"told{index}" for index in (0, 1)]
    with Job(tmp_path / "job", [CHILD], worker=2) as job:
        for index, file in enumerate(told):
            job.start("worker", index, {"folder": str(tmp_path / "model"), "told": str(file)})
        job.all_end_well()
    losses, one = trained(tmp_path / "one")
    for file in told:
        np.testing.assert_allclose(json.loads(file.read_text()), losses, rtol=2e-5)
    check_alike(made(tmp_path / "model"), one)


@pytest.mark.slow
def test_tasks_that_train_in_step_beside_servers_train_as_one_device_does(tmp_path):
    """A chief and a worker, two servers that hold half of the rows each, and an evaluator."""
    options = {"folder": str(tmp_path / "model")}
    with Job(tmp_path / "job", [CHILD], chief=1, worker=1, ps=2) as job:
        for part, kind in enumerate(["chief", "worker"]):
            job.start(kind, 0, {**options, "part": part})
        for index in (0, 1):
            job.start("ps", index, options)
        evaluator = job.start("evaluator", 0, options)
        job.all_end_well()
        assert re.search(rf"global_step = {STEPS}\b", evaluator.log)
    check_alike(made(tmp_path / "model"), trained(tmp_path / "one")[1])
