"""Exported models are sources of weights, wherever a checkpoint is one; paths are text, bytes or Path."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from muster._checkpoint_commands import inspect_checkpoints
from muster._errors import CheckpointError, CheckpointMismatchError, DamagedCheckpointError
from muster._keras import keras
from muster.checkpoint.tensorflow import find_checkpoint, list_either, read_either
from muster.data import Dataset, FixedLenFeature
from muster.estimator import (
    DNNRegressor,
    WarmStartSettings,
    build_parsing_serving_input_receiver_fn,
)
from muster.feature_column import numeric_column
from tensorflow_checkpoints import recorded

pytestmark = pytest.mark.usefixtures("compiled_once")

X = np.random.default_rng(0).normal(size=(32, 3)).astype("float32")
KERNEL = "dnn/hiddenlayer_0/kernel"
FORMS = {
    "text": str,
    "bytes": os.fsencode,
    "Path": Path,
    "variables": lambda path: f"{path}/variables/variables",
    "variables as bytes": lambda path: os.fsencode(path) + b"/variables/variables",
    "ending in a slash": lambda path: f"{path}/",
}


def input_fn():
    return Dataset.from_tensor_slices(({"x": X}, X.sum(1, keepdims=True))).batch(16).repeat()


def regressor(folder, **options):
    columns = [numeric_column("x", (3,))]
    return DNNRegressor(
        [4], columns, model_dir=str(folder), optimizer=lambda: keras.optimizers.SGD(1e-3), **options
    )


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """An Estimator, and the folder of its export."""
    folder = tmp_path_factory.mktemp("exported")
    est = regressor(folder / "model")
    est.train(input_fn, steps=3)
    receiver = build_parsing_serving_input_receiver_fn({"x": FixedLenFeature((3,), np.float32)})
    return est, est.export_saved_model(folder / "export", receiver).decode()


@pytest.mark.parametrize("form", FORMS)
def test_every_path_of_an_export(exported, form):
    est, path = exported
    found = find_checkpoint(FORMS[form](path))
    assert os.path.samefile(found, path)
    assert list_either(FORMS[form](path))[KERNEL].shape == (3, 4)
    np.testing.assert_array_equal(
        read_either(FORMS[form](path)).variables[KERNEL], est.get_variable_value(KERNEL)
    )


def test_names_of_tensorflows_estimators_mean_the_checkpoint_of_that_step(exported):
    est, _ = exported
    own = est.latest_checkpoint()
    named = own.replace("ckpt-3", "model.ckpt-3")
    assert find_checkpoint(named) == read_either(named).path == own
    assert list_either(named) == list_either(own)
    assert est.evaluate(input_fn, steps=1, checkpoint_path=named)["global_step"] == 3
    assert find_checkpoint(own.replace("ckpt-3", "model.ckpt-4")) is None
    with pytest.raises(CheckpointError, match=r"There is no checkpoint at .*model\.ckpt-4: "):
        read_either(own.replace("ckpt-3", "model.ckpt-4"))


@pytest.mark.parametrize("form", ["text", "bytes", "Path", "variables"])
@pytest.mark.parametrize("settings", [False, True])
def test_a_warm_start(exported, tmp_path, form, settings):
    est, path = exported
    given = FORMS[form](path)
    if settings:
        given = WarmStartSettings(given, vars_to_warm_start=".*hiddenlayer.*")
    other = regressor(tmp_path, warm_start_from=given)
    other.train(lambda: Dataset.from_tensors(({"x": 0 * X}, 0 * X[:, :1])), steps=1)
    np.testing.assert_allclose(other.get_variable_value(KERNEL), est.get_variable_value(KERNEL), atol=1e-6)
    logits = [each.get_variable_value("dnn/logits/kernel") for each in (est, other)]
    assert np.array_equal(*logits) != settings or np.allclose(*logits, atol=0.05) != settings


def test_evaluation_and_prediction(exported, tmp_path):
    est, path = exported
    few = lambda: input_fn().take(2)  # noqa: E731
    other = regressor(tmp_path)
    expected = est.evaluate(few)
    found = other.evaluate(few, checkpoint_path=f"{path}/variables/variables")
    assert found == {**expected, "global_step": 0}  # which an export does not have
    rows = [
        [each["predictions"] for each in one.predict(few, checkpoint_path=of)]
        for one, of in ((est, None), (other, path))
    ]
    np.testing.assert_array_equal(*rows)


def test_what_an_export_lacks_of_the_weights_is_an_error(exported, tmp_path):
    wider = DNNRegressor([4, 4], [numeric_column("x", (3,))], model_dir=str(tmp_path))
    with pytest.raises(CheckpointMismatchError, match="It lacks: .*hiddenlayer_1/kernel"):
        wider.evaluate(input_fn, steps=1, checkpoint_path=exported[1])


def test_inspect(exported, capsys):
    assert inspect_checkpoints(exported[1], step=None, variables=True, restore=False) == 0
    out = capsys.readouterr().out
    assert "is an exported model: 4 weights with 21 values" in out
    assert f"{KERNEL}  (3, 4)  float32" in out


def test_a_damaged_export(exported, tmp_path, capsys):
    folder = tmp_path / "damaged"
    shutil.copytree(exported[1], folder)
    weights = folder / "weights.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    with pytest.raises(DamagedCheckpointError, match=r"weights\.safetensors"):
        read_either(folder)
    assert inspect_checkpoints(str(folder), step=None, variables=False, restore=False) == 1
    assert "Damaged: " in capsys.readouterr().out
    (folder / "saved_model.json").write_text("{}")
    with pytest.raises(DamagedCheckpointError, match=r"saved_model\.json does not match its checksum"):
        read_either(folder)


def test_a_folder_without_a_model(tmp_path):
    assert find_checkpoint(tmp_path) is None
    with pytest.raises(CheckpointError, match="There is no checkpoint at"):
        read_either(tmp_path / "variables" / "variables")


def test_an_export_of_tensorflows(tmp_path):
    """Which has its variables where programs name them: the variables of a model_fn's, as recorded."""
    source, _ = recorded("custom_model_fn")
    folder = tmp_path / "export" / "variables"
    folder.mkdir(parents=True)
    for end in (".index", ".data-00000-of-00001"):
        shutil.copy(f"{source}{end}", folder / f"variables{end}")
    expected = read_either(source).variables
    for path in (tmp_path / "export", folder / "variables", os.fsencode(tmp_path / "export")):
        assert list_either(path).keys() == list_either(source).keys()
        found = read_either(find_checkpoint(path)).variables
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value)
    assert inspect_checkpoints(str(tmp_path / "export"), step=None, variables=False, restore=False) == 0
