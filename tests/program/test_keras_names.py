"""What Keras keeps to itself and muster depends on: this fails when Keras changes it."""

from muster._keras import keras
from muster.program._keras_names import fresh_names


def test_automatic_names_start_afresh_and_go_on_afterwards():
    keras.layers.Dense(1)
    before = keras.layers.Dense(1).name
    number = int(before.removeprefix("dense_"))
    with fresh_names():
        assert keras.layers.Dense(1).name == "dense"
        assert keras.layers.Dense(1).name == "dense_1"
    assert keras.layers.Dense(1).name == f"dense_{number + 1}"
