"""Trains, or evaluates what the other process of this program saves.

Argument: JSON with ``directory``, ``saves`` (``"checkpoint"``, or what files end in), ``epochs``, ``ends``
(how training ends) and ``report``, where the evaluator writes.
"""

import json
import logging
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
from saved_objects import save_objects

from muster import keras
from muster.data import Dataset
from muster.distribute import SidecarEvaluator

options = json.loads(sys.argv[1])
directory = Path(options["directory"])
task = json.loads(os.environ["TF_CONFIG"])["task"]["type"]

rng = np.random.default_rng(0)
images = rng.normal(size=(64, 4)).astype(np.float32)
labels = images @ rng.normal(size=(4, 1)).astype(np.float32)


def made() -> keras.Model:
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.1), "mse")
    return model


def wait_for(path: Path) -> None:
    """Wait until the evaluator has got so far."""
    while not path.exists():
        time.sleep(0.05)


class Paced(keras.callbacks.Callback):
    """After the first epoch, waits until that is evaluated: so there is more than one evaluation."""

    def on_epoch_end(self, epoch, logs=None):
        if options["saves"] == "checkpoint":
            save_objects(directory, max_to_keep=2, model=self.model, optimizer=self.model.optimizer)
        if epoch == 0:
            wait_for(directory / "evaluated")


class Evaluated(keras.callbacks.Callback):
    def on_test_end(self, logs=None):
        (directory / "evaluated").touch()


model = made()
if task == "evaluator":
    logging.basicConfig(level=logging.INFO)
    board = keras.callbacks.TensorBoard(directory / "board")
    found = SidecarEvaluator(
        model,
        Dataset.from_tensor_slices((images, labels)).batch(32),
        directory,
        callbacks=[board, Evaluated()],
    ).start()
    Path(options["report"]).write_text(json.dumps(found))
    sys.exit()

callbacks: list[keras.callbacks.Callback] = [Paced()]
if options["saves"] != "checkpoint":
    path = directory / f"ckpt-{{epoch}}{options['saves']}"
    callbacks.insert(
        0, keras.callbacks.ModelCheckpoint(path, save_weights_only=options["saves"] == ".weights.h5")
    )
model.fit(images, labels, batch_size=16, epochs=options["epochs"], callbacks=callbacks, verbose=0)
Path(options["report"]).with_suffix(".loss").write_text(
    str(model.evaluate(images, labels, batch_size=32, verbose=0))
)
if options["ends"] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
