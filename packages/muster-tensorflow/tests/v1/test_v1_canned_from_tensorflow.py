"""TensorFlow 1's canned Estimators go on from those that it trained: predictions, metrics and slots."""

from pathlib import Path

import pytest

from canned_checkpoints import DEEP, WIDE, check_goes_on
from muster_tensorflow.compat import v1

ESTIMATORS = {
    "v1_dnn_partitioned": lambda to: v1.estimator.DNNClassifier([8], DEEP, to, n_classes=3),
    "v1_linear": lambda to: v1.estimator.LinearClassifier(WIDE, to, n_classes=3),
}
# A slot of each, with the name that it has in muster's checkpoints.
SLOTS = {
    "v1_dnn_partitioned": (
        "dnn/input_from_feature_columns/input_layer/tags_embedding/embedding_weights/Adagrad",
        "tags_embedding_embedding_weights_accumulator",
    ),
    "v1_linear": ("linear/linear_model/city_X_tags/weights/Ftrl_1", "city_X_tags_weights_linear"),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_it_predicts_and_goes_on(name: str, tmp_path: Path) -> None:
    check_goes_on(name, ESTIMATORS[name], SLOTS[name], tmp_path)
