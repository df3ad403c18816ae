"""A worker of an elastic job that calls fit, or a process with all of its replicas.

Run by test_elastic_fit_multiprocess.py. Arguments: a folder for reports, the epochs, the seconds that a
step takes at least until there is a file "go" in the folder, "arrays", "dataset", or "twice" for two epochs
in a call of fit before, a call of evaluate before each, and one of predict. A line of a report is "<epoch>
<step> <loss in hexadecimal>"; what evaluate and predict have returned is in a report of its own.
"""

import json
import logging
import os
import sys
import time

import numpy as np

from muster._keras import keras
from muster.data import Dataset
from muster.distribute import MultiWorkerMirroredStrategy

layers = keras.layers


class Report(keras.callbacks.Callback):
    def __init__(self, path, secs):
        super().__init__()
        self.file = open(path, "a", buffering=1)
        self.secs, self.epoch = secs, 0

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        self.file.write(f"{self.epoch} {batch} {float(logs['loss']).hex()}\n")
        print(self.epoch, batch, flush=True)
        if not os.path.exists(os.path.join(os.path.dirname(self.file.name), "go")):
            time.sleep(self.secs)

    def on_epoch_end(self, epoch, logs=None):
        self.file.write(f"{epoch} end {float(logs.get('val_loss', 0)).hex()}\n")


def main(folder, epochs, secs, kind):
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(relativeCreated)d %(message)s")
    strategy = MultiWorkerMirroredStrategy(virtual_replicas=4, deterministic=True)
    keras.utils.set_random_seed(3)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(83, 5)).astype(np.float32), rng.integers(0, 3, 83)
    with strategy.scope():
        model = keras.Sequential(
            [
                layers.Input((5,)),
                layers.Dense(64, activation="relu"),
                layers.BatchNormalization(),
                layers.Dropout(0.5),
                layers.Dense(3),
            ]
        )
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("adam", loss, metrics=["accuracy"])
    task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {"type": "alone", "index": 0})
    callbacks = [
        Report(os.path.join(folder, f"{task['type']}-{task['index']}"), float(secs)),
        keras.callbacks.ModelCheckpoint(
            os.path.join(folder, "epoch-{epoch}.weights.h5"), save_weights_only=True
        ),
        keras.callbacks.CSVLogger(os.path.join(folder, f"{task['type']}.csv")),
    ]
    data = {"x": x, "y": y, "batch_size": 16}
    if kind == "dataset":
        data = {"x": Dataset.from_tensor_slices((x, y)).shuffle(50).batch(16)}
    if kind == "twice":
        results = [model.evaluate(x[:30], y[:30], batch_size=16)]
        model.fit(**data, epochs=2, callbacks=callbacks[:1])
        model.optimizer.learning_rate = 0.0005
        results.append(model.evaluate(x[:30], y[:30], batch_size=16, return_dict=True))
        results.append(model.predict(x[:30], batch_size=16, verbose=0).tolist())
        with open(os.path.join(folder, f"{task['type']}-{task['index']}.json"), "w") as file:
            json.dump(results, file)
    model.fit(
        **data,
        epochs=int(epochs),
        validation_data=(x[:30], y[:30]),
        validation_batch_size=16,
        callbacks=callbacks,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
