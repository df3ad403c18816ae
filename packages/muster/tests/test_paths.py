"""Every function that takes a path refuses a scheme that muster cannot write, before it makes anything."""

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from given_paths import URL, made_by
from muster import checkpoint, data, estimator, keras, saved_model, summary
from muster.__main__ import main
from muster._commands import folder
from muster._errors import MusterError, PathError
from muster._paths import local_path
from muster.checkpoint import tensorflow as tensorflow_checkpoints
from muster.distribute import Server


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("/a/b", "/a/b"),
        ("a/b", "a/b"),
        (b"/a/b", "/a/b"),
        (Path("/a/b"), "/a/b"),
        ("file:///x/y", "/x/y"),
        (b"file:///x/y", "/x/y"),
        (Path("file:///x/y"), "/x/y"),  # which has one slash
        ("FILE://localhost/x/y", "/x/y"),
        ("file:///", "/"),
        ("a:/b", "a:/b"),
        ("./s3:/b", "./s3:/b"),
        ("runs/10:/x", "runs/10:/x"),
        ("a:b", "a:b"),
        ("", ""),
    ],
)
def test_local_paths(given: Any, path: str) -> None:
    assert local_path(given) == path


@pytest.mark.parametrize("scheme", ["s3", "gs", "hdfs", "memory", "xyz", "GS", "a+b.c-1"])
@pytest.mark.parametrize("kind", [str, str.encode, Path])
def test_other_schemes_are_named(scheme: str, kind: Callable[[str], Any]) -> None:
    with pytest.raises(PathError, match="not a path that muster can use") as raised:
        local_path(kind(f"{scheme}://bucket/run"))
    assert f"no file system for {scheme.lower()}://" in str(raised.value)
    assert f"{scheme}:/" in str(raised.value)
    assert "mount" in str(raised.value)
    assert isinstance(raised.value, MusterError)
    assert isinstance(raised.value, ValueError)


def test_files_of_other_hosts_are_no_files_here() -> None:
    with pytest.raises(PathError, match="it names the host 'server'"):
        local_path("file://server/x")
    with pytest.raises(TypeError):
        local_path(3)  # type: ignore[arg-type]


def model_fn(features: Any, labels: Any, mode: str) -> Any:
    raise AssertionError("not to be called")


def model() -> Any:
    return keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])


def dataset() -> Any:
    return data.Dataset.range(3)


# What is called with a URL, and what with a path: the same.
CALLS: dict[str, Callable[[Any], Any]] = {
    "Estimator": lambda path: estimator.Estimator(model_fn, path),
    "BaselineRegressor": lambda path: estimator.BaselineRegressor(path),
    "RunConfig": lambda path: estimator.RunConfig(model_dir=path),
    "RunConfig.replace": lambda path: estimator.RunConfig().replace(model_dir=path),
    "profile_dir": lambda path: estimator.RunConfig(profile_dir=path),
    "warm_start_from": lambda path: estimator.Estimator(model_fn, warm_start_from=path),
    "CheckpointSaverHook": lambda path: estimator.CheckpointSaverHook(path, save_steps=1),
    "SummarySaverHook": lambda path: estimator.SummarySaverHook(1, output_dir=path, summary_op="loss"),
    "StepCounterHook": lambda path: estimator.StepCounterHook(output_dir=path),
    "ProfilerHook": lambda path: estimator.ProfilerHook(1, output_dir=path),
    "Checkpointer": lambda path: checkpoint.Checkpointer(path).close(),
    "write_checkpoint": lambda path: checkpoint.write_checkpoint(path, 1, {"w": np.ones(2)}, {}),
    "latest_checkpoint": lambda path: checkpoint.latest_checkpoint(path),
    "list_checkpoints": lambda path: checkpoint.list_checkpoints(path),
    "find_checkpoint": lambda path: tensorflow_checkpoints.find_checkpoint(path),
    "save_weights": lambda path: model().save_weights(path),
    "Model.save": lambda path: model().save(path),
    "saved_model.save": lambda path: saved_model.save(path, {}),
    "ModelCheckpoint": lambda path: keras.callbacks.ModelCheckpoint(path, save_weights_only=True),
    "BackupAndRestore": lambda path: keras.callbacks.BackupAndRestore(path),
    "TensorBoard": lambda path: keras.callbacks.TensorBoard(log_dir=path),
    "CSVLogger": lambda path: keras.callbacks.CSVLogger(path),
    "create_file_writer": lambda path: summary.create_file_writer(path).close(),
    "Dataset.save": lambda path: dataset().save(path),
    "Dataset.cache": lambda path: list(dataset().cache(path)),
    "Dataset.snapshot": lambda path: list(dataset().snapshot(path)),
    "TFRecordWriter": lambda path: data.TFRecordWriter(path).close(),
    "snapshot_dir": lambda path: Server({"ps": ["localhost:0"]}, start=False, snapshot_dir=path),
    "--log-dir": lambda path: folder(path),
}
# What needs something at the path to begin with.
READS: dict[str, Callable[[Any], Any]] = {
    "read_checkpoint": lambda path: checkpoint.read_checkpoint(path),
    "load_weights": lambda path: model().load_weights(path),
    "saved_model.load": lambda path: saved_model.load(path),
    "read_events": lambda path: list(summary.read_events(path)),
    "Dataset.load": lambda path: data.Dataset.load(path),
    "list_files": lambda path: data.Dataset.list_files(path),
    "TFRecordDataset": lambda path: list(data.TFRecordDataset(path)),
    "TextLineDataset": lambda path: list(data.TextLineDataset([path])),
}


@pytest.mark.parametrize("call", [*CALLS, *READS])
def test_a_scheme_is_refused_before_anything_is_made(call: str, empty: Path) -> None:
    with pytest.raises((PathError, argparse.ArgumentTypeError), match="no file system for oss://"):
        {**CALLS, **READS}[call](URL)
    assert [*empty.iterdir()] == []


@pytest.mark.parametrize("call", CALLS)
def test_a_file_url_is_its_path(call: str, empty: Path, tmp_path: Path) -> None:
    name = "w.csv" if call == "CSVLogger" else "ckpt"
    assert made_by(CALLS[call], f"file://{tmp_path}/two", name) == made_by(
        CALLS[call], f"{tmp_path}/one", name
    )
    assert [*empty.iterdir()] == []


def test_tf_config_may_name_the_folder(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", '{"model_dir": "file:///tmp/m"}')
    assert estimator.RunConfig().model_dir == "/tmp/m"
    assert estimator.RunConfig(model_dir="/tmp/m").model_dir == "/tmp/m"
    monkeypatch.setenv("TF_CONFIG", '{"model_dir": "gs://bucket/m"}')
    with pytest.raises(PathError, match="gs://"):
        estimator.RunConfig()


@pytest.mark.parametrize("command", ["inspect", "saved-model show", "convert", "run", "serve", "keys"])
def test_the_commands_say_so(command: str, empty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (empty / "train.py").touch()
    words = {
        "convert": [URL, "here"],
        "run": ["--log-dir", URL, "train.py"],
        "keys": [URL, "--hosts", "localhost"],
    }
    try:
        code = main([*command.split(), *words.get(command, [URL])])
    except SystemExit as exc:
        code = int(exc.code or 0)
    assert code in (1, 2)
    assert "no file system for oss://" in capsys.readouterr().err
    assert [path.name for path in empty.iterdir()] == ["train.py"]


def test_nothing_is_left_of_an_export_to_elsewhere(empty: Path) -> None:
    made = estimator.Estimator(model_fn, os.fspath(empty / "model"))
    with pytest.raises(ValueError, match="Train first|oss://"):
        made.export_saved_model(URL, lambda: None)
    assert not (empty / "oss:").exists()
