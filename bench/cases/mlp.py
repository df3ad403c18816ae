"""A multilayer perceptron on images of 8 by 8 pixels, like scikit-learn's digits, in ten classes."""

import numpy as np
from bench.cases._shared import dense, start

BATCH = 64
STEPS = 3000
LEARNING_RATE = 0.1
LAYERS = (dense(BATCH, 64, 128, trains_input=False), dense(BATCH, 128, 64), dense(BATCH, 64, 10))


def data(batches):
    rng = np.random.default_rng(0)
    images = rng.random((batches * BATCH, 64), np.float32)
    labels = np.argmax(images @ rng.standard_normal((64, 10), np.float32), axis=1)
    return images, labels.astype(np.int32)


def keras_model(keras):
    layers = keras.layers
    return keras.Sequential(
        [
            layers.Dense(128, activation="relu", kernel_initializer=start(1)),
            layers.Dense(64, activation="relu", kernel_initializer=start(2)),
            layers.Dense(10, kernel_initializer=start(3)),
        ]
    )


def torch_model(torch, load):
    nn = torch.nn
    return nn.Sequential(
        load(nn.Linear(64, 128), start(1)((64, 128))),
        nn.ReLU(),
        load(nn.Linear(128, 64), start(2)((128, 64))),
        nn.ReLU(),
        load(nn.Linear(64, 10), start(3)((64, 10))),
    )
