"""Train an Estimator as one of two workers, in muster or, if it is installed, in TensorFlow."""

import os
import tempfile
import time

from two_workers import BATCH, CHECK_STEPS, LEARNING_RATE, STEPS, data, kernel, report

try:
    import tensorflow as tf

    strategy = tf.distribute.experimental.MultiWorkerMirroredStrategy()
except ImportError:
    import muster_tensorflow as tf
    from muster.distribute import MultiWorkerMirroredStrategy

    strategy = MultiWorkerMirroredStrategy()


def input_fn():
    return tf.data.Dataset.from_tensor_slices(data()).batch(BATCH, drop_remainder=True).cache().repeat()


def model_fn(features, labels, mode):
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [
            layers.Conv2D(32, 3, activation="relu", kernel_initializer=kernel),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(64, activation="relu", kernel_initializer=kernel),
            layers.Dense(10, kernel_initializer=kernel),
        ]
    )
    each = tf.keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction=tf.keras.losses.Reduction.NONE
    )(labels, model(features, training=True))
    loss = tf.identity(tf.reduce_sum(each) * (1.0 / BATCH), "loss")
    optimizer = tf.compat.v1.train.GradientDescentOptimizer(LEARNING_RATE)
    train_op = optimizer.minimize(loss, tf.compat.v1.train.get_or_create_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


class Clock(tf.estimator.SessionRunHook):
    """Read the first losses, then the loss of the last step, which waits for that step."""

    def __init__(self):
        self.losses, self.steps = [], 0

    def before_run(self, run_context):
        self.steps += 1
        read = self.steps <= CHECK_STEPS or self.steps == STEPS
        return tf.estimator.SessionRunArgs("loss:0") if read else None

    def after_run(self, run_context, run_values):
        if self.steps <= CHECK_STEPS:
            self.losses.append(run_values.results)
            self.began = time.perf_counter()
        elif self.steps == STEPS:
            report(self.losses, time.perf_counter() - self.began)


with tempfile.TemporaryDirectory() as own_dir:
    config = tf.estimator.RunConfig(
        os.environ.get("MODEL_DIR", own_dir), train_distribute=strategy, save_checkpoints_steps=10**9
    )
    estimator = tf.estimator.Estimator(model_fn, config=config)
    tf.estimator.train_and_evaluate(
        estimator,
        tf.estimator.TrainSpec(input_fn, max_steps=STEPS, hooks=[Clock()]),
        tf.estimator.EvalSpec(input_fn, steps=1),
    )
