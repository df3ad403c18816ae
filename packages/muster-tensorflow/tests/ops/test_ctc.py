"""Connectionist temporal classification; the numbers are those of TensorFlow 2.15."""

from typing import Any

import jax
import numpy as np
import pytest

import muster_tensorflow as tf

LOGITS = np.random.default_rng(0).normal(size=(5, 2, 4)).astype(np.float32).round(2)
STEPS = [5, 3]
LABELS = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], [2, 0, 1], [2, 2])
LOSSES = [2.6789, 1.3911]


def test_losses_of_sparse_labels() -> None:
    v1 = tf.compat.v1.nn
    np.testing.assert_allclose(v1.ctc_loss(LABELS, LOGITS, STEPS), LOSSES, atol=1e-4)
    by_batch = LOGITS.transpose(1, 0, 2)
    np.testing.assert_allclose(v1.ctc_loss(LABELS, by_batch, STEPS, time_major=False), LOSSES, atol=1e-4)
    np.testing.assert_allclose(tf.nn.ctc_loss(LABELS, LOGITS, None, STEPS, blank_index=-1), LOSSES, atol=1e-4)
    with pytest.raises(ValueError, match="ctc_loss keeps repeated labels"):
        v1.ctc_loss(LABELS, LOGITS, STEPS, ctc_merge_repeated=False)


def test_decoders_return_sparse_labels() -> None:
    [best], sums = tf.nn.ctc_greedy_decoder(LOGITS, STEPS)
    assert (best.dense_shape.numpy().tolist(), best.values.numpy().tolist()) == ([2, 3], [2, 0, 1, 2, 1])
    np.testing.assert_allclose(sums, [[-3.16], [-2.45]], atol=1e-5)
    [unmerged], _ = tf.nn.ctc_greedy_decoder(LOGITS, STEPS, merge_repeated=False)
    assert unmerged.values.numpy().tolist() == [2, 0, 1, 2, 1, 1]
    [first, second], found = tf.nn.ctc_beam_search_decoder(LOGITS, STEPS, beam_width=10, top_paths=2)
    assert tf.sparse.to_dense(first, -1).numpy().tolist() == [[2, 0], [2, 1]]
    assert tf.sparse.to_dense(second, -1).numpy().tolist() == [[2, 1], [1, -1]]
    np.testing.assert_allclose(found, [[-2.6789, -2.9867], [-1.1394, -1.3911]], atol=1e-4)


def test_steps_decode_and_compare_labels() -> None:
    def step(logits: Any, labels: Any) -> Any:
        [best], sums = tf.nn.ctc_greedy_decoder(logits, STEPS)
        [first, _], _ = tf.nn.ctc_beam_search_decoder(logits, STEPS, beam_width=10, top_paths=2)
        truth = tf.sparse.from_dense(labels)
        distance = tf.edit_distance(tf.cast(best, tf.int32), truth)
        exact = tf.edit_distance(first, truth, normalize=False)
        return tf.sparse.to_dense(best, -1), sums, distance, exact

    labels = np.array([[2, 0, 3, 1], [2, 1, 0, 0]])
    dense, sums, distance, exact = jax.jit(step)(LOGITS, labels)
    assert dense.tolist() == [[2, 0, 1, -1, -1], [2, 1, -1, -1, -1]]
    np.testing.assert_allclose(sums, [[-3.16], [-2.45]], atol=1e-5)
    np.testing.assert_allclose(distance, [1 / 3, 0])  # of 2, 3, 1: zeros are empty
    assert exact.tolist() == [2, 0]


def test_the_backends_decoder() -> None:
    values = np.exp(LOGITS.transpose(1, 0, 2))
    probabilities = values / values.sum(-1, keepdims=True)
    decode = tf.keras.backend.ctc_decode
    [labels], sums = decode(probabilities, np.array(STEPS))
    assert np.asarray(labels).tolist() == [[2, 0, 1, -1, -1], [2, 1, -1, -1, -1]]
    np.testing.assert_allclose(sums, [[4.185], [2.083]], atol=1e-3)
    paths, found = decode(probabilities, np.array([[5], [3]]), greedy=False, beam_width=10, top_paths=2)
    assert np.asarray(paths[1])[:, :2].tolist() == [[2, 1], [1, -1]]
    np.testing.assert_allclose(found, [[-2.679, -2.987], [-1.139, -1.391]], atol=1e-3)
