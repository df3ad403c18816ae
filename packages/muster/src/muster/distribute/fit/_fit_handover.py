"""Hand a running ``fit`` over to a worker that joins: a backup, sent over a connection."""

import contextlib
import dataclasses
import logging
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from muster._errors import MismatchError
from muster._keras import keras
from muster.distribute.fit._agreement import Agreement
from muster.distribute.fit._callback_states import CallbackStates
from muster.distribute.fit._fit_backup import FitProgress
from muster.distribute.fit._fit_input import FitInput
from muster.distribute.fit._fit_step import CountedSteps, KerasFunction
from muster.distribute.input import Position
from muster.distribute.workers import ElasticWorkers

_log = logging.getLogger(__name__)

Array = np.ndarray[Any, Any]


class Handover(keras.callbacks.Callback):  # type: ignore[misc]
    """Lets workers that come take part in a call of ``fit`` between two of its steps.

    One of those who train gives what a backup has: the state, the place in the epoch and in the data, and
    what callbacks know. Who comes begins Keras' loop in that epoch and skips the steps that are done. It is
    the first callback, so that nobody is let in while others act at the end of an epoch.

    Args:
        workers: The workers.
        agreement: Their agreement.
        batches: The batches of the training.
        states: The states of the callbacks.
        counted: Counts the steps of the trainer.
        variables: Returns the variables of the state, in its order.
        function: Returns the function that Keras calls for steps. (To ask a callback's ``model`` for it has
            Keras assign the state to the variables, in the middle of a step.)
        place: The number of the call of ``fit``, among the places where others can join.
    """

    def __init__(
        self,
        workers: ElasticWorkers,
        agreement: Agreement,
        batches: FitInput,
        states: CallbackStates,
        counted: CountedSteps,
        variables: Callable[[], list[Any]],
        function: Callable[[], KerasFunction],
        place: int,
    ) -> None:
        super().__init__()
        self._workers = workers
        self._agreement = agreement
        self._batches = batches
        self._states = states
        self._counted = counted
        self._variables = variables
        self._function = function
        self._place = place
        self._epoch = 0
        self._got: tuple[FitProgress, list[Array]] | None = None
        self._is_under_way = self._takes_in = False
        self._taking_in = contextlib.ExitStack()
        self._undo = contextlib.ExitStack()

    @property
    def joins(self) -> bool:
        """Whether this worker has to `join` the others."""
        return self._workers.joins

    def join(self) -> int:
        """Wait until the others let this worker in; return the epoch in which they are.

        Raises:
            MismatchError: They train another model.
            SystemExit: They have ended, or are where nobody can join them.
        """
        about, arrays = self._workers.join_at_work("at the end of an epoch")
        if about.get("place") != self._place:
            self._workers.come_again("It came to a call of fit when the others had ended it.")
        self._got = FitProgress(**about["progress"]), arrays
        self._counted.count = about["taken"]
        self._batches.expect(about["batch"])
        self._agreement.catching_up = True
        self._states.prepare()
        return self._got[0].epoch

    def give(self) -> tuple[Any, list[Array]] | None:
        """Return what a worker that comes needs to take the step that is under way; None if it cannot."""
        function = self._function()
        try:
            states, kept = self._states.save()
        except Exception as exc:  # what the user's get_state raises
            _log.warning("No worker can join, since the state of a callback is not to be had: %s", exc)
            return None
        values = [np.array(value, order="C") for value in function.state()]
        progress = FitProgress(
            epoch=self._epoch,
            step=function.in_epoch,
            position=self._batches.next_unused.to_json(),
            logs={},
            saves=0,
            callbacks=states,
            arrays=[(list(each.shape), each.dtype.name) for each in kept],
        )
        about = {
            "place": self._place,
            "taken": self._counted.count,
            "batch": self._batches.digest(),
            "progress": dataclasses.asdict(progress),
        }
        return about, [*values, *map(np.ascontiguousarray, kept)]

    def on_train_begin(self, logs: Any = None) -> None:
        self._workers.come_to(self._place)
        self._states.begin(self._variables())
        if self._got is not None:
            self._restore(*self._got)

    def begin_steps(self, epoch: int) -> None:
        """Begin the steps of an epoch, when all other callbacks have begun it."""
        self._epoch = epoch
        function = self._function()
        function.in_epoch, function.gives = 0, self.give
        if self._got is not None:
            (progress, arrays), self._got = self._got, None
            self._restore(progress, arrays)  # Keras has reset the metrics, and callbacks begin anew
            self._undo = self._states.telling_from(progress.step)
            self._batches.go_on(Position.of_json(progress.position))
            function.skip(progress.step, progress.logs, self._batches.catch_up)
            self._agreement.catching_up = False
        if self._is_under_way:
            self._take_in()
        else:
            # Only then all workers have the same state.
            function.after_first = self._take_in

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.close()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Let nobody in while the block runs, which is another method of the model.

        Raises:
            SystemExit: This worker has joined the others, and is not yet in the step in which they are.
        """
        if self._agreement.catching_up:
            self._workers.stand_by("a callback evaluates the model at the beginning of fit or of an epoch")
        took = self._takes_in
        self._end_taking_in()
        try:
            yield
        finally:
            if took:
                self._take_in()

    def close(self) -> None:
        """Let nobody in any more."""
        self._end_taking_in()
        self._undo.close()

    def leave(self) -> None:
        """End the call of ``fit``."""
        self.close()
        self._workers.come_to(0)

    def _take_in(self) -> None:
        self._is_under_way = self._takes_in = True
        self._taking_in.enter_context(self._workers.taking_in())

    def _end_taking_in(self) -> None:
        self._takes_in = False
        self._taking_in.close()

    def _restore(self, progress: FitProgress, arrays: list[Array]) -> None:
        """Take the state of the others."""
        variables = self._variables()
        count = len(arrays) - len(progress.arrays)
        values, kept = arrays[:count], arrays[count:]
        theirs = [f"{value.dtype}{list(value.shape)}" for value in values]
        own = [f"{np.dtype(each.dtype)}{list(each.shape)}" for each in variables]
        if theirs != own:
            raise MismatchError(
                "The model of this worker is another than that of those that it joins: they have variables "
                f"of {', '.join(theirs)}, and it has {', '.join(own)}. Start it with the same program and "
                "arguments."
            )
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)
        self._states.restore(progress.callbacks or {}, kept, "Start this worker with the same program.")
