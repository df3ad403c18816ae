"""Call ``Model.fit`` as one of two workers, in muster or, if it is installed, in TensorFlow."""

import time

from two_workers import BATCH, CHECK_STEPS, LEARNING_RATE, STEPS, data, kernel, report

try:
    import tensorflow as tf

    COUNTED = 2  # its logs add the workers' mean losses
except ImportError:
    import muster_tensorflow as tf

    COUNTED = 1

strategy = tf.distribute.MultiWorkerMirroredStrategy()


class MeanLosses(tf.keras.callbacks.Callback):
    """Keep the mean loss of the steps so far, after each step."""

    def __init__(self):
        super().__init__()
        self.losses = []

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(logs["loss"] / COUNTED)


with strategy.scope():
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
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.SGD(LEARNING_RATE), loss)

dataset = strategy.distribute_datasets_from_function(
    lambda context: (
        tf.data.Dataset.from_tensor_slices(data()).batch(BATCH, drop_remainder=True).cache().repeat()
    )
)
first = MeanLosses()
model.fit(dataset, steps_per_epoch=CHECK_STEPS, verbose=0, callbacks=[first])
began = time.perf_counter()
model.fit(dataset, steps_per_epoch=STEPS - CHECK_STEPS, verbose=0)
report(first.losses, time.perf_counter() - began)
