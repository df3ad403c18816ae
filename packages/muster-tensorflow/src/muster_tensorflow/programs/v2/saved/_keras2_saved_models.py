"""Models that Keras 2 has saved in folders, as SavedModels, with TensorFlow.

Beside the graph, which needs TensorFlow, such a folder has the configuration of each layer, and the variables
as a checkpoint. A sequential or functional model is made of these; one of another class needs the class.
Tried on keras 3.15.1: ``tests/v2/test_keras2_saved_models.py`` fails when what is used here changes.

Source: keras/saving/legacy/saved_model/load.py and keras/protobuf/saved_metadata.proto of Keras 2.15.
"""

import functools
import json
import logging
import os
from collections.abc import Mapping
from typing import Any

from muster import SavedModelError, keras
from muster.checkpoint.tensorflow import load_weights
from muster.extend import local_path, message_class

_log = logging.getLogger(__name__)

_legacy, _options = keras.src.legacy.saving, keras.src.legacy.saving.saving_options
_serialization = keras.src.saving.serialization_lib

_FILE = "keras_metadata.pb"
_MESSAGES = """
message Object { string node_path = 3; string metadata = 5; }
message Metadata { repeated Object nodes = 1; }
"""


def is_saved_model(folder: Any) -> bool:
    """Return whether a path is that of a folder in which Keras 2 has saved a model."""
    return isinstance(folder, str | os.PathLike) and os.path.isfile(os.path.join(local_path(folder), _FILE))


def load_saved_model(
    folder: str | os.PathLike[str],
    custom_objects: Mapping[str, Any] | None = None,
    compile: bool = True,
    safe_mode: bool = True,
) -> Any:
    """Load a model that Keras 2 has saved in a folder, with the state of its optimizer.

    Keras 2.15 itself begins with a new optimizer.

    Args:
        folder: The folder.
        custom_objects: Classes and functions of the program, by name.
        compile: Whether to compile the model as it was when it was saved.
        safe_mode: Whether to refuse lambdas.

    Raises:
        SavedModelError: The folder does not say what the model is made of, or its class is not known.
        CheckpointError: The variables cannot be read.
    """
    path = local_path(folder)
    metadata = _metadata_of_root(path)
    with keras.saving.custom_object_scope(dict(custom_objects or {})):
        model = _made_of(path, metadata, safe_mode)
        shape = _decoded(metadata.get("build_input_shape"))
        if not model.built and shape is not None:
            model.build(shape)
        training = metadata.get("training_config")
        if compile and training is not None:
            model.compile(**_legacy.saving_utils.compile_args_from_training_config(_decoded(training)))
            model.optimizer.build(model.trainable_variables)
        elif compile:
            _log.warning(
                "The model in %s was not compiled when it was saved: compile it before it is trained.", path
            )
    load_weights(model, os.path.join(path, "variables", "variables"))
    return model


def _metadata_of_root(path: str) -> dict[str, Any]:
    """Return what a folder says of the model itself."""
    with open(os.path.join(path, _FILE), "rb") as file:
        data = file.read()
    from google.protobuf.message import DecodeError

    try:
        nodes = _message().FromString(data).nodes
        found: dict[str, Any] = next(json.loads(each.metadata) for each in nodes if each.node_path == "root")
    except (DecodeError, StopIteration, ValueError) as exc:
        raise SavedModelError(f"{os.path.join(path, _FILE)} is damaged, or has no model: {exc!r}.") from None
    return found


def _made_of(path: str, metadata: Mapping[str, Any], safe_mode: bool) -> Any:
    """Return the model of a configuration, with initial values."""
    config = metadata.get("model_config") or {key: metadata[key] for key in ("class_name", "config")}
    name = config["class_name"]
    if name not in ("Sequential", "Functional", "Model") and keras.saving.get_registered_object(name) is None:
        raise SavedModelError(
            f"The model in {path} is of the class {name!r}, which is not known here. Give it to load_model: "
            f"custom_objects={{{name!r}: {name.rpartition('>')[2]}}}. Only TensorFlow can run such a model "
            "without its class, by its graph."
        )
    with _options.keras_option_scope(use_legacy_config=True), _serialization.SafeModeScope(safe_mode):
        return _legacy.saving_utils.model_from_config(_decoded(config))


def _decoded(value: Any) -> Any:
    """Return a value with tuples where JSON has a description of these, or of a shape."""
    return _legacy.json_utils.decode(json.dumps(value).replace('"TensorShape"', '"__tuple__"'))


@functools.cache
def _message() -> Any:
    return message_class(_MESSAGES, "keras.Metadata")
