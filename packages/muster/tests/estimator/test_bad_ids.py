"""Ids of no row, and tables that a checkpoint has otherwise, are errors that say so; TensorFlow's are, too.

TensorFlow 2.15.1 on a CPU, of `tf.keras.layers.Embedding(5, 2)` and -1 or 5: InvalidArgumentError, "indices
[0] = -1 is not in [0, 5)". Of an embedding_column, ids below 0 are none, and give zeros.
"""

import numpy as np
import pytest
from local_servers import servers

import muster
from muster._errors import DatasetError, MusterError
from muster._keras import keras
from muster.checkpoint import _mapped_array
from muster.data import Dataset
from muster.distribute import MirroredStrategy, OneDeviceStrategy
from muster.estimator import Estimator, EstimatorSpec, ModeKeys, RunConfig

pytestmark = pytest.mark.usefixtures("compiled_once")

ROWS, UNITS, BATCH = 2000, 2, 8
STRATEGIES = {
    "one device": lambda: OneDeviceStrategy("/cpu:0"),
    "replicas": lambda: MirroredStrategy(["/cpu:0", "/cpu:1"]),
}


def examples(bad=None):
    ids = np.arange(3 * BATCH, dtype=np.int32) * 17
    if bad is not None:
        ids[BATCH + 3] = bad
    return ids, np.ones(len(ids), np.float32)


def batches(bad=None):
    ids, labels = examples(bad)
    return Dataset.from_tensor_slices(({"id": ids}, labels)).batch(BATCH)


def model_fn(features, labels, mode, params):
    table = keras.layers.Embedding(params.get("rows", ROWS), UNITS, name=params.get("name", "table"))
    outputs = keras.ops.sum(table(features["id"]), -1)
    loss = keras.ops.mean((outputs - labels) ** 2)
    step = muster.minimize(keras.optimizers.Adagrad(0.1), loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=step if mode == ModeKeys.TRAIN else None)


def refused(bad):
    said = rf"id value of {bad} which is outside the valid range of \[0, {ROWS}\)"
    return pytest.raises(DatasetError, match=said)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("bad", [-1, ROWS])
def test_an_estimator_names_the_id(tmp_path, strategy, bad):
    config = RunConfig(tmp_path, train_distribute=STRATEGIES[strategy](), save_checkpoints_steps=1)
    estimator = Estimator(model_fn, config=config, params={})
    with refused(bad):
        estimator.train(lambda: batches(bad))
    table = estimator.get_variable_value("table/embeddings")
    assert np.isfinite(table).all()


@pytest.mark.parametrize("bad", [-1, ROWS])
def test_a_worker_beside_servers_names_the_id(tmp_path, bad):
    with servers(1) as strategy:
        config = RunConfig(tmp_path, train_distribute=strategy)
        with refused(bad):
            Estimator(model_fn, config=config, params={}).train(lambda: batches(bad))


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("bad", [-1, ROWS])
def test_fit_names_the_id(strategy, bad):
    with STRATEGIES[strategy]().scope():
        model = keras.Sequential([keras.layers.Embedding(ROWS, UNITS), keras.layers.Dense(1)])
        model.compile("adagrad", "mse")
    ids, labels = examples(bad)
    with refused(bad):
        model.fit(ids[:, None], labels[:, None, None], batch_size=BATCH, shuffle=False, verbose=0)


@pytest.mark.parametrize(
    ("params", "said"),
    [({"rows": ROWS + 100}, r"table/embeddings.*2000.*2100"), ({"name": "other"}, r"other/embeddings")],
    ids=["resized", "renamed"],
)
@pytest.mark.parametrize("mapped", [False, True], ids=["in memory", "in files"])
def test_a_table_that_a_checkpoint_has_otherwise_is_refused(tmp_path, monkeypatch, params, said, mapped):
    Estimator(model_fn, tmp_path, params={}).train(batches, steps=1)
    before = Estimator(model_fn, tmp_path, params={}).get_variable_value("table/embeddings")
    monkeypatch.setattr(_mapped_array, "LEAST_MAPPED_BYTES", 0 if mapped else 1 << 30)
    other = Estimator(model_fn, tmp_path, params=params)
    for use in (lambda: other.train(batches, steps=1), lambda: other.evaluate(batches)):
        with pytest.raises(MusterError, match=said):
            use()
    after = Estimator(model_fn, tmp_path, params={}).get_variable_value("table/embeddings")
    np.testing.assert_array_equal(after, before)
