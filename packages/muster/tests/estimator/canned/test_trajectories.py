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


@pytest.mark.parametrize("case", canned.cases("canned_trajectories", of_version_2))
def test_as_tensorflow(tmp_path, case):
    check(case, tmp_path, estimator)
