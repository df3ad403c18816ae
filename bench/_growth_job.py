"""Train a model of many variables for ``bench.growth``, in a process of its own.

Arguments: the way to train, and the number of variables. Prints a line of JSON: the seconds from the model's
making to the end of the first step, those of the processor, of XLA's compiler and of JAX's tracing in them,
and the median milliseconds of a later step. What was compiled before is not used.
"""

import contextlib
import json
import os
import statistics
import sys
import tempfile
import time

os.environ |= {"KERAS_BACKEND": "jax", "JAX_ENABLE_COMPILATION_CACHE": "0"}

import jax
import jax.numpy as jnp
import numpy as np

UNITS, BATCH, RATE = 16, 32, 1e-3
STEPS, WARM_UP = 60, 10
COMPILES = "/jax/core/compile/backend_compile_duration"
TRACES = ("/jax/core/compile/jaxpr_trace_duration", "/jax/core/compile/jaxpr_to_mlir_module_duration")
BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-7


class Clock:
    """Takes the time of the first step, and of each later one."""

    def __init__(self):
        self.secs = {"compiling": 0.0, "tracing": 0.0}
        self.steps = []
        jax.monitoring.register_event_duration_secs_listener(self._add)
        self._last = self.began = time.perf_counter()
        self._processor = time.process_time()

    def _add(self, event, secs, **_):
        if not self.steps:
            self.secs["compiling"] += secs * (event == COMPILES)
            self.secs["tracing"] += secs * (event in TRACES)

    def tick(self):
        now = time.perf_counter()
        if not self.steps:
            self._processor = time.process_time() - self._processor
        self.steps.append(now - self._last)
        self._last = now

    def report(self):
        later = self.steps[1 + WARM_UP :]
        first = {"first": self.steps[0], "processor": self._processor}
        return {**first, **self.secs, "step_ms": 1e3 * statistics.median(later)}


def arrays():
    rng = np.random.default_rng(0)
    return rng.normal(size=(BATCH, UNITS)).astype(np.float32), np.ones((BATCH, 1), np.float32)


def by_hand(count):
    """A step of plain JAX, with Adam."""
    clock = Clock()
    rng = np.random.default_rng(0)
    widths = [UNITS] * (count // 2 - 1) + [1]
    weights = [
        (jnp.asarray(rng.normal(size=(UNITS, width)) * 0.2, jnp.float32), jnp.zeros(width))
        for width in widths
    ]
    means = jax.tree.map(jnp.zeros_like, weights)
    squares = jax.tree.map(jnp.zeros_like, weights)

    def loss_of(weights, x, y):
        for kernel, bias in weights[:-1]:
            x = jnp.tanh(x @ kernel + bias)
        return jnp.mean((x @ weights[-1][0] + weights[-1][1] - y) ** 2)

    def step(state, x, y):
        weights, means, squares, count = state
        loss, gradients = jax.value_and_grad(loss_of)(weights, x, y)
        count = count + 1
        means = jax.tree.map(lambda m, g: m + (g - m) * (1 - BETA_1), means, gradients)
        squares = jax.tree.map(lambda v, g: v + (g * g - v) * (1 - BETA_2), squares, gradients)
        rate = RATE * jnp.sqrt(1 - BETA_2**count) / (1 - BETA_1**count)
        weights = jax.tree.map(
            lambda w, m, v: w - rate * m / (jnp.sqrt(v) + EPSILON), weights, means, squares
        )
        return (weights, means, squares, count), loss

    run = jax.jit(step, donate_argnums=0)
    state, (x, y) = (weights, means, squares, jnp.float32(0)), arrays()
    for _ in range(1 + WARM_UP + STEPS):
        state, loss = run(state, x, y)
        jax.block_until_ready(loss)
        clock.tick()
    return clock.report()


def model_of(keras, count):
    layers = [keras.layers.Dense(UNITS, activation="tanh") for _ in range(count // 2 - 1)]
    return keras.Sequential([keras.Input((UNITS,)), *layers, keras.layers.Dense(1)])


def fit(keras, scope, count):
    x, y = arrays()
    clock = Clock()
    with scope():
        model = model_of(keras, count)
        model.compile(keras.optimizers.Adam(RATE), "mse", jit_compile=True)

    class Ticks(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            clock.tick()

    model.fit(
        np.tile(x, (1 + WARM_UP + STEPS, 1)),
        np.tile(y, (1 + WARM_UP + STEPS, 1)),
        batch_size=BATCH,
        verbose=0,
        callbacks=[Ticks()],
    )
    return clock.report()


def of_keras(count):
    import keras

    return fit(keras, contextlib.nullcontext, count)


def of_fit(count):
    from muster import distribute, keras

    return fit(keras, distribute.OneDeviceStrategy("/cpu:0").scope, count)


def of_loop(count):
    import muster
    from muster import keras

    clock = Clock()
    model = model_of(keras, count)
    optimizer = keras.optimizers.Adam(RATE)
    optimizer.build(model.trainable_variables)

    @muster.function
    def step(x, y):
        with muster.GradientTape() as tape:
            loss = keras.ops.mean((model(x) - y) ** 2)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    x, y = arrays()
    for _ in range(1 + WARM_UP + STEPS):
        jax.block_until_ready(step(x, y))
        clock.tick()
    return clock.report()


def of_estimator(count, strategy=None):
    import muster
    from muster import keras
    from muster.data import Dataset
    from muster.estimator import Estimator, EstimatorSpec, RunConfig, SessionRunArgs, SessionRunHook

    clock = Clock()

    def model_fn(features, labels, mode):
        loss = keras.ops.mean((model_of(keras, count)(features) - labels) ** 2)
        train_op = muster.minimize(keras.optimizers.Adam(RATE), loss, muster.get_or_create_global_step())
        return EstimatorSpec(mode, loss=loss, train_op=train_op)

    class Ticks(SessionRunHook):
        def before_run(self, run_context):
            return SessionRunArgs("loss")  # waits for the step

        def after_run(self, run_context, run_values):
            clock.tick()

    config = RunConfig(save_checkpoints_secs=None, save_summary_steps=None, train_distribute=strategy)
    with tempfile.TemporaryDirectory() as folder:
        Estimator(model_fn, folder, config).train(
            lambda: Dataset.from_tensors(arrays()).repeat(), max_steps=1 + WARM_UP + STEPS, hooks=[Ticks()]
        )
    return clock.report()


def of_servers(count):
    """A chief beside a parameter server, which is in this process and reached over a socket."""
    import socket

    from muster.cluster import ClusterSpec
    from muster.distribute import AsynchronousStrategy, Server

    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(socket.socket()) for _ in range(2)]
        for each in held:
            each.bind(("localhost", 0))
        chief, server = (f"localhost:{each.getsockname()[1]}" for each in held)
        for each in held:
            each.close()
        cluster = ClusterSpec({"chief": [chief], "ps": [server]})
        stack.enter_context(Server(cluster, "ps", 0))
        strategy = AsynchronousStrategy(stack.enter_context(Server(cluster, "chief")), starts=True)
        stack.callback(strategy.close)
        return of_estimator(count, strategy)


WAYS = {
    "plain JAX": by_hand,
    "Keras' fit": of_keras,
    "fit": of_fit,
    "loop": of_loop,
    "Estimator": of_estimator,
    "served": of_servers,
}

if __name__ == "__main__":
    print(json.dumps(WAYS[sys.argv[1]](int(sys.argv[2]))), flush=True)
