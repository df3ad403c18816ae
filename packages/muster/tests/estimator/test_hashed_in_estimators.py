"""Hashed tables in Estimators: in one process, and on servers in this process, reached over sockets."""

import contextlib

import numpy as np
import pytest
from local_servers import servers

import muster
from muster import keras
from muster.checkpoint import latest_checkpoint, read_checkpoint
from muster.data import Dataset, wide_ids
from muster.estimator import Estimator, EstimatorSpec, ModeKeys, RunConfig

KEYS = np.random.default_rng(0).integers(-(2**62), 2**62, 40)
IDS = KEYS[np.random.default_rng(1).integers(0, 40, (64, 3))]
IDS[::5, 2] = -1  # none
Y = (np.abs(IDS[:, 0]) % 7).astype("float32")
EPOCH = 4  # steps

one_process = contextlib.nullcontext
RUNNERS = {"one process": one_process, "one server": lambda: servers(1), "two servers": lambda: servers(2)}


def model_fn(features, labels, mode, params):
    rows = muster.layers.HashEmbedding(4, combiner="mean", name="table", **params.get("table", {}))(features)
    outputs = keras.layers.Dense(1)(keras.layers.Dense(8, activation="relu")(rows))[:, 0]
    if mode == ModeKeys.PREDICT:
        return EstimatorSpec(mode, predictions={"outputs": outputs, "rows": rows})
    loss = keras.ops.mean((outputs - labels) ** 2)
    optimizer = keras.optimizers.get(params.get("optimizer", "adagrad"))
    optimizer.learning_rate = 0.1
    step = muster.minimize(optimizer, loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=step)


def batches():
    return Dataset.from_tensor_slices((wide_ids(IDS), Y)).batch(16).repeat()


def estimator(folder, params=None, strategy=None, **config):
    run_config = RunConfig(tf_random_seed=1, train_distribute=strategy, log_step_count_steps=None, **config)
    return Estimator(model_fn, str(folder), run_config, params or {})


def train(folder, runner, steps, params=None, **config):
    with RUNNERS[runner]() as strategy:
        estimator(folder, params, strategy, **config).train(batches, max_steps=steps)
    return read_checkpoint(latest_checkpoint(folder)).variables


def by_id(variables, column="table/embeddings"):
    """The rows of a table, or their slots, by id."""
    return dict(zip(variables["table/embeddings#ids"].tolist(), variables[column], strict=True))


def assert_same(found, expected):
    """The same variables, of hashed tables by their ids."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if "#" in name:
            continue
        one, other = found[name], value
        if name.startswith("table/") or "table_embeddings" in name:
            ours, theirs = by_id(found, name), by_id(expected, name)
            assert ours.keys() == theirs.keys()
            one, other = (np.stack([each[key] for key in theirs]) for each in (ours, theirs))
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    return train(tmp_path_factory.mktemp("one") / "model", "one process", 2 * EPOCH)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("one process", "one process"),
        ("one process", "two servers"),
        ("two servers", "one server"),
        ("two servers", "one process"),
    ],
)
def test_training_goes_on_elsewhere_as_if_it_had_not_been_interrupted(tmp_path, first, then, uninterrupted):
    half = train(tmp_path, first, EPOCH)
    assert set(by_id(half)) <= {*KEYS.tolist()}
    assert_same(train(tmp_path, then, 2 * EPOCH), uninterrupted)
