"""A training whose workers come and go: what one who comes is given, and what is left by one who goes."""

import dataclasses
import logging
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from muster._arrays import AnyArray
from muster._errors import DirectoryInUseError, MismatchError
from muster.distribute import Strategy
from muster.distribute.input import SynchronizedInput
from muster.distribute.workers import ElasticWorkers
from muster.estimator.loop._run_loop import TrainingSession
from muster.estimator.session._session import Session

_log = logging.getLogger(__name__)

# How often a new chief looks whether it may write, while the one before still could, in seconds.
_TRY_SECS = 1.0


@dataclasses.dataclass
class ElasticTraining:
    """The loop of steps of an Estimator, as a `muster.distribute.workers.ReplicatedLoop`.

    Args:
        workers: The workers.
        strategy: Their strategy.
        session: Has the state.
        steps: The input.
        last_step: The global step to stop at; None for no limit.
        become_chief: Called when this worker has become the one that saves.
    """

    workers: ElasticWorkers
    strategy: Strategy
    session: Session
    steps: SynchronizedInput
    last_step: int | None
    become_chief: Callable[[TrainingSession], None]

    def __post_init__(self) -> None:
        self._is_chief = self.workers.is_chief
        self._epoch = self.workers.epoch
        self._tries_at = 0.0

    def steps_taken(self) -> int:
        """Return how many steps the state has."""
        return self.session.steps_taken

    def give(self) -> tuple[Any, list[np.ndarray[Any, Any]]]:
        """Return what a new worker needs before the next step."""
        state = self._state()
        about = {
            "step": self.session.global_step,
            "taken": self.session.steps_taken,
            "starts": list(self.steps.starts),
            "last_step": self.last_step,
            "variables": _kinds(state),
        }
        return about, [np.array(value, order="C") for value in state.values()]

    def join(self) -> bool:
        """Wait until the others let this worker in, and take their state; return False if they have ended.

        Raises:
            MismatchError: Their model has other variables.
        """
        given = self.workers.join()
        if given is None:
            return False
        about, arrays = given
        state = self._state()
        if about["variables"] != (own := _kinds(state)):
            pairs = zip(about["variables"] + [None] * len(own), own + [None] * len(arrays), strict=False)
            theirs, ours = next((one, other) for one, other in pairs if one != other)
            raise MismatchError(
                "The model of this worker is another than that of those that it joins: they have the "
                f"variable {theirs}, and it has {ours}. Start it with the same program and arguments."
            )
        placed = [self.strategy.placement.put(jax.numpy.asarray(array)) for array in arrays]
        self.session.store.give(dict(zip(state, placed, strict=True)))
        self.session.global_step, self.session.steps_taken = about["step"], about["taken"]
        self.last_step = about["last_step"]
        self.steps.take_over(about["taken"], about["starts"])
        self._epoch = self.workers.epoch
        return True

    def changed(self) -> None:
        """Go on with other workers than before."""
        self._epoch = self.workers.epoch
        self.steps.take_over(self.session.steps_taken)
        self._tries_at = 0.0

    def before_run(self, training: TrainingSession) -> None:
        """Take over what is this worker's since the last step, and save if it is the chief now.

        One that got the last result of its step from others has completed it with the old division.
        """
        if self.workers.epoch != self._epoch:
            self.changed()
        if self._is_chief or not self.workers.is_chief or (now := time.monotonic()) < self._tries_at:
            return
        try:
            self.become_chief(training)
        except DirectoryInUseError as exc:
            if not self._tries_at:
                _log.warning("Nothing is saved until the chief before this one has ended: %s", exc)
            self._tries_at = now + _TRY_SECS
            return
        self._is_chief = True
        _log.info("This worker saves from now on: those before it have gone.")

    def _state(self) -> dict[str, AnyArray]:
        return {path: np.asarray(value) for path, value in sorted(self.session.state.items())}


def _kinds(state: dict[str, AnyArray]) -> list[Any]:
    return [[path, list(value.shape), np.asarray(value).dtype.name] for path, value in state.items()]
