"""Train on eight virtual devices for ``bench.uneven_batches``, and print JSON.

Arguments: ``fit`` or ``Estimator``, the number of devices, and the number of rows, in batches of 2,048. The
peak is that of the process, in bytes, since just before the training.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "jax")

import jax
import keras
import numpy as np

import muster
from muster import cpu
from muster.data import Dataset
from muster.distribute import MirroredStrategy
from muster.estimator import Estimator, EstimatorSpec, RunConfig

HOW, DEVICES, ROWS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
BATCH, INPUTS, UNITS, RATE = 2048, 16, 8192, 0.01


def layers():
    return [
        keras.layers.Dense(
            UNITS, activation="tanh", kernel_initializer=keras.initializers.RandomNormal(seed=1)
        ),
        keras.layers.Dense(1, kernel_initializer=keras.initializers.RandomNormal(seed=2)),
    ]


def data():
    x = np.random.default_rng(0).normal(size=(15 * BATCH, INPUTS)).astype(np.float32)[:ROWS]
    return x, np.sin(x.sum(1, keepdims=True))


def fit(strategy):
    with strategy.scope():
        model = keras.Sequential([keras.Input((INPUTS,)), *layers()])
        model.compile(keras.optimizers.SGD(RATE), "mse", metrics=["mae"])
    x, y = data()
    history = model.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0).history
    return {name: float(values[-1]) for name, values in history.items()}


def model_fn(features, labels, mode):
    outputs = features
    for layer in layers():
        outputs = layer(outputs)
    loss = keras.ops.mean((outputs - labels) ** 2)
    absolute = keras.metrics.MeanAbsoluteError(name="mae")
    absolute.update_state(labels, outputs)
    train_op = muster.minimize(keras.optimizers.SGD(RATE), loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops={"mae": absolute})


def estimator(strategy):
    def input_fn():
        return Dataset.from_tensor_slices(data()).batch(BATCH // DEVICES)

    with tempfile.TemporaryDirectory() as model_dir:
        config = RunConfig(train_distribute=strategy, eval_distribute=strategy)
        trained = Estimator(model_fn, model_dir, config)
        trained.train(input_fn)
        return {name: float(value) for name, value in trained.evaluate(input_fn).items()}


def main():
    cpu.prepare()
    strategy = MirroredStrategy(jax.devices())
    Path("/proc/self/clear_refs").write_text("5")
    metrics = {"fit": fit, "Estimator": estimator}[HOW](strategy)
    status = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    print(json.dumps({"peak": 1024 * int(status["VmHWM"].split()[0]), "metrics": metrics}))


main()
