"""Which masks layers get, as in Keras 2; it fails when what is used of Keras changes."""

import numpy as np
import pytest

import muster_tensorflow as tf

WORDS = np.array([[1, 2, 0, 0], [3, 0, 0, 0]])
MASK = WORDS != 0


class Sees(tf.keras.layers.Layer):
    """Keeps the mask that it gets."""

    def __init__(self):
        super().__init__()
        self.supports_masking = True
        self.seen = None

    def call(self, x, other=None, mask=None, training=False):
        self.seen = mask
        return x


def embedded(words):
    return tf.keras.layers.Embedding(4, 3, mask_zero=True)(words)


@pytest.mark.parametrize(
    "call",
    [
        lambda layer, x: layer(x, x),
        lambda layer, x: layer(x, other=x),
        lambda layer, x: layer(x, x, training=True),
        lambda layer, x: layer(x, np.ones((2, 4, 3), "float32")),
        lambda layer, x: layer(x, None),
        lambda layer, x: layer(x),
    ],
)
def test_a_layer_gets_the_mask_of_its_first_argument(call):
    layer = Sees()
    call(layer, embedded(WORDS))
    assert np.array_equal(layer.seen, MASK)


def test_masks_of_several_inputs_come_in_their_structure():
    layer = Sees()
    layer([embedded(WORDS), np.ones((2, 4, 3), "float32")], np.ones(3))
    assert np.array_equal(layer.seen[0], MASK)
    assert layer.seen[1] is None


def test_a_mask_that_is_given_stays():
    own, layer = ~MASK, Sees()
    layer(embedded(WORDS), np.ones(3), own)
    assert np.array_equal(layer.seen, own)
    layer(embedded(WORDS), np.ones(3), mask=MASK[:1])
    assert np.array_equal(layer.seen, MASK[:1])


def test_there_is_no_mask_of_plain_arrays():
    layer = Sees()
    layer(np.ones((2, 4, 3), "float32"), embedded(WORDS))
    assert layer.seen is None


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "SimpleRNN"])
def test_a_recurrent_layer_with_an_initial_state_leaves_padding_out(kind):
    words, state = tf.keras.Input((None,), dtype="int32"), tf.keras.Input((3,))
    states = [state, state] if kind == "LSTM" else state
    outputs = getattr(tf.keras.layers, kind)(3)(embedded(words), initial_state=states)
    model = tf.keras.Model([words, state], outputs)
    state = np.full((1, 3), 0.1, "float32")
    padded = model.predict([WORDS[:1], state], verbose=0)
    np.testing.assert_allclose(padded, model.predict([WORDS[:1, :2], state], verbose=0), rtol=1e-5)
