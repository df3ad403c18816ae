"""Trials of Optuna that all workers of a job compute together."""

from collections.abc import Callable
from typing import Any

import numpy as np

from muster._errors import MismatchError
from muster._extras import extra_module
from muster._keras import keras
from muster.distribute import Strategy


class SharedTrial:
    """A trial of Optuna on all workers: the chief's study chooses, and the others get what it has chosen.

    All workers call the same methods in the same order.

    Attributes:
        number: The number of the trial.
    """

    def __init__(self, number: int, trial: Any, workers: Any) -> None:
        self.number = number
        self._trial = trial
        self._workers = workers
        self._pruned = False

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float:
        """Return a number, as Optuna's method of this name does, and so do the next two."""
        return float(self._from_chief("suggest_float", name, low, high, step=step, log=log))

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int:
        """Return a whole number."""
        return int(self._from_chief("suggest_int", name, low, high, step=step, log=log))

    def suggest_categorical(self, name: str, choices: Any) -> Any:
        """Return one of some choices: None, truth values, numbers or texts."""
        return self._from_chief("suggest_categorical", name, list(choices))

    def report(self, value: float, step: int) -> None:
        """Report a value of this trial, by which the study may prune it; the chief's counts."""
        if self._trial is not None:
            self._trial.report(float(value), step)

    def should_prune(self) -> bool:
        """Return whether the study would end this trial now: the same on all workers."""
        self._pruned = bool(self._from_chief("should_prune"))
        return self._pruned

    def pruning_callback(self, monitor: str) -> "keras.callbacks.Callback":
        """Return a callback for ``fit``: it reports a metric at each epoch, and stops if it should.

        `optimize` then counts the trial as pruned.

        Args:
            monitor: The metric, such as ``"val_loss"``.
        """
        return _Pruning(self, monitor)

    @property
    def is_pruned(self) -> bool:
        """Whether `should_prune` has returned True."""
        return self._pruned

    def _from_chief(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of the chief's trial; all return its result, or raise an error if it failed."""
        failure: Exception | None = None
        found: dict[str, Any] = {"asked": [method, *map(str, args[:1])]}
        if self._trial is not None:
            try:
                value = getattr(self._trial, method)(*args, **kwargs)
                found["value"] = value.item() if isinstance(value, np.generic) else value
            except Exception as exc:
                failure, found["error"] = exc, f"{type(exc).__name__}: {exc}"
        answers = self._workers.all_gather_object(found)
        if failure is not None:
            raise failure
        if "error" in answers[0]:
            raise ValueError(f"The chief's trial refused {method}: {answers[0]['error']}")
        for name, answer in zip(self._workers.names, answers, strict=True):
            if answer["asked"] != answers[0]["asked"]:
                raise MismatchError(
                    f"{self._workers.names[0]} called {answers[0]['asked']} of the trial, and {name} "
                    f"{answer['asked']}. All workers must call the same methods in the same order."
                )
        return answers[0]["value"]


class _Pruning(keras.callbacks.Callback):  # type: ignore[misc]  # keras is untyped
    def __init__(self, trial: SharedTrial, monitor: str) -> None:
        super().__init__()
        self._trial = trial
        self._monitor = monitor

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if self._monitor not in (logs or {}):
            raise ValueError(
                f"The metric {self._monitor!r} that prunes trials is not among those of this fit: "
                f"{sorted(logs or {})}."
            )
        self._trial.report(logs[self._monitor], epoch)
        if self._trial.should_prune():
            self.model.stop_training = True


def optimize(
    study: Any,
    objective: Callable[[SharedTrial], float],
    n_trials: int,
    *,
    strategy: Strategy,
    catch: tuple[type[Exception], ...] = (),
    callbacks: Any = None,
) -> None:
    """Run trials of a study one after the other, each on all workers of a strategy.

    Args:
        study: The study of Optuna. The chief's counts; the others may have None.
        objective: Takes a `SharedTrial`, and returns the value of the trial; all workers call it.
        n_trials: How many trials to run.
        strategy: The strategy whose workers take part, such as a ``MultiWorkerMirroredStrategy``.
        catch: Errors that end a trial, and not the study. All workers must raise them at the same place.
        callbacks: Called by Optuna on the chief, after each trial.

    Raises:
        ImportError: The package ``optuna`` is not installed.

    Example:
        ```py
        def objective(trial):
            rate = trial.suggest_float("rate", 1e-4, 1e-1, log=True)
            return build_and_fit(rate, callbacks=[trial.pruning_callback("val_loss")])

        study = optuna.create_study()
        muster.integrations.optimize(study, objective, 20, strategy=strategy)
        ```
    """
    optuna = extra_module("optuna", "optuna", "optimize")
    workers = strategy.workers

    def compute(number: int, trial: Any) -> float:
        shared = SharedTrial(number, trial, workers)
        value = objective(shared)
        if shared.is_pruned:
            raise optuna.TrialPruned
        return value

    if workers.is_chief:

        def begin(trial: Any) -> float:
            workers.all_gather_object(trial.number)
            return compute(trial.number, trial)

        study.optimize(begin, n_trials=n_trials, catch=catch, callbacks=callbacks)
        workers.all_gather_object(None)  # there is no further one
        return
    while (number := workers.all_gather_object(None)[0]) is not None:
        try:
            compute(number, None)
        except (optuna.TrialPruned, *catch):
            continue
