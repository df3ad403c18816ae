"""Steps a second under ``Estimator.train``: muster's, or TensorFlow's where TensorFlow is installed."""

import tempfile
import time

from model import BATCH, STEPS, WARM_UP, build, data

try:
    import tensorflow as tf
except ImportError:
    import muster.compat.tensorflow as tf


def input_fn():
    return tf.data.Dataset.from_tensor_slices(data()).shuffle(10000).batch(BATCH)


def model_fn(features, labels, mode):
    logits = build(tf.keras)(features, training=True)
    loss = tf.keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction=tf.keras.losses.Reduction.NONE
    )(labels, logits)
    loss = tf.reduce_sum(loss) * (1.0 / BATCH)
    optimizer = tf.compat.v1.train.GradientDescentOptimizer(1e-4)
    train_op = optimizer.minimize(loss, tf.compat.v1.train.get_or_create_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


class Clock(tf.estimator.SessionRunHook):
    times = []

    def after_run(self, run_context, run_values):
        self.times.append(time.perf_counter())


with tempfile.TemporaryDirectory() as model_dir:
    tf.estimator.Estimator(model_fn, model_dir).train(input_fn, hooks=[Clock()])
print(STEPS / (Clock.times[-1] - Clock.times[WARM_UP - 1]))
