"""The checkpoints that TensorFlow wrote: four of them in ``oracles``, all fifteen in MUSTER_TEST_DATA.

``index.json`` says what TensorFlow found in each, and what the model that wrote it predicted.
"""

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np

from large_data import large_data

_IN_REPOSITORY = Path(__file__).with_name("oracles") / "tensorflow_checkpoints"
NAMES = (
    "custom_model_fn",
    "dnn_classifier",
    "dnn_classifier_batch_norm",
    "dnn_regressor",
    "keras_model_fn",
    "keras_save_weights",
    "linear_classifier",
    "linear_classifier_binary",
    "object_based",
    "raw_saver",
    "raw_saver_sharded",
    "saved_model_variables",
    "v1_dnn_partitioned",
    "v1_linear",
    "wide_and_deep",
)


def recorded(name: str) -> tuple[Path, dict[str, Any]]:
    """Return a checkpoint's prefix and what TensorFlow says of it; skip the test if it is not there."""
    folder = _IN_REPOSITORY
    if name not in _index(folder):
        folder = large_data("tensorflow_checkpoints")
    said = _index(folder)[name]
    return folder / said["prefix"], said


def recorded_data() -> dict[str, Any]:
    """Return what the Estimators' predictions were made for: ``features``, and ``labels``."""
    return json.loads((_IN_REPOSITORY / "data.json").read_text())


def recorded_images() -> np.ndarray[Any, Any]:
    """Return what the predictions of ``keras_model_fn`` were made for."""
    return np.load(_IN_REPOSITORY / "images.npy")


def value_of(said: dict[str, Any]) -> np.ndarray[Any, Any]:
    """Return the value of a tensor that `recorded` describes."""
    value = said["value"]
    if said["dtype"] == "string":
        items = value if isinstance(value, list) else [value]
        array = np.array([_bytes(item) for item in items] + [None], object)[:-1]
        return array.reshape(said["shape"])
    if said["dtype"].startswith("complex"):
        return np.array([complex(*each) for each in value], said["dtype"])
    dtype = "float32" if said["dtype"] == "bfloat16" else said["dtype"]
    return np.array(value, dtype).reshape(said["shape"])


def _bytes(item: dict[str, str]) -> bytes:
    return bytes.fromhex(item["hex"]) if "hex" in item else item["bytes"].encode()


@functools.cache
def _index(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "index.json").read_text())
