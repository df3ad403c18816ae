"""How canned Estimators go on from those that TensorFlow trained: columns, and checks of what they do."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from muster import feature_column as columns
from muster.checkpoint import read_checkpoint
from muster.checkpoint.tensorflow import TensorFlowCheckpoint
from muster.data import Dataset
from tensorflow_checkpoints import recorded, recorded_data

AGE = columns.numeric_column("age")
CITY = columns.categorical_column_with_vocabulary_list("city", ["ulm", "bonn", "köln"], num_oov_buckets=1)
JOB = columns.categorical_column_with_identity("job", 9)
TAGS = columns.categorical_column_with_hash_bucket("tags", 7)
WIDE = [CITY, columns.crossed_column(["city", "tags"], 20), columns.bucketized_column(AGE, [-1.0, 0.0, 1.0])]
DEEP = [
    AGE,
    columns.embedding_column(TAGS, 3),
    columns.embedding_column(JOB, 4, combiner="sum"),
    columns.indicator_column(CITY),
]


def examples(name: str) -> Any:
    data = recorded_data()
    features = {key: np.array(value) for key, value in data["features"].items()}
    features["age"] = features["age"].astype(np.float32)
    labels = np.array(data["labels"])
    if name == "linear_classifier_binary":
        labels = (labels > 0).astype(np.int32)
    return Dataset.from_tensor_slices((features, labels)).batch(16)


def check_goes_on(name: str, make: Callable[[str], Any], slot: tuple[str, str], folder: Path) -> None:
    """Check that an Estimator predicts and evaluates as TensorFlow did, and trains from there.

    Args:
        name: The name of the checkpoint.
        make: Makes the Estimator of a directory.
        slot: What TensorFlow calls a slot of an optimizer, and the end of the name that it has in muster.
        folder: An empty folder.
    """
    prefix, said = recorded(name)
    shutil.copytree(prefix.parent, folder / "model")
    estimator = make(str(folder / "model"))
    predicted = estimator.predict(lambda: examples(name))
    for found, expected in zip(predicted, said["predictions"], strict=False):
        for key in found.keys() & {"logits", "logistic", "probabilities", "predictions"}:
            np.testing.assert_allclose(found[key], expected[key], atol=1e-5)
    metrics = estimator.evaluate(lambda: examples(name))
    for key, value in said["evaluate"].items():
        assert metrics[key] == pytest.approx(value, rel=1e-5, abs=1e-5), key

    estimator.train(lambda: examples(name), max_steps=13)
    stored, ours = slot
    began = read_checkpoint(folder / "model" / "ckpt-12").variables
    (value,) = [value for path, value in began.items() if path.endswith(ours)]
    np.testing.assert_array_equal(value, TensorFlowCheckpoint(prefix).read_all()[stored])
    assert estimator.get_variable_value("global_step") == 13
