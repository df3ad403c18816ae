"""A Keras callback that writes the hyperparameters of a run."""

import os
from collections.abc import Mapping
from typing import Any

from muster._keras import keras
from muster._paths import local_path
from muster.summary import EventFileWriter, SummaryWriter, create_file_writer


class HParamsCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Writes the hyperparameters of a run when it begins, and that it has ended well; on the chief only.

    Args:
        writer: The folder of the run's summaries, or a writer.
        hparams: Name or `muster.summary.HParam` -> a number, a truth value or a text.
        trial_id: The name of all runs with these values; None takes a hash of them.

    Source: tensorboard/plugins/hparams/_keras.py, ``Callback``.
    """

    def __init__(
        self,
        writer: str | os.PathLike[str] | SummaryWriter,
        hparams: Mapping[Any, Any],
        trial_id: str | None = None,
    ) -> None:
        super().__init__()
        self._writer = writer if isinstance(writer, SummaryWriter) else local_path(writer)
        self._hparams = dict(hparams)
        self._trial_id = trial_id
        self._events: EventFileWriter | None = None

    def on_train_begin(self, logs: Any = None) -> None:
        """Write the hyperparameters."""
        if not isinstance(self._writer, SummaryWriter):
            self._writer = create_file_writer(self._writer)
        self._events = self._writer.events
        if self._events is not None:
            self._events.add_hparams(self._hparams, trial_id=self._trial_id)
            self._events.flush()

    def on_train_end(self, logs: Any = None) -> None:
        """Write that the run has ended."""
        if self._events is not None:
            self._events.add_hparams_end()
            self._events.flush()
