"""Trackers of experiments: one run for a job, from the chief, through restarts; what is sent, and when."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import muster
from muster._keras import keras
from muster.data import Dataset
from muster.distribute import OneDeviceStrategy
from muster.estimator import (
    Estimator,
    EstimatorSpec,
    EvalSpec,
    RunConfig,
    TrainSpec,
    train_and_evaluate,
)
from muster.integrations import Tracker

X = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
Y = X.sum(axis=1, keepdims=True)


class Noted(Tracker):
    name = "noted"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.sent: list[tuple[int, dict[str, float]]] = []
        self.opened: list[str | None] = []
        self.closed: list[bool] = []

    def _open(self, run: str | None) -> str:
        self.opened.append(run)
        return run or "run-1"

    def _send(self, metrics: dict[str, float], step: int) -> None:
        self.sent.append((step, metrics))

    def _close(self, failed: bool) -> None:
        self.closed.append(failed)


def model_fn(features: Any, labels: Any, mode: Any) -> EstimatorSpec:
    loss = keras.ops.mean((keras.layers.Dense(1)(features) - labels) ** 2)
    train_op = muster.minimize(keras.optimizers.SGD(0.1), loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


def data() -> Dataset:
    return Dataset.from_tensor_slices((X, Y)).batch(16)


def test_what_is_no_number_is_left_out_and_a_run_begins_with_its_first_metrics() -> None:
    tracker = Noted()
    assert (tracker.run, tracker.opened) == (None, [])
    tracker.log({"loss": np.float32(0.5), "name": "x", "image": np.ones(3), "count": 2}, np.int64(7))
    assert (tracker.run, tracker.sent) == ("run-1", [(7, {"loss": 0.5, "count": 2.0})])
    tracker.finish()
    tracker.finish()
    assert tracker.closed == [False]


def test_a_failed_program_fails_its_run() -> None:
    tracker = Noted()
    tracker.log({"loss": 1}, 1)

    def fail() -> None:
        with tracker:
            raise RuntimeError("wrong")

    with pytest.raises(RuntimeError, match="wrong"):
        fail()
    assert tracker.closed == [True]


def test_a_program_that_is_started_again_goes_on_with_its_run(tmp_path: Path) -> None:
    first = Noted(folder=tmp_path / "job")
    first.log({"loss": 1}, 1)
    assert json.loads((tmp_path / "job/noted.json").read_text()) == {"run": "run-1"}
    again = Noted(folder=tmp_path / "job")
    again.log({"loss": 1}, 2)
    assert (first.opened, again.opened) == ([None], ["run-1"])


def of_tf_config(rank: int) -> dict[str, str]:
    cluster = {"worker": ["localhost:1", "localhost:2"]}
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": rank}})}


def of_open_mpi(rank: int) -> dict[str, str]:
    names = ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE")
    return {"OMPI_COMM_WORLD_RANK": str(rank), **dict.fromkeys(names, "2")}


@pytest.mark.parametrize("environ", [of_tf_config, of_open_mpi])
@pytest.mark.parametrize(("rank", "is_chief"), [(0, True), (1, False)])
def test_the_chief_alone_sends(
    environ: Any, rank: int, is_chief: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    for name, value in environ(rank).items():
        monkeypatch.setenv(name, value)
    tracker = Noted()
    tracker.log({"loss": 1}, 1)
    assert len(tracker.sent) == is_chief
    asked = Noted(strategy=OneDeviceStrategy("/cpu:0"))
    asked.log({"loss": 1}, 1)
    assert len(asked.sent) == 1


def test_fit_sends_the_metrics_of_each_epoch() -> None:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(0.5, 4, 0.5)), "mse")
    tracker = Noted()
    model.fit(X, Y, batch_size=16, epochs=2, verbose=0, validation_split=0.0, callbacks=[tracker.callback()])
    assert [step for step, _ in tracker.sent] == [4, 8]
    assert [each["learning_rate"] for _, each in tracker.sent] == [0.25, 0.125]
    assert [each["epoch"] for _, each in tracker.sent] == [1, 2]
    assert tracker.sent[0][1]["loss"] > 0


def test_an_estimator_sends_losses_and_evaluations(tmp_path: Path) -> None:
    tracker = Noted()
    estimator = Estimator(model_fn, tmp_path, RunConfig(save_checkpoints_steps=5))
    train_and_evaluate(
        estimator,
        TrainSpec(lambda: data().repeat(), max_steps=5, hooks=[tracker.hook(every_n_steps=2)]),
        EvalSpec(data, steps=None, exporters=[tracker.exporter()], throttle_secs=0),
    )
    assert [(step, *metrics) for step, metrics in tracker.sent] == [
        (2, "loss"),
        (4, "loss"),
        (5, "eval_loss"),
        (5, "loss"),
    ]
    with pytest.raises(ValueError, match="every_n_steps must be at least 1, got 0"):
        tracker.hook(0)
