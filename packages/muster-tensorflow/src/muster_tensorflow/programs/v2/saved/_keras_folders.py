"""``tf.keras.experimental.export_saved_model`` and ``load_from_saved_model``, of TensorFlow 1.13 to 2.1."""

import os
from collections.abc import Mapping
from typing import Any

from muster import keras
from muster.extend import local_path


def export_saved_model(
    model: Any,
    saved_model_path: str | os.PathLike[str],
    custom_objects: Mapping[str, Any] | None = None,
    as_text: bool = False,
    input_signature: Any = None,
    serving_only: bool = False,
) -> None:
    """Save a built Keras model in a folder, as ``model.save`` does.

    Args:
        model: The model.
        saved_model_path: The folder.
        custom_objects: Classes and functions of the program, by name.
        as_text: Unused.
        input_signature: Unused: a built model knows its input.
        serving_only: Unused: the model is saved with all that training needs.

    Source: tensorflow/python/keras/saving/saved_model_experimental.py, ``export_saved_model``.
    """
    with keras.saving.custom_object_scope(dict(custom_objects or {})):
        model.save(os.path.join(local_path(saved_model_path), ""))


def load_from_saved_model(
    saved_model_path: str | os.PathLike[str], custom_objects: Mapping[str, Any] | None = None
) -> Any:
    """Load the Keras model that `export_saved_model` has saved; it must be compiled to be trained.

    Args:
        saved_model_path: The folder.
        custom_objects: Classes and functions of the program, by name.

    Source: tensorflow/python/keras/saving/saved_model_experimental.py, ``load_from_saved_model``.
    """
    return keras.models.load_model(
        os.path.join(local_path(saved_model_path), ""),
        custom_objects=dict(custom_objects or {}),
        compile=False,
    )
