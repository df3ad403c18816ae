"""Heads: TensorFlow's cases, labels that are text, and what heads say to bad arguments."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import canned
import recorded
from muster._errors import DatasetError
from muster.data import SparseTensor
from muster.estimator import (
    BinaryClassHead,
    LogisticRegressionHead,
    ModeKeys,
    MultiClassHead,
    MultiHead,
    MultiLabelHead,
    PoissonRegressionHead,
    RegressionHead,
)
from muster.estimator._words import written_out

_HEADS = {
    kind.__name__: kind
    for kind in (
        BinaryClassHead,
        LogisticRegressionHead,
        MultiClassHead,
        MultiHead,
        MultiLabelHead,
        PoissonRegressionHead,
        RegressionHead,
    )
}


def _with_reduction(labels, logits, features, loss_reduction):
    return logits


_FUNCTIONS = {
    "exp": jnp.exp,
    "abs: |labels - logits|": lambda labels, logits: jnp.abs(labels - logits),
    "squared: (labels - logits)**2": lambda labels, logits: (labels - logits) ** 2,
    "wrong shape: zeros([2, 3])": lambda labels, logits: jnp.zeros((2, 3)),
    "weights arg: fn(labels, logits, features, loss_reduction)": _with_reduction,
}
# Which predictions the recorded call asked for, which its input does not say.
_KEYS = {
    "binary/prediction_keys_subset": ["probabilities", "logits"],
    "binary/prediction_keys_bad": ["bogus"],
}
TWO = np.array([[0.5], [-1.25]], np.float32)
FOUR_BY_TWO = np.array([[0.5, -1], [0.25, 1], [-2, 0], [1, 1]], np.float32)


def head_of(described):
    arguments = {key: value for key, value in described.items() if key != "head"}
    for key in ("loss_fn", "inverse_link_fn"):
        if key in arguments:
            arguments[key] = _FUNCTIONS[arguments[key]]
    if "loss_reduction" in arguments:
        arguments["loss_reduction"] = arguments["loss_reduction"].lower()
    if "heads" in arguments:
        arguments["heads"] = [head_of(each) for each in arguments["heads"]]
    return _HEADS[described["head"]](**arguments)


def arrays_of(values, dtype=None):
    if values is None:
        return None
    if isinstance(values, dict) and "indices" in values:
        return SparseTensor(
            values["indices"], np.array(values["values"], values["dtype"]), values["dense_shape"]
        )
    if isinstance(values, dict):
        return {key: arrays_of(each, dtype) for key, each in values.items()}
    return np.array(values, None if dtype == "string" else dtype)


def batch_of(head, given):
    """Features, logits and labels as the head takes them."""
    labels = arrays_of(given.get("labels"), given.get("label_dtype"))
    return (
        arrays_of(given.get("features", {})),
        arrays_of(given["logits"], "float32"),
        None if labels is None else head.numeric_labels(labels),
    )


def as_json(predictions):
    """Predictions as they are recorded."""

    def plain(value):
        if value.dtype == object:
            value = np.vectorize(bytes.decode)(value)
        return value.tolist()

    return {
        "/".join(name) if isinstance(name, tuple) else name: plain(value)
        for name, value in written_out(predictions).items()
    }


def outcome(name, given):
    """What is recorded of a case."""
    head = head_of(given["head"])
    if "logits" not in given:
        return {
            "type": type(head).__name__,
            "logits_dimension": head.logits_dimension,
            "name": head.name,
            "loss_reduction": head.loss_reduction,
        }
    predictions = as_json(head.predictions(arrays_of(given["logits"], "float32"), _KEYS.get(name)))
    features, logits, labels = batch_of(head, given)
    if "api" in given:
        spec = head.create_estimator_spec(features, ModeKeys.PREDICT, logits)
        outputs = {name: type(output).__name__ for name, output in spec.export_outputs.items()}
        return {"export_outputs": outputs, "prediction_keys": sorted(as_json(spec.predictions))}
    extra = [jnp.float32(value) for value in given.get("regularization_losses", ())] or None
    loss = head.loss(labels, logits, features, regularization_losses=extra)
    metrics = head.metrics(regularization_losses=extra)
    head.update_metrics(metrics, features, logits, labels, regularization_losses=extra)
    for further in given.get("further_batches_for_metrics", ()):
        features, more, labels = batch_of(head, further)
        head.update_metrics(metrics, features, more, labels)
    return {
        "loss": float(loss),
        "train_loss": trained_loss(head, given, extra),
        "logits_dimension": head.logits_dimension,
        "name": head.name,
        "metrics": {name: float(metric.result()) for name, metric in metrics.items()},
        "predictions": predictions,
    }


def trained_loss(head, given, extra):
    """The loss of an EstimatorSpec to train."""
    features, logits, labels = batch_of(head, given)
    spec = head.create_estimator_spec(
        features, ModeKeys.TRAIN, logits, labels, train_op_fn=lambda loss: loss, regularization_losses=extra
    )
    return float(spec.loss)


@pytest.mark.parametrize("case", canned.cases("heads"))
def test_as_tensorflow(case):
    if "error" in case["expect"]:
        with canned.error_of(case["expect"]["error"]):
            outcome(case["name"], case["input"])
    else:
        recorded.check_same(outcome(case["name"], case["input"]), case["expect"])


def test_labels_that_are_text_may_be_bytes():
    head = BinaryClassHead(label_vocabulary=["no", "für"])
    for labels in (["für", "no"], [b"no", "für".encode()], np.array(["für", b"no"], object)):
        assert sorted(head.numeric_labels(labels)) == [0, 1]


@pytest.mark.parametrize("head", [BinaryClassHead(), MultiClassHead(3), MultiLabelHead(3)])
def test_a_label_that_is_no_class_is_an_error_in_a_compiled_step(head):
    width = 3 if isinstance(head, MultiLabelHead) else 1

    def loss(label):
        return head.loss(jnp.full((2, width), label), jnp.zeros((2, head.logits_dimension)))

    traced = jax.jit(loss)  # NaN makes an Estimator run the step eagerly, which says what is wrong
    assert not np.isnan(traced(1))
    for label in (-1, 3):
        assert np.isnan(traced(label))
        with pytest.raises(DatasetError, match=rf"(Labels|labels) must be .*Given: {label}, {label}"):
            loss(label)


@pytest.mark.samples("head0", "head1")
@pytest.mark.parametrize("head", [BinaryClassHead(), LogisticRegressionHead(), MultiLabelHead(2)])
def test_the_gradient_at_zero_where_linear_models_start(head):
    shape = (1, head.logits_dimension)
    gradient = jax.grad(lambda logits: head.loss(jnp.ones(shape), logits))(jnp.zeros(shape))
    np.testing.assert_allclose(gradient.sum(), -0.5)


def test_a_loss_fn_may_take_features():
    head = BinaryClassHead(loss_fn=lambda labels, logits, features: features["x"] * (logits - labels))
    loss = head.loss(np.array([1, 0]), TWO, {"x": np.array([[2.0], [4.0]])})
    assert float(loss) == (2 * (0.5 - 1) + 4 * -1.25) / 2


def test_metrics_of_named_classes():
    head = MultiLabelHead(2, label_vocabulary=["cat", "dog"], classes_for_class_based_metrics=["dog"])
    metrics = head.update_metrics(head.metrics(), {}, FOUR_BY_TWO, np.eye(2)[[0, 1, 1, 0]])
    mean = metrics["probability_mean/dog"].result()
    assert float(mean) == pytest.approx(np.mean(1 / (1 + np.exp(-FOUR_BY_TWO[:, 1]))), rel=1e-6)
    assert {"auc/dog", "auc_precision_recall/dog"} < metrics.keys()


def test_heads_of_one_model_convert_their_labels():
    head = MultiHead(
        [BinaryClassHead(name="a", label_vocabulary=["x", "y"]), RegressionHead(name="b")], [1.0, 0.5]
    )
    labels = head.numeric_labels({"a": ["y", "x"], "b": np.float32([1, 2])})
    loss = head.loss(labels, np.concatenate([TWO, TWO], axis=1))
    assert float(loss) == pytest.approx(0.363003016 + 0.5 * (0.5**2 + 3.25**2) / 2)


def test_a_poisson_head_knows_how_likely_large_counts_are():
    exact = np.exp(1.0) - 5 * 1.0 + np.log(120)  # Stirling's approximation of log(5!) is 1.7 % off
    loss = PoissonRegressionHead().loss(np.float32([5]), np.float32([[1.0]]))
    assert float(loss) == pytest.approx(exact, abs=0.02)
    assert (
        float(PoissonRegressionHead(compute_full_loss=False).loss(np.float32([5]), np.float32([[1.0]]))) < 0
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BinaryClassHead(label_vocabulary=["only"]), "label_vocabulary must name two classes"),
        (lambda: BinaryClassHead(label_vocabulary=["a", "a"]), "label_vocabulary has a name twice"),
        (lambda: BinaryClassHead(loss_fn=5), "loss_fn must be a function"),
        (lambda: BinaryClassHead(loss_fn=lambda logits: logits), "loss_fn must contain argument: labels"),
        (
            lambda: MultiHead([BinaryClassHead(name="a"), RegressionHead(name="b", loss_reduction="sum")]),
            "loss_reduction must be the same",
        ),
    ],
)
def test_arguments_that_are_wrong(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_labels_that_are_wrong():
    with pytest.raises(DatasetError, match="Labels must be in range"):
        LogisticRegressionHead().loss(np.float32([-0.1, 2]), TWO)
    with pytest.raises(ValueError, match="Labels must be numbers. Instead got <U"):
        RegressionHead().loss(np.array(["a", "b"]), TWO)
    with pytest.raises(ValueError, match="labels must be a dict"):
        MultiHead([RegressionHead(name="a")]).loss(np.float32([1, 2]), TWO)


def test_training_needs_an_optimizer_or_a_train_op_fn():
    create = BinaryClassHead().create_estimator_spec
    with pytest.raises(ValueError, match="cannot both be None"):
        create({}, ModeKeys.TRAIN, TWO, np.array([0, 1]))
    with pytest.raises(ValueError, match="must not both be set"):
        create({}, ModeKeys.TRAIN, TWO, np.array([0, 1]), optimizer="x", train_op_fn=lambda loss: loss)


@pytest.mark.parametrize("compiled", [False, True])
def test_fractions_beyond_the_last_class_are_no_labels(compiled):
    head = LogisticRegressionHead()

    def loss(labels):
        return head.loss(labels, jnp.zeros((2, 1)))

    assert np.isfinite(loss(np.array([[0.5], [1.0]], np.float32)))
    wrong = np.array([[1.9], [0.5]], np.float32)
    if compiled:  # NaN has a step run eagerly, which raises the error
        assert np.isnan(jax.jit(loss)(wrong))
        return
    with pytest.raises(DatasetError, match=r"range \[0, 1\]. Given: 1.9."):
        loss(wrong)
