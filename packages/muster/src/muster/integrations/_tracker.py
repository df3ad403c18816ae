"""One run of a tracker of experiments for a whole job: from the chief, and through restarts."""

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

from muster._keras import keras
from muster._paths import local_path
from muster.cluster import find_environment, task_context
from muster.distribute import Strategy
from muster.estimator import Exporter, Session, SessionRunContext, SessionRunHook, SessionRunValues


class Tracker(ABC):
    """Sends the parameters and metrics of a job to a tracker, as one run.

    Use it in a ``with`` statement, or call `finish`. On other tasks than the chief it does nothing, so that
    every task may run the same lines.

    Args:
        params: What the run is made with: name -> number or text.
        folder: The folder of the job, such as ``model_dir``. A program that is started again goes on with
            the run that is noted there, in ``<tracker>.json``. None begins a run each time.
        strategy: Says which worker is the chief. None finds out: see ``muster where``.
    """

    name: str
    """The name of the tracker, in lower case."""

    def __init__(
        self,
        *,
        params: Mapping[str, Any] | None = None,
        folder: str | os.PathLike[str] | None = None,
        strategy: Strategy | None = None,
    ) -> None:
        self.params = dict(params or {})
        self._note = None if folder is None else Path(local_path(folder)) / f"{self.name}.json"
        self._is_chief = _is_chief() if strategy is None else strategy.workers.is_chief
        self._run: str | None = None

    @abstractmethod
    def _open(self, run: str | None) -> str:
        """Begin a run, or go on with one; send the parameters, and return the identifier of the run."""

    @abstractmethod
    def _send(self, metrics: dict[str, float], step: int) -> None:
        """Send metrics of a step."""

    @abstractmethod
    def _close(self, failed: bool) -> None:
        """End the run."""

    @property
    def run(self) -> str | None:
        """The identifier of the run; None before the first metrics, and on other tasks than the chief."""
        return self._run

    def log(self, metrics: Mapping[str, Any], step: int) -> None:
        """Send metrics; what is no number is left out.

        Args:
            metrics: Name -> number, or array of shape ().
            step: The global step, or the number of updates that the model has had.
        """
        if not self._is_chief:
            return
        numbers = {name: float(value) for name, value in metrics.items() if _is_number(value)}
        if self._run is None:
            self._run = self._open(self._noted())
            if self._note is not None:
                self._note.parent.mkdir(parents=True, exist_ok=True)
                self._note.write_text(json.dumps({"run": self._run}), encoding="utf-8")
        self._send(numbers, int(step))

    def finish(self, *, failed: bool = False) -> None:
        """End the run, if one has begun.

        Args:
            failed: Whether the job has failed.
        """
        if self._run is not None:
            self._close(failed)
            self._run = None

    def callback(self) -> "keras.callbacks.Callback":
        """Return a callback for ``fit``: it sends the metrics of each epoch, and the learning rate."""
        return _Epochs(self)

    def hook(self, every_n_steps: int = 100) -> SessionRunHook:
        """Return a hook for ``Estimator.train``: it sends the loss.

        Args:
            every_n_steps: The period.

        Raises:
            ValueError: `every_n_steps` is less than 1.
        """
        return _Losses(self, every_n_steps)

    def exporter(self) -> Exporter:
        """Return an exporter for ``EvalSpec``: it sends the metrics of an evaluation, and writes no file."""
        return _Evaluations(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        self.finish(failed=kind is not None)

    def _noted(self) -> str | None:
        if self._note is None or not self._note.exists():
            return None
        run: str = json.loads(self._note.read_text(encoding="utf-8"))["run"]
        return run


def _is_chief() -> bool:
    """Return whether this task is the one that writes, by what has started it; alone it is."""
    found = find_environment()
    if found.rendezvous is not None:
        return found.rendezvous.rank == 0
    return found.config is None or task_context(found.config, chief_required=False).is_chief


def _is_number(value: Any) -> bool:
    return np.ndim(value) == 0 and np.asarray(value).dtype.kind in "biuf"


class _Epochs(keras.callbacks.Callback):  # type: ignore[misc]  # keras is untyped
    def __init__(self, tracker: Tracker) -> None:
        super().__init__()
        self._tracker = tracker

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        optimizer = self.model.optimizer
        rate: Any = getattr(optimizer, "learning_rate", None)
        if isinstance(rate, keras.optimizers.schedules.LearningRateSchedule):
            rate = rate(optimizer.iterations)
        rates = {} if rate is None else {"learning_rate": keras.ops.convert_to_numpy(rate)}
        updates = int(keras.ops.convert_to_numpy(optimizer.iterations))
        self._tracker.log({**rates, **(logs or {}), "epoch": epoch + 1}, updates)


class _Losses(SessionRunHook):
    def __init__(self, tracker: Tracker, every_n_steps: int) -> None:
        if every_n_steps < 1:
            raise ValueError(f"every_n_steps must be at least 1, got {every_n_steps}.")
        self._tracker = tracker
        self._every_n_steps = every_n_steps

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        if run_context.session.global_step % self._every_n_steps == 0:
            self._log(run_context.session)

    def steps_until_due(self, session: Session) -> int:
        return self._every_n_steps - session.global_step % self._every_n_steps

    def end(self, session: Session) -> None:
        if session.global_step % self._every_n_steps:
            self._log(session)

    def _log(self, session: Session) -> None:
        self._tracker.log({"loss": session.run("loss")}, session.global_step)


class _Evaluations(Exporter):
    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker

    @property
    def name(self) -> str:
        return self._tracker.name

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> None:
        metrics = {f"eval_{name}": value for name, value in eval_result.items() if name != "global_step"}
        self._tracker.log(metrics, eval_result["global_step"])
