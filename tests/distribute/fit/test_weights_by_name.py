"""`load_weights(by_name=True)` of what `save_weights` wrote."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import muster  # noqa: F401  # lets Keras' models load by names
from muster._keras import keras

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
    with pytest.raises(ValueError, match=r"missing\.h5 is neither"):
        model_of(2, "a", "b").load_weights(tmp_path / "missing.h5", by_name=True)
