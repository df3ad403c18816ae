"""Train a model of 200 MB on four virtual devices for ``bench.replica_memory``, and print JSON.

Argument: ``by hand``, ``loop``, ``fit`` or ``Estimator``. Sizes are in bytes: ``resident`` and ``peak`` of
the process, the peak since the line before, and ``arrays`` of all JAX arrays, each buffer counted once.
"""

import gc
import json
import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "jax")

import jax
import jax.numpy as jnp
import keras
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import muster
from muster import cpu
from muster.data import Dataset
from muster.distribute import MirroredStrategy
from muster.estimator import Estimator, EstimatorSpec, RunConfig, SessionRunHook

UNITS, LAYERS, BATCH, STEPS = 3162, 5, 8, 4
RATE = 1e-3
said = []


def say(when):
    """Print the memory in use, and reset the peak."""
    gc.collect()
    status = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    buffers = {
        shard.data.unsafe_buffer_pointer(): shard.data.nbytes
        for array in jax.live_arrays()
        if not array.is_deleted()
        for shard in array.addressable_shards
    }
    resident, peak = (1024 * int(status[name].split()[0]) for name in ("VmRSS", "VmHWM"))
    said.append({"when": when, "arrays": sum(buffers.values()), "resident": resident, "peak": peak})
    Path("/proc/self/clear_refs").write_text("5")


def build():
    layers = [keras.layers.Dense(UNITS, use_bias=False) for _ in range(LAYERS)]
    return keras.Sequential([keras.Input((UNITS,)), *layers])


def loss_of(outputs, y):
    return keras.ops.sum((outputs - y) ** 2) / (BATCH * UNITS)


def data():
    rng = np.random.default_rng(0)
    return rng.random((BATCH * STEPS, UNITS), np.float32), np.zeros((BATCH * STEPS, UNITS), np.float32)


def by_hand():
    """Train with the step that a user would write in JAX, with a replica on each device."""
    mesh = Mesh(np.array(jax.devices()), ("replica",))
    model = build()
    weights = [jax.device_put(v.value, NamedSharding(mesh, P())) for v in model.trainable_variables]
    for variable in model.variables:
        variable._value = None

    def step(weights, x, y):
        def loss(weights):
            return loss_of(model.stateless_call(weights, [], x)[0], y)

        value, grads = jax.value_and_grad(loss)(weights)
        grads = jax.lax.psum(grads, "replica")
        return [w - RATE * g for w, g in zip(weights, grads, strict=True)], jax.lax.psum(value, "replica")

    rows = P("replica")
    mapped = jax.shard_map(step, mesh=mesh, in_specs=(P(), rows, rows), out_specs=(P(), P()), check_vma=False)
    run = jax.jit(mapped, donate_argnums=0)
    x, y = data()
    for start in range(0, len(x), BATCH):
        weights, loss = run(weights, x[start : start + BATCH], y[start : start + BATCH])
        jax.block_until_ready(loss)
        say("step")


def loop(strategy):
    with strategy.scope():
        model, optimizer = build(), keras.optimizers.SGD(RATE)

    @muster.function
    def step(x, y):
        def on_replica(x, y):
            with muster.GradientTape() as tape:
                loss = loss_of(model(x), y)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return loss

        return strategy.reduce("SUM", strategy.run(on_replica, (x, y)), axis=None)

    dataset = Dataset.from_tensor_slices(data()).batch(BATCH)
    for x, y in strategy.experimental_distribute_dataset(dataset):
        float(step(x, y))
        say("step")


class Says(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        say("step")


def fit(strategy):
    with strategy.scope():
        model = build()
        model.compile(keras.optimizers.SGD(RATE), "mse")
    x, y = data()
    model.fit(x, y, batch_size=BATCH, verbose=0, callbacks=[Says()])


class Notes(SessionRunHook):
    def after_run(self, run_context, run_values):
        run_context.session.run("loss")  # waits for the step
        say("step")


def estimator(strategy):
    def model_fn(features, labels, mode):
        loss = loss_of(build()(features), labels)
        train_op = muster.minimize(keras.optimizers.SGD(RATE), loss, muster.get_or_create_global_step())
        return EstimatorSpec(mode, loss=loss, train_op=train_op)

    def input_fn():
        return Dataset.from_tensor_slices(data()).batch(BATCH // jax.device_count())

    with tempfile.TemporaryDirectory() as model_dir:
        config = RunConfig(train_distribute=strategy, save_checkpoints_steps=None, save_checkpoints_secs=None)
        Estimator(model_fn, model_dir, config).train(input_fn, hooks=[Notes()], steps=STEPS)


def main():
    cpu.prepare()
    strategy = MirroredStrategy(jax.devices())
    jax.block_until_ready(jnp.zeros(()))
    say("start")
    how = sys.argv[1]
    if how == "by hand":
        by_hand()
    else:
        {"loop": loop, "fit": fit, "Estimator": estimator}[how](strategy)
    print(json.dumps({"parameters": 4 * LAYERS * UNITS**2, "said": said}))


main()
