"""Saved models whose arguments the program's own code computes."""

import sys
import threading
import types

import numpy as np
import pytest

from muster import SavedModelError
from muster.data import TensorSpec
from muster.saved_model import (
    PREDICT,
    Feature,
    Output,
    SignatureToSave,
    load,
    save,
    symbolic_arguments,
    trace,
)

ARGUMENTS = symbolic_arguments({"lengths": TensorSpec([None], np.float32)}, (), None)


def save_with(own_code, folder):
    computation = trace(lambda weights, arguments: {"y": 2 * arguments["lengths"]}, {}, ARGUMENTS)
    inputs = {"text": TensorSpec([None], str)}
    signature = SignatureToSave(
        method_name=PREDICT,
        inputs=inputs,
        outputs={"y": Output("y")},
        computation=computation,
        features={"words": Feature("text")},
        own_code=own_code,
    )
    save(folder, {"serving_default": signature})


def test_it_computes_arguments_of_features(tmp_path):
    save_with(
        lambda features: {"lengths": np.array([len(each) for each in features["words"]])}, tmp_path / "m"
    )
    answer = load(tmp_path / "m").signatures["serving_default"](text=["é", "abc"])
    assert answer["y"].tolist() == [4, 6]  # bytes


def test_what_cannot_be_pickled_is_told(tmp_path):
    lock = threading.Lock()
    with pytest.raises(SavedModelError, match="kept as Python code, and something in it cannot be pickled"):
        save_with(lambda features: {"lengths": lock}, tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_what_cannot_be_loaded_is_told_at_the_first_call(tmp_path, monkeypatch):
    module = types.ModuleType("lengths_of_words")
    module.compute = type("Compute", (), {"__module__": module.__name__, "__qualname__": "compute"})
    monkeypatch.setitem(sys.modules, module.__name__, module)
    save_with(module.compute, tmp_path / "m")
    monkeypatch.delitem(sys.modules, module.__name__)
    signature = load(tmp_path / "m").signatures["serving_default"]
    with pytest.raises(SavedModelError, match=r"No module named 'lengths_of_words'.*Install the packages"):
        signature(text=["a"])
