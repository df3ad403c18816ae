"""What `fit` and evaluators take of TensorFlow's programs: checkpoints, names of files, losses of batches."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import muster_tensorflow as tf
from muster import CheckpointMismatchError, keras
from muster import optimizers as row_optimizers
from muster.distribute import DatasetCreator, MirroredStrategy, SidecarEvaluator
from muster.distribute.fit import _sidecar_evaluator
from muster.distribute.fit._saved_models import list_saved, load_saved

X = np.random.default_rng(0).normal(size=(32, 4)).astype(np.float32)
Y = X.sum(axis=1, keepdims=True)
LABELS = X.argmax(axis=1)


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(_sidecar_evaluator, "_LOOK_SECS", 0.01)


def build(optimizer: str = "sgd") -> Any:
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(3), tf.keras.layers.Dense(1)])
    model.compile(optimizer, "mse")
    return model


def same(first: Any, second: Any) -> bool:
    return np.array_equal(first.predict(X, verbose=0), second.predict(X, verbose=0))


def test_names_of_tensorflow() -> None:
    assert tf.keras.utils.experimental.DatasetCreator is DatasetCreator
    assert tf.keras.utils.SidecarEvaluator is tf.keras.experimental.SidecarEvaluator is SidecarEvaluator
    assert tf.keras.utils.set_random_seed is keras.utils.set_random_seed
    assert tf.keras.optimizers.legacy.SGD is row_optimizers.SGD


def test_the_latest_of_the_checkpoints_of_epochs() -> None:
    path = "training/cp-{epoch:04d}.ckpt"
    save = tf.keras.callbacks.ModelCheckpoint(path, verbose=0, save_weights_only=True)
    model, other = build(), build()
    model.fit(X, Y, epochs=3, verbose=0, callbacks=[save])
    latest = tf.train.latest_checkpoint("training")
    assert latest == os.path.join("training", "cp-0003.ckpt")
    other.load_weights(latest)
    assert same(model, other)


def test_a_model_in_a_folder() -> None:
    model = build()
    for _ in range(2):  # again, over what is there
        model.fit(X, Y, verbose=0)
        model.save("saved_model/my_model", options=tf.saved_model.SaveOptions())
    restored = tf.keras.models.load_model("saved_model/my_model", options=tf.saved_model.LoadOptions())
    assert same(model, restored)
    restored.fit(X, Y, verbose=0)  # compiled


def test_weights_of_a_checkpoint() -> None:
    model, other = build(), build()
    path = tf.train.Checkpoint(model=model).save("here/ckpt")
    other.load_weights(path)
    assert same(model, other)
    path = tf.train.Checkpoint(net=model).save("there/ckpt")
    with pytest.raises(CheckpointMismatchError, match="ckpt-1 has no model"):
        other.load_weights(path)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("name", ["model.h5", "model.keras"])
def test_a_loaded_functional_model_trains_on(name: str, optimizer: str) -> None:
    """Keras itself builds no optimizer of a model from an .h5 file."""
    inputs = tf.keras.Input((4,))
    model = tf.keras.Model(inputs, tf.keras.layers.Dense(1)(inputs))
    model.compile(optimizer, "mean_squared_error")
    model.fit(X, Y, verbose=0)
    model.save(name)
    restored = tf.keras.models.load_model(name)
    assert same(model, restored)
    for each in (model, restored):
        each.fit(X, Y, verbose=0)
    np.testing.assert_allclose(model.predict(X, verbose=0), restored.predict(X, verbose=0), rtol=1e-6)
    assert int(restored.optimizer.iterations) == 2


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_an_evaluator_takes_checkpoints(optimizer: str, tmp_path: Path) -> None:
    trained, other = build("adam"), build(optimizer)
    trained.fit(X, Y, batch_size=8, verbose=0)
    checkpoint = tf.train.Checkpoint(model=trained, optimizer=trained.optimizer)
    path = tf.train.CheckpointManager(checkpoint, tmp_path, max_to_keep=3).save()
    (saved,) = list_saved(str(tmp_path))
    assert (saved.path, saved.number) == (path, 1)
    assert load_saved(other, saved) == int(other.optimizer.iterations) == 4
    assert same(trained, other)
    data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(8)
    (found,) = tf.keras.utils.SidecarEvaluator(build(), data, tmp_path, max_evaluations=1).start()
    assert (found.path, found.iterations) == (path, 4)
    expected = trained.evaluate(X, Y, batch_size=8, verbose=0, return_dict=True)
    assert found.metrics == pytest.approx(expected)


def test_an_evaluator_refuses_a_checkpoint_without_a_model(tmp_path: Path) -> None:
    tf.train.Checkpoint(net=build()).save(tmp_path / "ckpt")
    with pytest.raises(CheckpointMismatchError, match=r"has no model: .*tf.train.Checkpoint\(model=model"):
        load_saved(build(), *list_saved(str(tmp_path)))


class MeansOfKeras(tf.keras.Model):  # type: ignore[misc]  # keras is untyped
    """Trains by the mean loss of a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = tf.keras.layers.Dense(4)

    def call(self, x: Any) -> Any:
        return self.dense(x)

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.loss_of(x, y)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {"loss": loss}

    def loss_of(self, x: Any, y: Any) -> Any:
        return tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)(y, self(x))


class Averages(MeansOfKeras):
    def loss_of(self, x: Any, y: Any) -> Any:
        each = tf.keras.losses.sparse_categorical_crossentropy(y, self(x), from_logits=True)
        return tf.nn.compute_average_loss(each)


def test_the_average_loss_of_the_batch_is_that_of_one_device() -> None:
    outcomes = []
    for kind in (MeansOfKeras, Averages):
        tf.keras.utils.set_random_seed(7)
        with MirroredStrategy(["/cpu:0", "/cpu:1"]).scope():
            model = kind()
            model.compile(tf.keras.optimizers.SGD(0.05))
        history = model.fit(X, LABELS, batch_size=10, shuffle=False, epochs=2, verbose=0).history
        outcomes.append(history["loss"])
    assert outcomes[0] == pytest.approx(outcomes[1], abs=1e-6)
