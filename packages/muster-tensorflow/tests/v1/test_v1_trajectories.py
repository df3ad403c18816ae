"""TensorFlow 1's canned Estimators: its losses, weights, optimizers' slots, metrics and predictions."""

import pytest

import canned
import muster_tensorflow.compat.v1 as tf
from canned_trajectories import check

pytestmark = [
    pytest.mark.usefixtures("compiled_once"),
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),  # Keras' own
]


def of_version_1(case):
    return case["input"]["estimator"]["api"] == "tf.compat.v1.estimator"


@pytest.mark.parametrize("case", canned.cases("canned_trajectories", of_version_1))
def test_as_tensorflow(tmp_path, case):
    check(case, tmp_path, tf.estimator, tf.train)
