"""Steps a second under ``Model.fit`` of Keras 3 on JAX."""

import os
import time

from model import BATCH, STEPS, WARM_UP, build, data

os.environ["KERAS_BACKEND"] = "jax"

import keras

images, labels = data(STEPS)
model = build(keras)
model.compile(
    keras.optimizers.SGD(1e-4), keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=True
)
model.fit(images[: BATCH * WARM_UP], labels[: BATCH * WARM_UP], batch_size=BATCH, verbose=0)
began = time.perf_counter()
model.fit(images, labels, batch_size=BATCH, verbose=0)
print(STEPS / (time.perf_counter() - began))
