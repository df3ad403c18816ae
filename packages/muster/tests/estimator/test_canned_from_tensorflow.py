"""Canned Estimators go on from those that TensorFlow trained: predictions, metrics, slots and the step."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import muster_tensorflow as tf
import muster_tensorflow.compat.v1 as v1
from muster.checkpoint.tensorflow import TensorFlowCheckpoint
from tensorflow_checkpoints import recorded, recorded_data

columns = tf.feature_column
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
ESTIMATORS = {
    "dnn_classifier": lambda to: tf.estimator.DNNClassifier([8, 4], DEEP, to, n_classes=3),
    "dnn_classifier_batch_norm": lambda to: tf.estimator.DNNClassifier(
        [6], DEEP, to, n_classes=3, batch_norm=True, optimizer="Adam"
    ),
    "dnn_regressor": lambda to: tf.estimator.DNNRegressor([5], DEEP, to),
    "linear_classifier": lambda to: tf.estimator.LinearClassifier(WIDE, to, n_classes=3),
    "linear_classifier_binary": lambda to: tf.estimator.LinearClassifier(WIDE, to),
    "wide_and_deep": lambda to: tf.estimator.DNNLinearCombinedClassifier(
        to, linear_feature_columns=WIDE, dnn_feature_columns=DEEP, dnn_hidden_units=[8], n_classes=3
    ),
    "v1_dnn_partitioned": lambda to: v1.estimator.DNNClassifier([8], DEEP, to, n_classes=3),
    "v1_linear": lambda to: v1.estimator.LinearClassifier(WIDE, to, n_classes=3),
}
# A slot of each, with the name that it has in muster's checkpoints.
SLOTS = {
    "dnn_classifier": ("training/Adagrad/dnn/logits/kernel/accumulator", "logits_kernel_accumulator"),
    "dnn_classifier_batch_norm": ("training/Adam/dnn/logits/kernel/v", "logits_kernel_v"),
    "dnn_regressor": ("training/Adagrad/dnn/logits/bias/accumulator", "logits_bias_accumulator"),
    "linear_classifier": ("training/Ftrl/linear/linear_model/city/weights/linear", "city_weights_linear"),
    "linear_classifier_binary": (
        "training/Ftrl/linear/linear_model/city/weights/accumulator",
        "city_weights_accumulator",
    ),
    "wide_and_deep": (
        "training/Ftrl/linear/linear_model/city_X_tags/weights/linear",
        "city_X_tags_weights_linear",
    ),
    "v1_dnn_partitioned": (
        "dnn/input_from_feature_columns/input_layer/tags_embedding/embedding_weights/Adagrad",
        "tags_embedding_embedding_weights_accumulator",
    ),
    "v1_linear": ("linear/linear_model/city_X_tags/weights/Ftrl_1", "city_X_tags_weights_linear"),
}


def examples(name: str) -> Any:
    data = recorded_data()
    features = {key: np.array(value) for key, value in data["features"].items()}
    features["age"] = features["age"].astype(np.float32)
    labels = np.array(data["labels"])
    if name == "linear_classifier_binary":
        labels = (labels > 0).astype(np.int32)
    return tf.data.Dataset.from_tensor_slices((features, labels)).batch(16)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_it_predicts_and_goes_on(name: str, tmp_path: Path) -> None:
    prefix, said = recorded(name)
    shutil.copytree(prefix.parent, tmp_path / "model")
    estimator = ESTIMATORS[name](str(tmp_path / "model"))
    predicted = estimator.predict(lambda: examples(name))
    for found, expected in zip(predicted, said["predictions"], strict=False):
        for key in found.keys() & {"logits", "logistic", "probabilities", "predictions"}:
            np.testing.assert_allclose(found[key], expected[key], atol=1e-5)
    metrics = estimator.evaluate(lambda: examples(name))
    for key, value in said["evaluate"].items():
        assert metrics[key] == pytest.approx(value, rel=1e-5, abs=1e-5), key

    estimator.train(lambda: examples(name), max_steps=13)
    stored, ours = SLOTS[name]
    began = tmp_path / "model" / "ckpt-12"
    (path,) = [path for path, _ in tf.train.list_variables(began) if path.endswith(ours)]
    np.testing.assert_array_equal(
        tf.train.load_variable(began, path), TensorFlowCheckpoint(prefix).read_all()[stored]
    )
    assert estimator.get_variable_value("global_step") == 13
