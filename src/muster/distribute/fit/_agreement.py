"""What the workers of a job agree on under ``fit``, ``evaluate`` and ``predict``."""

import random
from typing import TYPE_CHECKING, Any

import numpy as np

from muster._errors import MismatchError

if TYPE_CHECKING:
    from muster.distribute.strategies._strategy import Strategy

_STOP = "stop"


class Agreement:
    """Lets the workers of a job do the same in the same order. With one worker there is nothing to agree on.

    Args:
        strategy: whose workers they are.
        model: its ``stop_training`` is what they agree on.

    Attributes:
        alone: whether there is but one worker.
        is_chief: whether this is the worker that writes, and whose random numbers count.
    """

    def __init__(self, strategy: "Strategy", model: Any) -> None:
        self._strategy = strategy
        self._model = model
        self.alone = strategy.input_context.num_input_pipelines == 1
        self.is_chief = strategy.input_context.input_pipeline_id == 0
        self._stops = False  # whether the others were told so

    def on(self, what: str, *values: Any) -> list[list[Any]]:
        """Tell the others what this worker does, and learn their values.

        Args:
            what: has to be the same on all workers.
            values: JSON.

        Raises:
            StopIteration: Another worker has stopped training, and this one is about to take a step of it.
            MismatchError: The others do something else.
        """
        if self.alone:
            return [list(values)]
        while True:
            told = self._strategy.tell_all([what, *values])
            if what != _STOP and any(each[0] == _STOP for each in told):
                self._model.stop_training = self._stops = True
                if what == "fit":
                    raise StopIteration
                continue  # the one that stopped comes to this point, too
            break
        for worker, (theirs, *_) in enumerate(told):
            if theirs != what and _STOP not in (theirs, what):
                raise MismatchError(
                    f"This worker is in a step of {what} while worker {worker} is in one of {theirs}: all "
                    "workers must call fit, evaluate and predict alike, also in callbacks."
                )
        return [values for _, *values in told]

    def after_steps(self) -> None:
        """Tell the others, once, if this worker takes no further step of training."""
        if getattr(self._model, "stop_training", False) and not self._stops and not self.alone:
            self._stops = True
            self.on(_STOP)

    def after_epoch(self) -> None:
        """Stop on all workers if one of them stops."""
        told = self.on("the end of an epoch", bool(self._model.stop_training))
        self._model.stop_training = any(stops for (stops,) in told)
        self._stops = False

    def randomness(self) -> None:
        """Give the process-wide random numbers, by which Keras shuffles, the chief's state."""
        if self.alone:
            return
        chief, *_ = self._strategy.tell_all(random_state() if self.is_chief else None)
        if not self.is_chief:
            set_random_state(chief)


def random_state() -> list[Any]:
    """The state of NumPy's and of Python's process-wide random numbers, as JSON."""
    name, keys, position, has_gauss, gauss = np.random.get_state()
    return [[name, np.asarray(keys).tolist(), position, has_gauss, gauss], random.getstate()]


def set_random_state(state: list[Any]) -> None:
    """Set what ``random_state`` gave."""
    numpy_state, (version, internal, gauss) = state
    np.random.set_state(tuple(numpy_state))
    random.setstate((version, tuple(internal), gauss))
