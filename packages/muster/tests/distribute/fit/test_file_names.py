"""Names of files that Keras 3 refuses, as programs for TensorFlow's Keras have them."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from saved_objects import save_objects

from muster import CheckpointMismatchError
from muster._keras import keras
from muster.distribute import MirroredStrategy  # noqa: F401  # lets Keras' models take these names

X = np.random.default_rng(0).normal(size=(32, 4)).astype(np.float32)
Y = X.sum(axis=1, keepdims=True)


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def build() -> Any:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


def same(first: Any, second: Any) -> bool:
    return np.array_equal(first.predict(X, verbose=0), second.predict(X, verbose=0))


@pytest.mark.parametrize(
    "name", ["checkpoints/my_checkpoint", Path("w.ckpt"), "deep/er/weights.h5", "w.hdf5"]
)
def test_weights_by_a_name_of_tensorflow(name: Any) -> None:
    model, other = build(), build()
    model.save_weights(name, save_format="tf") if name == "w.hdf5" else model.save_weights(name)
    other.load_weights(name).expect_partial().assert_existing_objects_matched()
    assert same(model, other)


class Twice(keras.Model):  # type: ignore[misc]  # keras is untyped
    def __init__(self) -> None:
        super().__init__()
        self.inner = keras.Sequential([keras.layers.Dense(3)])
        self.outer = keras.layers.Dense(1)

    def call(self, pair: Any) -> Any:
        first, second = pair
        return self.outer(self.inner(first) + self.inner(second))


def test_a_model_that_was_never_called_gets_weights_by_a_name_of_tensorflow() -> None:
    model, other = Twice(), Twice()
    expected = model((X, Y * X))
    model.save_weights("folder/twice")
    other.load_weights("folder/twice").expect_partial()
    assert len(other.weights) == 4
    np.testing.assert_array_equal(other((X, Y * X)), expected)


def test_names_that_keras_takes_are_as_they_were(tmp_path: Path) -> None:
    model, other = build(), build()
    model.save_weights("a.weights.h5")
    assert other.load_weights("a.weights.h5") is None
    model.save("b.keras")
    assert sorted(os.listdir(tmp_path)) == ["a.weights.h5", "b.keras"]
    assert same(model, keras.models.load_model("b.keras"))
    with pytest.raises((ValueError, OSError), match="nothing"):
        other.load_weights("nothing")


def test_checkpoints_of_epochs() -> None:
    path = "training/cp-{epoch:04d}.ckpt"
    save = keras.callbacks.ModelCheckpoint(path, verbose=0, save_weights_only=True)
    model = build()
    model.save_weights(path.format(epoch=0))
    model.fit(X, Y, epochs=3, verbose=0, callbacks=[save])
    files = {f"cp-{epoch:04d}.ckpt.weights.h5" for epoch in range(4)}
    assert set(os.listdir("training")) == files
    other = build()
    other.load_weights("training/cp-0003.ckpt")
    assert same(model, other)


@pytest.mark.parametrize("is_absolute", [False, True])
def test_a_model_is_saved_over_another_and_leaves_other_files(is_absolute: bool, tmp_path: Path) -> None:
    model, other = build(), build()
    os.makedirs("models/assets")
    Path("models/notes.txt").write_text("kept")
    for each in (other, model, model):
        each.save(tmp_path / "models" if is_absolute else "models")
    assert same(model, keras.models.load_model("models"))
    assert sorted(os.listdir("models")) == [
        *("assets", "config.json", "metadata.json", "model.weights.h5", "notes.txt")
    ]


def test_the_best_model_of_several_epochs(tmp_path: Path) -> None:
    save = keras.callbacks.ModelCheckpoint(str(tmp_path / "best"), monitor="loss", save_best_only=True)
    model = build()
    model.fit(X, Y, epochs=3, verbose=0, callbacks=[save])
    assert same(model, keras.models.load_model("best"))


@pytest.mark.parametrize("arguments", [("best_model", "loss", 0, True), ("best_model", "loss")])
def test_whole_models_of_a_callback(arguments: Any) -> None:
    model = build()
    model.fit(X, Y, epochs=2, verbose=0, callbacks=[keras.callbacks.ModelCheckpoint(*arguments)])
    assert os.path.isdir("best_model")
    assert same(model, keras.models.load_model("best_model"))
    other = build()
    other.load_weights("best_model")
    assert same(model, other)


@pytest.mark.parametrize("options", [{}, {"save_format": "tf"}, {"options": object()}])
def test_a_model_in_a_folder(options: Any) -> None:
    model = build()
    for _ in range(2):  # again, over what is there
        model.fit(X, Y, verbose=0)
        model.save("saved_model/my_model", **options)
    restored = keras.models.load_model("saved_model/my_model")
    assert same(model, restored)
    restored.fit(X, Y, verbose=0)  # compiled


def test_weights_of_a_checkpoint() -> None:
    model, other = build(), build()
    path = save_objects("here", model=model)
    other.load_weights(path)
    assert same(model, other)
    path = save_objects("there", net=model)
    with pytest.raises(CheckpointMismatchError, match="ckpt-1 has no model"):
        other.load_weights(path)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_a_loaded_functional_model_trains_on(optimizer: str) -> None:
    inputs = keras.Input((4,))
    model = keras.Model(inputs, keras.layers.Dense(1)(inputs))
    model.compile(optimizer, "mean_squared_error")
    model.fit(X, Y, verbose=0)
    model.save("model.keras")
    restored = keras.models.load_model("model.keras")
    assert same(model, restored)
    for each in (model, restored):
        each.fit(X, Y, verbose=0)
    np.testing.assert_allclose(model.predict(X, verbose=0), restored.predict(X, verbose=0), rtol=1e-6)
    assert int(restored.optimizer.iterations) == 2
