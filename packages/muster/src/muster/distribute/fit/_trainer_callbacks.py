"""The callbacks of a trainer: what Keras calls of the user's, and muster's beside them."""

from collections.abc import Callable
from typing import Any

import jax

from muster._keras import keras
from muster.distribute.fit._agreement import Agreement
from muster.distribute.fit._callback_states import CallbackStates
from muster.distribute.fit._fit_backup import Backup, backup_of
from muster.distribute.fit._fit_callback_list import EpochCallbacks, called_by
from muster.distribute.fit._fit_callbacks import Epochs, Report, Saves, callbacks_of, note_saves
from muster.distribute.fit._fit_handover import Handover
from muster.distribute.fit._fit_input import FitInput


class TrainerCallbacks:
    """Chooses what Keras calls in ``fit``, ``evaluate`` and ``predict`` of a model.

    Args:
        model: The model.
        agreement: The agreement of the workers.
        report: Reports the progress of this task; None if there are no other tasks.
        share_all: Lets all workers take the chief's variables before the next step.

        hands_over: Returns what lets workers join a call of ``fit``; None if none can.

    Attributes:
        at_epochs: What is not called at steps; None if a callback has hooks for steps.
        handover: Lets workers join the call of ``fit`` that runs; None if none can.
    """

    def __init__(
        self,
        model: Any,
        agreement: Agreement,
        report: Report | None,
        share_all: Callable[[], None],
        hands_over: Callable[[FitInput, CallbackStates], Handover | None] = lambda *_: None,
    ) -> None:
        self._model = model
        self._agreement = agreement
        self._report = report
        self._share_all = share_all
        self._hands_over = hands_over
        self._backups: list[Backup] = []
        self.at_epochs: EpochCallbacks | None = None
        self.handover: Handover | None = None

    def attach(self) -> None:
        """Pass the model to the callbacks, once it is built."""
        if self.at_epochs is not None:
            self.at_epochs.attach()

    def close(self) -> None:
        """End the backups, after the outermost call."""
        self.at_epochs = None
        backups, self._backups = self._backups, []
        for backup in backups:
            backup.close()
        if self.handover is not None:
            self.handover.leave()
            self.handover = None

    def prepare(self, arguments: dict[str, Any], batches: FitInput, *, trains: bool) -> None:
        """Replace the callbacks among the arguments of a call by those that Keras is to call on this worker.

        Args:
            arguments: Those of the call, which are changed.
            batches: The batches of the call.
            trains: Whether it is ``fit``.

        Raises:
            TypeError: A callback is none.
        """
        callbacks = arguments.get("callbacks")
        if isinstance(callbacks, keras.callbacks.CallbackList):
            if trains:
                raise TypeError("Under a strategy, give fit a list of callbacks rather than a CallbackList.")
            self.at_epochs = callbacks if isinstance(callbacks, EpochCallbacks) else None
            return  # an evaluation inside of fit uses the callbacks of fit
        if not self._agreement.is_chief:
            arguments["verbose"] = 0
        listed = jax.tree.leaves(callbacks)
        for each in listed:
            if not isinstance(each, keras.callbacks.Callback):
                raise TypeError(f"`callbacks` must be keras.callbacks.Callback instances, got {each!r}.")
        if trains:
            listed = self._with_backups(listed, arguments, batches)
        listed = callbacks_of(listed, self._agreement)
        if trains:
            report = self._report
            if report is not None:
                report.note_summaries(listed)
            first: list[Any] = [] if self.handover is None else [self.handover]
            begin = None if self.handover is None else self.handover.begin_steps
            if report is not None and self._agreement.is_chief:
                first.append(Saves(report))
            listed = [*first, *listed, Epochs(self._agreement, batches.begin, report, begin)]
        arguments["callbacks"] = called = called_by(self._model, listed, arguments, trains=trains)
        self.at_epochs = called if isinstance(called, EpochCallbacks) else None

    def _with_backups(self, listed: list[Any], arguments: dict[str, Any], batches: FitInput) -> list[Any]:
        """Return the callbacks of ``fit`` with muster's backups for Keras', and say where training begins."""
        if self._agreement.is_chief:
            note_saves(listed)
        replaced = [each for each in listed if isinstance(each, keras.callbacks.BackupAndRestore)]
        listed = [each for each in listed if each not in replaced]
        elastic = self._agreement.elastic
        states = CallbackStates(listed if replaced or elastic else ())
        self._backups += [
            backup_of(each, self._agreement, batches, self._share_all, states) for each in replaced
        ]
        for backup in self._backups:
            backup.on_saved = None if self._report is None else self._report.saved
        for backup in self._backups:
            if backup.initial_epoch is not None:
                arguments["initial_epoch"] = backup.initial_epoch
            if backup.is_stopped:  # so there is no epoch left
                arguments["initial_epoch"] = arguments.get("epochs", 1)
        self.handover = self._hands_over(batches, states) if elastic else None
        if self.handover is not None and self.handover.joins:
            arguments["initial_epoch"] = self.handover.join()
        return [*listed, *self._backups]
