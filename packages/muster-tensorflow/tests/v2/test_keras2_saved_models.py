"""Models that TensorFlow 2.15's Keras has saved in folders, as SavedModels; see the oracles' README."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import muster_tensorflow as tf
from muster import SavedModelError
from recorded import IN_REPOSITORY

_FOLDER = IN_REPOSITORY / "keras_saved_models"
_SAID = json.loads((_FOLDER / "index.json").read_text())


class Own(tf.keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = tf.keras.layers.Dense(2)

    def call(self, x):
        return self.dense(x)


@pytest.mark.parametrize("name", ["functional", "recurrent"])
def test_models_of_layers_are_loaded_as_they_were_compiled(name: str) -> None:
    said = _SAID[name]
    model = tf.keras.models.load_model(str(_FOLDER / name))
    inputs, labels = np.array(said["inputs"]), np.array(said["labels"])
    np.testing.assert_allclose(model.predict(inputs, verbose=0), said["outputs"], atol=1e-6)
    np.testing.assert_allclose(model.evaluate(inputs, labels, verbose=0), said["evaluation"], atol=1e-6)
    assert int(model.optimizer.iterations) == said["iterations"]


def test_training_goes_on_with_the_state_of_the_optimizer() -> None:
    said = _SAID["recurrent"]
    model = tf.keras.models.load_model(_FOLDER / "recurrent")
    inputs, labels = np.array(said["inputs"]), np.array(said["labels"])
    losses = [model.train_on_batch(inputs, labels)[0] for _ in range(3)]
    np.testing.assert_allclose(losses, said["losses_of_next_steps"], rtol=1e-6)


def test_a_model_of_another_class_needs_the_class(caplog: pytest.LogCaptureFixture) -> None:
    said, folder = _SAID["own"], str(_FOLDER / "own")
    with pytest.raises(SavedModelError, match=r"of the class 'Own', .* custom_objects=\{'Own': Own\}"):
        tf.keras.models.load_model(folder)
    model = tf.keras.models.load_model(folder, custom_objects={"Own": Own})
    assert isinstance(model, Own)
    np.testing.assert_allclose(model(np.float32(said["inputs"])), said["outputs"], atol=1e-6)
    assert "was not compiled when it was saved" in caplog.text
    caplog.clear()
    tf.keras.models.load_model(folder, custom_objects={"Own": Own}, compile=False)
    assert not caplog.records


def test_a_damaged_folder_is_an_error(tmp_path: Path) -> None:
    folder = shutil.copytree(_FOLDER / "functional", tmp_path / "model")
    (folder / "keras_metadata.pb").write_bytes(b"\xff")
    with pytest.raises(SavedModelError, match=r"keras_metadata\.pb is damaged, or has no model"):
        tf.keras.models.load_model(folder)
