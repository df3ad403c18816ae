"""A training with a coordinator, which goes on from its last checkpoint. Run by test_coordinator_soak.py.

Argument: JSON: by ("loop" or "fit"), folder (of checkpoints), steps, pause (how long a worker takes for a
batch, in seconds). It ends when it has made so many steps, however often it began.
"""

import json
import logging
import sys
import time
from pathlib import Path

import numpy as np

import muster
from muster import keras
from muster.checkpoint import Checkpointer, restore_latest
from muster.cluster import TFConfigClusterResolver
from muster.distribute import DatasetCreator, ParameterServerStrategy, Server
from muster.distribute.coordinator import ClusterCoordinator
from muster.distribute.servers import restore_variables, save_variables

A_ROUND = 100
FEATURES, BATCH = 4, 16


def batches(pause):
    """Return what makes the batches of a worker: noise, and a line through it."""
    features, batch = FEATURES, BATCH

    def dataset():
        from muster.data import Dataset

        def elements():
            draw = np.random.default_rng()
            while True:
                time.sleep(pause)
                x = draw.normal(size=(batch, features)).astype(np.float32)
                yield x, x @ np.arange(1.0, features + 1, dtype=np.float32)[:, None]

        shapes = (batch, features), (batch, 1)
        return Dataset.from_generator(elements, output_types=("float32", "float32"), output_shapes=shapes)

    return dataset


def by_a_loop(strategy, folder, steps, pause):
    """Train by closures; return how many steps there were, and the weights."""
    coordinator = ClusterCoordinator(strategy)
    with strategy.scope():
        model = keras.Sequential([keras.Input((FEATURES,)), keras.layers.Dense(1)])
        optimizer = keras.optimizers.Adam(0.02)
        optimizer.build(model.trainable_variables)
    objects = {"model": model.variables, "optimizer": optimizer.variables}
    if (found := restore_latest(folder, tables=False)) is not None:
        restore_variables(found, objects, "")

    @muster.function
    def train(iterator):
        x, y = next(iterator)
        with muster.GradientTape() as tape:
            loss = keras.ops.mean((model(x, training=True) - y) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    iterator = iter(coordinator.create_per_worker_dataset(batches(pause)))
    while (made := int(optimizer.iterations)) < steps:
        for _ in range(min(A_ROUND, steps - made)):
            coordinator.schedule(train, args=(iterator,))
        coordinator.join()
        with Checkpointer(folder, max_to_keep=2) as writer:
            save_variables(writer, int(optimizer.iterations), objects, {}, wait=True)
        print("step", int(optimizer.iterations), flush=True)
    return int(optimizer.iterations), np.asarray(model.get_weights()[0]).reshape(-1)


def by_fit(strategy, folder, steps, pause):
    """Train by `fit`; return as `by_a_loop` does."""
    with strategy.scope():
        model = keras.Sequential([keras.Input((FEATURES,)), keras.layers.Dense(1)])
        model.compile(keras.optimizers.Adam(0.02), "mse")
    history = model.fit(
        DatasetCreator(lambda context: batches(pause)()),
        steps_per_epoch=A_ROUND,
        epochs=steps // A_ROUND,
        verbose=0,
        callbacks=[
            keras.callbacks.BackupAndRestore(str(folder), save_freq=A_ROUND // 2),
            keras.callbacks.LambdaCallback(
                on_epoch_end=lambda epoch, logs: print("step", A_ROUND * (epoch + 1), flush=True)
            ),
        ],
    )
    print("epochs", history.epoch[-1] + 1, flush=True)
    return int(model.optimizer.iterations), np.asarray(model.get_weights()[0]).reshape(-1)


TRAIN = {"loop": by_a_loop, "fit": by_fit}


def main(options):
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    resolver = TFConfigClusterResolver()
    if resolver.task_type in ("worker", "ps"):
        Server(resolver.cluster_spec(), resolver.task_type, resolver.task_id).join()
        return
    strategy = ParameterServerStrategy(resolver)
    folder = Path(options["folder"])
    made, weights = TRAIN[options["by"]](strategy, folder, options["steps"], options["pause"])
    print("made", made, "steps, to", [round(float(each), 1) for each in weights], flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
