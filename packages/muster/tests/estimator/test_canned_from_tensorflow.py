"""Canned Estimators go on from those that TensorFlow trained: predictions, metrics, slots and the step."""

from pathlib import Path

import pytest

from canned_checkpoints import DEEP, WIDE, check_goes_on
from muster.estimator import DNNClassifier, DNNLinearCombinedClassifier, DNNRegressor, LinearClassifier

ESTIMATORS = {
    "dnn_classifier": lambda to: DNNClassifier([8, 4], DEEP, to, n_classes=3),
    "dnn_classifier_batch_norm": lambda to: DNNClassifier(
        [6], DEEP, to, n_classes=3, batch_norm=True, optimizer="Adam"
    ),
    "dnn_regressor": lambda to: DNNRegressor([5], DEEP, to),
    "linear_classifier": lambda to: LinearClassifier(WIDE, to, n_classes=3),
    "linear_classifier_binary": lambda to: LinearClassifier(WIDE, to),
    "wide_and_deep": lambda to: DNNLinearCombinedClassifier(
        to, linear_feature_columns=WIDE, dnn_feature_columns=DEEP, dnn_hidden_units=[8], n_classes=3
    ),
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
}


@pytest.mark.samples("wide_and_deep")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_it_predicts_and_goes_on(name: str, tmp_path: Path) -> None:
    check_goes_on(name, ESTIMATORS[name], SLOTS[name], tmp_path)
