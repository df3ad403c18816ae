"""The model and the data that every peer trains: the guide's, on random images, in batches of 64."""

import sys

import numpy as np

BATCH = 64
WARM_UP = 20
STEPS = int(sys.argv[1])


def data(batches=WARM_UP + STEPS):
    rng = np.random.default_rng(0)
    images = rng.random((BATCH * batches, 28, 28, 1), dtype=np.float32)
    return images, rng.integers(0, 10, len(images))


def build(keras):
    layers = keras.layers
    return keras.Sequential(
        [
            layers.Conv2D(32, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(10),
        ]
    )
