"""TensorFlow's functions of paths refuse schemes that muster cannot write, before they make anything."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import muster_tensorflow as tf
from given_paths import URL, made_by
from muster import PathError
from muster_tensorflow.programs.v2.saved import _keras_folders


def model() -> Any:
    return tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(1)])


def compiled() -> Any:
    made = model()
    made.compile("sgd", "mse")
    return made


# What is called with a URL, and what with a path: the same.
CALLS: dict[str, Callable[[Any], Any]] = {
    "tf.train.Checkpoint.save": lambda path: tf.train.Checkpoint(m=model()).save(path),
    "tf.train.Checkpoint.write": lambda path: tf.train.Checkpoint(m=model()).write(path),
    "CheckpointManager": lambda path: tf.train.CheckpointManager(tf.train.Checkpoint(m=model()), path, 1),
    "tf.train.latest_checkpoint": lambda path: tf.train.latest_checkpoint(path),
    "Saver": lambda path: tf.compat.v1.train.Saver([tf.Variable(1.0, name="w")]).save(None, path),
    "export_saved_model": lambda path: _keras_folders.export_saved_model(model(), path),
    "SidecarEvaluator": lambda path: tf.keras.utils.SidecarEvaluator(compiled(), None, path),
    "FileWriter": lambda path: tf.compat.v1.summary.FileWriter(path).close(),
    "profiler": lambda path: tf.profiler.experimental.start(path) or tf.profiler.experimental.stop(),
    "gfile.GFile": lambda path: tf.io.gfile.GFile(path, "w").close(),
    "gfile.makedirs": lambda path: tf.io.gfile.makedirs(path),
    "gfile.mkdir": lambda path: tf.io.gfile.mkdir(path),
    "gfile.exists": lambda path: tf.io.gfile.exists(path),
    "gfile.isdir": lambda path: tf.io.gfile.isdir(path),
    "gfile.glob": lambda path: tf.io.gfile.glob(path),
    "v1.gfile.MakeDirs": lambda path: tf.compat.v1.gfile.MakeDirs(path),
    "v1.gfile.MkDir": lambda path: tf.compat.v1.gfile.MkDir(path),
    "v1.gfile.Exists": lambda path: tf.compat.v1.gfile.Exists(path),
    "write_file": lambda path: tf.io.write_file(path, "text"),
}
# What needs something at the path to begin with.
READS: dict[str, Callable[[Any], Any]] = {
    "tf.train.load_checkpoint": lambda path: tf.train.load_checkpoint(path),
    "load_model": lambda path: tf.keras.models.load_model(path),
    "tf.saved_model.load": lambda path: tf.saved_model.load(path),
    "read_file": lambda path: tf.io.read_file(path),
    "image_dataset_from_directory": lambda path: tf.keras.utils.image_dataset_from_directory(path),
    "vocabulary": lambda path: tf.feature_column.categorical_column_with_vocabulary_file("a", path),
    "gfile.listdir": lambda path: tf.io.gfile.listdir(path),
    "gfile.remove": lambda path: tf.io.gfile.remove(path),
    "gfile.rmtree": lambda path: tf.io.gfile.rmtree(path),
    "gfile.stat": lambda path: tf.io.gfile.stat(path),
    "gfile.walk": lambda path: list(tf.io.gfile.walk(path)),
    "gfile.copy": lambda path: tf.io.gfile.copy(__file__, path),
    "gfile.rename": lambda path: tf.io.gfile.rename(path, "here"),
}


@pytest.mark.parametrize("call", [*CALLS, *READS])
def test_a_scheme_of_no_file_system_is_refused(call: str, empty: Path) -> None:
    with pytest.raises(PathError, match="no file system for oss://"):
        {**CALLS, **READS}[call](URL)
    assert [*empty.iterdir()] == []


@pytest.mark.parametrize("call", CALLS)
def test_a_url_of_a_file_is_its_path(call: str, empty: Path, tmp_path: Path) -> None:
    assert made_by(CALLS[call], f"file://{tmp_path}/two", "ckpt") == made_by(
        CALLS[call], f"{tmp_path}/one", "ckpt"
    )
    assert [*empty.iterdir()] == []
