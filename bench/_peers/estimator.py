"""Train a case under ``Estimator.train``: muster's, or TensorFlow's if it is installed."""

import tempfile

from bench._peers._hook import turns_hook
from bench._peers._turns import CHECK_STEPS, case

try:
    import tensorflow as tf

    packages = ("tensorflow-cpu",)
except ImportError:
    import muster_tensorflow as tf

    packages = ("muster-train", "jax", "keras")


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


with tempfile.TemporaryDirectory() as model_dir:
    hook = turns_hook(tf, lambda: "loss:0", packages)
    tf.estimator.Estimator(model_fn, model_dir).train(input_fn, hooks=[hook])
