"""What an evaluator finds in a directory, and loads."""

import os
import shutil

import numpy as np
import pytest
from saved_objects import save_objects

from muster import CheckpointMismatchError, CheckpointNotFoundError, DamagedCheckpointError, keras
from muster.distribute.fit._saved_models import ModelFile, NewModels, list_saved, load_saved

# Keras' variables have the __array__ of NumPy 1.
pytestmark = [
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword"),
]

DATA = np.arange(24, dtype=np.float32).reshape(8, 3) / 24


def model(optimizer="adam", units=2):
    made = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(units),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.5),
        ]
    )
    made.compile(optimizer, "mse", metrics=["mae"])
    return made


@pytest.fixture
def trained():
    keras.utils.set_random_seed(1)
    made = model()
    made.fit(DATA, DATA[:, :2], batch_size=4, epochs=3, verbose=0)
    return made


def save(trained, directory, kind):
    """Save a model; returns the path."""
    if kind == "checkpoint":
        return save_objects(directory, model=trained, optimizer=trained.optimizer)
    path = str(directory / f"ckpt-03{kind}")
    trained.save(path) if kind == ".keras" else trained.save_weights(path)
    return path


KINDS = ("checkpoint", ".weights.h5", ".keras")


@pytest.mark.samples("checkpoint-adam", ".keras-sgd", ".weights.h5-None")
@pytest.mark.parametrize("optimizer", ["adam", "sgd", None])
@pytest.mark.parametrize("kind", KINDS)
def test_weights_and_iterations_are_loaded(trained, tmp_path, kind, optimizer):
    path = save(trained, tmp_path, kind)
    (saved,) = list_saved(str(tmp_path))
    assert (saved.path, saved.number) == (path, 1 if kind == "checkpoint" else 3)
    other = model(optimizer)
    iterations = load_saved(other, saved)
    for ours, theirs in zip(other.weights, trained.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    if optimizer == "adam" or (optimizer and kind == "checkpoint"):
        assert iterations == int(other.optimizer.iterations) == 6
    else:
        assert iterations is None  # of another optimizer, or none


@pytest.mark.parametrize("kind", KINDS)
def test_another_model_is_refused(trained, tmp_path, kind):
    save(trained, tmp_path, kind)
    with pytest.raises(CheckpointMismatchError, match="is of another model"):
        load_saved(model(units=1), *list_saved(str(tmp_path)))


def test_a_checkpoint_without_a_model_is_refused(trained, tmp_path):
    save_objects(tmp_path, net=trained)
    with pytest.raises(CheckpointMismatchError, match=r"has no model: .*tf.train.Checkpoint\(model=model"):
        load_saved(model(), *list_saved(str(tmp_path)))


@pytest.mark.samples(".keras-0.9", ".weights.h5-0.5")
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("kind", KINDS[1:])
def test_half_a_file_is_damaged(trained, tmp_path, kind, share):
    path = save(trained, tmp_path, kind)
    os.truncate(path, int(os.path.getsize(path) * share))
    with pytest.raises(DamagedCheckpointError, match="damaged, or half-written"):
        load_saved(model(), *list_saved(str(tmp_path)))


def test_a_file_that_grows_is_not_loaded(trained, tmp_path):
    path = save(trained, tmp_path, ".keras")
    (saved,) = list_saved(str(tmp_path))
    with open(path, "ab") as file:
        file.write(b"more")
    with pytest.raises(DamagedCheckpointError, match="is being written"):
        load_saved(model(), saved)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_gone_is_not_found(trained, tmp_path, kind):
    path = save(trained, tmp_path, kind)
    (saved,) = list_saved(str(tmp_path))
    shutil.rmtree(path) if kind == "checkpoint" else os.unlink(path)
    with pytest.raises(CheckpointNotFoundError):
        load_saved(model(), saved)


def test_a_directory_that_is_not_there_has_nothing(tmp_path):
    assert list_saved(str(tmp_path / "missing")) == []


def test_other_files_are_left_alone(tmp_path):
    for name in ("training.json", "notes.h5", "events.out", "ckpt-1"):
        (tmp_path / name).write_text("text")
    (tmp_path / "folder.keras").mkdir()
    assert list_saved(str(tmp_path)) == []


@pytest.mark.parametrize(
    ("name", "number"),
    [("ckpt-12", 12), ("ckpt-007.weights.h5", 7), ("e3-loss0.25.keras", 25), ("best.weights.h5", None)],
)
def test_numbers_in_names(name, number):
    assert ModelFile(f"/models-9/{name}", 0.0).number == number


CHECKPOINTS = [ModelFile(f"ckpt-{number}", float(number)) for number in range(4)]


def test_the_newest_comes_first_and_older_ones_never():
    models = NewModels()
    models.look(CHECKPOINTS[:3])
    assert models.next() == CHECKPOINTS[2]
    models.done(CHECKPOINTS[2])
    assert models.next() is None
    models.look(CHECKPOINTS)
    assert models.next() == CHECKPOINTS[3]


def test_an_older_one_comes_in_place_of_one_that_is_skipped():
    models = NewModels()
    models.look(CHECKPOINTS[:1])
    models.done(models.next())
    models.look(CHECKPOINTS[:3])
    models.skip(models.next())
    assert models.next() == CHECKPOINTS[1]
    models.skip(models.next())
    assert models.next() is None


def test_a_file_comes_when_it_has_stayed_as_it_is():
    half, whole = ModelFile("best.keras", 1.0, 10), ModelFile("best.keras", 2.0, 20)
    models = NewModels()
    models.look([half])
    assert (models.next(), models.unsettled) == (None, True)
    models.look([whole])
    assert (models.next(), models.unsettled) == (None, True)
    models.look([whole])
    assert (models.next(), models.unsettled) == (whole, False)
    models.done(whole)
    again = ModelFile("best.keras", 3.0, 20)
    models.look([again])
    models.look([again])
    assert models.next() == again


def test_what_comes_later_is_new_though_a_clock_is_behind():
    models = NewModels()
    models.look(CHECKPOINTS[:3])
    models.done(models.next())
    late = ModelFile("ckpt-9", 0.5)  # training goes on, on another machine
    models.look([*CHECKPOINTS[:3], late])
    assert models.next() == late
    models.done(late)
    models.look([*CHECKPOINTS[:3], late])
    assert models.next() is None
