"""A generator and a discriminator in one model_fn, told apart by the names of their variables."""

import tempfile

import numpy as np

import muster_tensorflow.compat.v1 as tf

NOISE, SIZE, BATCH = 4, 2, 64


def generator(noise, reuse=None):
    with tf.variable_scope("generator", reuse=reuse):
        net = tf.layers.dense(noise, 32, activation=tf.nn.relu)
        net = tf.layers.dense(net, 32, activation=tf.nn.relu)
        return tf.layers.dense(net, SIZE)


def discriminator(points, reuse=None):
    with tf.variable_scope("discriminator", reuse=reuse):
        net = tf.layers.dense(points, 32, activation=tf.nn.leaky_relu)
        net = tf.layers.dense(net, 32, activation=tf.nn.leaky_relu)
        return tf.layers.dense(net, 1)


def model_fn(features, labels, mode, params):
    noise = features["noise"]
    fake = generator(noise)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"points": fake})
    real_logits = discriminator(features["real"])
    fake_logits = discriminator(fake, reuse=True)

    d_loss = tf.reduce_mean(
        tf.nn.sigmoid_cross_entropy_with_logits(logits=real_logits, labels=tf.ones_like(real_logits))
    ) + tf.reduce_mean(
        tf.nn.sigmoid_cross_entropy_with_logits(logits=fake_logits, labels=tf.zeros_like(fake_logits))
    )
    g_loss = tf.reduce_mean(
        tf.nn.sigmoid_cross_entropy_with_logits(logits=fake_logits, labels=tf.ones_like(fake_logits)),
        name="generator_loss",
    )
    tf.summary.scalar("d_loss", d_loss)
    t_vars = tf.trainable_variables()
    d_vars = [var for var in t_vars if var.name.startswith("discriminator")]
    g_vars = [var for var in t_vars if "generator" in var.name]
    assert len(d_vars) == len(g_vars) == 6
    assert len(t_vars) == 12

    d_optimizer = tf.train.AdamOptimizer(params["rate"], beta1=0.5, name="d_adam")
    g_optimizer = tf.train.AdamOptimizer(params["rate"], beta1=0.5, name="g_adam")
    d_train = d_optimizer.minimize(d_loss, var_list=d_vars)
    with tf.control_dependencies([d_train]):
        g_train = g_optimizer.minimize(g_loss, var_list=g_vars, global_step=tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=d_loss, train_op=tf.group(d_train, g_train))


def input_fn():
    def points():
        rng = np.random.default_rng(0)
        while True:
            real = (rng.normal(0, 0.2, (BATCH, SIZE)) + [2, -1]).astype(np.float32)
            yield {"real": real, "noise": rng.normal(size=(BATCH, NOISE)).astype(np.float32)}

    return tf.data.Dataset.from_generator(
        points,
        output_types={"real": tf.float32, "noise": tf.float32},
        output_shapes={"real": [BATCH, SIZE], "noise": [BATCH, NOISE]},
    )


class Curves(tf.train.SessionRunHook):
    def __init__(self):
        self.losses = []

    def before_run(self, run_context):
        return tf.train.SessionRunArgs({"d": "loss", "g": "generator_loss:0"})

    def after_run(self, run_context, run_values):
        self.losses.append(run_values.results)


def main(argv):
    curves = Curves()
    gan = tf.estimator.Estimator(
        model_fn, tempfile.mkdtemp(), tf.estimator.RunConfig(tf_random_seed=1), {"rate": 0.002}
    )
    gan.train(input_fn, steps=500, hooks=[curves])
    noise = np.random.default_rng(1).normal(size=(500, NOISE)).astype(np.float32)
    predict_input_fn = tf.estimator.inputs.numpy_input_fn({"noise": noise}, shuffle=False)
    made = np.array([each["points"] for each in gan.predict(predict_input_fn)])
    print(made.mean(0), made.std(0), curves.losses[-1])
    assert len(curves.losses) == 500
    assert np.isfinite(curves.losses[-1]["g"])
    assert np.abs(made.mean(0) - [2, -1]).max() < 1.5
    print("ok")


if __name__ == "__main__":
    tf.logging.set_verbosity(tf.logging.ERROR)
    tf.app.run(main)
