"""What the conformance suite trains, by fit and in loops, on one device and under strategies.

Used by test_conformance.py and test_conformance_multiprocess.py. The loops are in conformance_loops.py.
"""

from dataclasses import dataclass, replace

import fit_cases
import numpy as np
from fit_cases import MODELS, OPTIMIZERS, Batches, Losses, generator

from muster._keras import keras
from muster.data import Dataset
from muster.distribute import get_strategy

# 11 steps an epoch, the last one of 7 rows: neither 2, 3, 4 nor 8 replicas can share them.
ROWS, BATCH, EPOCHS = 247, 24, 5
X, Y, WEIGHTS = fit_cases.X[:ROWS], fit_cases.Y[:ROWS], fit_cases.WEIGHTS[:ROWS]
CLASSES = {0: 1.0, 1: 0.5, 2: 2.0}

FIT_DATA = (
    "arrays",
    "shuffled",
    "weighted",
    "dataset",
    "classes",
    "generator",
    "pydataset",
    "weighted dataset",
    "distributed",
)
# What gives Keras alone the same batches, as arrays.
ARRAYS = {
    "generator": "arrays",
    "weighted dataset": "weighted",
    "distributed": "classes",
}
LOOP_DATA = ("shuffled", "weighted", "from function")


@dataclass(frozen=True)
class Case:
    """One way to train, and what: ``way`` is "fit", or "tape" or "native" for custom loops."""

    way: str
    model: str
    optimizer: str
    data: str

    def __str__(self):
        return f"{self.way}-{self.model}-{self.optimizer}-{self.data}"


def _cases(number):
    """Three cases: each way, each model and each optimizer once."""
    places = [((number + turn) % 3, (number + number // 3 + turn) % 3) for turn in range(3)]
    (fit, tape, native) = [(list(MODELS)[model], list(OPTIMIZERS)[optimizer]) for model, optimizer in places]
    return [
        Case("fit", *fit, FIT_DATA[number]),
        Case("tape", *tape, LOOP_DATA[sum(places[1]) % 3]),
        Case("native", *native, LOOP_DATA[(places[2][0] + 2 * places[2][1]) % 3]),
    ]


_DISTRIBUTED = (
    "one device",
    "mirrored 1",
    "mirrored 2",
    "mirrored 3",
    "mirrored 8",
    "central storage 2",
    "tpu 4",
    "workers 2",
    "workers 3",
)
# By the strategy that each is tried under; fit without one is what the others are compared with.
CASES = {name: _cases(number) for number, name in enumerate(_DISTRIBUTED)}
CASES["default"] = CASES["mirrored 1"][1:]


def built(case):
    """The model of a case and its optimizer, the same each time."""
    keras.utils.set_random_seed(7)
    return MODELS[case.model](), OPTIMIZERS[case.optimizer]()


def same_weights(found, expected):
    for weight, same in zip(found, expected, strict=True):
        np.testing.assert_allclose(weight, same, rtol=1e-4, atol=1e-6)


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
    same_weights(found["weights"], expected["weights"])


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
            return {"x": generator(X, Y, BATCH), "steps_per_epoch": -(-ROWS // BATCH), "shuffle": False}
        case "pydataset":
            return {"x": Batches(X, Y, BATCH)}
        case "dataset":
            return {"x": Dataset.from_tensor_slices((X, Y)).shuffle(ROWS).batch(BATCH)}
        case "weighted dataset":
            return {"x": Dataset.from_tensor_slices((X, Y, WEIGHTS)).batch(BATCH)}
        case "distributed":
            dataset = Dataset.from_tensor_slices((X, Y)).batch(BATCH)
            return {"x": strategy.experimental_distribute_dataset(dataset), "class_weight": CLASSES}
    raise ValueError(data)


def by_keras(case):
    """What fit is to come to: what it does without a strategy, on arrays if they give the same batches."""
    return fitted(get_strategy(), replace(case, data=ARRAYS.get(case.data, case.data)))


def fitted(strategy, case):
    """Train by fit, evaluate and predict, and say all that came of it, as JSON."""
    with strategy.scope():
        model, optimizer = built(case)
        model.compile(
            optimizer,
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
            weighted_metrics=["accuracy"],
        )
    losses = Losses()
    history = model.fit(
        **arguments(case.data, strategy),
        epochs=EPOCHS,
        verbose=0,
        callbacks=[losses],
        validation_data=(X, Y, WEIGHTS),
        validation_batch_size=BATCH,
    )
    evaluated = model.evaluate(X, Y, BATCH, sample_weight=WEIGHTS, verbose=0, return_dict=True)
    predicted = model.predict(X, batch_size=BATCH, verbose=0)
    return {
        "losses": losses.losses,
        "history": {name: [float(v) for v in values] for name, values in history.history.items()},
        "evaluated": evaluated,
        "predicted": predicted.tolist(),
        "weights": [np.asarray(each.value).tolist() for each in [*model.weights, *optimizer.variables]],
    }
