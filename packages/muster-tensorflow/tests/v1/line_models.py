"""A small model for tests of Estimators in both versions' names: linear regression on 64 examples."""

import numpy as np

import muster
from muster import keras
from muster.data import Dataset
from muster.estimator import EstimatorSpec, ModeKeys

_i = np.arange(64)
FEATURES = np.stack([_i / 64, (7 * _i % 64) / 64], axis=1).astype(np.float32)
LABELS = (FEATURES @ np.array([[2.0], [-3.0]]) + 0.5).astype(np.float32)


def dataset():
    return Dataset.from_tensor_slices((FEATURES, LABELS)).batch(8)


def train_input():
    return dataset().repeat()


def model_fn(features, labels, mode):
    w = keras.Variable(np.zeros((2, 1), np.float32), name="w")
    b = keras.Variable(np.zeros(1, np.float32), name="b")
    y = features @ w + b
    if mode == ModeKeys.PREDICT:
        return EstimatorSpec(mode, predictions={"y": y})
    loss = keras.ops.mean((y - labels) ** 2)
    train_op = muster.minimize(keras.optimizers.SGD(0.1), loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op)
