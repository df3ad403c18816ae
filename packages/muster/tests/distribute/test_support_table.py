"""The table of docs/guides/strategies.md: what it says works under a strategy is tried."""

import re

import numpy as np
import pytest

import muster
from muster import keras
from muster.data import Dataset
from muster.distribute import (
    CentralStorageStrategy,
    MirroredStrategy,
    MultiWorkerMirroredStrategy,
    OneDeviceStrategy,
    TPUStrategy,
    get_strategy,
)
from muster.estimator import Estimator, EstimatorSpec, ModeKeys, RunConfig
from repository import ROOT

PAGE = ROOT / "docs/guides/strategies.md"
X = np.tile(np.eye(4, dtype=np.float32), (16, 1))
Y = X @ np.arange(4, dtype=np.float32)[:, None]

STRATEGIES = {
    "default": get_strategy,
    "OneDeviceStrategy": lambda: OneDeviceStrategy("/cpu:1"),
    "MirroredStrategy": lambda: MirroredStrategy(["/cpu:0", "/cpu:1"]),
    "MultiWorkerMirroredStrategy": MultiWorkerMirroredStrategy,  # alone: with others in *_multiprocess.py
    "CentralStorageStrategy": lambda: CentralStorageStrategy(["/cpu:0", "/cpu:1"]),
    "TPUStrategy": lambda: TPUStrategy(devices=["/cpu:0", "/cpu:1"]),
}


# Needs servers and workers: tests/distribute/coordinator, tests/distribute/fit and tests/estimator have them.
OF_SEVERAL_TASKS = {"ParameterServerStrategy"}


def train_estimator(strategy, folder):
    """The loss before and after training."""

    def model_fn(features, labels, mode):
        prediction = keras.layers.Dense(1, use_bias=False)(features)
        loss = keras.ops.mean((prediction - labels) ** 2)
        optimizer = keras.optimizers.SGD(0.5)
        train_op = None
        if mode == ModeKeys.TRAIN:
            train_op = muster.minimize(optimizer, loss, muster.get_or_create_global_step())
        return EstimatorSpec(mode, loss=loss, train_op=train_op)

    def input_fn():
        return Dataset.from_tensor_slices((X, Y)).batch(8)

    config = RunConfig(tf_random_seed=1, train_distribute=strategy, eval_distribute=strategy)
    estimator = Estimator(model_fn, folder, config)
    before = estimator.evaluate(input_fn)["loss"]
    estimator.train(lambda: input_fn().repeat(), steps=30)
    return before, estimator.evaluate(input_fn)["loss"]


def train_in_loop(strategy, folder):
    with strategy.scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, use_bias=False)])
        optimizer = keras.optimizers.SGD(0.5)

    def step(batch):
        x, y = batch
        loss_of = muster.value_and_grad(
            lambda: keras.ops.sum((model(x) - y) ** 2) / 8, model.trainable_variables
        )
        loss, grads = loss_of()
        optimizer.apply(grads, model.trainable_variables)
        return loss

    call = muster.function(lambda batch: strategy.reduce("SUM", strategy.run(step, (batch,))))
    data = strategy.experimental_distribute_dataset(Dataset.from_tensor_slices((X, Y)).batch(8).repeat(4))
    losses = [float(call(batch)) for batch in data]
    return losses[0], losses[-1]


def train_by_fit(strategy, folder):
    with strategy.scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, use_bias=False)])
        model.compile(keras.optimizers.SGD(0.5), "mse")
        losses = model.fit(X, Y, batch_size=8, epochs=4, verbose=0).history["loss"]
    return losses[0], losses[-1]


TRAIN = {"`Estimator`": train_estimator, "custom loop": train_in_loop, "`Model.fit`": train_by_fit}


def cells():
    """(strategy, how to train, what the page says) of each cell."""
    section = PAGE.read_text().split("## What works under which")[1].split("## ")[0]
    lines = re.findall(r"^\|.*\|$", section, re.M)
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [
        (row[0].strip("`"), how, says) for row in rows for how, says in zip(head[1:], row[1:], strict=True)
    ]


def test_the_table_is_complete():
    assert {strategy for strategy, _, _ in cells()} == STRATEGIES.keys() | OF_SEVERAL_TASKS
    assert {how for _, how, _ in cells()} == set(TRAIN)
    assert {says for strategy, _, says in cells() if strategy in STRATEGIES} == {"yes"}


@pytest.mark.samples(
    "CentralStorageStrategy-`Estimator`",
    "MirroredStrategy-`Model.fit`",
    "TPUStrategy-custom loop",
    "MultiWorkerMirroredStrategy-`Estimator`",
    "OneDeviceStrategy-`Model.fit`",
    "default-custom loop",
)
@pytest.mark.parametrize(
    ("strategy", "how"), [(strategy, how) for strategy, how, _ in cells() if strategy in STRATEGIES]
)
def test_what_is_said_to_work_does(strategy, how, tmp_path):
    before, after = TRAIN[how](STRATEGIES[strategy](), str(tmp_path))
    assert after < before / 5
