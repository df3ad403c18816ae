"""Evaluation, prediction and export with tables of which only rows are read: as with whole ones, bit for bit."""

import numpy as np
import pytest

from canned_models import OF_EACH_KIND, X, batches, made
from muster.checkpoint import MappedArray, _mapped_array
from muster.data import Dataset

pytestmark = [
    pytest.mark.usefixtures("compiled_once"),
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),  # Keras' own
]


def evaluated(estimator, name):
    """What an Estimator finds in its newest checkpoint: metrics and predictions."""
    metrics = estimator.evaluate(lambda: batches(name), steps=2)
    features = Dataset.from_tensor_slices(X).batch(24)  # the last one is smaller
    return metrics, list(estimator.predict(lambda: features))


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        np.testing.assert_array_equal(found[key], value, err_msg=key)


@pytest.fixture
def reads(monkeypatch):
    """What is read of variables in files: the shapes of rows, and of what is read as a whole."""
    found = {"rows": [], "whole": []}
    rows, pieces = MappedArray.rows, MappedArray.pieces

    def noted_rows(self, numbers):
        found["rows"].append(self.shape)
        return rows(self, numbers)

    def noted_pieces(self):
        found["whole"].append(self.shape)
        return pieces(self)

    monkeypatch.setattr(MappedArray, "rows", noted_rows)
    monkeypatch.setattr(MappedArray, "pieces", noted_pieces)
    return found


@pytest.mark.parametrize("name", OF_EACH_KIND)
def test_the_results_are_those_of_whole_tables(tmp_path, monkeypatch, reads, name):
    estimator = made(name, tmp_path)
    estimator.train(lambda: batches(name), steps=3)
    metrics, predictions = evaluated(estimator, name)
    assert not reads["rows"]
    monkeypatch.setattr(_mapped_array, "LEAST_MAPPED_BYTES", 50 * 4)
    found, predicted = evaluated(estimator, name)
    assert_same(found, metrics)
    assert len(predicted) == len(predictions)
    for one, other in zip(predicted, predictions, strict=True):
        assert_same(one, other)
    tables = {shape for shape in reads["rows"] if shape[0] >= 50}
    assert tables or name == "BaselineEstimator"
    assert tables.isdisjoint(reads["whole"])
