"""Steps with all kinds of variables and optimizers, for tests that divide them among servers."""

import numpy as np

import muster
from muster._keras import keras
from muster.program.passes import split_at_pushes
from muster.program.trace import Program
from muster.program.variables._origins import VariableKind

RNG = np.random.default_rng(0)
X = RNG.normal(size=(8, 5)).astype(np.float32)
Y = np.sin(X.sum(1, keepdims=True))

schedules, optimizers = keras.optimizers.schedules, keras.optimizers
OPTIMIZERS = {
    "SGD": lambda: optimizers.SGD(0.1),
    "momentum": lambda: optimizers.SGD(schedules.ExponentialDecay(0.1, 2, 0.5), momentum=0.9, nesterov=True),
    "Adam": lambda: optimizers.Adam(0.1, amsgrad=True),
    "AdamW": lambda: optimizers.AdamW(0.1, weight_decay=0.01),
    "Adagrad": lambda: optimizers.Adagrad(0.1),
    "RMSprop": lambda: optimizers.RMSprop(0.1, momentum=0.9, centered=True),
    "Ftrl": lambda: optimizers.Ftrl(0.1),
    "Lamb": lambda: optimizers.Lamb(0.1),
    "clipvalue": lambda: optimizers.Adam(0.1, clipvalue=0.01),
    "clipnorm": lambda: optimizers.Adam(0.1, clipnorm=0.01),
    "global_clipnorm": lambda: optimizers.Adam(0.1, amsgrad=True, global_clipnorm=0.01),
    "average": lambda: optimizers.Adam(0.1, use_ema=True, ema_overwrite_frequency=2),
    "accumulation": lambda: optimizers.SGD(0.1, gradient_accumulation_steps=2),
    "loss scale": lambda: optimizers.LossScaleOptimizer(optimizers.Adam(0.1), initial_scale=8.0),
}


def program_of(optimizer):
    def train(x, y):
        hidden = keras.layers.Dense(4, activation="tanh")(x)
        hidden = keras.layers.BatchNormalization()(hidden, training=True)
        hidden = keras.layers.Dropout(0.3, seed=1)(hidden, training=True)
        outputs = keras.layers.Dense(1)(hidden)
        seen = keras.Variable(0, dtype="int32", name="examples", aggregation="sum", trainable=False)
        seen.assign_add(len(x))  # a constant of the program for batches of this length
        last = keras.Variable(0.0, name="last", aggregation="mean", trainable=False)
        last.assign(keras.ops.mean(x))
        loss = keras.ops.mean((outputs - y) ** 2)
        mean = keras.metrics.Mean(name="mean")
        mean.update_state(outputs)
        muster.minimize(optimizer(), loss, muster.get_or_create_global_step())
        return {"loss": loss, "mean": mean.result()}, None

    return Program(train, X, Y, seed=1)


def divided(program, *batch):
    """The step of a program as a worker's part and updates."""
    own = {v.path for v in program.variables if v.kind in (VariableKind.SEED, VariableKind.METRIC)}
    return split_at_pushes(lambda state, batch: program.step(state, *batch), program.initial, batch, own)
