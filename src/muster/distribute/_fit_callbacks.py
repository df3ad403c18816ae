"""Callbacks of ``fit`` over several workers: who writes, and what all agree on."""

from collections.abc import Callable, Sequence
from typing import Any

from muster._keras import keras
from muster.distribute._fit_input import Agreement

# They write files and change nothing in the model: the chief's are enough.
_WRITERS = (
    keras.callbacks.ModelCheckpoint,
    keras.callbacks.CSVLogger,
    keras.callbacks.RemoteMonitor,
    keras.callbacks.TensorBoard,
)


def callbacks_of(given: Any, agreement: Agreement, begin: Callable[[], None]) -> list[Any]:
    """The callbacks that a worker calls for those that the user gave.

    Args:
        given: callbacks, one of them, or None.
        agreement: of the workers.
        begin: called at the start of every epoch.
    """
    callbacks = list(given) if isinstance(given, Sequence) else [given] if given is not None else []
    if not agreement.is_chief:
        callbacks = [callback for callback in callbacks if not isinstance(callback, _WRITERS)]
    return [_Begin(begin), *callbacks, _Together(agreement)]


class _Begin(keras.callbacks.Callback):  # type: ignore[misc]
    """Says that an epoch begins."""

    def __init__(self, begin: Callable[[], None]) -> None:
        super().__init__()
        self._begin = begin

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._begin()


class _Together(keras.callbacks.Callback):  # type: ignore[misc]
    """Lets all workers stop training where one of them does. The last of the callbacks."""

    def __init__(self, agreement: Agreement) -> None:
        super().__init__()
        self._agreement = agreement

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self.model.stop_training and not self._agreement.alone:
            self._agreement.stop()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        told = self._agreement.on("epoch", bool(self.model.stop_training))
        self.model.stop_training = any(stop for (stop,) in told)
