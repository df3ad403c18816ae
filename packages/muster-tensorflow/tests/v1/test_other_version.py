"""A canned model of TensorFlow 2 in a program for TensorFlow 1 is warned of."""

import logging
import sys
from types import ModuleType

import pytest

import muster_tensorflow as tf2
import muster_tensorflow.compat.v1 as tf1
from muster_tensorflow.programs.v1.estimator import _other_version

BUILD = """
def build(folder):
    column = tf.feature_column.numeric_column("x")
    return tf.estimator.{kind}(feature_columns=[column], model_dir=folder)
"""


def said(monkeypatch, caplog, tmp_path, model, main, kind="LinearClassifier"):
    """The warnings of a module that builds a model, beside a main module; both with these globals."""
    monkeypatch.setattr(_other_version, "_warned", set())
    model_module, main_module = ModuleType("model_of_program"), ModuleType("main_of_program")
    vars(model_module).update(model)
    vars(main_module).update(main, __file__="task.py")
    code = compile(BUILD.format(kind=kind), "model.py", "exec")
    exec(code, vars(model_module))
    # Not all modules: those of other tests import compat.v1, too.
    monkeypatch.setattr(_other_version, "_modules", lambda: [sys, model_module, main_module])
    with caplog.at_level(logging.WARNING, "muster_tensorflow"):
        for _ in range(2):
            model_module.build(str(tmp_path))
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


def test_it_is_said_once_and_where(monkeypatch, caplog, tmp_path):
    (message,) = said(monkeypatch, caplog, tmp_path, {"tf": tf2}, {"tf": tf1})
    assert message.startswith("model.py:4 builds TensorFlow 2's LinearClassifier, which averages the losses")
    assert "says task.py. Import muster_tensorflow.compat.v1 as tf in both" in message


@pytest.mark.parametrize(
    ("model", "main"),
    [
        ({"tf": tf1}, {"tf": tf1}),
        ({"tf": tf2}, {"tf": tf2}),
        ({"tf": tf2}, {"tf1": tf1}),  # a program that tells the two apart
    ],
)
def test_all_of_one_version_is_well(monkeypatch, caplog, tmp_path, model, main):
    assert said(monkeypatch, caplog, tmp_path, model, main) == []
