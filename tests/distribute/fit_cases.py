"""What `fit`, `evaluate` and `predict` are tried on: the same under every strategy. Used by test_fit*.py."""

import contextlib
import functools
from dataclasses import dataclass

import numpy as np

from muster._keras import keras
from muster.data import Dataset

layers = keras.layers

ROWS, BATCH, EPOCHS = 250, 32, 7  # 8 steps an epoch, the last one of 26 rows
RNG = np.random.default_rng(0)
X = RNG.normal(size=(ROWS, 6)).astype(np.float32)
Y = (X @ RNG.normal(size=(6, 3)) + RNG.normal(size=(ROWS, 3))).argmax(1)
WEIGHTS = RNG.uniform(0.2, 2.0, ROWS).astype(np.float32)
CLASSES = {0: 1.0, 1: 0.5, 2: 2.0}


@dataclass(frozen=True)
class Case:
    """One way to train: which model, optimizer and data."""

    model: str
    optimizer: str
    data: str

    def __str__(self):
        return f"{self.model}-{self.optimizer}-{self.data}"


# Every pair of values of two of the three occurs.
CASES = [
    Case("sequential", "sgd", "arrays"),
    Case("functional", "adam", "shuffled"),
    Case("subclassed", "adagrad", "weighted"),
    Case("sequential", "adam", "dataset"),
    Case("functional", "adagrad", "classes"),
    Case("subclassed", "sgd", "generator"),
    Case("sequential", "adagrad", "pydataset"),
    Case("functional", "sgd", "weighted dataset"),
    Case("subclassed", "adam", "distributed"),
]


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden = layers.Dense(16, activation="relu")
        self.drop = layers.Dropout(0.2)
        self.out = layers.Dense(3)

    def call(self, x, training=False):
        return self.out(self.drop(self.hidden(x), training=training))


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


class Batches(keras.utils.PyDataset):
    def __len__(self):
        return -(-ROWS // BATCH)

    def __getitem__(self, index):
        rows = slice(index * BATCH, (index + 1) * BATCH)
        return X[rows], Y[rows]


def generator():
    while True:
        yield from (Batches()[i] for i in range(len(Batches())))


def arguments(data, strategy):
    """What fit is given."""
    whole = {"x": X, "y": Y, "batch_size": BATCH, "shuffle": False}
    match data:
        case "arrays":
            return whole
        case "shuffled":
            return whole | {"shuffle": True}
        case "weighted":
            return whole | {"sample_weight": WEIGHTS}
        case "classes":
            return whole | {"class_weight": CLASSES}
        case "generator":
            return {"x": generator(), "steps_per_epoch": len(Batches()), "shuffle": False}
        case "pydataset":
            return {"x": Batches()}
        case "dataset":
            return {"x": Dataset.from_tensor_slices((X, Y)).shuffle(ROWS).batch(BATCH)}
        case "weighted dataset":
            return {"x": Dataset.from_tensor_slices((X, Y, WEIGHTS)).batch(BATCH)}
        case "distributed":
            dataset = Dataset.from_tensor_slices((X, Y)).batch(BATCH)
            return {"x": strategy.experimental_distribute_dataset(dataset), "class_weight": CLASSES}
    raise ValueError(data)


class Losses(keras.callbacks.Callback):
    """The mean loss so far, after each step."""

    def __init__(self):
        super().__init__()
        self.losses = []

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(float(logs["loss"]))


def outcome(strategy, case):
    """Train, evaluate and predict under a strategy, or without, and say all that came of it, as JSON."""
    with strategy.scope() if strategy is not None else contextlib.nullcontext():
        model = built(case.model, case.optimizer)
    losses = Losses()
    history = model.fit(
        **arguments(case.data, strategy),
        epochs=EPOCHS,
        verbose=0,
        callbacks=[losses],
        validation_data=(X, Y, WEIGHTS),
        validation_batch_size=BATCH,
    )
    evaluated = model.evaluate(X, Y, batch_size=BATCH, verbose=0, return_dict=True)
    predicted = model.predict(X, batch_size=BATCH, verbose=0)
    return {
        "losses": losses.losses,
        "history": {name: [float(v) for v in values] for name, values in history.history.items()},
        "evaluated": evaluated,
        "predicted": predicted.tolist(),
        "weights": [np.asarray(weight.value).tolist() for weight in model.weights],
    }


def check_same(found, expected):
    """Compare outcomes as the same training on other devices."""
    assert len(expected["losses"]) >= 50
    np.testing.assert_allclose(found["losses"], expected["losses"], atol=1e-5)
    assert found["history"].keys() == expected["history"].keys()
    for name, values in expected["history"].items():
        np.testing.assert_allclose(found["history"][name], values, atol=2e-5, err_msg=name)
    for name, value in expected["evaluated"].items():
        np.testing.assert_allclose(found["evaluated"][name], value, atol=2e-5, err_msg=name)
    np.testing.assert_allclose(found["predicted"], expected["predicted"], rtol=1e-4, atol=2e-5)
    for weight, same in zip(found["weights"], expected["weights"], strict=True):
        np.testing.assert_allclose(weight, same, rtol=1e-4, atol=1e-5)
