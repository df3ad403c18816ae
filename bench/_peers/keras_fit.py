"""Train a case with Keras 3's ``Model.fit`` on JAX."""

import os

os.environ["KERAS_BACKEND"] = "jax"

import jax
import keras
import numpy as np
from bench._peers._turns import CHECK_STEPS, case, ready, serve, steps


class Losses(keras.callbacks.Callback):
    """Recover each batch's loss from the running mean that Keras logs."""

    def on_train_begin(self, logs=None):
        self.means = []

    def on_train_batch_end(self, batch, logs=None):
        self.means.append(float(logs["loss"]))

    def each(self):
        return np.diff(np.array(self.means) * np.arange(1, len(self.means) + 1), prepend=0.0)


def fit(batches, callbacks=()):
    examples = np.arange(batches * case.BATCH) % (CHECK_STEPS * case.BATCH)
    features, labels = jax.tree.map(lambda array: array[examples], data)
    return lambda: model.fit(
        features, labels, case.BATCH, verbose=0, callbacks=list(callbacks), shuffle=False
    )


data = case.data(CHECK_STEPS)
model = case.keras_model(keras)
model.compile(
    keras.optimizers.SGD(case.LEARNING_RATE), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
)
losses = Losses()
fit(CHECK_STEPS, [losses])()
ready(losses.each(), "keras", "jax")
serve(fit(steps))
