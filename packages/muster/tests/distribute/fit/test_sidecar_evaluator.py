"""An evaluator of what a training has left."""

import dataclasses
import functools
import logging
import os
import re
import shutil
import time
from pathlib import Path

import msgspec
import numpy as np
import pytest
from saved_objects import save_objects

from muster import keras
from muster.checkpoint import note_paths, note_training, read_note
from muster.data import Dataset
from muster.distribute import MirroredStrategy, SidecarEvaluator
from muster.distribute.fit import _sidecar_evaluator

# Keras' variables have the __array__ of NumPy 1.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword")

DATA = np.arange(32, dtype=np.float32).reshape(8, 4) / 32


def model(**layer):
    made = keras.Sequential([keras.layers.Dense(2, **layer)])
    made.compile("sgd", "mse", metrics=["mae"])
    return made


@pytest.fixture
def trained(tmp_path):
    """A model, and what saves a checkpoint of it."""
    made = model(kernel_initializer="ones")
    made.build((None, 4))
    made.optimizer.build(made.trainable_variables)
    return made, functools.partial(save_objects, tmp_path, model=made, optimizer=made.optimizer)


def end_training(directory):
    """Note what a program notes when it ends."""
    note_training(directory)
    ended = dataclasses.replace(read_note(directory), ended=True)
    Path(note_paths(directory)[0]).write_bytes(msgspec.json.encode(ended))


def saved(trained, *steps):
    made, save = trained
    for step in steps:
        made.optimizer.iterations.assign(step)
        save()


def evaluator(directory, **options):
    data = Dataset.from_tensor_slices((DATA, DATA[:, :2])).batch(4)
    return SidecarEvaluator(model(), data, directory, **options)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(_sidecar_evaluator, "_LOOK_SECS", 0.01)


def test_the_last_checkpoint_of_training_that_has_ended(trained, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    saved(trained, 7)
    end_training(tmp_path)
    (found,) = evaluator(tmp_path).start()
    assert (found.path, found.iterations) == (str(tmp_path / "ckpt-1"), 7)
    expected = trained[0].evaluate(DATA, DATA[:, :2], batch_size=4, verbose=0, return_dict=True)
    assert found.metrics == pytest.approx(expected)
    assert f"loss={found.metrics['loss']}" in caplog.text
    assert "training has ended" in caplog.text


@pytest.mark.parametrize("limit", [1, 3])
def test_max_evaluations_is_the_number_of_a_checkpoint(trained, tmp_path, limit):
    saved(trained, 1, 2, 3)
    found = evaluator(tmp_path, max_evaluations=limit).start()
    assert [each.iterations for each in found] == [3]


def test_of_names_without_numbers_max_evaluations_counts(trained, tmp_path):
    made, _ = trained

    class Saves(keras.callbacks.Callback):
        def on_test_begin(self, logs=None):
            made.save_weights(tmp_path / "best.weights.h5")

    made.save_weights(tmp_path / "best.weights.h5")
    found = evaluator(tmp_path, max_evaluations=2, callbacks=[Saves()]).start()
    assert len(found) == 2


@pytest.mark.parametrize("damage", ["deleted", "changed"])
def test_a_checkpoint_that_cannot_be_read_is_skipped(trained, tmp_path, caplog, monkeypatch, damage):
    saved(trained, 1, 2)
    load = _sidecar_evaluator.load_saved

    def damaged_first(model, found):
        if found.number == 2 and damage == "deleted":
            shutil.rmtree(found.path)
        elif found.number == 2:
            for file in (tmp_path / "ckpt-2").glob("*.safetensors"):
                file.write_bytes(file.read_bytes()[:-1] + b"?")
        return load(model, found)

    monkeypatch.setattr(_sidecar_evaluator, "load_saved", damaged_first)
    found = evaluator(tmp_path, max_evaluations=1).start()
    assert [each.iterations for each in found] == [1]
    (warning,) = (each.getMessage() for each in caplog.records if each.levelno == logging.WARNING)
    assert warning.startswith(f"{tmp_path / 'ckpt-2'} is not evaluated: ")


def test_ctrl_c_returns_what_was_evaluated(trained, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    saved(trained, 1)

    class Interrupts(keras.callbacks.Callback):
        def on_test_begin(self, logs=None):
            saved(trained, 2)

        def on_test_batch_end(self, batch, logs=None):
            if self.model.optimizer.iterations.value == 2:
                raise KeyboardInterrupt

    found = evaluator(tmp_path, callbacks=[Interrupts()]).start()
    assert [each.iterations for each in found] == [1]
    assert "it was interrupted, after 1 evaluations" in caplog.text


def test_steps_and_a_strategy(trained, tmp_path):
    saved(trained, 1)
    with MirroredStrategy(["/cpu:0"]).scope():
        other = model()
    data = Dataset.from_tensor_slices((DATA, DATA[:, :2])).repeat().batch(4)
    (found,) = SidecarEvaluator(other, data, tmp_path, steps=1, max_evaluations=1).start()
    expected = trained[0].evaluate(DATA[:4], DATA[:4, :2], verbose=0, return_dict=True)
    assert found.metrics == pytest.approx(expected)


def test_a_checkpoint_of_another_program_without_iterations_counts_by_its_number(trained, tmp_path):
    made, _ = trained
    save_objects(tmp_path / "own", model=made)
    (found,) = evaluator(tmp_path / "own", max_evaluations=1).start()
    assert found.iterations == 1


def test_a_model_that_is_not_compiled_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"'bare' is not compiled: call `model.compile\(...\)`"):
        SidecarEvaluator(keras.Sequential(name="bare"), DATA, tmp_path)


def test_a_note_of_a_trainer_whose_clock_is_ahead_may_be_old(tmp_path, caplog):
    directory = tmp_path / "model"
    directory.mkdir()
    note = Path(note_paths(directory)[0])
    note.touch()
    assert _sidecar_evaluator._is_fresh(directory)
    ahead = time.time() + 3600.0
    os.utime(note, (ahead, ahead))
    assert not _sidecar_evaluator._is_fresh(directory)
    assert re.search(r"training.json is dated 3(600|599) s in the future", caplog.text)
