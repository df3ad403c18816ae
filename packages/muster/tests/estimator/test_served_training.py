"""Training on parameter servers in this process, step by step as without."""

import numpy as np
import pytest
from local_servers import servers

import muster
from muster._keras import keras
from muster.data import Dataset
from muster.estimator import Estimator, EstimatorSpec, RunConfig
from noted_losses import Losses

BATCH, STEPS = 64, 50


def guides_cnn(features, labels, mode):
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Conv2D(32, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(10),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(labels, model(features))
    train_op = muster.minimize(keras.optimizers.SGD(0.01), loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


def images():
    rng = np.random.default_rng(0)
    pixels, labels = rng.random((10 * BATCH, 28, 28, 1), np.float32), rng.integers(0, 10, 10 * BATCH)
    for image, label in zip(pixels, labels, strict=True):
        image[2 * label : 2 * label + 4] += 1  # a bar, as high as the class
    return Dataset.from_tensor_slices((pixels, labels)).batch(BATCH).repeat()


def losses(folder, strategy=None):
    hook = Losses()
    config = RunConfig(str(folder), tf_random_seed=1, train_distribute=strategy)
    Estimator(guides_cnn, config=config).train(images, hooks=[hook], max_steps=STEPS)
    return hook.losses


@pytest.mark.slow
def test_losses_of_one_worker_with_one_server_are_those_without(tmp_path):
    expected = losses(tmp_path / "alone")
    with servers(1) as strategy:
        served = losses(tmp_path / "served", strategy)
    assert len(served) == STEPS
    assert expected[-1] < 0.9 * expected[0]
    np.testing.assert_allclose(served, expected, rtol=0, atol=1e-5)
