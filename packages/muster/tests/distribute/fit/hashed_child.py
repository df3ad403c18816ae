"""A coordinator that fits a model with a hashed table. Run by test_hashed_fit_multiprocess.py.

Argument: JSON: backup, the folder of its backups; stops_at, the number of steps after which it waits to be
killed, once there are so many backups, saves; and report, where to write what came of it.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path

import numpy as np

import muster
from muster._keras import keras
from muster.checkpoint import list_checkpoints
from muster.cluster import ClusterSpec, SimpleClusterResolver
from muster.distribute import FixedShardsPartitioner, ParameterServerStrategy

options = json.loads(sys.argv[1])
rng = np.random.default_rng(0)
vocabulary = rng.integers(-(2**62), 2**62, 200)
ids = vocabulary[np.minimum(rng.geometric(0.03, (256, 3)), 199)]
clicks = rng.normal(size=(256, 1)).astype(np.float32)


class Stops(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if int(self.model.optimizer.iterations.value) == options["stops_at"]:
            while not (saved := list_checkpoints(options["backup"])) or saved[-1].step < options["saves"]:
                time.sleep(0.01)  # it is written meanwhile
            print("stopped", flush=True)
            threading.Event().wait()


cluster = ClusterSpec(json.loads(os.environ["TF_CONFIG"])["cluster"])
resolver = SimpleClusterResolver(cluster)
with ParameterServerStrategy(resolver, FixedShardsPartitioner(len(cluster.as_dict()["ps"]))).scope():
    keras.utils.set_random_seed(1)
    embedding = muster.layers.HashEmbedding(4, combiner="sum", admit_after=2, max_age=9)
    model = keras.Sequential([keras.Input((3, 2), dtype="uint32"), embedding, keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.1), "mse")
backup = keras.callbacks.BackupAndRestore(options["backup"], save_freq=2)
data = muster.data.Dataset.from_tensor_slices((muster.data.wide_ids(ids), clicks)).shuffle(256, seed=3)
history = model.fit(data.batch(32), epochs=4, verbose=0, callbacks=[backup, Stops()]).history
found = model.predict(muster.data.wide_ids(np.stack([vocabulary] * 3, 1)), batch_size=50, verbose=0)
report = {"loss": history["loss"], "found": found.tolist(), "steps": int(model.optimizer.iterations.value)}
Path(options["report"]).write_text(json.dumps(report))
