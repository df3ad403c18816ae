"""A program for TensorFlow 1 with what such programs have: after ``muster port --write`` it trains."""

import subprocess
import sys
from pathlib import Path

import pytest

from muster.__main__ import main

pytestmark = pytest.mark.processes

PROGRAM = '''\
"""Classifies points, by a network of TensorFlow 1's layers."""

import os

import numpy as np
import tensorflow as tf
from tensorflow.contrib.learn import RunConfig

flags = tf.app.flags
FLAGS = flags.FLAGS
flags.DEFINE_string("model_dir", "", "Where checkpoints go.")
flags.DEFINE_integer("steps", 20, "How many steps to train.")
layers = tf.layers


def write_data(path):
    rng = np.random.RandomState(0)
    with tf.gfile.GFile(path, "w") as out:
        for x, y in rng.uniform(-1, 1, (64, 2)):
            out.write("%f,%f,%d\\n" % (x, y, x > y))


def input_fn(path, repeat):
    def parse(line):
        x, y, label = tf.decode_csv(line, [[0.0], [0.0], [0]])
        return {"point": tf.stack([x, y])}, label

    dataset = tf.data.TextLineDataset(path).map(parse)
    if repeat:
        dataset = dataset.apply(tf.contrib.data.shuffle_and_repeat(64, seed=1))
    features, labels = dataset.batch(16).make_one_shot_iterator().get_next()
    return features, labels


def model_fn(features, labels, mode, params):
    training = mode == tf.estimator.ModeKeys.TRAIN
    net = features["point"]
    with tf.variable_scope("net", reuse=tf.AUTO_REUSE, initializer=tf.glorot_uniform_initializer(seed=3)):
        net = layers.dense(net, params["units"], activation=tf.nn.relu, name="hidden")
        net = layers.dropout(net, rate=0.1, training=training)
        scale = tf.get_variable("scale", [params["units"]], initializer=tf.ones_initializer())
        logits = layers.dense(net * scale, 2, name="logits")
    classes = tf.argmax(logits, axis=1)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"class": classes})
    loss = tf.losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)
    loss += 1e-4 * tf.add_n([tf.nn.l2_loss(v) for v in tf.trainable_variables()])
    metrics = {"accuracy": tf.metrics.accuracy(labels, classes)}
    tf.summary.scalar("mean_logit", tf.reduce_mean(logits, reduction_indices=[0, 1]))
    step = tf.train.get_or_create_global_step()
    rate = tf.train.exponential_decay(0.1, step, 100, 0.9)
    optimizer = tf.train.AdamOptimizer(rate)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train_op = optimizer.minimize(loss, global_step=step)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


def main(_):
    tf.set_random_seed(1)
    path = os.path.join(FLAGS.model_dir, "data.csv")
    tf.gfile.MakeDirs(FLAGS.model_dir)
    write_data(path)
    config = RunConfig(save_checkpoints_steps=100, tf_random_seed=1)
    estimator = tf.estimator.Estimator(model_fn, FLAGS.model_dir, config, params={"units": 8})
    hook = tf.train.StopAtStepHook(last_step=FLAGS.steps)
    estimator.train(lambda: input_fn(path, True), hooks=[hook])
    found = estimator.evaluate(lambda: input_fn(path, False))
    print("accuracy %.2f at %d" % (found["accuracy"], found["global_step"]))


if __name__ == "__main__":
    tf.logging.set_verbosity(tf.logging.ERROR)
    tf.app.run()
'''


def test_a_program_for_tensorflow_1_trains_once_its_imports_are_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    assert main(["port", "--write", str(program)]) == 0, capsys.readouterr().out
    changed = [
        (old, new)
        for old, new in zip(PROGRAM.splitlines(), program.read_text().splitlines(), strict=True)
        if old != new
    ]
    assert changed == [
        ("import tensorflow as tf", "import muster_tensorflow.compat.v1 as tf"),
        (
            "from tensorflow.contrib.learn import RunConfig",
            "from muster_tensorflow.contrib.learn import RunConfig",
        ),
    ]
    words = [sys.executable, str(program), "--model_dir", str(tmp_path / "model"), "--steps=60"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-3000:]
    accuracy = float(done.stdout.split()[1])
    assert done.stdout.split()[2:] == ["at", "60"]
    assert accuracy > 0.9
