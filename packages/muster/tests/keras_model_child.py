"""An Estimator of a Keras model that has trained before, and a task of a job that goes on training it.

Run by estimator/keras_models/test_model_to_estimator_multiprocess.py. Argument: JSON: folder (of the model),
for workers told (a file for the losses of each), and in a job with parameter servers part (0 or 1: which rows
of each batch it reads).
"""

import json
import logging
import sys
from functools import partial
from pathlib import Path

import numpy as np

from muster._keras import keras
from muster.data import Dataset
from muster.distribute import FixedShardsPartitioner, MultiWorkerMirroredStrategy, ParameterServerStrategyV1
from muster.estimator import EvalSpec, RunConfig, TrainSpec, model_to_estimator, train_and_evaluate
from noted_losses import Losses

ROWS, BATCH, STEPS = 64, 16, 4
RNG = np.random.default_rng(0)
X = {"words": RNG.integers(0, 10, (ROWS, 2)), "x": RNG.normal(size=(ROWS, 4)).astype("float32")}
Y = {"sum": X["x"].sum(1, keepdims=True), "even": (X["words"].sum(1, keepdims=True) % 2).astype("float32")}


def made(folder, **config):
    """The Estimator of a model with two inputs and outputs, whose optimizer has made steps already."""
    layers = keras.layers
    keras.utils.set_random_seed(1)
    words, x = layers.Input((2,), name="words", dtype="int32"), layers.Input((4,), name="x")
    looked_up = layers.Flatten()(layers.Embedding(10, 3, name="table")(words))
    dense = layers.Dense(6, "tanh", name="hidden", kernel_regularizer=keras.regularizers.L2(0.01))
    hidden = dense(layers.Concatenate()([looked_up, x]))
    outputs = [layers.Dense(1, name="sum")(hidden), layers.Dense(1, "sigmoid", name="even")(hidden)]
    model = keras.Model([words, x], outputs)
    model.compile(
        keras.optimizers.Adam(0.05),
        loss={"sum": "mse", "even": "binary_crossentropy"},
        loss_weights={"sum": 1.0, "even": 0.5},
        metrics={"sum": "mae", "even": "accuracy"},
    )
    model.fit(X, Y, batch_size=BATCH, shuffle=False, verbose=0)
    return model_to_estimator(model, model_dir=str(folder), config=RunConfig(tf_random_seed=1, **config))


def batches(rows=BATCH):
    """The input without end, in batches of so many rows."""
    return Dataset.from_tensor_slices((X, Y)).repeat().batch(rows)


def trained(folder, input_fn=batches, **config):
    """The losses of some steps, and the Estimator."""
    seen, estimator = Losses(), made(folder, **config)
    estimator.train(input_fn, hooks=[seen], steps=STEPS)
    return seen.losses, estimator


def part_of(part):
    return batches(BATCH // 2).shard(2, part)


def main(options):
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    if "told" in options:
        strategy = MultiWorkerMirroredStrategy()
        input_fn = partial(part_of, strategy.input_context.input_pipeline_id)
        losses, _ = trained(options["folder"], input_fn, train_distribute=strategy)
        Path(options["told"]).write_text(json.dumps(losses))
        return
    strategy = ParameterServerStrategyV1(variable_partitioner=FixedShardsPartitioner(2))
    train_and_evaluate(
        made(options["folder"], train_distribute=strategy, max_staleness=0),
        TrainSpec(partial(part_of, options.get("part", 0)), max_steps=STEPS),
        EvalSpec(batches, steps=ROWS // BATCH, start_delay_secs=0, throttle_secs=0),
    )


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
