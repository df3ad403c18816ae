"""``ref()`` of tensors and variables, which sets and dicts can have, and ``read_value``."""

from typing import Any

import keras
import numpy as np
import pytest

import muster_tensorflow as tf


@pytest.mark.parametrize(
    "tensor",
    [tf.constant(1.0), tf.constant(2**40), tf.Variable(1.0), keras.Variable([1.0]), keras.Input((2,))],
    ids=["array", "int64", "variable", "keras", "symbolic"],
)
def test_references_are_the_same_for_the_same_object(tensor: Any) -> None:
    found = {tensor.ref(): "it"}
    assert found[tensor.ref()] == "it"
    assert tensor.ref().deref() is tensor
    assert tf.constant(1.0).ref() not in found
    assert repr(tensor.ref()).startswith("<Reference wrapping ")


def test_references_in_a_function() -> None:
    @tf.function
    def function(x: Any) -> Any:
        return {x.ref(): x + 1}[x.ref()]

    assert float(function(tf.constant(1.0))) == 2.0


def test_weights_of_layers_are_read_as_variables_of_tensorflow() -> None:
    layer = tf.keras.layers.Dense(2)
    layer.build((None, 3))
    np.testing.assert_array_equal(layer.bias.read_value(), [0, 0])
