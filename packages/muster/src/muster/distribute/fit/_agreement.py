"""Keeps the workers of a job in lockstep under ``fit``, ``evaluate`` and ``predict``."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from muster._errors import MismatchError
from muster.distribute.workers._elastic_workers import ElasticWorkers
from muster.distribute.workers._randomness import take_chiefs_randomness
from muster.distribute.workers._workers import Workers

Array = np.ndarray[Any, Any]

_STOP = "stop"


class Agreement:
    """Checks that all workers of a job take the same steps, and stops them together.

    With one worker it does nothing.

    Args:
        workers: The processes.
        model: A Keras model; the workers agree on its ``stop_training``.

    Attributes:
        elastic: Whether workers come and go.
        single: Whether there is only one worker, and will be no other.
        catching_up: Whether this worker has joined the others and is not yet where they are. They have agreed
            on what comes before.
    """

    def __init__(self, workers: Workers, model: Any) -> None:
        self._workers = workers
        self._model = model
        self._stopped = False  # whether the workers have agreed to stop
        self.elastic = isinstance(workers, ElasticWorkers)
        self.single = workers.size == 1 and not self.elastic
        self.catching_up = False

    @property
    def is_chief(self) -> bool:
        """True if this is the worker that writes, and whose random numbers the others take."""
        return self._workers.is_chief

    @property
    def name(self) -> str:
        """The name of this worker, such as ``worker 1``."""
        return self._workers.names[self._workers.rank]

    def on(self, activity: str, *values: Any) -> list[list[Any]]:
        """All-gather values, and check that all workers are at the same point of the program.

        Args:
            activity: The name of this point; the same on all workers.
            values: JSON values of this worker.

        Returns:
            The values of each worker, by rank.

        Raises:
            StopIteration: Another worker has stopped training before a step of this one.
            MismatchError: Another worker does something else.
        """
        if self.single or self.catching_up:
            return [list(values)]
        while True:
            gathered = self._workers.all_gather_object([activity, *values])
            if activity != _STOP and any(each[0] == _STOP for each in gathered):
                self._model.stop_training = self._stopped = True
                if activity == "fit":
                    raise StopIteration
                continue  # the worker that stopped comes to this point, too
            break
        for worker, (theirs, *_) in enumerate(gathered):
            if theirs != activity and _STOP not in (theirs, activity):
                raise MismatchError(
                    f"This worker is in a step of {activity} while worker {worker} is in one of {theirs}: "
                    "all workers must call fit, evaluate and predict alike, also in callbacks."
                )
        return [values for _, *values in gathered]

    def after_steps(self) -> None:
        """Stop the training of the others, once, if this worker has stopped."""
        if self.catching_up:
            return
        if getattr(self._model, "stop_training", False) and not self._stopped and not self.single:
            self._stopped = True
            self.on(_STOP)

    def after_epoch(self) -> None:
        """Stop training on all workers if one of them stops."""
        stopping = self.on("the end of an epoch", bool(self._model.stop_training))
        self._model.stop_training = any(stops for (stops,) in stopping)
        self._stopped = False

    def chiefs(self, arrays: Sequence[Array]) -> list[Array]:
        """Return the chief's arrays, which have the same shapes and dtypes on every worker."""
        is_alone = self.single or self.catching_up
        return self._workers.broadcast(arrays) if arrays and not is_alone else list(arrays)

    def randomness(self) -> None:
        """Set the process-wide random states, by which Keras shuffles, to the chief's."""
        if not self.catching_up:
            take_chiefs_randomness(self._workers)
