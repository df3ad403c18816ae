"""Train a case under ``Estimator.train``: muster's, or TensorFlow's if it is installed."""

import tempfile
import time

from bench._peers._turns import CHECK_STEPS, case, next_turn, ready, steps, turn_took

try:
    import tensorflow as tf

    packages = ("tensorflow-cpu",)
except ImportError:
    import muster.compat.tensorflow as tf

    packages = ("muster", "jax", "keras")


def input_fn():
    dataset = tf.data.Dataset.from_tensor_slices(case.data(CHECK_STEPS))
    return dataset.batch(case.BATCH, drop_remainder=True).cache().repeat().prefetch(tf.data.AUTOTUNE)


def model_fn(features, labels, mode):
    model = case.keras_model(tf.keras)
    built_with = list(getattr(model, "updates", []))
    logits = model(features, training=True)
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)(labels, logits)
    loss = tf.identity(loss, "loss")
    optimizer = tf.compat.v1.train.GradientDescentOptimizer(case.LEARNING_RATE)
    train_op = optimizer.minimize(loss, tf.compat.v1.train.get_or_create_global_step())
    # In TensorFlow the program must fetch the updates of BatchNormalization's moving averages.
    updates = [u for u in getattr(model, "updates", []) if all(u is not other for other in built_with)]
    train_op = tf.group(train_op, *updates)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


class Turns(tf.estimator.SessionRunHook):
    """Read the first losses, then the loss of each turn's last step, which waits for that step."""

    def __init__(self):
        self.losses, self.left = [], 0

    def before_run(self, run_context):
        checking = len(self.losses) < CHECK_STEPS
        return tf.estimator.SessionRunArgs("loss:0") if checking or self.left == 1 else None

    def after_run(self, run_context, run_values):
        if run_values.results is None:
            self.left -= 1
            return
        if self.left:
            turn_took(time.perf_counter() - self.began)
        else:
            self.losses.append(run_values.results)
            if len(self.losses) < CHECK_STEPS:
                return
            ready(self.losses, *packages)
        if not next_turn():
            run_context.request_stop()
        self.left, self.began = steps, time.perf_counter()


with tempfile.TemporaryDirectory() as model_dir:
    tf.estimator.Estimator(model_fn, model_dir).train(input_fn, hooks=[Turns()])
