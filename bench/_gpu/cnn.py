"""Time the guide's CNN under ``Estimator.train``, in turn with a loop by hand in JAX and with PyTorch's.

TensorFlow's guide shows a log of 220 steps a second on a GPU; muster is to make ten times as many.
"""

import math
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from bench._gpu._model import LOSS, input_fn_of, model_fn_of
from bench._gpu._nets import ByHand, torch_turns, turn_of
from bench._gpu._part import OURS, Part, speeds, this_part
from bench._gpu.nets import GuidesNetwork, net

from muster import keras
from muster.estimator import Estimator, SessionRunHook

GUIDES_STEPS_PER_SEC = 220
BAR = 10 * GUIDES_STEPS_PER_SEC
TURNS = 9


class Turns(SessionRunHook):
    """Time the Estimator's turns, and let others take theirs in between.

    Args:
        steps: The number of steps in a turn.
        turns: The number of rounds, after one that is not counted.
        others: Functions that train a turn and return its seconds, by name.
        until: When no further round begins, by time.monotonic.

    Attributes:
        seconds: The seconds of each turn, by name.
        losses: The Estimator's loss at the end of each turn, the first included.
    """

    def __init__(
        self, steps: int, turns: int, others: Mapping[str, Callable[[], float]], until: float
    ) -> None:
        self.steps, self.turns, self.others, self.until = steps, turns, dict(others), until
        self.seconds: dict[str, list[float]] = {name: [] for name in (OURS, *others)}
        self.losses: list[float] = []

    def after_create_session(self, session: Any, coord: Any) -> None:
        self.began = time.perf_counter()

    def after_run(self, run_context: Any, run_values: Any) -> None:
        session = run_context.session
        if session.steps_taken % self.steps:
            return
        loss = float(session.run("loss"))
        found = {OURS: time.perf_counter() - self.began}
        names = list(self.others)
        for name in names if len(self.losses) % 2 else reversed(names):
            found[name] = self.others[name]()
        if self.losses:  # the first round compiles
            for name, each in found.items():
                self.seconds[name].append(each)
        self.losses.append(loss)
        over = time.monotonic() > self.until and self.seconds[OURS]
        if len(self.losses) > self.turns or over:
            run_context.request_stop()
        self.began = time.perf_counter()


def shuffled(chosen: GuidesNetwork) -> Iterator[tuple[Any, Any]]:
    """Yield the batches of a loop: rows gathered in a random order, again and again."""
    images, labels = chosen.data()
    rng = np.random.default_rng(0)
    while True:
        for rows in rng.permutation(len(images)).reshape(-1, chosen.batch):
            yield images[rows], labels[rows]


def measure(part: Part) -> None:
    """Report the steps a second of all contestants, and whether the bar was reached."""
    chosen: GuidesNetwork = net("cnn", part.size)
    with torch_turns(part, "cnn", chosen.steps) as torch, tempfile.TemporaryDirectory() as model_dir:
        by_hand = ByHand(chosen.keras_model(keras), chosen.keras_optimizer(keras), LOSS)
        batches = shuffled(chosen)
        others = {"jax": lambda: turn_of(by_hand, batches, chosen.steps), **torch()}
        turns = Turns(chosen.steps, 1 if part.small else TURNS, others, part.ends_at - 20)
        Estimator(model_fn_of(chosen), model_dir).train(input_fn_of(chosen), hooks=[turns])
    figures = speeds(turns.seconds, chosen.steps, chosen.batch)
    reached = figures["steps_per_sec"][OURS]
    part.note(
        batch=chosen.batch,
        turns=len(turns.seconds[OURS]),
        losses=[round(loss, 4) for loss in (turns.losses[0], turns.losses[-1])],
        **figures,
        bar={"steps_per_sec": BAR, "reached": reached >= BAR},
    )
    if not all(map(math.isfinite, turns.losses)):
        part.fail(f"The losses at the ends of turns are {turns.losses}.")
    if reached < BAR and not part.small:
        part.fail(f"The Estimator makes {reached} steps/s, and the bar is {BAR}.")


if __name__ == "__main__":
    this = this_part()
    measure(this)
    this.end()
