"""One worker of a job, which holds values of variables and has the job train.

Argument: JSON: devices, how many this worker has; holds, whether it keeps values; report, a file for whether
what it kept stayed as it was.
"""

import json
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from fit_cases import BATCH, X, Y, built

import muster
from muster._keras import keras
from muster.distribute import MultiWorkerMirroredStrategy


def main(devices: int, holds: bool, report: str) -> None:
    jax.config.update("jax_num_cpu_devices", devices)
    strategy = MultiWorkerMirroredStrategy()
    with strategy.scope():
        model, target = (built("functional", "adam") for _ in range(2))
        weight = keras.Variable(np.zeros(3, np.float32))

    @muster.function
    def step(x):
        weight.assign_add(strategy.reduce("SUM", strategy.run(lambda: jnp.ones(3) * x), axis=None))
        return weight.value

    class Copies(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            for to, variable in zip(target.weights, model.weights, strict=True):
                to.assign(variable)
            copies.append([np.asarray(variable.value.addressable_data(0)) for variable in target.weights])

    copies, kept, expected = [], [], []
    for turn in range(4):
        if holds:
            variables = [weight] if turn < 2 else model.variables
            kept += [variable.value for variable in variables]
            expected += [np.array(value) for value in kept[-len(variables) :]]
        if turn < 2:
            total = step(np.float32(1))
        else:
            model.fit(X[:BATCH], Y[:BATCH], batch_size=BATCH, epochs=2, verbose=0, callbacks=[Copies()])
    same = all(np.array_equal(np.asarray(one), other) for one, other in zip(kept, expected, strict=True))
    last = [np.asarray(variable.value.addressable_data(0)) for variable in target.weights]
    same = same and all(np.array_equal(one, other) for one, other in zip(last, copies[-1], strict=True))
    Path(report).write_text(
        json.dumps({"kept": len(kept), "same": same, "total": np.asarray(total).tolist()})
    )


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
