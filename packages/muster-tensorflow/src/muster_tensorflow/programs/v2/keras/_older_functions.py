"""Functions of ``tf.keras`` that Keras 3 does not have.

Source: keras/src/saving/legacy/model_config.py, keras/src/utils/{generic_utils,np_utils}.py and
keras/src/engine/data_adapter.py of Keras 2.15.
"""

import inspect
import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from muster import keras

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def model_from_config(config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> Any:
    """Make a model of the dict of its class and config that ``model.to_json`` writes.

    Args:
        config: The dict.
        custom_objects: Classes and functions by the names in it.
    """
    name = config["class_name"]
    if "module" not in config and name in ("Functional", "Model", "Sequential"):
        found = keras.Sequential if name == "Sequential" else keras.Model
        return found.from_config(config["config"], custom_objects)
    return keras.saving.deserialize_keras_object(config, custom_objects)


def model_from_yaml(yaml_string: str, custom_objects: dict[str, Any] | None = None) -> Any:
    """Make a model of what ``model.to_yaml`` returns.

    Args:
        yaml_string: That text. What in it is more than numbers, text, lists and dicts is refused.
        custom_objects: Classes and functions by the names in it.

    Raises:
        ValueError: The text is no YAML, or has objects of Python in it.

    Source: tensorflow/python/keras/saving/model_config.py of TensorFlow 2.5.
    """
    import yaml

    try:
        config = yaml.safe_load(yaml_string)
    except yaml.YAMLError as error:
        raise ValueError(f"model_from_yaml takes what model.to_yaml returns. {error}") from error
    return model_from_config(config, custom_objects)


def has_arg(fn: Callable[..., Any], name: str, accept_all: bool = False) -> bool:
    """Return whether a function takes an argument of a name.

    Args:
        fn: The function.
        name: The argument's.
        accept_all: Whether ``**kwargs`` count as taking it.
    """
    parameters = inspect.signature(fn).parameters
    if accept_all and any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return True
    return name in parameters and parameters[name].kind in _BY_NAME


def expand_1d(data: Any) -> Any:
    """Return data whose vectors are columns.

    Args:
        data: Arrays in lists, tuples and dicts.
    """
    return jax.tree.map(lambda each: each[..., None] if len(getattr(each, "shape", ())) == 1 else each, data)


def train_validation_split(arrays: Any, validation_split: float) -> tuple[Any, Any]:
    """Return the first rows of arrays, and the last ones.

    Args:
        arrays: Arrays of as many rows in lists, tuples and dicts; None stays.
        validation_split: The part of the rows that the last ones are.

    Raises:
        ValueError: One of the two has no rows.
    """
    rows = len(jax.tree.leaves(arrays)[0])
    first = math.floor(rows * (1 - validation_split))
    if not 0 < first < rows:
        raise ValueError(
            f"validation_split={validation_split} of {rows} rows leaves none for one of the two parts."
        )
    return jax.tree.map(lambda each: each[:first], arrays), jax.tree.map(lambda each: each[first:], arrays)


def to_ordinal(y: Any, num_classes: int | None = None, dtype: str = "float32") -> Any:
    """Return, for each class, a 1 for every class below it, among ``num_classes - 1`` columns.

    Args:
        y: Classes, whole numbers from 0 on, of any shape; a last axis of length 1 is left out.
        num_classes: How many there are; None for those up to the greatest.
        dtype: The dtype of the result.
    """
    classes = np.asarray(y, "int64")
    if classes.ndim > 1 and classes.shape[-1] == 1:
        classes = classes[..., 0]
    many = num_classes or int(classes.max()) + 1
    return (classes[..., None] > np.arange(many - 1)).astype(dtype)
