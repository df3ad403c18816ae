"""Ratings by factors of users and items: variables in scopes, collected losses, moving averages, HParams."""

import tempfile

import numpy as np

import muster_tensorflow.compat.v1 as tf
from muster_tensorflow.contrib.training import HParams


def ratings(seed=0):
    rng = np.random.default_rng(seed)
    users, items = rng.normal(size=(20, 2)), rng.normal(size=(30, 2))
    u, i = rng.integers(0, 20, 3000), rng.integers(0, 30, 3000)
    y = (users[u] * items[i]).sum(1) + 3
    return {"user": u.astype(np.int32), "item": i.astype(np.int32)}, y.astype(np.float32)


def table(name, rows, hparams):
    with tf.variable_scope("factors", reuse=tf.AUTO_REUSE):
        return tf.get_variable(
            name,
            [rows, hparams.rank],
            initializer=tf.truncated_normal_initializer(stddev=0.3),
            regularizer=tf.contrib.layers.l2_regularizer(hparams.l2),
            partitioner=tf.fixed_size_partitioner(1),
        )


def model_fn(features, labels, mode, params):
    hparams = params
    user, item = table("users", 20, hparams), table("items", 30, hparams)
    again = table("users", 20, hparams)
    assert again is user
    bias = tf.get_variable("bias", [], initializer=tf.constant_initializer(0.0))
    with tf.name_scope("score"):
        dot = tf.reduce_sum(
            tf.nn.embedding_lookup(user, features["user"]) * tf.nn.embedding_lookup(item, features["item"]),
            axis=1,
            name="dot",
        )
    predictions = dot + bias
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"rating": predictions})

    tf.losses.mean_squared_error(labels, predictions)
    tf.add_to_collection("watched", tf.reduce_max(tf.abs(predictions)))
    loss = tf.losses.get_total_loss()
    global_step = tf.train.get_or_create_global_step()
    average = tf.train.ExponentialMovingAverage(0.9, global_step)
    train_op = None
    if mode == tf.estimator.ModeKeys.TRAIN:
        optimizer = tf.train.AdamOptimizer(
            tf.train.inverse_time_decay(hparams.learning_rate, global_step, 200, 0.5)
        )
        gradients = optimizer.compute_gradients(loss, tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES))
        clipped = [(tf.clip_by_value(g, -1.0, 1.0), v) for g, v in gradients if g is not None]
        apply_op = optimizer.apply_gradients(clipped, global_step=global_step)
        with tf.control_dependencies([apply_op]):
            train_op = average.apply([user, item])
        tf.summary.scalar("largest", tf.get_collection("watched")[0])
        tf.summary.scalar("weights", tf.losses.get_regularization_loss())
    metrics = {
        "rmse": tf.metrics.root_mean_squared_error(labels, predictions),
        "mae": tf.metrics.mean_absolute_error(labels, predictions),
        "close": tf.metrics.percentage_below(tf.abs(labels - predictions), 0.5),
    }
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


def main(argv):
    hparams = HParams(rank=4, l2=1e-4, learning_rate=0.01, name="mf")
    hparams.parse("learning_rate=0.03,rank=3")
    assert hparams.values() == {"rank": 3, "l2": 1e-4, "learning_rate": 0.03, "name": "mf"}
    x, y = ratings()
    config = tf.contrib.learn.RunConfig(model_dir=tempfile.mkdtemp(), tf_random_seed=3)
    estimator = tf.estimator.Estimator(model_fn, params=hparams, config=config)
    train_input_fn = tf.estimator.inputs.numpy_input_fn(x, y, 100, num_epochs=20, shuffle=True)
    eval_input_fn = tf.estimator.inputs.numpy_input_fn(x, y, 500, num_epochs=1, shuffle=False)
    before = estimator.train(train_input_fn, steps=1).evaluate(eval_input_fn)
    estimator.train(train_input_fn)
    after = estimator.evaluate(eval_input_fn)
    print(before, after)

    names = estimator.get_variable_names()
    shadow = "factors/users/ExponentialMovingAverage"
    assert shadow in names
    distance = np.abs(estimator.get_variable_value(shadow) - estimator.get_variable_value("factors/users"))
    assert 0 < distance.max() < 0.5
    assert after["rmse"] < 0.3 * before["rmse"]
    assert after["close"] > 0.7
    print("ok")


if __name__ == "__main__":
    tf.app.run(main)
