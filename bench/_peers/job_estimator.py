"""Train an Estimator as one of two workers, in muster or, if it is installed, in TensorFlow."""

import json
import os

from job import BATCH, LEARNING_RATE, Log, arguments, data

try:
    import tensorflow as tf

    strategy = tf.distribute.experimental.MultiWorkerMirroredStrategy()
except ImportError:
    import muster_tensorflow as tf
    from muster.distribute import MultiWorkerMirroredStrategy

    strategy = MultiWorkerMirroredStrategy()

FOLDER, STEPS, SAVE_STEPS, PAUSE_SECS = arguments()
WORKER = json.loads(os.environ["TF_CONFIG"])["task"]["index"]


def input_fn(input_context=None):
    images, labels, numbers = data()
    dataset = tf.data.Dataset.from_tensor_slices(({"image": images, "number": numbers}, labels))
    return dataset.shard(2, WORKER).batch(BATCH, drop_remainder=True).repeat()


def model_fn(features, labels, mode):
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [
            layers.Conv2D(32, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(10),
        ]
    )
    each = tf.keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction=tf.keras.losses.Reduction.NONE
    )(labels, model(features["image"], training=True))
    loss = tf.reduce_sum(each) * (1.0 / BATCH)
    tf.identity(tf.reduce_min(features["number"]), "first")
    optimizer = tf.compat.v1.train.GradientDescentOptimizer(LEARNING_RATE)
    train_op = optimizer.minimize(loss, tf.compat.v1.train.get_or_create_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


class Notes(tf.estimator.SessionRunHook):
    """Note the steps in the log, and in each batch the least number of an example."""

    def __init__(self):
        self.log = Log(FOLDER, WORKER, STEPS, PAUSE_SECS)
        saved = tf.train.latest_checkpoint(str(FOLDER / "model"))  # PREFIX-STEP
        self.step = int(saved.rpartition("-")[2]) if saved else 0

    def before_run(self, run_context):
        self.step += 1
        return tf.estimator.SessionRunArgs("first:0") if self.log.wants(self.step) else None

    def after_run(self, run_context, run_values):
        if run_values.results is not None:
            self.log.note(self.step, run_values.results)


config = tf.estimator.RunConfig(
    str(FOLDER / "model"), train_distribute=strategy, save_checkpoints_steps=SAVE_STEPS
)
tf.estimator.train_and_evaluate(
    tf.estimator.Estimator(model_fn, config=config),
    tf.estimator.TrainSpec(input_fn, max_steps=STEPS, hooks=[Notes()]),
    tf.estimator.EvalSpec(input_fn, steps=1, start_delay_secs=10**6, throttle_secs=10**6),
)
