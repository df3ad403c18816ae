"""Trains an Estimator of DeepCTR on clicks that are made up. The arguments: its name and a folder."""

import sys

import numpy as np
import tensorflow.compat.v1 as tf
from deepctr import estimator as models

CATEGORIES, NUMBERS, VALUES = 6, 3, 50


def clicks(seed, rows=2048):
    rng = np.random.default_rng(seed)
    features = {f"C{i}": rng.integers(0, VALUES, rows) for i in range(CATEGORIES)}
    features.update({f"I{i}": rng.normal(size=rows).astype(np.float32) for i in range(NUMBERS)})
    weights = np.random.default_rng(9).normal(size=VALUES)
    scores = weights[features["C0"]] + weights[features["C1"]] * weights[features["C2"]] + features["I0"]
    return features, (rng.uniform(size=rows) < 1 / (1 + np.exp(-scores))).astype(np.float32)


def train_input():
    return tf.data.Dataset.from_tensor_slices(clicks(1)).shuffle(2048, seed=1).repeat().batch(64)


def test_input():
    return tf.data.Dataset.from_tensor_slices(clicks(2)).batch(64)


def main():
    name, folder = sys.argv[1:]
    ids = [tf.feature_column.categorical_column_with_identity(f"C{i}", VALUES) for i in range(CATEGORIES)]
    numbers = [tf.feature_column.numeric_column(f"I{i}") for i in range(NUMBERS)]
    embedded = [tf.feature_column.embedding_column(each, 4) for each in ids]
    config = tf.estimator.RunConfig(model_dir=folder, tf_random_seed=1)
    options = {} if name == "AFMEstimator" else {"dnn_hidden_units": (32, 16)}
    model = getattr(models, name)(ids + numbers, embedded + numbers, config=config, **options)
    train = tf.estimator.TrainSpec(train_input, max_steps=50)
    tf.estimator.train_and_evaluate(model, train, tf.estimator.EvalSpec(test_input, steps=None))
    if config.is_chief and config.task_type != "ps":
        metrics = model.evaluate(test_input)
        print("metrics", {key: round(float(value), 4) for key, value in metrics.items()})
        assert next(iter(model.predict(test_input)))["pred"].shape == (1,)


main()
