"""Sizes of shapes are numbers for keras.ops; it fails when what is used of Keras changes."""

import keras
import numpy as np
import pytest

import muster_tensorflow as tf


@pytest.fixture
def size():
    return tf.constant(np.zeros((3, 2), "float32")).shape[0]


def test_that_a_size_is_one_of_compats(size):
    assert type(size).__name__ == "Dimension"


@pytest.mark.parametrize(
    ("compute", "dtype", "expected"),
    [
        (lambda size: keras.ops.arange(size), "int32", [0, 1, 2]),
        (lambda size: keras.ops.arange(size, dtype="float32"), "float32", [0, 1, 2]),
        (lambda size: keras.ops.add(np.ones(2, "int8"), size), "int8", [4, 4]),
        (lambda size: keras.ops.multiply(size, np.float16([2])), "float16", [6]),
        (lambda size: keras.ops.full((2,), size), "float32", [3, 3]),
        (lambda size: keras.ops.linspace(0, size, 2), "float32", [0, 3]),
    ],
)
def test_numbers_of_a_size_are_those_of_an_int(size, compute, dtype, expected):
    found, of_int = compute(size), compute(3)
    assert str(of_int.dtype) == str(found.dtype) == dtype
    np.testing.assert_array_equal(found, expected)


def test_sizes_in_a_step_of_the_program():
    class Contrastive(keras.Model):
        def train_step(self, data):
            labels = keras.ops.arange(keras.ops.shape(data)[0])
            return {"last": labels[-1]}

    model = Contrastive()
    model.compile(optimizer="sgd")
    assert model.fit(np.ones((6, 2)), batch_size=6, verbose=0).history["last"] == [5]
