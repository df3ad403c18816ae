"""Train the guide's model by ``fit`` under ParameterServerStrategy of TensorFlow, or of muster without it.

It is a task of ``TF_CONFIG``. Workers and servers serve. The chief's arguments are the number of steps in an
epoch and of epochs; it prints in JSON how long each epoch took, in seconds. The first one compiles.
"""

import json
import os
import sys
import time

import numpy as np

try:
    import tensorflow as tf
except ImportError:
    import muster_tensorflow as tf

BATCH = 64


class Clock(tf.keras.callbacks.Callback):
    """Note how long each epoch takes."""

    def __init__(self):
        super().__init__()
        self.secs = []

    def on_epoch_begin(self, epoch, logs=None):
        self.began = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        self.secs.append(time.perf_counter() - self.began)


def dataset_fn(context):
    rng = np.random.default_rng()  # other images for each worker
    images = rng.random((BATCH * 50, 28, 28, 1), dtype=np.float32)
    labels = rng.integers(0, 10, len(images)).astype(np.int32)
    return (
        tf.data.Dataset.from_tensor_slices((images, labels))
        .batch(BATCH, drop_remainder=True)
        .cache()
        .repeat()
        .prefetch(2)
    )


resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type in ("worker", "ps"):
    # With a thread, as TensorFlow has on one core, its workers wait for themselves.
    config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=3)
    tf.distribute.Server(
        resolver.cluster_spec(),
        job_name=resolver.task_type,
        task_index=resolver.task_id,
        protocol="grpc",
        config=config,
    ).join()
    sys.exit()
layers = tf.keras.layers
with tf.distribute.ParameterServerStrategy(resolver).scope():
    model = tf.keras.Sequential(
        [
            layers.Conv2D(32, 3, activation="relu", input_shape=(28, 28, 1)),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(10),
        ]
    )
    model.compile(
        tf.keras.optimizers.SGD(0.01), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
clock = Clock()
model.fit(
    tf.keras.utils.experimental.DatasetCreator(dataset_fn),
    steps_per_epoch=int(sys.argv[1]),
    epochs=int(sys.argv[2]),
    verbose=0,
    callbacks=[clock],
)
print(json.dumps(clock.secs), flush=True)
os._exit(0)  # TensorFlow's coordinator may wait for its workers
