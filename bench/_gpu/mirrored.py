"""Train the guide's CNN under ``MirroredStrategy`` of one card by ``fit`` and by an Estimator.

Both are compared with the same without a strategy: losses must agree, and the epochs of ``fit`` alternate.
"""

import dataclasses
import tempfile
import time
from typing import Any

import numpy as np
from bench._gpu._model import LOSS, first_device, input_fn_of, model_fn_of
from bench._gpu._part import OURS, Part, alternate, speeds, this_part
from bench._gpu.nets import GuidesNetwork, net

from muster import keras
from muster.distribute import MirroredStrategy
from muster.estimator import Estimator, RunConfig, SessionRunHook

TURNS = 4
# How far means of losses may be apart.
AGREEMENT = 2e-3


class Losses(SessionRunHook):
    """Note the loss of every step."""

    def __init__(self) -> None:
        self.losses: list[float] = []

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.losses.append(float(run_context.session.run("loss")))


def compiled(chosen: GuidesNetwork) -> Any:
    """Return a model for ``fit``, the same each time; without dropout, which replicas draw for themselves."""
    keras.utils.set_random_seed(1)
    layers = [each for each in chosen.keras_model(keras).layers if not isinstance(each, keras.layers.Dropout)]
    model = keras.Sequential([keras.Input((28, 28, 1)), *layers])
    model.compile(chosen.keras_optimizer(keras), LOSS)
    return model


def by_fit(part: Part, chosen: GuidesNetwork) -> None:
    """Report milliseconds a step of epochs, and the widest gap of their losses."""
    images, labels = chosen.data()
    with MirroredStrategy([first_device()]).scope():
        ours = compiled(chosen)
    models = {OURS: ours, "keras": compiled(chosen)}
    losses: dict[str, list[float]] = {name: [] for name in models}

    def epoch(name: str) -> float:
        began = time.perf_counter()
        found = models[name].fit(images, labels, batch_size=chosen.batch, shuffle=False, verbose=0)
        losses[name].append(found.history["loss"][0])
        return time.perf_counter() - began

    turns = {name: lambda name=name: epoch(name) for name in models}
    seconds = alternate(turns, 1 if part.small else TURNS, part.ends_at - 20)
    gap = max(abs(a - b) for a, b in zip(*losses.values(), strict=True))
    part.note(
        fit=speeds(seconds, len(images) // chosen.batch, chosen.batch),
        fit_loss_gap=gap,
        fit_losses=losses[OURS],
    )
    if not gap <= AGREEMENT:
        part.fail(f"fit's losses differ by {gap} under MirroredStrategy: {losses}.")


def by_estimator(part: Part, chosen: GuidesNetwork) -> None:
    """Report the widest gap of an Estimator's losses with and without the strategy, in a few steps."""
    found = []
    for strategy in (None, MirroredStrategy([first_device()])):
        hook = Losses()
        with tempfile.TemporaryDirectory() as model_dir:
            config = RunConfig(model_dir, tf_random_seed=1, train_distribute=strategy)
            Estimator(model_fn_of(chosen), config=config).train(
                input_fn_of(chosen), hooks=[hook], steps=2 if part.small else 20
            )
        found.append(hook.losses)
    gap = float(np.max(np.abs(np.subtract(*found))))
    part.note(estimator_loss_gap=gap, estimator_losses=[found[1][0], found[1][-1]])
    if not gap <= 10 * AGREEMENT:
        part.fail(f"The Estimator's losses differ by {gap} under MirroredStrategy: {found}.")


if __name__ == "__main__":
    this = this_part()
    size = net("cnn", this.size)
    by_fit(this, size)
    by_estimator(this, dataclasses.replace(size, batches=min(size.batches, 40)))
    this.end()
