"""Models, optimizers and data that `fit` is tried on. Used by test_fit*.py and the conformance suite."""

import functools

import numpy as np

from muster._keras import keras

layers = keras.layers

ROWS, BATCH = 256, 32  # 8 steps an epoch
RNG = np.random.default_rng(0)
X = RNG.normal(size=(ROWS, 6)).astype(np.float32)
Y = (X @ RNG.normal(size=(6, 3)) + RNG.normal(size=(ROWS, 3))).argmax(1)
WEIGHTS = RNG.uniform(0.2, 2.0, ROWS).astype(np.float32)


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden = layers.Dense(16, activation="relu")
        self.out = layers.Dense(3)

    def call(self, x, training=False):
        return self.out(self.hidden(x))


def functional():
    x = keras.Input((6,))
    hidden = layers.BatchNormalization()(layers.Dense(16, activation="relu")(x))
    return keras.Model(x, layers.Dense(3)(hidden))


def sequential():
    return keras.Sequential(
        [
            layers.Dense(16, activation="relu"),
            layers.BatchNormalization(),
            layers.Dropout(0.2),
            layers.Dense(3),
        ]
    )


MODELS = {"sequential": sequential, "functional": functional, "subclassed": Subclassed}
OPTIMIZERS = {
    "sgd": functools.partial(keras.optimizers.SGD, 0.05, momentum=0.9),
    "adam": functools.partial(keras.optimizers.Adam, 0.01, clipnorm=1.0),
    "adagrad": functools.partial(keras.optimizers.Adagrad, 0.1),
}


def built(kind="sequential", optimizer="sgd", **compile_args):
    """A compiled model, the same one each time."""
    keras.utils.set_random_seed(7)
    model = MODELS[kind]()
    model.compile(
        OPTIMIZERS[optimizer](),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        weighted_metrics=["accuracy"],
        **compile_args,
    )
    return model


def build(strategy, **compile_args):
    """A compiled model of a strategy's, the same one each time."""
    with strategy.scope():
        return built("functional", "adam", **compile_args)


def values(model):
    """A model's weights."""
    return [np.asarray(weight.value) for weight in model.weights]


def same(found, expected):
    """Compare weights."""
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


class Batches(keras.utils.PyDataset):
    """All rows in order."""

    def __init__(self, x=X, y=Y, size=BATCH):
        super().__init__()
        self.x, self.y, self.size = x, y, size

    def __len__(self):
        return -(-len(self.x) // self.size)

    def __getitem__(self, index):
        rows = slice(index * self.size, (index + 1) * self.size)
        return self.x[rows], self.y[rows]


def generator(*batches):
    """The same batches again and again."""
    batches = Batches(*batches)
    while True:
        yield from (batches[i] for i in range(len(batches)))


class Losses(keras.callbacks.Callback):
    """The mean loss so far, after each step."""

    def __init__(self):
        super().__init__()
        self.losses = []

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(float(logs["loss"]))
