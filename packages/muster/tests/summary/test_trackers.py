"""Trackers that put a writer of their own in the place of TensorBoard's learn where summaries are."""

import sys
import types
from pathlib import Path
from typing import Any

import pytest

from muster import summary
from muster._keras import keras
from muster._records import read_record
from muster.distribute.fit._agreement import Agreement
from muster.distribute.fit._fit_callbacks import HParamsCallback, callbacks_of

MODULE = "tensorboard.summary.writer.event_file_writer"


def replaced(monkeypatch: pytest.MonkeyPatch, module: str) -> list[str]:
    """Put a class of a module in the place of TensorBoard's writer; return the folders it is told."""
    told: list[str] = []

    class EventFileWriter:
        __module__ = module

        def __init__(self, logdir: str) -> None:
            told.append(logdir)

        def close(self) -> None:
            told.append("closed")

    fake = types.SimpleNamespace(EventFileWriter=EventFileWriter)
    monkeypatch.setitem(sys.modules, MODULE, fake)  # type: ignore[arg-type]
    return told


def test_a_tracker_is_told_of_each_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = replaced(monkeypatch, "wandb.integration.tensorboard.monkeypatch")
    summary.create_file_writer(tmp_path / "a").close()
    assert told == [str(tmp_path / "a"), "closed"]


def test_tensorboards_own_writer_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = replaced(monkeypatch, MODULE)
    summary.create_file_writer(tmp_path / "a").close()
    assert told == []


class _Callback(keras.callbacks.Callback):
    __module__ = "mlflow.keras.callback"


class _Derived(_Callback):
    pass


class _Own(keras.callbacks.Callback):
    pass


def test_only_the_chief_tracks(tmp_path: Path) -> None:
    tracking: list[Any] = [_Callback(), _Derived(), HParamsCallback(tmp_path, {"rate": 0.1})]
    own = _Own()
    for is_chief, expected in ((True, [*tracking, own]), (False, [own])):
        agreement: Agreement = types.SimpleNamespace(is_chief=is_chief, elastic=False)  # type: ignore[assignment]
        assert callbacks_of([*tracking, own], agreement) == expected


def test_fit_writes_hyperparameters(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    ones = keras.ops.ones((4, 2))
    rate = summary.HParam("rate", summary.Discrete([0.1]))
    model.fit(ones, ones[:, :1], verbose=0, callbacks=[HParamsCallback(str(tmp_path), {rate: 0.1})])
    (file,) = tmp_path.iterdir()
    values = []
    with open(file, "rb") as opened:
        while (record := read_record(opened)) is not None:
            values += summary.parse_message(record).summary.value
    assert [value.tag for value in values] == ["_hparams_/session_start_info", "_hparams_/session_end_info"]
