"""A job whose record is looked at afterwards: a short training. Run by test_seen_jobs.py.

Argument: how: "fit", "estimator", "loop", "coordinator" or "coordinated_fit".
"""

import logging
import sys
import tempfile
import time

import numpy as np

import muster
from muster import keras
from muster.cluster import TFConfigClusterResolver
from muster.data import Dataset
from muster.distribute import MultiWorkerMirroredStrategy, ParameterServerStrategy, Server
from muster.distribute.coordinator import ClusterCoordinator
from muster.estimator import Estimator, EstimatorSpec, RunConfig

ROWS, BATCH, EPOCHS = 32, 8, 3


def data():
    x = np.random.default_rng(0).normal(size=(ROWS, 4)).astype(np.float32)
    return x, x.sum(axis=1, keepdims=True)


def slowly(dataset):
    """Let each batch take a moment, so that a training takes more than the second of a report."""

    def wait(*row):
        time.sleep(0.02)
        return row

    def elements():
        for each in dataset:
            yield wait(*each)

    return Dataset.from_generator(
        elements, output_types=("float32", "float32"), output_shapes=((BATCH, 4), (BATCH, 1))
    )


def model():
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])


def fit():
    strategy = MultiWorkerMirroredStrategy()
    with strategy.scope():
        made = model()
        made.compile("sgd", "mse", metrics=["mae"])
    made.fit(*data(), batch_size=BATCH, epochs=EPOCHS, validation_data=data(), verbose=0)


def estimator():
    def model_fn(features, labels, mode):
        predicted = keras.layers.Dense(1)(features)
        loss = keras.ops.mean((predicted - labels) ** 2)
        step = muster.get_or_create_global_step()
        return EstimatorSpec(
            mode, loss=loss, train_op=muster.minimize(keras.optimizers.SGD(0.01), loss, step)
        )

    config = RunConfig(
        model_dir=tempfile.mkdtemp(prefix="seen-") if RunConfig().is_chief else None,
        train_distribute=MultiWorkerMirroredStrategy(),
    )
    batches = Dataset.from_tensor_slices(data()).repeat().batch(BATCH)
    Estimator(model_fn, config=config).train(lambda: slowly(batches), max_steps=60)


def loop():
    strategy = MultiWorkerMirroredStrategy()
    with strategy.scope():
        weights = keras.Variable(np.zeros((4, 1), np.float32))
        optimizer = keras.optimizers.SGD(0.01)
        optimizer.build([weights])

    def replica(x, y):
        with muster.GradientTape() as tape:
            loss = keras.ops.mean((keras.ops.matmul(x, weights) - y) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, [weights]), [weights], strict=True))
        return loss

    @muster.function
    def step(batch):
        return strategy.run(replica, batch)

    batches = strategy.experimental_distribute_dataset(Dataset.from_tensor_slices(data()).batch(BATCH))
    for _ in range(3):
        for batch in batches:
            step(batch)
            time.sleep(0.15)


def coordinator():
    resolver = TFConfigClusterResolver()
    if resolver.task_type in ("worker", "ps"):
        Server(resolver.cluster_spec(), resolver.task_type, resolver.task_id).join()
        return
    strategy = ParameterServerStrategy(resolver)
    coordinator = ClusterCoordinator(strategy)
    with strategy.scope():
        count = keras.Variable(np.zeros(1000, np.float32))

    @muster.function
    def add():
        count.assign_add(keras.ops.ones(1000))

    began = time.monotonic()
    while time.monotonic() - began < 2.5:
        for _ in range(10):
            coordinator.schedule(add)
        coordinator.join()
    print("added", int(np.asarray(count)[0]), flush=True)


def coordinated_fit():
    resolver = TFConfigClusterResolver()
    if resolver.task_type in ("worker", "ps"):
        Server(resolver.cluster_spec(), resolver.task_type, resolver.task_id).join()
        return
    strategy = ParameterServerStrategy(resolver)
    with strategy.scope():
        made = model()
        made.compile("sgd", "mse")
    batches = Dataset.from_tensor_slices(data()).repeat().batch(BATCH)
    made.fit(batches, steps_per_epoch=20, epochs=EPOCHS, verbose=0)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    trainings = fit, estimator, loop, coordinator, coordinated_fit
    {each.__name__: each for each in trainings}[sys.argv[1]]()
