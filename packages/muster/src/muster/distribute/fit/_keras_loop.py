"""Keras' loop over the steps of an epoch, which goes on by itself as long as nobody looks.

After each step Keras stores the state in the model, tells the callbacks and begins the next. That takes 20 µs
of Python, a hundredth of a small step. If no callback has hooks for steps, one call of Keras' takes all steps
of an epoch, and only a progress bar is told of some.
"""

from collections.abc import Iterator
from typing import Any

from muster.distribute.fit._fit_callback_list import EpochCallbacks
from muster.program.variables.keras_internals import (
    is_synced,
    loop_further,
    loop_step_again,
    note_state,
)


class KerasLoop:
    """Takes Keras' loop further while a call of it takes steps.

    Args:
        model: The model whose ``fit`` or ``evaluate`` runs.
        epochs: Keras' iterator over the steps of its epochs.
        callbacks: What Keras calls at steps.
        tells: The hook by which a bar is told of a step.
    """

    def __init__(self, model: Any, epochs: Any, callbacks: EpochCallbacks, tells: str) -> None:
        self._model = model
        self._epochs = epochs
        self._callbacks = callbacks
        self._tells = tells
        self._step: tuple[int, int, Iterator[Any]] | None = None
        self.is_ahead = False

    def further(self, results: Any) -> Iterator[Any] | None:
        """Begin the next step, as Keras does, and return what it draws its batch from.

        Args:
            results: Those of the step before.

        Returns:
            None if Keras is to go on: at the end of an epoch, or if somebody has looked at the model or stops
            it.
        """
        model = self._model
        if self._step is not None:
            self._callbacks.reached = self._step[1]  # Keras counts the steps that it has begun itself
            self._step = None
        if not self._callbacks.skips_steps or model.stop_training or is_synced(model):
            return None
        step = loop_further(self._epochs)
        if step is None:
            return None
        self._callbacks.keep(self._tells, step[0] - 1, results)
        self._step, self.is_ahead = step, True
        return step[2]

    def again(self) -> None:
        """Let Keras begin the last step again: there was no data for it, which ends Keras' loop."""
        if self._step is not None:
            loop_step_again(self._epochs, self._step)

    def catch_up(self, state: Any) -> None:
        """Let the model have the state of the last step, which Keras stores only after a call."""
        self.is_ahead = False
        note_state(self._model, state)
