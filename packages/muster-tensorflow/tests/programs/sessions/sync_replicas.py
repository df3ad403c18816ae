"""Workers in step beside a parameter server: `sync_replicas_before.py` as a model_fn, started with TF_CONFIG."""

import os

import numpy as np

import muster_tensorflow.compat.v1 as tf

flags = tf.app.flags
flags.DEFINE_string("train_dir", os.path.join(os.environ.get("WORK", "/tmp"), "sync_replicas"), "")
FLAGS = flags.FLAGS


def input_fn():
    x = np.linspace(-1, 1, 64, dtype=np.float32)[:, None]
    return tf.data.Dataset.from_tensor_slices((x, 3 * x + 1)).shuffle(64).repeat().batch(16)


def model_fn(features, labels, mode, config):
    outputs = tf.layers.dense(features, 1, name="line")
    loss = tf.losses.mean_squared_error(labels, outputs)
    workers = config.num_worker_replicas
    optimizer = tf.train.SyncReplicasOptimizer(
        tf.train.GradientDescentOptimizer(0.2), replicas_to_aggregate=workers, total_num_replicas=workers
    )
    train_op = optimizer.minimize(loss, global_step=tf.train.get_global_step())
    hooks = [
        optimizer.make_session_run_hook(config.is_chief),
        tf.train.LoggingTensorHook({"loss": loss}, every_n_iter=10),
    ]
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=hooks)


def main(unused_argv):
    config = tf.estimator.RunConfig(model_dir=FLAGS.train_dir, max_staleness=0)
    estimator = tf.estimator.Estimator(model_fn, config=config)
    tf.estimator.train_and_evaluate(
        estimator,
        tf.estimator.TrainSpec(input_fn, max_steps=40),
        tf.estimator.EvalSpec(input_fn, steps=4),
    )
    if config.is_chief:
        loss = estimator.evaluate(input_fn, steps=4)["loss"]
        print("loss", loss)
        assert loss < 0.05
    print("ok")


if __name__ == "__main__":
    tf.app.run()
