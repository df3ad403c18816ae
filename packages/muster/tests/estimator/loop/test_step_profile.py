"""A trace of some steps, and where their time goes."""

import re

import numpy as np
import pytest

import muster
from muster._keras import keras
from muster.data import Dataset
from muster.estimator import Estimator, EstimatorSpec, RunConfig

X = np.ones((64, 3), np.float32)


def model_fn(features, labels, mode):
    loss = keras.ops.mean(keras.layers.Dense(1)(features) ** 2)
    train_op = muster.minimize(keras.optimizers.SGD(0.01), loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


def train(tmp_path, steps, **config):
    config = RunConfig(str(tmp_path / "model"), profile_dir=tmp_path / "profile", **config)
    Estimator(model_fn, config=config).train(
        lambda: Dataset.from_tensor_slices((X, X)).batch(8).repeat(), steps=steps
    )
    return tmp_path / "profile" / "worker-0"


@pytest.mark.parametrize(("steps_per_execution", "counted"), [(1, 20), (4, 80)])
def test_a_table_says_where_the_time_of_a_step_goes(tmp_path, steps_per_execution, counted):
    folder = train(tmp_path, 200, steps_per_execution=steps_per_execution, log_step_count_steps=None)
    text = (folder / "profile.txt").read_text()
    steps, each = re.match(r"(\d+) steps, ([\d.]+) ms each:", text).groups()
    parts = dict(re.findall(r"^  (\w[\w ]*?) +([\d.]+) ms", text, re.MULTILINE))
    assert int(steps) == pytest.approx(counted, abs=4)  # a summary is due within the profiled steps
    assert list(parts) == ["compute", "input wait", "communication", "host"]
    assert sum(map(float, parts.values())) == pytest.approx(float(each), abs=0.01)
    assert float(parts["compute"]) > 0
    assert float(parts["communication"]) == 0
    assert list(folder.glob("plugins/profile/*/*.xplane.pb"))
    assert list(folder.glob("plugins/profile/*/perfetto_trace.json.gz"))


def test_a_training_that_ends_early_leaves_no_trace_open(tmp_path):
    folder = train(tmp_path, 15)
    assert "5 steps" in (folder / "profile.txt").read_text()
    (tmp_path / "model" / "again").mkdir()
    assert (train(tmp_path / "again", 3).parent).exists() is False
