"""A small model for tests: linear regression on 64 examples, and helpers to run it."""

import numpy as np

import muster
from muster._keras import keras
from muster.data import Dataset
from muster.estimator import Estimator, EstimatorSpec, ModeKeys, RunConfig

COUNT = 64
_i = np.arange(COUNT)
FEATURES = np.stack([_i / COUNT, (7 * _i % COUNT) / COUNT], axis=1).astype(np.float32)
LABELS = (FEATURES @ np.array([[2.0], [-3.0]]) + 0.5).astype(np.float32)


def dataset(batch_size=8):
    return Dataset.from_tensor_slices((FEATURES, LABELS)).batch(batch_size)


def train_input():
    return dataset().repeat()


def model_fn(features, labels, mode):
    w = keras.Variable(np.zeros((2, 1), np.float32), name="w")
    b = keras.Variable(np.zeros(1, np.float32), name="b")
    y = features @ w + b
    if mode == ModeKeys.PREDICT:
        return EstimatorSpec(mode, predictions={"y": y})
    loss = keras.ops.mean((y - labels) ** 2)
    error = keras.metrics.MeanAbsoluteError(name="error")
    error.update_state(labels, y)
    train_op = muster.minimize(keras.optimizers.SGD(0.1), loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops={"error": error})


def estimator(model_dir, model=model_fn, **config):
    return Estimator(model, model_dir, RunConfig(**config))
