"""What comes back for the rows of batches that the replicas of a strategy share, in many ways.

Run as a program it is one worker of a job. Argument: JSON: devices, the number of its devices, and report, a
file for what it saw.
"""

import json
import os
import sys
from importlib.metadata import version
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from muster._keras import keras
from muster.data import Dataset
from muster.distribute import MultiWorkerMirroredStrategy, function, get_replica_context

# A row is its number in the dataset. All datasets have fewer rows than this.
NUMBERS = 128

LOCAL = "local results"


def lengths(replicas):
    """Yield numbers of rows for a dataset and for its batches, of all sizes up to three rows per replica.

    A dataset has two full batches, and a last one with a single row, or with one row less than the others.
    """
    for size in range(1, 3 * replicas + 1):
        last = size - 1 if size // replicas % 2 else 1 % size
        yield 2 * size + last, size


def split(rows, size):
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def array(rows):
    return np.arange(rows, dtype=np.float32)[:, None]


def dataset(rows, size):
    return Dataset.from_tensor_slices(array(rows)).batch(size)


def numbers_of(values):
    return [int(number) for number in np.ravel(values)]


class Numbers(keras.Model):
    """Returns the numbers of the rows as predictions, and from every step of fit and evaluate."""

    def call(self, rows):
        return {"numbers": rows}

    def train_step(self, state, data):
        return {"numbers": keras.utils.unpack_x_y_sample_weight(data)[0]}, state

    def test_step(self, state, data):
        return self.train_step(state, data)


class Reversed(Numbers):
    """Predicts the numbers of the rows of a batch in reverse order."""

    def call(self, rows):
        return {"numbers": rows[::-1]}


class Batches(keras.callbacks.Callback):
    """Records what every step of fit and evaluate returns."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def on_train_batch_end(self, batch, logs=None):
        self.seen.append(numbers_of(logs["numbers"]))

    def on_test_batch_end(self, batch, logs=None):
        self.on_train_batch_end(batch, logs)


def by_keras(strategy):
    """Return ``(rows, size) -> {name: batches}``: what the methods of a model return."""
    with strategy.scope():
        model, reverses = Numbers(), Reversed()
        model.compile("sgd")

    def predicted(model, data, size, **options):
        return split(numbers_of(model.predict(data, verbose=0, **options)["numbers"]), size)

    def recorded(method, data, **options):
        batches = Batches()
        method(data, verbose=0, callbacks=[batches], **options)
        return batches.seen

    def seen(rows, size):
        whole, batches = array(rows), dataset(rows, size)
        distributed = strategy.experimental_distribute_dataset(batches)
        return {
            "predict, array": predicted(model, whole, size, batch_size=size),
            "predict, dataset": predicted(model, batches, size),
            "predict, distributed dataset": predicted(model, distributed, size),
            "predict, dataset, mixed rows": [batch[::-1] for batch in predicted(reverses, batches, size)],
            "predict_on_batch": [
                numbers_of(model.predict_on_batch(batch)["numbers"]) for batch in split(whole, size)
            ],
            "fit, array": recorded(model.fit, whole, batch_size=size, shuffle=False),
            "fit, dataset": recorded(model.fit, batches),
            "evaluate, dataset": recorded(model.evaluate, batches),
        }

    return seen


def by_loops(strategy):
    """Return ``(rows, size) -> {name: batches}``: what loops over a distributed dataset see."""

    def same(rows):
        return rows

    def of_replica(rows):
        counts = jnp.sum(rows == jnp.arange(NUMBERS), axis=0)
        return rows, counts, get_replica_context().all_gather(rows, axis=0)[None]

    @function
    def step(batch):
        rows, counts, gathered = strategy.run(of_replica, (batch,))
        return *strategy.gather((rows, gathered), axis=0), strategy.reduce("SUM", counts)

    def agreed(of_replicas):
        first, *others = map(numbers_of, of_replicas)
        return first if all(other == first for other in others) else [first, *others]

    def seen(rows, size):
        batches = list(strategy.experimental_distribute_dataset(dataset(rows, size)))
        steps = [list(map(np.asarray, step(batch))) for batch in batches]
        return {
            "gather": [
                numbers_of(strategy.gather(strategy.run(same, (batch,)), axis=0)) for batch in batches
            ],
            "gather in a function": [numbers_of(gathered) for gathered, _, _ in steps],
            "all_gather": [agreed(gathered) for _, gathered, _ in steps],
            "counts of rows": [numbers_of(np.repeat(np.arange(NUMBERS), counts)) for *_, counts in steps],
            # For every batch a list for every replica of this process.
            LOCAL: [list(map(numbers_of, strategy.experimental_local_results(batch))) for batch in batches],
        }

    return seen


def seen(strategy):
    """Return what this process sees: a list of ``(name, rows, size, batches)``."""
    ways = by_keras(strategy), by_loops(strategy)
    return [
        (name, rows, size, batches)
        for rows, size in lengths(strategy.num_replicas_in_sync)
        for way in ways
        for name, batches in way(rows, size).items()
    ]


def require_order(*workers):
    """Check that every row is in its place, once.

    Args:
        workers: What ``seen`` returned on every worker.
    """
    wrong = []
    for cases in zip(*workers, strict=True):
        name, rows, size, _ = cases[0]
        found = [batches for *_, batches in cases]
        if name == LOCAL:
            found = [[joined(sum(step, [])) for step in zip(*found, strict=True)]]
        wrong += [
            f"{name}, {rows} rows in batches of {size}, worker {worker}: {batches}"
            for worker, batches in enumerate(found)
            if batches != split(list(range(rows)), size)
        ]
    assert not wrong, "\n".join([f"{len(wrong)} are wrong:", *wrong])


def joined(replicas):
    """Return the batch that replicas share: rows that all of them have are the last ones of the batch."""
    common = os.path.commonprefix([rows[::-1] for rows in replicas])[::-1]
    return sum((rows[: len(rows) - len(common)] for rows in replicas), []) + common


if __name__ == "__main__":
    options = json.loads(sys.argv[1])
    # Devices, and to compile as quickly as the tests' own process does: see conftest.py.
    os.environ["XLA_FLAGS"] = (
        f"--xla_force_host_platform_device_count={options['devices']} --xla_backend_optimization_level=0 "
        "--xla_llvm_disable_expensive_passes=true"
        + (" --xla_cpu_use_fusion_emitters=false" if version("jax") < "0.11" else "")
    )
    Path(options["report"]).write_text(json.dumps(seen(MultiWorkerMirroredStrategy())))
