"""Models loaded from folders, without their classes."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import muster_tensorflow as tf

X = np.ones((1, 3), np.float32)


def made() -> Any:
    class Scale(tf.keras.layers.Layer):  # type: ignore[misc]  # the class is made while the program runs
        def build(self, input_shape: Any) -> None:
            self.factor = self.add_weight(shape=(), initializer="ones")

        def call(self, x: Any) -> Any:
            return x * self.factor

    class Scaled(tf.keras.Model):  # type: ignore[misc]  # likewise
        def __init__(self) -> None:
            super().__init__()
            self.scale, self.dense = Scale(), tf.keras.layers.Dense(2)

        def call(self, x: Any) -> Any:
            return self.dense(self.scale(x))

    return Scaled()


def test_a_model_is_loaded_without_its_classes(tmp_path: Path) -> None:
    model = made()
    expected = model(X)
    model.save(tmp_path / "scaled")
    found = tf.keras.models.load_model(str(tmp_path / "scaled"))
    assert type(found).__name__ == "Scaled"
    assert found is not model
    np.testing.assert_array_equal(found(X), expected)
    other = type("Scaled", (type(model),), {})
    assert type(tf.keras.models.load_model(tmp_path / "scaled", {"Scaled": other})) is other


class Deleted(tf.keras.Model):  # type: ignore[misc]  # Keras has no types
    """A model whose class the program has deleted when it loads it."""

    def __init__(self) -> None:
        super(Deleted, self).__init__()  # noqa: UP008  # by its name
        self.dense = tf.keras.layers.Dense(2)

    def call(self, x: Any) -> Any:
        return self.dense(x)


def test_a_class_may_have_been_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Deleted()
    expected = model(X)
    model.save(tmp_path / "deleted")
    monkeypatch.delitem(globals(), "Deleted")
    np.testing.assert_array_equal(tf.keras.models.load_model(tmp_path / "deleted")(X), expected)
    assert "Deleted" not in globals()


@pytest.mark.processes
def test_a_file_and_another_process_need_them(tmp_path: Path) -> None:
    model = made()
    model(X)
    model.save(tmp_path / "scaled.keras")
    with pytest.raises(TypeError, match="Could not locate class"):
        tf.keras.models.load_model(tmp_path / "scaled.keras")
    model.save(tmp_path / "scaled")
    code = f"import muster_tensorflow as tf; tf.keras.models.load_model({str(tmp_path / 'scaled')!r})"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "Could not locate class" in child.stderr


def test_the_older_names_for_folders(tmp_path: Path) -> None:
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(2)])
    tf.keras.experimental.export_saved_model(model, str(tmp_path / "saved"))
    loaded = tf.keras.experimental.load_from_saved_model(str(tmp_path / "saved"))
    np.testing.assert_array_equal(loaded(X), model(X))
    assert not loaded.compiled
