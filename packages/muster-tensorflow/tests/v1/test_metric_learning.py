"""``tf.contrib.losses.metric_learning``: what TensorFlow computes of these numbers."""

import jax
import numpy as np

import muster_tensorflow as tf

losses = tf.contrib.losses.metric_learning
ANGLES = np.float32([0.1, 0.5, 0.9, 2.0, 2.2, 4.0])
POINTS = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)
LABELS = np.array([0, 1, 0, 2, 1, 0])
GRADIENT = [
    [0.01629, 0.39132],
    [-0.01629, -0.39132],
    [0.3351, 0.77636],
    [0.0, 0.0],
    [0.3156, -0.49252],
    [-0.6507, -0.28384],
]


def test_triplets_are_half_hard() -> None:
    value, gradient = jax.value_and_grad(lambda points: losses.triplet_semihard_loss(LABELS, points, 0.2))(
        POINTS
    )
    np.testing.assert_allclose(value, 0.46301028, rtol=1e-5)
    np.testing.assert_allclose(gradient, GRADIENT, atol=1e-4)


def test_pairs_are_found_among_all() -> None:
    np.testing.assert_allclose(losses.npairs_loss(LABELS, POINTS, POINTS[::-1]), 1.94788265, rtol=1e-5)


def test_pairs_of_two_kinds_lack_a_margin() -> None:
    loss = losses.contrastive_loss([1, 0, 1, 1, 0, 0], POINTS, POINTS[::-1], 1.5)
    np.testing.assert_allclose(loss, 0.93958002, rtol=1e-5)
