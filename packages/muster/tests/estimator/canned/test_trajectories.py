"""Canned Estimators: TensorFlow's losses, weights, optimizers' slots, metrics and predictions."""

import pytest

import canned
from canned_trajectories import check
from muster import estimator

pytestmark = [
    pytest.mark.usefixtures("compiled_once"),
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),  # Keras' own
]


def of_version_2(case):
    return case["input"]["estimator"]["api"] == "tf.estimator"


@pytest.mark.samples(
    "mirrored2/dnn_classifier",
    "linear_classifier/weights",
    "linear_regressor/label_dimension_2",
    "baseline_regressor/two_features",
    "baseline_regressor/two_features-as-TensorFlow",
    "dnn_classifier/embedding_sqrtn_indicator",
    "dnn_linear_combined_classifier/default",
    "errors/n_classes_1",
    "errors/bad_optimizer_name",
    "errors/combined_no_columns",
)
@pytest.mark.parametrize("case", canned.cases("canned_trajectories", of_version_2))
def test_as_tensorflow(tmp_path, case):
    check(case, tmp_path, estimator)
