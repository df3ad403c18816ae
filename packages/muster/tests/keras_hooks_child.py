"""Say as JSON what muster changes in JAX and Keras: when it is imported, in scopes, under tapes, once undone.

And what a model that no strategy runs gives without muster, and with it, and what a step of it takes: the
calls of functions, and programs that are compiled. Those that are the same are compiled once, and kept in the
folder that is the argument.
"""

import hashlib
import importlib
import json
import os
import sys

os.environ["KERAS_BACKEND"] = "jax"
os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "1"
os.environ["JAX_COMPILATION_CACHE_DIR"] = sys.argv[1]
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.05"
os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"

import keras
import numpy as np

from fingerprints import differences, fingerprint, is_registration, load, load_imports
from repository import CORE

PACKAGES = ("jax", "jaxlib", "keras", "numpy")


def changed(before):
    """What is otherwise now, but for what muster has registered of its own."""
    pairs = differences(before, fingerprint(*PACKAGES))
    return sorted(
        (new or old).path + " " + str((new or old).name)
        for old, new in pairs
        if not is_registration(old, new)
    )


class Steps(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.told = []

    def on_train_batch_end(self, batch, logs=None):
        self.told.append((batch, sorted(logs.items()), float(np.sum(self.model.get_weights()[0]))))


def trained():
    """What a user of Keras alone sees of a model: all numbers, bit for bit."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(3)
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((6,)),
            layers.Dense(8, "relu"),
            layers.BatchNormalization(),
            layers.Dropout(0.3),
            layers.Dense(3),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])
    x = np.random.default_rng(0).random((96, 6), dtype=np.float32)
    y = np.arange(96) % 3
    weights = {0: 2.0, 1: 1.0, 2: 1.0}
    steps = Steps()
    seen = [
        model.fit(x, y, epochs=2, validation_split=1 / 3, callbacks=[steps], verbose=0).history,
        # The last batch is short; in all others of whole batches nothing new has to be compiled.
        model.fit(x[:80], y[:80], epochs=2, class_weight=weights, verbose=0).history,
        steps.told,
        model.train_on_batch(x[:32], y[:32]),
        model.test_on_batch(x[:32], y[:32]),
        model.evaluate(x, y, verbose=0),
        model.predict(x, verbose=0).tolist(),
        np.asarray(model(x)).tolist(),
        [(each.path, each.numpy().tolist()) for each in (*model.variables, *model.optimizer.variables)],
        np.random.random(),
    ]
    # The second time the first fit of a model does not count: it compiles.
    once, twice = (calls(lambda rows=rows: model.fit(x[:rows], y[:rows], verbose=0)) for rows in (32, 96))
    told["calls of a step"].append((twice - once) / 2)
    told["programs"].append(sorted(name for name in os.listdir(sys.argv[1]) if "_step-" in name))
    return hashlib.sha256(repr(seen).encode()).hexdigest()


def calls(run):
    """How many functions of Python and of C something calls in this thread, but for those of now and then."""
    counts = []

    def noted(frame, event, arg):
        counts[-1] += event in ("call", "c_call")

    run()
    for _ in range(6):
        counts.append(0)
        sys.setprofile(noted)
        try:
            run()
        finally:
            sys.setprofile(None)
    return min(counts)


load_imports(CORE / "src", PACKAGES)
told = {"calls of a step": [], "programs": []}
told["trained"] = [trained()]
original = before = fingerprint(*PACKAGES)
load("muster")
hooks = importlib.import_module("muster.keras_hooks")

told["always"] = changed(before)

before = fingerprint(*PACKAGES)
with hooks.patched_keras():
    told["in scopes"] = changed(before)
hooks.WHILE_TAPES_ARE_OPEN.begin()
told["under tapes"] = changed(before)
hooks.WHILE_TAPES_ARE_OPEN.end()
told["afterwards"] = changed(before)
hooks.uninstall()
told["uninstalled"] = changed(original)
hooks.install()
told["installed again"] = changed(original)
told["trained"].append(trained())
print(json.dumps(told))
