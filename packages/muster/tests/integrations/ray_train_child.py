"""Trains with Ray Train on two workers, in a cluster of its own. Run by test_ray_train_multiprocess.py.

Argument: JSON: storage (a folder), and any of kill (worker 1 kills itself in that epoch, once), rows (of Ray
Data, so many are divided among two; nobody trains).
"""

import json
import os
import signal
import sys
from pathlib import Path

import numpy as np
import ray
import ray.train

import muster.data
import muster.distribute
import muster.ray
from muster import keras


class Kill(keras.callbacks.Callback):
    def __init__(self, epoch, mark):
        super().__init__()
        self.epoch, self.mark = epoch, Path(mark)

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == self.epoch and ray.train.get_context().get_world_rank() == 1 and not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)


def train(config):
    strategy = muster.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        layers = [keras.layers.Input((4,)), keras.layers.Dense(1, kernel_initializer="zeros")]
        model = keras.Sequential(layers)
        model.compile(optimizer=keras.optimizers.SGD(0.1, momentum=0.9), loss="mse")
    x = np.arange(32.0).reshape(8, 4).astype("float32") / 32
    callbacks = [
        keras.callbacks.BackupAndRestore(f"{config['storage']}/backup"),
        muster.ray.ReportCallback(),
    ]
    if "kill" in config:
        callbacks.append(Kill(config["kill"], f"{config['storage']}/killed"))
    model.fit(x, x.sum(axis=1), batch_size=4, epochs=4, verbose=0, shuffle=False, callbacks=callbacks)


def divided(rows):
    """The rows of Ray Data that two workers get, each of which reads all of them."""
    blocks = ray.data.range(rows, override_num_blocks=4)
    read = muster.data.Dataset.from_ray(blocks)
    return [[int(row["id"]) for row in read.shard(2, rank)] for rank in (0, 1)]


if __name__ == "__main__":
    config = json.loads(sys.argv[1])
    ray.init(
        address="local",  # whatever other clusters are here
        num_cpus=5,
        include_dashboard=False,
        log_to_driver=True,
        object_store_memory=80 << 20,
    )
    if "rows" in config:
        print("RESULT", json.dumps(divided(config["rows"])))
        sys.exit()
    run_config = ray.train.RunConfig(
        name="run",
        storage_path=config["storage"],
        failure_config=ray.train.FailureConfig(max_failures=1),
    )
    trainer = muster.ray.MusterTrainer(
        train,
        config,
        scaling_config=ray.train.ScalingConfig(num_workers=2),
        run_config=run_config,
    )
    result = trainer.fit()
    told = dict(result.metrics)
    if result.checkpoint is not None:
        with result.checkpoint.as_directory() as folder:
            model = keras.saving.load_model(Path(folder, "model.keras"))
        told["kernel"] = np.asarray(model.weights[0]).ravel().tolist()
        told["path"] = result.checkpoint.path
    print("RESULT", json.dumps(told))
    ray.shutdown()
