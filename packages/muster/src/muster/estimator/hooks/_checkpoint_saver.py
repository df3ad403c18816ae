"""A hook that saves checkpoints, and the listeners that it calls."""

import logging
import os
from collections.abc import Sequence
from typing import Protocol

from muster._paths import local_path
from muster._remote import remote_url
from muster.checkpoint import BASENAME
from muster.estimator.hooks._base import SessionRunContext, SessionRunHook, SessionRunValues
from muster.estimator.hooks._timer import SecondOrStepTimer
from muster.estimator.session._session import Coordinator, Session

_log = logging.getLogger(__name__)


class CheckpointSaverListener:
    """Called before and after each checkpoint is saved; subclasses override methods.

    Source: tensorflow/python/training/basic_session_run_hooks.py, ``CheckpointSaverListener``.
    """

    def begin(self) -> None:
        """Called once, before the session exists."""

    def before_save(self, session: Session, global_step_value: int) -> None:
        """Called before a checkpoint is written.

        Args:
            session: The session.
            global_step_value: The step of the checkpoint.
        """

    def after_save(self, session: Session, global_step_value: int) -> bool | None:
        """Called once the checkpoint is complete.

        Args:
            session: The session.
            global_step_value: The step of the checkpoint.

        Returns:
            True to stop training.
        """
        return None

    def end(self, session: Session, global_step_value: int) -> None:
        """Called at a clean stop, after the last save.

        Args:
            session: The session.
            global_step_value: The last step.
        """


class Saver(Protocol):
    """Writes a checkpoint in place of `Session.save`."""

    def __call__(self, session: Session, step: int, wait: bool) -> None:
        """Save the session's state as of ``step``; with ``wait``, return once it is complete."""


class CheckpointSaverHook(SessionRunHook):
    """Saves a checkpoint when the session starts, every N steps or seconds, and at the end.

    A step that is saved already is not saved again. Checkpoints are written in the background, from a copy;
    but the hook waits for the last one, and for all of them if there are listeners. On Ctrl-C and SIGTERM the
    last step is saved too, without a call of the listeners, which may take long.

    In the model directory it takes the place of the Estimator's own saver. In another one it saves beside
    that, so that training goes on after an interruption; in TensorFlow it then does not. A listener's request
    to stop is followed at every save; TensorFlow ignores it at the first.

    Attributes:
        checkpoint_dir: Directory of the checkpoints.

    Source: tensorflow/python/training/basic_session_run_hooks.py, ``CheckpointSaverHook``.
    """

    def __init__(
        self,
        checkpoint_dir: str | os.PathLike[str],
        save_secs: float | None = None,
        save_steps: int | None = None,
        saver: Saver | None = None,
        checkpoint_basename: str = BASENAME,
        scaffold: object = None,
        listeners: Sequence[CheckpointSaverListener] | None = None,
        save_graph_def: bool = False,
    ) -> None:
        """Choose the period, and the listeners.

        Args:
            checkpoint_dir: Directory of the checkpoints.
            save_secs: Period in seconds.
            save_steps: Period in steps. Exactly one of the two.
            saver: Saves instead of the session. One that cannot be called, such as
                TensorFlow 1's, leaves it to the session.
            checkpoint_basename: Accepted with a warning: readers know checkpoints by the name ckpt.
            scaffold: Accepted for programs that pass one, and not used: the session knows what to save.
            listeners: Called before and after each save.
            save_graph_def: Accepted with a warning: there is no graph.

        Raises:
            ValueError: Not exactly one period, or both a saver and a scaffold are given.
        """
        _log.info("Create CheckpointSaverHook.")
        if saver is not None and scaffold is not None:
            raise ValueError("You cannot provide both saver and scaffold.")
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)
        self._saver = saver if callable(saver) else None
        self.checkpoint_dir = local_path(checkpoint_dir, remote=True)
        if checkpoint_basename != BASENAME:
            _log.warning(
                "Checkpoints are called %s-<step>, and not %r, so that readers find them.",
                BASENAME,
                checkpoint_basename,
            )
        if save_graph_def:
            _log.warning("There is no graph for save_graph_def to save: keras.Model.export writes programs.")
        self._listeners = tuple(listeners or ())
        self._saved_step: int | None = None

    def add_listeners(self, listeners: Sequence[CheckpointSaverListener]) -> None:
        """Call further listeners, after the others."""
        self._listeners += tuple(listeners)

    def begin(self) -> None:
        """Call the listeners' ``begin``."""
        for listener in self._listeners:
            listener.begin()

    def after_create_session(self, session: Session, coord: Coordinator) -> None:
        """Save the step that the session starts from."""
        self._saved_step = None
        self._save(session)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Save the step if it is due, and the one before is on the disk where others make steps meanwhile."""
        session = run_context.session
        if self._timer.should_trigger_for_step(session.global_step):
            if self._saver is None and session.is_late(self.checkpoint_dir):
                _log.debug("The checkpoint of step %d waits for the one before.", session.global_step)
            else:
                self._save(session)

    def steps_until_due(self, session: Session) -> int | None:
        """Return the steps left of the period."""
        return self._timer.steps_until_due(session.global_step)

    def end(self, session: Session) -> None:
        """Save the last step unless it is saved, and call the listeners' ``end``."""
        if not self._is_saved(session):
            self._save(session, wait=True)
        for listener in self._listeners:
            listener.end(session, session.global_step)

    def interrupted(self, session: Session) -> None:
        """Save the last step, or wait until it is, if that has begun."""
        if not self._is_saved(session):
            session.check_step()
            self._write(session, wait=True)
        elif self._saver is None:
            session.save(session.global_step, True, self.checkpoint_dir)  # which does not write it twice

    def _is_saved(self, session: Session) -> bool:
        return self._saved_step == session.global_step

    def _save(self, session: Session, wait: bool = False) -> None:
        session.check_step()
        step = session.global_step
        self._timer.update_last_triggered_step(step)
        _log.info("Calling checkpoint listeners before saving checkpoint %d...", step)
        for listener in self._listeners:
            listener.before_save(session, step)
        self._write(session, wait or bool(self._listeners))
        _log.info("Calling checkpoint listeners after saving checkpoint %d...", step)
        for listener in self._listeners:
            if listener.after_save(session, step):
                _log.info(
                    "A CheckpointSaverListener requested that training be stopped. listener: %s", listener
                )
                session.coord.request_stop()

    def _write(self, session: Session, wait: bool) -> None:
        step = session.global_step
        prefix = os.path.join(self.checkpoint_dir, BASENAME)
        _log.info("Saving checkpoints for %d into %s.", step, remote_url(prefix))
        if self._saver is None:
            session.save(step, wait, self.checkpoint_dir)
        else:
            self._saver(session, step, wait)
        self._saved_step = step
