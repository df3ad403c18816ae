"""Each name that programs use most exists, or has a line that says what to use instead."""

import importlib
import re

import pytest

import muster_tensorflow as tf
import muster_tensorflow.compat.v1 as tf1
from muster_tensorflow.names._hints import INSTEAD, advice_for
from used_names import NAMES

PAGE = advice_for("tf.nothing")


def value_of(module: object, name: str) -> object:
    for part in name.split(".")[1:]:
        module = getattr(module, part)
    return module


@pytest.mark.parametrize("name", NAMES)
def test_names_that_programs_use_exist_or_have_a_line(name: str) -> None:
    for module in (tf, tf1):
        try:
            value_of(module, name)
        except AttributeError as exc:
            # Names of classes and of Keras have Python's error; `muster port` has their line.
            text = str(exc) if "muster has no" in str(exc) else advice_for(name)
            assert PAGE not in text


def test_names_of_tensorflow_1_say_where_they_are() -> None:
    with pytest.raises(AttributeError, match=re.escape("write tf.compat.v1.losses.huber_loss, or import")):
        _ = tf.losses.huber_loss
    with pytest.raises(AttributeError, match=re.escape("write tf.compat.v1.layers, or import")):
        _ = tf.layers.dense


def test_lines_are_for_names_that_are_missing() -> None:
    for name in INSTEAD:
        if not name.endswith(".*"):
            for module in (tf, tf1):
                with pytest.raises(AttributeError):
                    value_of(module, name)


def test_what_lines_tell_to_use_exists() -> None:
    for name, line in INSTEAD.items():
        for path in re.findall(r"\b(?:keras|jax|muster|numpy|tf|functools|importlib)(?:\.\w+)+", line):
            root, *_ = path.split(".")
            module = {"tf": tf1, "keras": tf1.keras}.get(root) or importlib.import_module(root)
            if path.startswith("jax."):
                importlib.import_module("jax.experimental.checkify")
            try:
                value_of(module, path)
            except AttributeError:
                importlib.import_module(path)
            except ImportError:
                pytest.fail(f"{name}: {path} does not exist")
