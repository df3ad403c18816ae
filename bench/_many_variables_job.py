"""Train 160 small variables as one of the two workers of ``bench.many_variables``.

Arguments: the folder for the report, ``TASK.json``; ``loop`` or ``fit``; bytes_per_pack; ``together``, or
``alone`` to exchange each pack separately even if several are ready; the number of steps.
"""

import json
import math
import os
import re
import sys
import time
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "jax")

import jax
import keras
import numpy as np

import muster
from muster.data import Dataset
from muster.distribute import CommunicationOptions, MultiWorkerMirroredStrategy
from muster.distribute.workers._socket_workers import SocketWorkers

LAYERS, UNITS, BATCH = 80, 32, 64
WARM_UP = 20
STEPS = int(sys.argv[5])
BYTES = {"f32": 4, "s32": 4, "u32": 4, "pred": 1}


class Exchanges:
    """Count the exchanges over muster's connections, outside of compiled programs."""

    def __init__(self, *, alone):
        self.clear()
        original = SocketWorkers.all_reduce

        def counted(link, arrays):
            groups = [[array] for array in arrays] if alone else [arrays]
            self.collectives += len(groups)
            self.arrays += len(arrays)
            self.bytes += sum(array.nbytes for array in arrays)
            return [total for group in groups for total in original(link, group)]

        SocketWorkers.all_reduce = counted

    def clear(self):
        self.collectives = self.arrays = self.bytes = 0

    def a_step(self, steps):
        return {
            "collectives": self.collectives / steps,
            "arrays": self.arrays / steps,
            "bytes": self.bytes / steps,
        }


class Programs:
    """Keep the text of every compiled program."""

    def __init__(self):
        self.texts = []
        original = jax.stages.Lowered.compile

        def compile(lowered, *args, **kwargs):
            compiled = original(lowered, *args, **kwargs)
            self.texts.append(compiled.as_text())
            return compiled

        jax.stages.Lowered.compile = compile

    def a_step(self):
        """Return the all-reduces of the program with most of them, their arrays, and their bytes."""
        return max((reduces_of(text) for text in self.texts), key=lambda found: found["arrays"])


def reduces_of(text):
    kinds = [
        re.findall(r"(f32|s32|u32|pred)\[([\d,]*)\]", line.partition(" all-reduce")[0])
        for line in text.splitlines()
        if re.search(r" all-reduce(?:-start)?\(", line)
    ]
    sizes = [
        BYTES[kind] * math.prod(map(int, filter(None, shape.split(","))))
        for each in kinds
        for kind, shape in each
    ]
    return {"collectives": len(kinds), "arrays": len(sizes), "bytes": sum(sizes)}


def build():
    x = hidden = keras.Input((UNITS,))
    for _ in range(LAYERS):
        hidden = hidden + 0.1 * keras.layers.Dense(UNITS, activation="tanh")(hidden)
    return keras.Model(x, hidden)


def data(count):
    rng = np.random.default_rng(0)
    return rng.random((count, UNITS), np.float32), rng.random((count, UNITS), np.float32)


def in_a_loop(strategy, exchanges):
    with strategy.scope():
        model, optimizer = build(), keras.optimizers.SGD(0.01)

    @muster.function
    def step(x, y):
        def on_replica(x, y):
            with muster.GradientTape() as tape:
                loss = keras.ops.sum((model(x) - y) ** 2) / (BATCH * UNITS)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return loss

        return strategy.reduce("SUM", strategy.run(on_replica, (x, y)), axis=None)

    dataset = Dataset.from_tensor_slices(data(BATCH)).batch(BATCH)
    (batch,) = strategy.experimental_distribute_dataset(dataset)
    for _ in range(WARM_UP):
        float(step(*batch))
    exchanges.clear()
    began = time.perf_counter()
    for _ in range(STEPS):
        loss = step(*batch)
    float(loss)
    return model, time.perf_counter() - began


class Clock(keras.callbacks.Callback):
    """Measure the time of the second epoch."""

    def __init__(self, exchanges):
        super().__init__()
        self.exchanges = exchanges

    def on_epoch_begin(self, epoch, logs=None):
        self.exchanges.clear()
        self.began = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        self.seconds = time.perf_counter() - self.began


def in_fit(strategy, exchanges):
    with strategy.scope():
        model = build()
        model.compile(keras.optimizers.SGD(0.01), "mse")
    clock = Clock(exchanges)
    x, y = data(BATCH * STEPS)
    model.fit(x, y, batch_size=BATCH, epochs=2, shuffle=False, verbose=0, callbacks=[clock])
    return model, clock.seconds


def main():
    folder, how, bytes_per_pack, together = Path(sys.argv[1]), *sys.argv[2:5]
    exchanges, programs = Exchanges(alone=together == "alone"), Programs()
    options = CommunicationOptions(bytes_per_pack=int(bytes_per_pack))
    strategy = MultiWorkerMirroredStrategy(communication_options=options)
    keras.utils.set_random_seed(1)
    model, seconds = {"loop": in_a_loop, "fit": in_fit}[how](strategy, exchanges)
    over_link = exchanges.a_step(STEPS)
    report = {
        "seconds": seconds / STEPS,
        "sizes": [4 * math.prod(variable.shape) for variable in model.trainable_variables],
        **(over_link if over_link["arrays"] else programs.a_step()),
    }
    (folder / f"{strategy.cluster_resolver.task_id}.json").write_text(json.dumps(report))


main()
