"""Train the guide's CNN as one of the two workers of ``two_workers.py``. Argument: ``full`` or ``small``."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
from bench._gpu._model import LOSS
from bench._gpu._nets import turn_of
from bench._gpu.nets import net

import muster
from muster import keras
from muster.distribute import MultiWorkerMirroredStrategy

CHECKED_STEPS = 3

if __name__ == "__main__":
    size = sys.argv[1]
    chosen = net("cnn", size)
    strategy = MultiWorkerMirroredStrategy()
    with strategy.scope():
        keras.utils.set_random_seed(1)
        model, optimizer = chosen.keras_model(keras), chosen.keras_optimizer(keras)
    worker = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    rng = np.random.default_rng(worker)
    images = rng.random((chosen.batch, 28, 28, 1), np.float32)
    labels = rng.integers(0, 10, chosen.batch).astype(np.int32)

    def on_replica(images: Any, labels: Any) -> Any:
        with muster.GradientTape() as tape:
            loss = LOSS(labels, model(images, training=True)) / strategy.num_replicas_in_sync
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    @muster.function
    def step(batch: Any) -> Any:
        return strategy.reduce("SUM", strategy.run(on_replica, batch), axis=None)

    dataset = strategy.distribute_datasets_from_function(
        lambda context: muster.data.Dataset.from_tensors((images, labels)).repeat()
    )
    batches = iter(dataset)
    losses = [float(step(next(batches))) for _ in range(CHECKED_STEPS)]
    seconds = turn_of(lambda *batch: step(batch), batches, chosen.steps)
    report = {
        "device": str(jax.local_devices()[0]),
        "replicas": strategy.num_replicas_in_sync,
        "losses": losses,
        "steps_per_sec": round(chosen.steps / seconds, 2),
    }
    Path(os.environ["MUSTER_BENCH_REPORT"]).write_text(json.dumps(report))
