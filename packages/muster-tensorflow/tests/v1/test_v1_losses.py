"""``tf.compat.v1.losses``."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from v1_steps import outputs_of

import muster_tensorflow as tf
import muster_tensorflow.compat.v1 as tf1
from muster.program.trace._program import Program


def test_losses_divide_by_the_weights_that_are_not_zero() -> None:
    predictions, labels = np.float32([1, 2, 3, 4]), np.zeros(4, np.float32)
    weights = np.float32([2, 0, 1, 0])
    reduction = tf1.losses.Reduction
    for how, expected in {
        reduction.SUM_BY_NONZERO_WEIGHTS: (2 + 3) / 2,
        reduction.SUM: 5,
        reduction.MEAN: 5 / 3,
        reduction.SUM_OVER_BATCH_SIZE: 5 / 4,
    }.items():
        loss = tf1.losses.absolute_difference(labels, predictions, weights, reduction=how)
        assert float(loss) == pytest.approx(expected)
    assert tf1.losses.absolute_difference(labels, predictions, reduction=reduction.NONE).shape == (4,)
    assert float(tf1.losses.mean_squared_error(labels, predictions, weights=0.0)) == 0
    with pytest.raises(ValueError, match="Invalid Reduction Key median"):
        tf1.losses.mean_squared_error(labels, predictions, reduction="median")


def test_cross_entropies_take_labels_in_either_shape() -> None:
    logits = np.float32([[2, 0, 1], [0, 3, 0]])
    flat = tf1.losses.sparse_softmax_cross_entropy([0, 1], logits)
    column = tf1.losses.sparse_softmax_cross_entropy([[0], [1]], logits)
    dense = tf1.losses.softmax_cross_entropy(tf.one_hot([0, 1], 3), logits)
    assert float(flat) == pytest.approx(float(column)) == pytest.approx(float(dense))
    smooth = tf1.losses.softmax_cross_entropy(tf.one_hot([0, 1], 3), logits, label_smoothing=0.1)
    assert float(smooth) > float(dense)
    assert float(tf1.losses.sigmoid_cross_entropy(np.ones((2, 3)), logits)) > 0


def test_the_regularization_of_layers_can_be_added_to_the_loss() -> None:
    def step(x: Any) -> dict[str, Any]:
        before = tf1.losses.get_regularization_loss()
        ones, l2 = tf1.ones_initializer(), tf.keras.regularizers.L2
        batch = jnp.ones((1, 2)) * x
        hidden = tf1.layers.dense(batch, 3, kernel_initializer=ones, kernel_regularizer=l2(0.5), name="first")
        tf1.layers.dense(hidden, 1, kernel_initializer=ones, kernel_regularizer=l2(0.25), name="second")
        losses = tf1.losses.get_regularization_losses()
        assert len(losses) == 2  # biases have none
        return {
            "before": before,
            "losses": jnp.stack(losses),
            "sum": tf1.losses.get_regularization_loss(),
            "first": tf1.losses.get_regularization_loss(scope="first/"),
            "collected": tf.add_n(tf1.get_collection(tf1.GraphKeys.REGULARIZATION_LOSSES)),
        }

    found = outputs_of(step)
    np.testing.assert_allclose(found["losses"], [3.0, 0.75])
    assert (float(found["before"]), float(found["sum"])) == (0.0, 3.75)
    assert (float(found["first"]), float(found["collected"])) == (3.0, 3.75)


def test_the_activity_of_layers_is_regularized_as_in_tensorflow() -> None:
    """TensorFlow 2.15.1 collects 0.1, 1.0 and 0.78333336 for these layers."""

    def step(x: Any) -> dict[str, Any]:
        batch = (jnp.arange(6.0).reshape(3, 2) - 1.5) * x
        half, keras_regularizers = tf.keras.initializers.Constant(0.5), tf.keras.regularizers
        tf1.layers.dense(
            batch,
            2,
            kernel_initializer=half,
            kernel_regularizer=keras_regularizers.L2(0.1),
            activity_regularizer=keras_regularizers.L1(0.3),
            name="first",
        )
        tf1.layers.conv2d(
            batch.reshape(3, 1, 2, 1),
            2,
            1,
            kernel_initializer=half,
            activity_regularizer=keras_regularizers.L2(0.2),
            name="second",
        )
        tf.keras.layers.Dense(2, activity_regularizer="l1")(batch)  # only in its own losses
        return {
            "all": jnp.stack(tf1.losses.get_regularization_losses()),
            "first": jnp.stack(tf1.get_collection(tf1.GraphKeys.REGULARIZATION_LOSSES, "first")),
            "second": jnp.stack(tf1.losses.get_regularization_losses("sec")),
        }

    found = outputs_of(step)
    np.testing.assert_allclose(found["all"], [0.1, 1.0, 0.78333336], rtol=1e-6)
    np.testing.assert_allclose(found["first"], [0.1, 1.0], rtol=1e-6)
    np.testing.assert_allclose(found["second"], [0.78333336], rtol=1e-6)


def test_the_regularization_of_an_activity_has_gradients() -> None:
    def step(x: Any) -> tuple[dict[str, Any], None]:
        tf1.layers.dense(
            jnp.full((4, 1), 2.0),
            1,
            use_bias=False,
            kernel_initializer="ones",
            activity_regularizer=tf.keras.regularizers.L1(0.5),
            name="d",
        )
        tf1.train.GradientDescentOptimizer(0.1).minimize(tf1.losses.get_regularization_loss())
        return {}, None

    program = Program(step, jnp.float32(1.0))
    state, _ = program.step(program.initial, jnp.float32(1.0))
    np.testing.assert_allclose(state["d/kernel"], [[0.9]])  # 1 - 0.1 * 0.5 * 2


def test_the_regularization_has_gradients() -> None:
    def step(x: Any) -> tuple[dict[str, Any], None]:
        tf1.layers.dense(
            jnp.ones((1, 1)), 1, use_bias=False, kernel_initializer="ones", kernel_regularizer="l2", name="d"
        )
        tf1.train.GradientDescentOptimizer(1.0).minimize(tf1.losses.get_regularization_loss())
        return {}, None

    program = Program(step, jnp.float32(1.0))
    state, _ = program.step(program.initial, jnp.float32(1.0))
    np.testing.assert_allclose(state["d/kernel"], [[0.98]])  # 1 - 2 * 0.01


def test_ways_to_reduce_are_listed() -> None:
    assert tf1.losses.Reduction.SUM in tf1.losses.Reduction.all()
    tf1.losses.Reduction.validate(tf1.losses.Reduction.NONE)
    with pytest.raises(ValueError, match="Invalid Reduction Key: nothing"):
        tf1.losses.Reduction.validate("nothing")


def test_each_loss_is_collected_once() -> None:
    logits, one_hot, labels = np.float32([[1, 2], [3, 1]]), np.float32([[0, 1], [1, 0]]), np.int32([1, 0])

    def step(_: Any) -> dict[str, Any]:
        made = [
            tf1.losses.sparse_softmax_cross_entropy(labels, logits),
            tf1.losses.softmax_cross_entropy(one_hot, logits),
            tf1.losses.sigmoid_cross_entropy(one_hot, logits),
            tf1.losses.mean_squared_error(one_hot, logits),
            tf1.losses.absolute_difference(one_hot, logits),
            tf1.losses.huber_loss(one_hot, logits),
            tf1.losses.hinge_loss(one_hot, logits),
            tf1.losses.log_loss(one_hot, one_hot),
            tf1.losses.cosine_distance(one_hot, logits, axis=1),
            tf1.losses.mean_pairwise_squared_error(one_hot, logits),
        ]
        tf1.losses.sparse_softmax_cross_entropy(labels, logits, loss_collection=None)
        return {"made": tf.stack(made), "found": tf.stack(tf1.losses.get_losses())}

    outputs = outputs_of(step)
    assert outputs["found"].tolist() == outputs["made"].tolist()


def test_labels_of_softmax_are_constants_for_gradients() -> None:
    def step(x: Any) -> dict[str, Any]:
        v = tf.Variable([1.0, 2.0, 0.5], name="v")
        logits = tf.reshape(v, (1, 3))
        labels = tf.nn.softmax(logits)
        losses = {
            "old": tf1.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits),
            "reduced": tf1.losses.softmax_cross_entropy(labels, logits),
            "new": tf1.nn.softmax_cross_entropy_with_logits_v2(labels, logits),
        }
        return {name: tf1.gradients(loss, [v])[0] for name, loss in losses.items()}

    found = outputs_of(step)
    for name in ("old", "reduced"):
        np.testing.assert_allclose(found[name], np.zeros(3), atol=1e-6)
    assert np.abs(found["new"]).max() > 0.1
