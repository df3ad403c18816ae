"""Several optimizers that are restored before their first step, as where a GAN goes on training."""

import numpy as np
import pytest

import muster_tensorflow as tf
from muster_tensorflow import keras


def made(kind, start):
    """Two models of one architecture, and their optimizers, or one for both."""

    def model(number):
        name = "net" if kind == "alike" else f"net_{number}"  # as automatic ones are in another process
        layer = keras.layers.Dense(2, name="dense", kernel_initializer="ones")
        return keras.Sequential([keras.Input((2,)), layer], name=name)

    models = [model(number) for number in range(2)]
    optimizers = [keras.optimizers.Adam(0.1) for _ in range(1 if kind == "one" else 2)]
    names = "ab"[: len(optimizers)]
    objects = dict(zip("FG", models, strict=True)) | {
        f"{name}_optimizer": each for name, each in zip(names, optimizers, strict=True)
    }
    if start:
        step(kind, models, optimizers)
    return models, optimizers, tf.train.Checkpoint(**objects)


def step(kind, models, optimizers):
    groups = [models] if kind == "one" else [[each] for each in models]
    for number, (group, optimizer) in enumerate(zip(groups, optimizers, strict=True)):
        weights = [weight for each in group for weight in each.trainable_variables]
        optimizer.apply_gradients([(weight * (number + 1.0) + i, weight) for i, weight in enumerate(weights)])


@pytest.mark.parametrize("kind", ["apart", "alike", "one"])
def test_each_is_built_for_the_weights_that_it_was_saved_with(kind, tmp_path):
    models, optimizers, checkpoint = made(kind, start=True)
    path = checkpoint.write(tmp_path / "ckpt")
    others, other_optimizers, other = made(kind, start=False)
    other.read(path).assert_consumed()
    for all_models, all_optimizers in ((models, optimizers), (others, other_optimizers)):
        step(kind, all_models, all_optimizers)
    for one, two in zip([*models, *optimizers], [*others, *other_optimizers], strict=True):
        for ours, theirs in zip(one.variables, two.variables, strict=True):
            np.testing.assert_array_equal(ours, theirs)
