"""`load_weights(by_name=True)` of what `save_weights` wrote."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from muster._keras import keras
from muster.distribute import MirroredStrategy  # noqa: F401  # lets Keras' models load by names

layers = keras.layers


def model_of(units: int, *names: str) -> Any:
    made = [layers.Bidirectional(layers.LSTM(3), name=names[0])]
    made += [layers.Dense(units, name=name) for name in names[1:]]
    return keras.Sequential([keras.Input((4, 2)), *made])


@pytest.mark.parametrize("name", ["weights.h5", "model.weights.h5"])
def test_layers_of_the_same_names_get_the_weights(tmp_path: Path, name: str) -> None:
    saved, model = model_of(2, "a", "b", "c"), model_of(2, "a", "other", "b")
    saved.save_weights(tmp_path / name)
    before = model.get_layer("other").get_weights()
    with pytest.raises(ValueError, match="shape"):
        model.load_weights(tmp_path / name, by_name=True)
    model.load_weights(tmp_path / name, by_name=True, skip_mismatch=True)
    for one, two in zip(model.get_layer("a").weights, saved.get_layer("a").weights, strict=True):
        np.testing.assert_array_equal(one, two)
    for one, two in zip(model.get_layer("other").get_weights(), before, strict=True):
        np.testing.assert_array_equal(one, two)


def test_a_model_of_another_config_gets_them_all(tmp_path: Path) -> None:
    saved = model_of(2, "a", "b")
    saved.get_layer("b").kernel_regularizer = keras.regularizers.L2(0.1)
    saved.save_weights(tmp_path / "weights.h5")
    model = keras.models.model_from_json(saved.to_json())
    model.load_weights(tmp_path / "weights.h5", by_name=True)
    assert len(model.losses) == 1
    for one, two in zip(model.get_weights(), saved.get_weights(), strict=True):
        np.testing.assert_array_equal(one, two)


def test_files_without_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no file of weights .*missing\.h5"):
        model_of(2, "a", "b").load_weights(tmp_path / "missing.h5", by_name=True)


def test_a_model_without_weights_is_built_or_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    saved = keras.Sequential([keras.Input((3,)), layers.Dense(2, name="a"), layers.Dense(2, name="b")])
    for name in ("noted.h5", "model.weights.h5"):
        saved.save_weights(tmp_path / name)
    model = keras.Sequential([layers.Dense(2, name="a")])
    with pytest.raises(ValueError, match=r"\['a'\] have no weights yet.*build the model"):
        model.load_weights(tmp_path / "model.weights.h5", by_name=True)
    model.load_weights(tmp_path / "noted.h5", by_name=True)
    for one, two in zip(model.get_weights(), saved.layers[0].get_weights(), strict=True):
        np.testing.assert_array_equal(one, two)

    other = keras.Sequential([keras.Input((7,)), layers.Dense(2, name="a")])
    other.load_weights(tmp_path / "noted.h5", by_name=True, skip_mismatch=True)
    assert "The layer a was left as it is" in caplog.text
