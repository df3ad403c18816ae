"""What training under a strategy holds on to: memory, threads, models; and that it compiles but once."""

import contextlib
import gc
import sys
import threading
import weakref
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
import pytest

import muster
from muster._keras import keras
from muster.data import Dataset
from muster.distribute import MirroredStrategy
from muster.estimator import Estimator, EstimatorSpec, RunConfig, SessionRunHook

pytestmark = [pytest.mark.alone, pytest.mark.optimized]

IN, OUT, BATCH, BATCHES = 37, 41, 4, 50
X = np.random.default_rng(0).normal(size=(BATCH * BATCHES, IN)).astype(np.float32)
Y = np.zeros((len(X), OUT), np.float32)


def loss_of(outputs, y):
    return keras.ops.sum((outputs - y) ** 2) / (BATCH * OUT)


def loop(strategy, epochs, after_epoch, folder):
    """Train in a custom loop."""
    with strategy.scope():
        model = keras.Sequential([keras.Input((IN,)), keras.layers.Dense(OUT)])
        optimizer = keras.optimizers.SGD(0.01)

    @muster.function
    def step(x, y):
        def on_replica(x, y):
            with muster.GradientTape() as tape:
                loss = loss_of(model(x), y)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return loss

        return strategy.reduce("SUM", strategy.run(on_replica, (x, y)), axis=None)

    dataset = strategy.experimental_distribute_dataset(Dataset.from_tensor_slices((X, Y)).batch(BATCH))
    for epoch in range(epochs):
        for x, y in dataset:
            step(x, y)
        after_epoch(epoch)
    return model


def fit(strategy, epochs, after_epoch, folder):
    """Train by Keras' fit."""
    with strategy.scope():
        model = keras.Sequential([keras.Input((IN,)), keras.layers.Dense(OUT)])
        model.compile(keras.optimizers.SGD(0.01), "mse")
    callback = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: after_epoch(epoch))
    model.fit(X, Y, batch_size=BATCH, epochs=epochs, verbose=0, callbacks=[callback])
    return model


def estimator(strategy, epochs, after_epoch, folder):
    """Train an Estimator."""
    models = []

    def model_fn(features, labels, mode):
        model = keras.Sequential([keras.Input((IN,)), keras.layers.Dense(OUT)])
        models.append(model)
        loss = loss_of(model(features), labels)
        train_op = muster.minimize(keras.optimizers.SGD(0.01), loss, muster.get_or_create_global_step())
        return EstimatorSpec(mode, loss=loss, train_op=train_op)

    class Epochs(SessionRunHook):
        def after_run(self, run_context, run_values):
            steps = run_context.session.steps_taken
            if steps % BATCHES == 0:
                after_epoch(steps // BATCHES - 1)

    def input_fn():
        dataset = Dataset.from_tensor_slices((X, Y)).repeat(epochs)
        return dataset.batch(BATCH // strategy.num_replicas_in_sync)

    config = RunConfig(train_distribute=strategy, save_checkpoints_steps=None, save_checkpoints_secs=None)
    Estimator(model_fn, str(folder), config).train(input_fn, hooks=[Epochs()])
    return models[-1]


WAYS = {"loop": loop, "fit": fit, "Estimator": estimator}


@contextlib.contextmanager
def counted_compilations():
    """Yields a list to which every compilation adds one element."""
    compilations = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, secs, **kw: compilations.append(event) if "backend_compile" in event else None
    )
    try:
        yield compilations
    finally:
        jax.monitoring.clear_event_listeners()


@dataclass
class Training:
    """What was seen of a training, by epoch.

    Attributes:
        compilations: so far.
        copies: buffers of the shape of the model's kernel.
        blocks: of memory that Python has allocated.
        objects: that the garbage collector knows of.
        threads: before, and after.
        model: a weak reference to it.
    """

    compilations: list[int] = field(default_factory=list)
    copies: list[int] = field(default_factory=list)
    blocks: dict[int, int] = field(default_factory=dict)
    objects: dict[int, int] = field(default_factory=dict)
    threads: list[int] = field(default_factory=list)
    model: Any = None


EARLY, LATE = 500 // BATCHES, 2500 // BATCHES  # epochs


@pytest.fixture(scope="module", params=WAYS)
def training(request, tmp_path_factory):
    """A training of 2,500 steps on two devices."""
    seen = Training()

    def after_epoch(epoch):
        seen.compilations.append(len(compilations))
        if epoch + 1 in (EARLY, LATE):
            gc.collect()
            seen.blocks[epoch + 1] = sys.getallocatedblocks()
            seen.objects[epoch + 1] = len(gc.get_objects())
            seen.copies.append(copies())

    strategy = MirroredStrategy(["/cpu:0", "/cpu:1"])
    seen.threads.append(threading.active_count())
    with counted_compilations() as compilations:
        model = WAYS[request.param](strategy, LATE, after_epoch, tmp_path_factory.mktemp("model"))
    seen.threads.append(threading.active_count())
    seen.model = weakref.ref(model)
    return seen


def copies():
    """How many buffers hold an array of the shape of the kernel."""
    buffers = {
        shard.data.unsafe_buffer_pointer()
        for array in jax.live_arrays()
        if array.shape == (IN, OUT) and not array.is_deleted()
        for shard in array.addressable_shards
    }
    return len(buffers)


@pytest.mark.samples("fit")
def test_nothing_is_compiled_after_the_second_epoch(training):
    first, second, *later = training.compilations
    assert 0 < first <= second
    assert later == [second] * (LATE - 2)


def test_2000_steps_leave_nothing_behind(training):
    """One object a step would be 2,000."""
    assert training.objects[LATE] - training.objects[EARLY] < 200
    assert training.blocks[LATE] - training.blocks[EARLY] < 1000


def test_parameters_are_there_once_a_device(training):
    assert training.copies == [2, 2]


def test_nothing_stays_of_threads_and_models(training):
    gc.collect()
    assert training.threads[1] <= training.threads[0]
    assert training.model() is None


def test_weights_that_replace_those_of_fit_are_the_only_ones():
    model = fit(MirroredStrategy(["/cpu:0", "/cpu:1"]), 1, lambda epoch: None, None)
    model.evaluate(X, Y, verbose=0)
    model.predict(X, verbose=0)
    assert copies() == 2
    model.set_weights([np.ones(weight.shape, np.float32) for weight in model.weights])
    gc.collect()
    assert copies() == 1  # on one device, until the next step


class Trainer:
    """Code that is run outside of a function; all of it is gone when it is no longer used."""

    def __init__(self):
        self.variable = keras.Variable(np.ones((IN, OUT), np.float32), aggregation="mean")

    def step(self, x):
        self.variable.assign(self.variable + x)

    def as_a_method(self):
        return self.step

    def as_a_function(self):
        return lambda x: self.step(x)


@pytest.mark.parametrize("kind", ["as_a_method", "as_a_function"])
def test_code_that_was_run_outside_of_a_function_may_go(kind):
    strategy = MirroredStrategy(["/cpu:0", "/cpu:1"])
    with strategy.scope():
        trainer = Trainer()
    code = getattr(trainer, kind)()
    strategy.run(code, (1.0,))
    code = code if kind == "as_a_function" else trainer.step  # another object each time
    with counted_compilations() as compilations:
        strategy.run(code, (1.0,))
    assert not compilations
    np.testing.assert_array_equal(trainer.variable.value, np.full((IN, OUT), 3.0))
    variable = weakref.ref(trainer.variable)
    del trainer, code
    gc.collect()
    assert variable() is None
    assert copies() == 0
