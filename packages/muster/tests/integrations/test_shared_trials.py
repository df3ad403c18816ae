"""Trials that all workers compute: what the chief's study chooses, prunes and refuses, on two threads."""

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from muster import MismatchError
from muster._keras import keras
from muster.integrations import SharedTrial

SECS = 10


class Chosen:
    """What is used of a trial of Optuna."""

    def __init__(self) -> None:
        self.reported: list[tuple[float, int]] = []

    def suggest_float(self, name: str, low: float, high: float, **_: Any) -> float:
        if low > high:
            raise ValueError("`low` is larger than `high`.")
        return (low + high) / 2

    def suggest_categorical(self, name: str, choices: list[Any]) -> Any:
        return choices[-1]

    def report(self, value: float, step: int) -> None:
        self.reported.append((value, step))

    def should_prune(self) -> bool:
        return len(self.reported) > 1


def on_two_workers(function: Callable[[SharedTrial], Any], trial: Any) -> list[Any]:
    """Call a function on two workers, and return what each returns or raises."""
    barrier, values, found = threading.Barrier(2, timeout=SECS), [None, None], [None, None]

    def run(rank: int) -> None:
        def gather(value: Any) -> list[Any]:
            values[rank] = value
            barrier.wait()
            all_values = list(values)
            barrier.wait()
            return all_values

        workers = SimpleNamespace(all_gather_object=gather, names=("worker 0", "worker 1"))
        try:
            found[rank] = function(SharedTrial(3, trial if rank == 0 else None, workers))
        except Exception as exc:
            found[rank] = exc

    threads = [threading.Thread(target=run, args=(rank,)) for rank in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECS)
    return found


def test_all_workers_get_what_the_chiefs_trial_chooses() -> None:
    def objective(trial: SharedTrial) -> Any:
        rate = trial.suggest_float("rate", 0.0, 1.0)
        return trial.number, rate, trial.suggest_categorical("kind", ("a", None))

    assert on_two_workers(objective, Chosen()) == [(3, 0.5, None)] * 2


def test_what_the_trial_refuses_is_raised_by_all() -> None:
    first, second = on_two_workers(lambda trial: trial.suggest_float("rate", 1.0, 0.0), Chosen())
    assert str(first) == "`low` is larger than `high`."
    assert str(second).startswith("The chief's trial refused suggest_float: ValueError: `low` is larger")


def test_workers_that_ask_otherwise_are_told() -> None:
    names = iter(["a", "b"])
    lock = threading.Lock()

    def objective(trial: SharedTrial) -> float:
        with lock:
            name = next(names)
        return trial.suggest_float(name, 0.0, 1.0)

    for error in on_two_workers(objective, Chosen()):
        assert isinstance(error, MismatchError)
        assert "All workers must call the same methods" in str(error)


def test_a_fit_is_stopped_when_the_study_prunes_its_trial() -> None:
    chosen = Chosen()

    def objective(trial: SharedTrial) -> Any:
        callback = trial.pruning_callback("val_loss")
        model = SimpleNamespace(stop_training=False)
        callback.set_model(model)
        for epoch in range(3):
            callback.on_epoch_end(epoch, {"val_loss": 1.0 - epoch})
            if model.stop_training:
                return epoch, trial.is_pruned
        return None

    assert on_two_workers(objective, chosen) == [(1, True)] * 2
    assert chosen.reported == [(1.0, 0), (0.0, 1)]


def test_a_metric_that_is_not_there_is_named() -> None:
    callback = SharedTrial(0, Chosen(), SimpleNamespace()).pruning_callback("val_loss")
    assert isinstance(callback, keras.callbacks.Callback)
    with pytest.raises(ValueError, match=r"'val_loss' that prunes trials is not among .*\['loss'\]"):
        callback.on_epoch_end(0, {"loss": 1.0})
