"""Trials of KerasTuner that all workers of a job compute together."""

import json
import tempfile
from collections.abc import Callable
from typing import Any

from muster._extras import extra_module
from muster.distribute import Strategy


def shared_tuner(kind: Callable[..., Any], *args: Any, strategy: Strategy, **kwargs: Any) -> Any:
    """Make a tuner of KerasTuner whose trials all workers of a strategy compute together.

    The chief's tuner chooses the hyperparameters and keeps the results in ``directory``; the others follow
    it, with a temporary folder. Models are built in the strategy's scope.

    Args:
        kind: The class of the tuner, such as ``keras_tuner.RandomSearch``.
        *args: Its arguments.
        strategy: The strategy, such as a ``MultiWorkerMirroredStrategy``.
        **kwargs: Its arguments, without ``distribution_strategy``.

    Returns:
        The tuner. All workers call the same of its methods, in the same order.

    Raises:
        ImportError: The package ``keras_tuner`` is not installed.
        ValueError: ``distribution_strategy`` is given.

    Example:
        ```py
        tuner = shared_tuner(
            keras_tuner.RandomSearch, build, objective="val_loss", max_trials=20, directory="runs/search",
            strategy=strategy,
        )
        tuner.search(x, y, validation_split=0.2, epochs=5)
        ```
    """
    tuner_module = extra_module("keras_tuner", "keras-tuner", "shared_tuner")
    if "distribution_strategy" in kwargs:
        raise ValueError("shared_tuner takes the strategy as `strategy`, and not as `distribution_strategy`.")
    workers = strategy.workers
    if not workers.is_chief:
        kwargs["directory"] = tempfile.mkdtemp(prefix="muster-search-")
    tuner = kind(*args, **kwargs)
    tuner.distribution_strategy = strategy
    if workers.size > 1:
        tuner.oracle = _SharedOracle(tuner.oracle, workers, tuner_module)
    return tuner


class _SharedOracle:
    """An oracle of KerasTuner on all workers: the chief's decides, and the others get what it has decided.

    It has the methods by which tuners ask an oracle that is elsewhere, as KerasTuner's ``OracleClient``.
    """

    def __init__(self, oracle: Any, workers: Any, tuner_module: Any) -> None:
        self._oracle = oracle
        self._workers = workers
        self._trial = tuner_module.engine.trial.Trial
        self._space = tuner_module.HyperParameters

    def __getattr__(self, name: str) -> Any:
        return getattr(self._oracle, name)

    def create_trial(self, tuner_id: str) -> Any:
        return self._trial.from_state(
            self._from_chief(lambda: self._oracle.create_trial(tuner_id).get_state())
        )

    def get_trial(self, trial_id: str) -> Any:
        return self._trial.from_state(self._from_chief(lambda: self._oracle.get_trial(trial_id).get_state()))

    def get_best_trials(self, num_trials: int = 1) -> list[Any]:
        states = self._from_chief(
            lambda: [each.get_state() for each in self._oracle.get_best_trials(num_trials)]
        )
        return list(map(self._trial.from_state, states))

    def get_space(self) -> Any:
        return self._space.from_config(self._from_chief(lambda: self._oracle.get_space().get_config()))

    def update_space(self, hyperparameters: Any) -> None:
        if self._workers.is_chief:
            self._oracle.update_space(hyperparameters)

    def update_trial(self, trial_id: str, metrics: Any, step: int = 0) -> None:
        if self._workers.is_chief:
            self._oracle.update_trial(trial_id, metrics, step)

    def end_trial(self, trial: Any) -> None:
        if self._workers.is_chief:
            self._oracle.end_trial(trial)

    def save(self) -> None:
        if self._workers.is_chief:
            self._oracle.save()

    def _from_chief(self, ask: Callable[[], Any]) -> Any:
        # Of the numbers some are NumPy's.
        found = json.loads(json.dumps(ask(), default=float)) if self._workers.is_chief else None
        return self._workers.all_gather_object(found)[0]
