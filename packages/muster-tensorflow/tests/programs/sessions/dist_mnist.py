"""Workers and parameter servers of flags: the step of `dist_mnist_before.py` as a model_fn."""

import json
import os

import numpy as np

import muster_tensorflow.compat.v1 as tf

flags = tf.app.flags
flags.DEFINE_string("ps_hosts", "", "Comma-separated list of hostname:port pairs")
flags.DEFINE_string("worker_hosts", "", "Comma-separated list of hostname:port pairs")
flags.DEFINE_string("job_name", None, "job name: worker or ps")
flags.DEFINE_integer("task_index", 0, "Worker task index, should be >= 0")
flags.DEFINE_integer("hidden_units", 16, "Number of units in the hidden layer")
flags.DEFINE_integer("train_steps", 60, "Number of global training steps")
flags.DEFINE_integer("batch_size", 32, "Training batch size")
flags.DEFINE_float("learning_rate", 0.05, "Learning rate")
flags.DEFINE_string("train_dir", os.path.join(os.environ.get("WORK", "/tmp"), "dist_mnist"), "Checkpoints")
FLAGS = flags.FLAGS


def read_data(count=320, seed=0):
    rng = np.random.RandomState(seed)
    labels = rng.randint(0, 4, count)
    images = rng.rand(count, 16).astype(np.float32) * 0.5
    images[np.arange(count), 3 * labels] += 1
    return images, np.eye(4, dtype=np.float32)[labels]


def describe_the_cluster():
    """The flags as TF_CONFIG: the first worker is the chief."""
    chief, *workers = FLAGS.worker_hosts.split(",")
    cluster = {"chief": [chief], "worker": workers, "ps": FLAGS.ps_hosts.split(",")}
    task = {"type": FLAGS.job_name, "index": FLAGS.task_index}
    if FLAGS.job_name == "worker":
        task = (
            {"type": "worker", "index": FLAGS.task_index - 1}
            if FLAGS.task_index
            else {"type": "chief", "index": 0}
        )
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {k: v for k, v in cluster.items() if v}, "task": task})


def input_fn(params):
    images, labels = read_data()
    dataset = tf.data.Dataset.from_tensor_slices((images, labels))
    return dataset.shuffle(len(images)).repeat().batch(params["batch_size"])


def model_fn(features, labels, mode, params):
    x, y_ = features, labels
    hid_w = tf.get_variable(
        "hid_w", [16, params["hidden_units"]], initializer=tf.truncated_normal_initializer(stddev=0.25)
    )
    hid_b = tf.get_variable("hid_b", [params["hidden_units"]], initializer=tf.zeros_initializer())
    sm_w = tf.get_variable(
        "sm_w", [params["hidden_units"], 4], initializer=tf.truncated_normal_initializer(stddev=0.25)
    )
    sm_b = tf.get_variable("sm_b", [4], initializer=tf.zeros_initializer())
    hid = tf.nn.relu(tf.nn.xw_plus_b(x, hid_w, hid_b))
    y = tf.nn.softmax(tf.nn.xw_plus_b(hid, sm_w, sm_b))
    cross_entropy = -tf.reduce_mean(tf.reduce_sum(y_ * tf.log(tf.clip_by_value(y, 1e-10, 1.0)), 1))
    train_step = tf.train.AdamOptimizer(params["learning_rate"]).minimize(
        cross_entropy, global_step=tf.train.get_global_step()
    )
    accuracy = tf.metrics.accuracy(tf.argmax(y_, 1), tf.argmax(y, 1))
    return tf.estimator.EstimatorSpec(
        mode, loss=cross_entropy, train_op=train_step, eval_metric_ops={"accuracy": accuracy}
    )


def main(unused_argv):
    if FLAGS.job_name:
        describe_the_cluster()
    estimator = tf.estimator.Estimator(model_fn, FLAGS.train_dir, params=FLAGS.flag_values_dict())
    tf.estimator.train_and_evaluate(
        estimator,
        tf.estimator.TrainSpec(input_fn, max_steps=FLAGS.train_steps),
        tf.estimator.EvalSpec(input_fn, steps=10),
    )
    if estimator.config.is_chief:
        found = estimator.evaluate(input_fn, steps=10)
        print("global step", found["global_step"], "accuracy", found["accuracy"])
        assert found["global_step"] == FLAGS.train_steps
        assert found["accuracy"] > 0.8
    print("ok")


if __name__ == "__main__":
    tf.app.run()
