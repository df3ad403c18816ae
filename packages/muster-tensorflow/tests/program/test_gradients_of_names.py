"""Gradients asked for by TensorFlow's names, and labels and ids that are out of range in its operations."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import muster_tensorflow as tf
from muster import keras
from muster._errors import DatasetError, GradientError
from muster.program.trace import Program

LOGITS = np.zeros((3, 5), np.float32)


def test_an_accumulator_takes_tensorflows_word_for_zeros():
    x = tf.constant([[2.0, 3.0]])
    with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as acc:
        cubes, other = tf.reduce_sum(x**3), tf.constant(1.0)
    assert float(acc.jvp(cubes)) == 3 * (4 + 9)
    assert acc.jvp(other, tf.UnconnectedGradients.NONE) is None
    assert float(acc.jvp(other, tf.UnconnectedGradients.ZERO)) == 0
    with pytest.raises(TypeError, match="tf.constant"):
        tf.autodiff.ForwardAccumulator(np.ones(2), np.ones(2))


def test_an_error_names_the_users_line_that_asked():
    def step(x):
        weights = keras.Variable(np.ones(3, np.float32), name="w")
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.1)
        return {"g": jax.tree.leaves(optimizer.compute_gradients(jnp.sum(x), [weights]))[0]}, None

    program = Program(step, np.ones(3, np.float32))
    with pytest.raises(GradientError, match=r"asked for in .*test_gradients_of_names.py:\d+"):
        jax.jit(program.step)(program.initial, np.ones(3, np.float32))


def of_logits(labels):
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=LOGITS)


def of_v1(labels):
    return tf.compat.v1.losses.sparse_softmax_cross_entropy(labels, LOGITS)


@pytest.mark.parametrize("loss", [of_logits, of_v1])
@pytest.mark.parametrize("wrong", [5, -1, 2**31])
def test_a_label_out_of_range_is_named(loss, wrong):
    assert np.all(np.isfinite(loss(np.array([0, 4, 1]))))
    named = re.escape(f"{wrong:g}")
    with pytest.raises(DatasetError, match=rf"value of {named} .* \[0, 5\).* values: 0 {named} 1\."):
        loss(np.array([0, wrong, 1]))


def test_an_id_out_of_range_is_named():
    with pytest.raises(DatasetError, match=r"id value of 7 .* \[0, 4\)"):
        tf.nn.embedding_lookup(np.zeros((4, 2), np.float32), np.array([1, 7]))
