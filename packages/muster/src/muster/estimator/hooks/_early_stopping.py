"""Hooks that stop training when the metrics of evaluations no longer improve, or pass a threshold."""

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from muster._paths import local_path
from muster.estimator.hooks._base import SessionRunContext, SessionRunHook, SessionRunValues
from muster.estimator.hooks._timer import SecondOrStepTimer
from muster.estimator.session._session import Coordinator, Session
from muster.summary import read_events

_log = logging.getLogger(__name__)


@runtime_checkable
class HasEvalDir(Protocol):
    """An Estimator, of which only ``eval_dir`` is used."""

    def eval_dir(self, name: str | None = None) -> str:
        """Return the folder of the evaluation with this name."""


class StopOnPredicateHook(SessionRunHook):
    """Calls a function at the first run, and then every N steps or seconds, and stops if it returns True.

    Source: tensorflow_estimator/python/estimator/early_stopping.py, ``_StopOnPredicateHook``. No variable is
    added to the model, so that training can go on from the last checkpoint of a run that stopped.
    """

    def __init__(
        self,
        should_stop_fn: Callable[[], bool],
        run_every_secs: float | None = 60,
        run_every_steps: int | None = None,
    ) -> None:
        """Choose the function and the period.

        Args:
            should_stop_fn: Returns whether to stop.
            run_every_secs: Period in seconds.
            run_every_steps: Period in steps. Exactly one of the two.

        Raises:
            TypeError: ``should_stop_fn`` cannot be called.
            ValueError: Not exactly one period is given.
        """
        if not callable(should_stop_fn):
            raise TypeError(f"`should_stop_fn` must be callable, got {should_stop_fn!r}.")
        self._should_stop = should_stop_fn
        self._timer = SecondOrStepTimer(every_secs=run_every_secs, every_steps=run_every_steps)

    def after_create_session(self, session: Session, coord: Coordinator) -> None:
        """Call the function at the first run of this session."""
        self._timer.reset()

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Call the function if it is due."""
        step = run_context.session.global_step
        if not self._timer.should_trigger_for_step(step):
            return
        self._timer.update_last_triggered_step(step)
        if self._should_stop():
            _log.info("Requesting early stopping at global step %d", step)
            run_context.request_stop()

    def steps_until_due(self, session: Session) -> int | None:
        """Return the steps left of the period."""
        return self._timer.steps_until_due(session.global_step)


def make_early_stopping_hook(
    estimator: HasEvalDir,
    should_stop_fn: Callable[[], bool],
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> SessionRunHook:
    """Return a hook that stops training once a function returns True.

    Args:
        estimator: The Estimator that is trained.
        should_stop_fn: Returns whether to stop.
        run_every_secs: Period in seconds.
        run_every_steps: Period in steps; then ``run_every_secs`` must be None.

    Returns:
        A hook for ``Estimator.train`` or ``TrainSpec``.

    Raises:
        TypeError: ``estimator`` is not an Estimator.
        ValueError: Not exactly one period is given.

    Source: tensorflow_estimator/python/estimator/early_stopping.py, ``make_early_stopping_hook``.
    """
    _eval_dir_of(estimator)
    if run_every_secs is not None and run_every_steps is not None:
        raise ValueError(
            "Only one of `run_every_secs` and `run_every_steps` must be set. "
            f"Got {run_every_secs=} and {run_every_steps=}: set run_every_secs=None to count steps."
        )
    return StopOnPredicateHook(should_stop_fn, run_every_secs, run_every_steps)


def read_eval_metrics(eval_dir: str | os.PathLike[str]) -> dict[int, dict[str, float]]:
    """Read the metrics that evaluations have written.

    Args:
        eval_dir: Folder with event files, such as ``estimator.eval_dir()``.

    Returns:
        Step -> metric -> value (float32, as stored), in the order of steps. Of a metric that was written
        twice for a step, the value of the later file.

    Source: tensorflow_estimator/python/estimator/early_stopping.py, ``read_eval_metrics``.
    """
    metrics: dict[int, dict[str, float]] = {}
    for event in read_events(eval_dir):
        if isinstance(event.value, float):
            metrics.setdefault(event.step, {})[event.tag] = event.value
    return dict(sorted(metrics.items()))


def stop_if_higher_hook(
    estimator: HasEvalDir,
    metric_name: str,
    threshold: float,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> SessionRunHook:
    """Return a hook that stops once a metric has been higher than a threshold in any evaluation.

    Args:
        estimator: The Estimator that is trained.
        metric_name: The metric, as the evaluation names it.
        threshold: Compared with the metric as float32, which event files hold.
        eval_dir: Folder of the evaluation's event files; ``estimator.eval_dir()`` by default.
        min_steps: Evaluations before this step do not count.
        run_every_secs: Period in seconds.
        run_every_steps: Period in steps; then ``run_every_secs`` must be None.

    Returns:
        A hook for ``Estimator.train`` or ``TrainSpec``. While training it raises KeyError if there are
        evaluations and none has the metric.

    Raises:
        TypeError: ``estimator`` is not an Estimator, or ``threshold`` not a number.
        ValueError: Not exactly one period is given.

    Source: tensorflow_estimator/python/estimator/early_stopping.py, ``stop_if_higher_hook``.
    """
    metric = _metric(estimator, metric_name, eval_dir, min_steps, 1)
    return make_early_stopping_hook(estimator, metric.passes(threshold), run_every_secs, run_every_steps)


def stop_if_lower_hook(
    estimator: HasEvalDir,
    metric_name: str,
    threshold: float,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> SessionRunHook:
    """Return a hook that stops once a metric has been lower than a threshold in any evaluation.

    Arguments, result and errors are those of :func:`stop_if_higher_hook`.

    Source: tensorflow_estimator/python/estimator/early_stopping.py, ``stop_if_lower_hook``.
    """
    metric = _metric(estimator, metric_name, eval_dir, min_steps, -1)
    return make_early_stopping_hook(estimator, metric.passes(threshold), run_every_secs, run_every_steps)


def stop_if_no_increase_hook(
    estimator: HasEvalDir,
    metric_name: str,
    max_steps_without_increase: int,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> SessionRunHook:
    """Return a hook that stops once a metric has not risen above its best for a number of steps.

    Other arguments, the result and errors are those of :func:`stop_if_higher_hook`.

    Args:
        metric_name: The metric, as the evaluation names it. NaN is worse than any number.
        max_steps_without_increase: Global steps from the best evaluation to a later one that is no better.

    Source: tensorflow_estimator/python/estimator/early_stopping.py, ``stop_if_no_increase_hook``.
    """
    metric = _metric(estimator, metric_name, eval_dir, min_steps, 1)
    should_stop = metric.stalls(max_steps_without_increase)
    return make_early_stopping_hook(estimator, should_stop, run_every_secs, run_every_steps)


def stop_if_no_decrease_hook(
    estimator: HasEvalDir,
    metric_name: str,
    max_steps_without_decrease: int,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> SessionRunHook:
    """Return a hook that stops once a metric has not fallen below its best for a number of steps.

    Arguments, result and errors are those of :func:`stop_if_no_increase_hook`, with
    ``max_steps_without_decrease`` for ``max_steps_without_increase``.

    Source: tensorflow_estimator/python/estimator/early_stopping.py, ``stop_if_no_decrease_hook``.

    Example:
        ```python
        columns = [muster.feature_column.numeric_column("x")]
        regressor = muster.estimator.LinearRegressor(columns, model_dir="runs/early")
        hook = muster.estimator.stop_if_no_decrease_hook(regressor, "loss", max_steps_without_decrease=1000)
        training = muster.estimator.TrainSpec(lambda: ({"x": np.ones(8)}, np.ones(8)), hooks=[hook])
        ```
    """
    metric = _metric(estimator, metric_name, eval_dir, min_steps, -1)
    should_stop = metric.stalls(max_steps_without_decrease)
    return make_early_stopping_hook(estimator, should_stop, run_every_secs, run_every_steps)


@dataclass(frozen=True)
class _Metric:
    """A metric in the event files of an evaluation; better is higher with the sign 1, lower with -1."""

    name: str
    eval_dir: str
    min_steps: int
    sign: int

    def read(self) -> list[tuple[int, np.float32]]:
        """Return (step, value) of all evaluations from ``min_steps`` on that have it, sorted by step."""
        evaluations = read_eval_metrics(self.eval_dir)
        known = {name for metrics in evaluations.values() for name in metrics}
        if known and self.name not in known:
            raise KeyError(
                f"No evaluation in {self.eval_dir} has a metric {self.name!r}, which early stopping watches. "
                f"There are: {', '.join(sorted(known))}."
            )
        return [
            (step, np.float32(metrics[self.name]))
            for step, metrics in evaluations.items()
            if self.name in metrics and step >= self.min_steps
        ]

    def passes(self, threshold: float) -> Callable[[], bool]:
        """Return a function that returns whether the metric was ever better than a threshold."""
        if not isinstance(threshold, int | float | np.number):
            raise TypeError(f"`threshold` must be a number, got {threshold!r}.")
        # Event files hold float32: against a threshold in double precision, a stored 0.9 is lower than 0.9.
        limit = np.float32(threshold)

        def has_passed() -> bool:
            for step, value in self.read():
                if self.sign * value > self.sign * limit:
                    _log.info(
                        'At step %d, metric "%s" has value %s which is %s the configured threshold (%s) '
                        "for early stopping.",
                        step,
                        self.name,
                        value,
                        "greater than" if self.sign > 0 else "less than",
                        threshold,
                    )
                    return True
            return False

        return has_passed

    def stalls(self, max_steps: int) -> Callable[[], bool]:
        """Return a function that returns whether the metric got no better for a number of steps."""

        def has_stalled() -> bool:
            best, best_step = None, 0
            for step, value in self.read():
                score = -np.inf if np.isnan(value) else self.sign * value
                if best is None or score > best:
                    best, best_step = score, step
                if step - best_step >= max_steps:
                    _log.info(
                        'No %s in metric "%s" for %d steps, which is greater than or equal to max steps (%d) '
                        "configured for early stopping.",
                        "increase" if self.sign > 0 else "decrease",
                        self.name,
                        step - best_step,
                        max_steps,
                    )
                    return True
            return False

        return has_stalled


def _metric(estimator: HasEvalDir, name: str, eval_dir: str | None, min_steps: int, sign: int) -> _Metric:
    """Return the metric in a folder; by default in that of an Estimator's unnamed evaluation."""
    if eval_dir:
        local_path(eval_dir, remote=True, fetch=False)  # refused here, not when training is under way
    return _Metric(name, eval_dir or _eval_dir_of(estimator), min_steps, sign)


def _eval_dir_of(estimator: object) -> str:
    if not isinstance(estimator, HasEvalDir):
        raise TypeError(
            f"`estimator` must have type `muster.estimator.Estimator`. Got: {type(estimator)}. "
            "Pass the Estimator that is going to be trained."
        )
    return estimator.eval_dir()
