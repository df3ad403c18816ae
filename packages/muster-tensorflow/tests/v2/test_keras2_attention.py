"""Attention layers with ``causal=True``, as of Keras 2."""

import numpy as np
import pytest

import muster_tensorflow as tf


@pytest.mark.parametrize("kind", [tf.keras.layers.Attention, tf.keras.layers.AdditiveAttention])
def test_a_causal_layer_looks_at_what_came_before(kind: type) -> None:
    x = np.random.default_rng(0).normal(size=(2, 4, 3)).astype(np.float32)
    changed = x.copy()
    changed[:, 3] += 1  # the last of each sequence
    causal, open_ = kind(use_scale=False, causal=True), kind(use_scale=False)
    np.testing.assert_array_equal(causal([x, x])[:, :3], causal([changed, changed])[:, :3])
    assert not np.allclose(open_([x, x])[:, :3], open_([changed, changed])[:, :3])
    np.testing.assert_allclose(causal([x, x]), open_([x, x], use_causal_mask=True), rtol=1e-5)


def test_a_causal_layer_in_a_functional_model() -> None:
    inputs = tf.keras.Input([None, 3])
    outputs = tf.keras.layers.Attention(use_scale=True, causal=True)([inputs, inputs])
    found = tf.keras.Model(inputs, outputs).predict(np.eye(3, dtype=np.float32)[None], verbose=0)
    np.testing.assert_allclose(found[0, 0], [1, 0, 0])
