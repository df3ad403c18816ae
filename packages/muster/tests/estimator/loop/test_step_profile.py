"""A trace of some steps, and where their time goes."""

import re

import numpy as np
import pytest

import muster
from muster._keras import keras
from muster.data import Dataset
from muster.distribute import embedded
from muster.estimator import Estimator, EstimatorSpec, ProfilerHook, RunConfig
from remote_stores import faulty_store, names

faulty = faulty_store

X = np.ones((64, 3), np.float32)


def model_fn(features, labels, mode):
    loss = keras.ops.mean(keras.layers.Dense(1)(features) ** 2)
    train_op = muster.minimize(keras.optimizers.SGD(0.01), loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


def train(tmp_path, steps, *hooks, **config):
    config = {"profile_dir": tmp_path / "profile", **config}
    config = RunConfig(str(tmp_path / "model"), **config)
    Estimator(model_fn, config=config).train(
        lambda: Dataset.from_tensor_slices((X, X)).batch(8).repeat(), steps=steps, hooks=[*hooks]
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


def test_a_profile_may_be_on_an_object_store(tmp_path, faulty):
    with embedded():  # at whose end it is there; a program of its own sends it at the program's end
        train(tmp_path, 15, profile_dir="faulty://b/run")
        hook = ProfilerHook(save_steps=5, output_dir="faulty://b/hook")
        train(tmp_path, 7, hook, profile_dir=None)
    assert "5 steps" in faulty.cat_file("/b/run/worker-0/profile.txt").decode()
    for folder in ("run/worker-0/plugins/profile/", "hook/timeline-"):
        found = [each for each in names(faulty) if each.startswith(folder)]
        assert [each.endswith("/perfetto_trace.json.gz") for each in found].count(True) == 1
