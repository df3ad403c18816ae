"""The head of regression: weights, and what it says to bad input."""

import numpy as np
import pytest

from muster.estimator import EvalSpec
from muster.estimator.heads._regression_head import RegressionHead
from muster.feature_column import numeric_column


def test_weights_are_normalized_by_their_column():
    logits, labels = np.array([[1.0], [2.0]], np.float32), np.zeros((2, 1), np.float32)
    head = RegressionHead(weight_column=numeric_column("w", normalizer_fn=lambda w: w / 2))
    assert float(head.loss(labels, logits, {"w": np.array([2, 6])})) == (1 * 1 + 3 * 4) / 2


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (
            np.zeros((3, 1)),
            r"labels shape must be .*, expected_labels_shape: \(2, 1\). labels_shape: \(3, 1",
        ),
        (np.zeros((2, 1, 1)), "labels shape must be"),
        (np.float32(1), "Mismatched label shape. Expected labels dimension=1.  Received 0."),
    ],
)
def test_labels_of_another_shape(labels, message):
    with pytest.raises(ValueError, match=message):
        RegressionHead().loss(labels, np.zeros((2, 1), np.float32), {})


def test_labels_that_are_several():
    with pytest.raises(TypeError, match="The labels must be one array, given a dict"):
        RegressionHead().loss({"y": np.zeros(2)}, np.zeros((2, 1), np.float32), {})


def test_weights_of_another_shape():
    head = RegressionHead(weight_column="w")
    with pytest.raises(ValueError, match=r"weights shape must be .* weights_shape: \(2, 3\)"):
        head.loss(np.zeros(2), np.zeros((2, 1), np.float32), {"w": np.zeros((2, 3))})
    with pytest.raises(ValueError, match="Feature w is not in features dictionary. There are: 'x'."):
        head.loss(np.zeros(2), np.zeros((2, 1), np.float32), {"x": np.zeros(2)})


@pytest.mark.parametrize("dimension", [0, True, 1.5])
def test_dimensions_that_are_none(dimension):
    with pytest.raises(ValueError, match=f"Invalid label_dimension {dimension}. It must be an integer"):
        RegressionHead(dimension)


def test_a_dimension_may_be_numpys():
    dimension = RegressionHead(np.int64(2)).logits_dimension
    assert (dimension, type(dimension)) == (2, int)


@pytest.mark.parametrize("reduction", ["none", "mean", None])
def test_reductions_that_are_none(reduction):
    with pytest.raises(ValueError, match=f"Invalid loss_reduction: {reduction}. .* There are"):
        RegressionHead(loss_reduction=reduction)


def test_a_weight_column_of_another_kind():
    with pytest.raises(TypeError, match="either a string or NumericColumn. Given type: .*EvalSpec"):
        RegressionHead(weight_column=EvalSpec(lambda: None))
