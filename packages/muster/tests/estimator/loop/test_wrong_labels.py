"""Training and evaluating on labels that are no classes is an error, before a checkpoint has the garbage."""

import numpy as np
import pytest

import muster
from muster import keras
from muster._errors import DatasetError, NanLossDuringTrainingError
from muster.data import Dataset
from muster.distribute import MirroredStrategy
from muster.estimator import Estimator, EstimatorSpec, RunConfig

IDS = np.arange(64) % 5


def input_fn(labels, ids=IDS):
    return Dataset.from_tensor_slices((ids, labels)).batch(8).repeat(2)


def model_fn(features, labels, mode, params):
    logits = keras.layers.Dense(5)(keras.layers.Embedding(5, 4)(features))
    loss = params["loss"](labels, logits)
    train_op = muster.minimize(keras.optimizers.SGD(0.1), loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


def keras_loss(labels, logits):
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)(labels, logits)


def ops_loss(labels, logits):
    return keras.ops.mean(keras.ops.sparse_categorical_crossentropy(labels, logits, from_logits=True))


def estimator(tmp_path, loss=keras_loss, **config):
    return Estimator(model_fn, tmp_path, RunConfig(save_checkpoints_steps=1, **config), {"loss": loss})


def with_label(value):
    labels = IDS.copy()
    labels[45] = value
    return labels


@pytest.mark.parametrize("loss", [keras_loss, ops_loss])
@pytest.mark.parametrize("value", [5, -1])
def test_training_names_the_label(tmp_path, loss, value):
    trained = estimator(tmp_path, loss)
    with pytest.raises(DatasetError, match=f"label value of {value} which is outside .* Label values: 0 1 2"):
        trained.train(lambda: input_fn(with_label(value)))
    assert trained.latest_checkpoint().endswith("-5")


def test_training_on_replicas_names_the_label(tmp_path):
    trained = estimator(tmp_path, train_distribute=MirroredStrategy(["/cpu:0", "/cpu:1"]))
    with pytest.raises(DatasetError, match="label value of 5 which is outside"):
        trained.train(lambda: input_fn(with_label(5)))
    assert trained.latest_checkpoint().endswith("-2")


def test_evaluation_names_the_label(tmp_path):
    with pytest.raises(DatasetError, match="label value of 7 which is outside"):
        estimator(tmp_path).evaluate(lambda: input_fn(with_label(7)))


def test_training_names_the_id(tmp_path):
    with pytest.raises(DatasetError, match="id value of 9 which is outside"):
        estimator(tmp_path).train(lambda: input_fn(IDS, with_label(9)))


@pytest.mark.slow
def test_another_nan_is_reported_as_before(tmp_path):
    def broken(labels, logits):
        return keras_loss(labels, logits) * np.nan

    with pytest.raises(NanLossDuringTrainingError):
        estimator(tmp_path, broken).train(lambda: input_fn(IDS))
    assert np.isnan(estimator(tmp_path, broken).evaluate(lambda: input_fn(IDS))["loss"])
