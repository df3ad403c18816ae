"""One process: `fed_session_before.py` as a model_fn, where what was fed is data, or follows from the mode."""

import os
import tempfile

import numpy as np

import muster_tensorflow.compat.v1 as tf

LOGS = tempfile.mkdtemp()
rng = np.random.RandomState(0)
labels = rng.randint(0, 3, 400)
images = rng.rand(400, 9).astype(np.float32)
images[np.arange(400), 2 * labels] += 1


def train_input_fn():
    dataset = tf.data.Dataset.from_tensor_slices((images[:300], labels[:300]))
    return dataset.shuffle(300).repeat().batch(32)


def test_input_fn():
    return tf.data.Dataset.from_tensor_slices((images[300:], labels[300:])).batch(100)


def model_fn(features, labels, mode):
    x, y_ = features, labels
    keep_prob = 0.8 if mode == tf.estimator.ModeKeys.TRAIN else 1.0
    net = tf.layers.dense(x, 16, tf.nn.relu, name="hidden")
    net = tf.nn.dropout(net, keep_prob)
    y = tf.layers.dense(net, 3, name="logits")
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"class": tf.argmax(y, 1)})
    cross_entropy = tf.losses.sparse_softmax_cross_entropy(labels=y_, logits=y)
    tf.summary.scalar("cross_entropy", cross_entropy)
    global_step = tf.train.get_or_create_global_step()
    rate = tf.train.exponential_decay(0.05, global_step, 50, 0.9)
    train_step = tf.train.AdamOptimizer(rate).minimize(cross_entropy, global_step=global_step)
    accuracy = tf.metrics.accuracy(y_, tf.argmax(y, 1))
    return tf.estimator.EstimatorSpec(
        mode, loss=cross_entropy, train_op=train_step, eval_metric_ops={"accuracy": accuracy}
    )


config = tf.estimator.RunConfig(
    model_dir=LOGS, save_checkpoints_steps=20, keep_checkpoint_max=2, save_summary_steps=1
)
estimator = tf.estimator.Estimator(model_fn, config=config)
found, _ = tf.estimator.train_and_evaluate(
    estimator,
    tf.estimator.TrainSpec(train_input_fn, max_steps=60),
    tf.estimator.EvalSpec(test_input_fn, throttle_secs=0),
)
print("step %d, test accuracy %g" % (found["global_step"], found["accuracy"]))
assert found["accuracy"] > 0.9
assert len([name for name in os.listdir(LOGS) if name.startswith("ckpt-")]) == 2, os.listdir(LOGS)
assert len(list(estimator.predict(test_input_fn))) == 100
print("ok")
