"""``tf.compat.v1.layers``."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from v1_steps import outputs_of

import muster_tensorflow.compat.v1 as tf
from muster.estimator import Estimator, ModeKeys


def test_a_model_of_tensorflow_1s_layers_trains(tmp_path: Path) -> None:
    images = np.random.default_rng(4).random((64, 8, 8, 1)).astype(np.float32)
    labels = (images.mean((1, 2, 3)) > 0.5).astype(np.int32)

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        net = tf.layers.conv2d(features, 4, 3, padding="same", activation=tf.nn.relu, name="conv")
        net = tf.layers.batch_normalization(net, training=mode == ModeKeys.TRAIN)
        net = tf.layers.max_pooling2d(net, 2, 2)
        net = tf.layers.average_pooling2d(net, 2, 2)
        net = tf.layers.dropout(tf.layers.flatten(net), 0.1, training=mode == ModeKeys.TRAIN)
        logits = tf.layers.dense(net, 2)
        loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
        with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
            train_op = tf.train.AdamOptimizer(0.01).minimize(loss, tf.train.get_global_step())
        tf.summary.scalar("loss_too", loss)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=tf.group(train_op, tf.no_op()))

    estimator = Estimator(model_fn, tmp_path)
    estimator.train(lambda: tf.data.Dataset.from_tensors((images, labels)).repeat(), max_steps=3)
    assert "conv/kernel" in estimator.get_variable_names()
    assert not np.allclose(estimator.get_variable_value("batch_normalization/moving_mean"), 0)
    assert tf.train.latest_checkpoint(tmp_path) == estimator.latest_checkpoint()


def test_reusing_a_layer_without_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="give tf.layers.Dense a name"):
        tf.layers.dense(np.zeros((2, 3), np.float32), 2, reuse=True)


def test_names_of_layers_may_have_scopes():
    def build(x):
        with tf.variable_scope("model"), tf.name_scope("fc") as scope:
            inner = tf.layers.dense(tf.reshape(x, [1, 1]), 2, name="block/last")
            outputs = tf.contrib.layers.fully_connected(inner, 3, scope=scope)
        again = tf.layers.dense(inner, 2, name="one/")
        again = tf.layers.dropout(tf.layers.flatten(again, name="two/flat"), name="two/drop")
        again = tf.layers.batch_normalization(again, name="two/norm", scale=False)
        assert [each.name for each in tf.trainable_variables()] == [
            *("model/fc/block/last/kernel:0", "model/fc/block/last/bias:0"),
            *("model/fc/model/fc/weights:0", "model/fc/model/fc/biases:0"),
            *("one/kernel:0", "one/bias:0"),
            "two/norm/beta:0",
        ]
        return {"outputs": outputs, "again": again}

    assert outputs_of(build)["outputs"].shape == (1, 3)


def test_a_layer_in_a_scope_that_is_used_again_has_the_weights_of_the_first() -> None:
    def step(_: Any) -> dict[str, Any]:
        x = np.ones((1, 2), np.float32)
        outputs = []
        for reuse in (None, True, tf.AUTO_REUSE):
            with tf.variable_scope("decoder", reuse=reuse):
                named, unnamed = tf.layers.Dense(3, name="named"), tf.layers.Dense(4)
                dropped = tf.layers.Dropout(0.5)(x) if reuse else x
                outputs.append([named(dropped), unnamed(x), named(x)])
        assert len(tf.trainable_variables()) == 4
        return {"each": outputs}

    first, *others = outputs_of(step)["each"]
    for other in others:
        jax.tree.map(np.testing.assert_array_equal, other, first)
    np.testing.assert_array_equal(first[0], first[2])


def test_layers_that_are_objects_are_found_again_by_their_place() -> None:
    def critic(x: Any) -> Any:
        x = tf.layers.Dense(4.0, activation=tf.nn.tanh)(x)
        return tf.layers.Dense(1, name="last")(tf.layers.Dense(2)(x))

    def build(_: Any) -> Any:
        x = np.ones((2, 3), np.float32)
        with tf.variable_scope("critic"):
            first = critic(x)
        with tf.variable_scope("critic", reuse=True):
            second = critic(x)
        with tf.variable_scope("critic", reuse=tf.AUTO_REUSE):
            third = critic(x)
        names = [variable.op.name for variable in tf.trainable_variables()]
        scopes = ("dense", "dense_1", "last")
        assert names == [f"critic/{scope}/{name}" for scope in scopes for name in ("kernel", "bias")]
        with (
            pytest.raises(ValueError, match="does not exist among the layers"),
            tf.variable_scope("other", reuse=True),
        ):
            tf.layers.Dense(1)(x)
        return {"first": first, "second": second, "third": third}

    found = outputs_of(build)
    np.testing.assert_array_equal(found["first"], found["second"])
    np.testing.assert_array_equal(found["first"], found["third"])


class Scale(tf.layers.Layer):
    def build(self, _):
        self.scale = tf.get_variable("scale", [2], initializer=tf.ones_initializer())
        self.built = True

    def call(self, x):
        return x * self.scale


class Stack(tf.layers.Layer):
    def __init__(self):
        super().__init__()
        self.parts = [Scale(), Scale()]
        self.out = tf.layers.Dense(2, name="out")

    def call(self, x):
        x = tf.layers.dense(x, 2)
        for number, part in enumerate(self.parts):
            with tf.variable_scope(f"layer_{number}"), tf.variable_scope("inner"):
                x = tf.layers.dense(part(x), 2)
        return self.out(x)


def test_layers_of_programs_have_variables_in_scopes_of_their_own() -> None:
    """Names are those of TensorFlow 2.15.1; a layer that is called again has the same variables."""
    calls = []

    def step(x):
        with tf.variable_scope("model"):
            stack = Stack()
            first = stack(tf.ones([3, 2]))
            with tf.variable_scope("again"):
                calls.append((first, stack(tf.ones([3, 2]))))
            y = Scale()(Scale(name="mine")(Stack()(first)))
        assert isinstance(stack.out, tf.layers.Layer)
        assert not isinstance(stack, Scale)
        names.extend(sorted(v.name.removesuffix(":0") for v in tf.global_variables()))
        return {"y": tf.reduce_sum(y), "same": tf.reduce_all(tf.equal(*calls[-1]))}

    names: list[str] = []
    assert outputs_of(step)["same"]
    expected = ["model/mine/scale", "model/scale/scale"]
    for stack in ("stack", "stack_1"):
        parts = ["dense", "layer_0/inner/dense", "layer_1/inner/dense", "out"]
        expected += [f"model/{stack}/{part}/{own}" for part in parts for own in ("bias", "kernel")]
        expected += [f"model/{stack}/layer_{number}/inner/scale/scale" for number in range(2)]
    assert sorted(set(names)) == sorted(expected)
