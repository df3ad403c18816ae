"""`fit` and `train_on_batch` train what was trainable when the model was compiled."""

from typing import Any

import numpy as np
import pytest

import muster_tensorflow as tf

layers = tf.keras.layers
X, Y = np.ones((4, 2), np.float32), np.zeros((4, 1), np.float32)


def networks() -> tuple[Any, Any, Any]:
    """Return a generator, a discriminator that is compiled and frozen then, and both, compiled."""
    generator = tf.keras.Sequential([layers.Dense(2, input_shape=(2,))])
    discriminator = tf.keras.Sequential([layers.Dense(3, input_shape=(2,)), layers.Dense(1)])
    discriminator.compile("sgd", "mse")
    discriminator.trainable = False
    inputs = tf.keras.Input((2,))
    both = tf.keras.Model(inputs, discriminator(generator(inputs)))
    both.compile("sgd", "mse")
    return generator, discriminator, both


def changed(model: Any, before: list[Any]) -> bool:
    return any((one != two).any() for one, two in zip(model.get_weights(), before, strict=True))


def train(how: str, model: Any) -> None:
    if how == "train_on_batch":
        model.train_on_batch(X, Y)
    elif how == "arrays":
        model.fit(X, Y, verbose=0)
    else:
        model.fit(tf.data.Dataset.from_tensor_slices((X, Y)).batch(2), verbose=0)


@pytest.mark.parametrize("how", ["train_on_batch", "arrays", "dataset"])
def test_a_discriminator_is_trained_by_itself_and_not_in_the_whole(how: str) -> None:
    generator, discriminator, both = networks()
    for _ in range(2):
        before = generator.get_weights(), discriminator.get_weights()
        train(how, discriminator)
        assert (changed(generator, before[0]), changed(discriminator, before[1])) == (False, True)
        assert not discriminator.trainable
        assert not any(layer.trainable for layer in discriminator.layers)
        before = generator.get_weights(), discriminator.get_weights()
        train(how, both)
        assert (changed(generator, before[0]), changed(discriminator, before[1])) == (True, False)


def test_what_is_thawed_is_trained_once_the_model_is_compiled_again() -> None:
    _, discriminator, both = networks()
    discriminator.trainable = True
    before = discriminator.get_weights()
    both.train_on_batch(X, Y)
    assert not changed(discriminator, before)
    assert discriminator.trainable
    both.compile("sgd", "mse")
    both.train_on_batch(X, Y)
    assert changed(discriminator, before)


def test_models_of_a_strategy_are_trained_so_too() -> None:
    with tf.distribute.MirroredStrategy(["cpu:0", "cpu:1"]).scope():
        _, discriminator, _ = networks()
    before = discriminator.get_weights()
    train("arrays", discriminator)
    assert changed(discriminator, before)
