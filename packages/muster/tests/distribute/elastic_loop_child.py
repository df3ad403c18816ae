"""A worker of an elastic job with a loop of its own, or a process with all of its replicas.

Run by test_elastic_loop_multiprocess.py. Arguments: a folder for reports, the steps, the seconds that a step
takes at least, "dataset" or "function". A line of a report is "<step> <loss in hexadecimal> <mean of a metric
in hexadecimal>".
"""

import json
import logging
import os
import sys
import time

import numpy as np

import muster
from muster._keras import keras
from muster.data import Dataset
from muster.distribute import MultiWorkerMirroredStrategy

layers = keras.layers


def main(folder, steps, secs, kind):
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(relativeCreated)d %(message)s")
    strategy = MultiWorkerMirroredStrategy(virtual_replicas=4, deterministic=True)
    keras.utils.set_random_seed(3)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(83, 5)).astype(np.float32), rng.integers(0, 3, 83)
    with strategy.scope():
        model = keras.Sequential(
            [layers.Input((5,)), layers.Dense(64, activation="relu"), layers.Dropout(0.5), layers.Dense(3)]
        )
        optimizer = keras.optimizers.Adam(0.01)
        accuracy = keras.metrics.SparseCategoricalAccuracy()
    losses = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=None)

    def step(batch):
        features, labels = batch
        with muster.GradientTape() as tape:
            logits = model(features, training=True)
            loss = keras.ops.sum(losses(labels, logits)) / 16
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        accuracy.update_state(labels, logits)
        return loss

    @muster.function
    def train_step(batch):
        per_replica = strategy.run(step, args=(batch,))
        return strategy.reduce("SUM", per_replica, axis=None)

    def dataset_fn(context):
        data = Dataset.from_tensor_slices((x, y)).shard(
            context.num_input_pipelines, context.input_pipeline_id
        )
        return data.shuffle(20, seed=1).repeat().batch(context.get_per_replica_batch_size(16))

    if kind == "dataset":
        data = Dataset.from_tensor_slices((x, y)).shuffle(50, seed=1).batch(16).repeat()
        distributed = strategy.experimental_distribute_dataset(data)
    else:
        distributed = strategy.distribute_datasets_from_function(dataset_fn)
    task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {"type": "alone", "index": 0})
    with open(os.path.join(folder, f"{task['type']}-{task['index']}"), "a", buffering=1) as report:
        for number, batch in zip(range(int(steps)), distributed, strict=False):
            if number % 2:
                loss = train_step(batch)
            else:  # reduced by itself
                loss = strategy.reduce("SUM", strategy.run(step, args=(batch,)), axis=None)
            report.write(f"{number} {float(loss).hex()} {float(accuracy.result()).hex()}\n")
            print(number, flush=True)
            time.sleep(float(secs))
    assert strategy.num_replicas_in_sync == 4


if __name__ == "__main__":
    main(*sys.argv[1:])
