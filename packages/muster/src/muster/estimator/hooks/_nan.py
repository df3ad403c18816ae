"""A hook that stops training when the loss is not a number."""

import logging
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from muster._errors import NanLossDuringTrainingError
from muster.estimator.hooks._base import SessionRunContext, SessionRunHook, SessionRunValues
from muster.estimator.session._fetches import TensorLike, as_fetch, fetch_name
from muster.estimator.session._session import Coordinator, Session
from muster.program import keepable

_log = logging.getLogger(__name__)

# How far short steps may run ahead of the check. The host dispatches steps in a row in a fraction of the time
# that it takes after a wait for each, when its caches are cold.
_AHEAD_SECS = 0.05
_AHEAD_RUNS = 16


class NanTensorHook(SessionRunHook):
    """Raises an error, or stops training, when the loss becomes NaN.

    The device never waits for the check: a loss that is still being computed is checked once the next run is
    dispatched. So NaN is noticed one run late, or up to 16 runs or about 50 ms late if runs are short. Where
    something waits for the step anyway, the loss is checked at once: before a checkpoint is saved, before a
    hook reads a value (to log it, say), and at the end. So no checkpoint with a NaN loss is written
    unnoticed. A loss that is on the host already is checked in its run, as TensorFlow checks every loss.

    Before it raises, the step is run again eagerly, which names a label that is no class.

    Source: tensorflow/python/training/basic_session_run_hooks.py, ``NanTensorHook``.
    """

    def __init__(self, loss_tensor: TensorLike, fail_on_nan_loss: bool = True) -> None:
        """Choose the loss.

        Args:
            loss_tensor: The loss, or its name or handle: a float array of any shape.
            fail_on_nan_loss: Whether NaN is an error; if not, training stops with a warning, cleanly, and the
                last checkpoint is one of the model that diverged.
        """
        self._loss = fetch_name(as_fetch(loss_tensor, "loss"))
        self._fail = fail_on_nan_loss
        self._reset()

    def _reset(self) -> None:
        self._seen: Mapping[str, Any] | None = None
        self._unchecked: list[tuple[int, Any, Sequence[Any]]] = []
        self._runs_ahead = self._most_runs = 1
        self._waited_at = -math.inf
        self._found = False

    def after_create_session(self, session: Session, coord: Coordinator) -> None:
        """Have the session check the loss before it saves, reads or ends."""
        self._reset()
        session.require(self._loss)
        session.add_check(self._check_all)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Check the losses of earlier runs once enough are waiting, and this one if it is on the host."""
        session = run_context.session
        self._queue_last(session)
        waiting = self._unchecked
        if waiting and isinstance(waiting[-1][1], np.ndarray | np.generic | float):
            self._check_all(session)
        elif len(waiting) > min(self._runs_ahead, self._most_runs):
            checked = len(waiting) // 2  # what is left keeps the device busy for a while
            self._unchecked = waiting[checked:]
            self._check(session, waiting[:checked])
            self._set_runs_ahead(checked)

    def steps_until_due(self, session: Session) -> int | None:
        """Return None: where a run takes several steps, its losses are NaN if one of them is."""
        return None

    def _set_runs_ahead(self, runs: int) -> None:
        """Choose how many runs to dispatch ahead, by how long the last ones took."""
        now = time.monotonic()
        secs, self._waited_at = now - self._waited_at, now
        self._runs_ahead = min(_AHEAD_RUNS, max(1, int(runs * _AHEAD_SECS / secs))) if secs else 1

    def _queue_last(self, session: Session) -> None:
        """Queue the losses of the last run, unless they are queued already, or an earlier one was NaN."""
        if session.outputs is not self._seen and not self._found:
            if self._seen is None:
                self._most_runs = keepable(session.batches, _AHEAD_RUNS)
            self._seen = session.outputs
            losses = [outputs[self._loss] for outputs in session.earlier_outputs]
            for loss in (*losses, session.output(self._loss)):
                self._unchecked.append((session.global_step, loss, session.batches))

    def _check_all(self, session: Session) -> None:
        """Check all losses that are queued."""
        if session.outputs:
            self._queue_last(session)
        unchecked, self._unchecked = self._unchecked, []
        self._check(session, unchecked)

    def _check(self, session: Session, losses: list[tuple[int, Any, Sequence[Any]]]) -> None:
        values = [np.asarray(loss) for _, loss, _ in reversed(losses)]  # once the last is there, all are
        for (step, _, batches), value in zip(losses, reversed(values), strict=True):
            if not _has_nan(value):
                continue
            self._found = True
            session.explain(batches)
            self._report(session, step)
            return

    def _report(self, session: Session, step: int) -> None:
        """Raise an error, or stop."""
        if self._fail:
            _log.error("Model diverged with loss = NaN.")
            raise NanLossDuringTrainingError(
                f"NaN loss during training. The loss is NaN at global step {step}: look for NaN or "
                "extreme values in the input, or lower the learning rate."
            )
        _log.warning("Model diverged with loss = NaN.")
        session.coord.request_stop()


class EvaluationNanHook(NanTensorHook):
    """Raises the error that made the loss of an evaluation NaN, if running the batch eagerly shows it."""

    def _report(self, session: Session, step: int) -> None:
        pass  # the mean loss stays NaN, for which it may have reasons


def _has_nan(loss: np.ndarray[Any, Any]) -> bool:
    # A loss is nearly always one number, for which NumPy's own functions take ten times as long.
    return math.isnan(loss) if loss.ndim == 0 else bool(np.isnan(loss).any())
