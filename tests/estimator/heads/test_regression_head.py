"""The head of regression: TensorFlow's cases, and what it says to bad input."""

import numpy as np
import pytest

import canned
import recorded
from muster.estimator import EvalSpec, ModeKeys
from muster.estimator.heads._regression_head import RegressionHead
from muster.feature_column import numeric_column

_REDUCTIONS = {"SUM": "sum", "SUM_OVER_BATCH_SIZE": "sum_over_batch_size"}


def head_of(described):
    arguments = {key: value for key, value in described.items() if key != "head"}
    if "loss_reduction" in arguments:
        arguments["loss_reduction"] = _REDUCTIONS[arguments["loss_reduction"]]
    return RegressionHead(**arguments)


def batch_of(given):
    """Features, logits and labels as the head takes them."""
    features = {key: np.array(value, np.float32) for key, value in given.get("features", {}).items()}
    labels = given.get("labels")
    return (
        features,
        np.array(given["logits"], np.float32),
        labels if labels is None else np.array(labels, given.get("label_dtype", "float32")),
    )


def outcome(given):
    """What is recorded of a case, as far as muster has it."""
    head = head_of(given["head"])
    if "logits" not in given:
        return {}
    features, logits, labels = batch_of(given)
    if "api" in given:
        spec = head.create_estimator_spec(features, ModeKeys.PREDICT, logits)
        outputs = {name: type(output).__name__ for name, output in spec.export_outputs.items()}
        return {"export_outputs": outputs, "prediction_keys": list(spec.predictions)}
    loss = head.loss(labels, logits, features)
    metrics = head.metrics()
    head.update_metrics(metrics, features, logits, labels)
    for further in given.get("further_batches_for_metrics", ()):
        features, more, labels = batch_of(further)
        head.update_metrics(metrics, features, more, labels)
    return {
        "loss": float(loss),
        "train_loss": float(loss),
        "logits_dimension": head.logits_dimension,
        "metrics": {name: float(metric.result()) for name, metric in metrics.items()},
        "predictions": {name: value.tolist() for name, value in head.predictions(logits).items()},
    }


@pytest.mark.parametrize("case", canned.cases("heads"))
def test_as_tensorflow(case):
    if "error" in case["expect"]:
        with canned.error_of(case["expect"]["error"]):
            outcome(case["input"])
    else:
        expected = {key: value for key, value in case["expect"].items() if key != "name"}
        recorded.check_same(outcome(case["input"]), expected)


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
