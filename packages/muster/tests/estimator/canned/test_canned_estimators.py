"""Canned Estimators: text in the input and in predictions, two optimizers, replicas, and bad input."""

import numpy as np
import pytest

from muster._errors import DatasetError
from muster._keras import keras
from muster.data import Dataset
from muster.distribute import MirroredStrategy
from muster.estimator import (
    BaselineClassifier,
    BaselineRegressor,
    BinaryClassHead,
    DNNClassifier,
    DNNEstimator,
    DNNLinearCombinedClassifier,
    DNNLinearCombinedRegressor,
    DNNRegressor,
    Estimator,
    LinearClassifier,
    LinearRegressor,
    MultiHead,
    RegressionHead,
    RunConfig,
    SessionRunArgs,
    SessionRunHook,
    call_logit_fn,
    dnn_logit_fn_builder,
    linear_logit_fn_builder,
    numpy_input_fn,
)
from muster.feature_column import numeric_column
from noted_losses import Losses

pytestmark = [
    pytest.mark.usefixtures("compiled_once"),
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),  # Keras' own
]

ROWS = np.random.default_rng(0).normal(size=(32, 2)).astype("float32")
X = {"a": ROWS[:, 0], "b": ROWS[:, 1], "town": np.array(["ulm", "köln"] * 16)}
CLASSES = np.where(ROWS[:, 0] > 0, "yes", "no")
NUMBERS = ROWS @ np.float32([2, -1])
COLUMNS = [numeric_column("a"), numeric_column("b")]
SEEDED = RunConfig(tf_random_seed=3)


def batches(labels, size=8, times=None):
    return lambda: Dataset.from_tensor_slices((X, labels)).repeat(times).batch(size)


def values_of(est):
    return {name: est.get_variable_value(name) for name in est.get_variable_names()}


def test_text_as_labels_predictions_and_unread_features(tmp_path):
    est = LinearClassifier(COLUMNS, str(tmp_path), label_vocabulary=["no", "yes"])
    est.train(numpy_input_fn(X, CLASSES, batch_size=8, num_epochs=10, shuffle=True))
    assert est.evaluate(batches(CLASSES, times=1))["accuracy"] > 0.9
    first = next(est.predict(numpy_input_fn(X, shuffle=False)))
    assert first["all_classes"].tolist() == [b"no", b"yes"]
    assert first["classes"].tolist() == [[b"no", b"yes"][first["class_ids"][0]]]
    (whole,) = est.predict(numpy_input_fn(X, shuffle=False), "classes", yield_single_examples=False)
    assert whole["classes"].shape == (32, 1)


def test_a_model_that_reads_no_features_needs_no_numbers(tmp_path):
    est = BaselineClassifier(str(tmp_path))
    est.train(lambda: Dataset.from_tensor_slices(({"town": X["town"]}, CLASSES == "yes")).batch(8))
    assert est.get_variable_value("global_step") == 4


@pytest.mark.samples("-1")
@pytest.mark.parametrize("label", [2, -1])
def test_labels_that_are_no_classes_end_the_training(tmp_path, label):
    labels = np.zeros(32, int)
    labels[20] = label
    est = DNNClassifier([2], COLUMNS, str(tmp_path))
    with pytest.raises(DatasetError, match=f"Labels must be .*Given: {label}"):
        est.train(batches(labels), steps=4)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.array(["no", "maybe"] * 16), r"Labels must be >= 0: .* \['no', 'yes'\], which lacks 'maybe'"),
        (np.zeros(32, int), "Labels dtype should be string if there is a vocabulary"),
    ],
)
def test_labels_that_are_not_in_the_vocabulary(tmp_path, labels, message):
    est = LinearClassifier(COLUMNS, str(tmp_path), label_vocabulary=["no", "yes"])
    with pytest.raises(ValueError, match=message):
        est.train(batches(labels), steps=1)


def combined(folder, config=SEEDED):
    return DNNLinearCombinedRegressor(
        str(folder),
        linear_feature_columns=COLUMNS[:1],
        linear_optimizer=keras.optimizers.Ftrl(0.1),
        dnn_feature_columns=COLUMNS,
        dnn_optimizer=lambda: keras.optimizers.Adam(0.01),
        dnn_hidden_units=[4, 3],
        batch_norm=False,
        config=config,
    )


def test_two_optimizers_make_one_step(tmp_path):
    est = combined(tmp_path).train(batches(NUMBERS), steps=3)
    found = values_of(est)
    assert found["global_step"] == found["adam/iteration"] == found["ftrl/iteration"] == 3
    own = {name.partition("/")[2] for name in found if name.startswith("ftrl/linear_")}
    assert own == {
        f"linear_linear_model_{name}_{slot}"
        for name in ("bias_weights", "a_weights")
        for slot in ("accumulator", "linear")
    }


@pytest.mark.slow
def test_replicas_train_both_parts_as_one_device_does(tmp_path):
    one = combined(tmp_path / "one").train(batches(NUMBERS, 16), steps=5)
    strategy = MirroredStrategy(["/cpu:0", "/cpu:1"])
    two = combined(tmp_path / "two", RunConfig(tf_random_seed=3, train_distribute=strategy))
    two.train(batches(NUMBERS, 8), steps=5)
    expected = values_of(one)
    assert expected["dnn/hiddenlayer_1/kernel"].shape == (4, 3)
    for name, value in values_of(two).items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-4, atol=1e-6, err_msg=name)


def test_classifiers_of_two_parts_learn(tmp_path):
    est = DNNLinearCombinedClassifier(
        str(tmp_path),
        linear_feature_columns=COLUMNS,
        dnn_feature_columns=COLUMNS[0],
        dnn_hidden_units=[4],
        linear_optimizer=lambda: keras.optimizers.Adam(0.1),
        n_classes=3,
        config=SEEDED,
    )
    est.train(batches(np.digitize(ROWS[:, 1], [-0.5, 0.5])), steps=100)
    assert est.evaluate(batches(np.digitize(ROWS[:, 1], [-0.5, 0.5]), times=1))["accuracy"] > 0.6


def test_dropout_is_for_training(tmp_path):
    est = DNNRegressor([64], COLUMNS, str(tmp_path), dropout=0.5, activation_fn=None, config=SEEDED)
    est.train(batches(NUMBERS), steps=1)
    values = values_of(est)
    hidden = ROWS @ values["dnn/hiddenlayer_0/kernel"] + values["dnn/hiddenlayer_0/bias"]
    expected = hidden @ values["dnn/logits/kernel"] + values["dnn/logits/bias"]
    found = [each["predictions"] for each in est.predict(batches(NUMBERS, times=1))]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    whole = DNNRegressor([64], COLUMNS, str(tmp_path / "whole"), activation_fn=None, config=SEEDED)
    whole.train(batches(NUMBERS), steps=1)
    assert not np.allclose(whole.get_variable_value("dnn/logits/kernel"), values["dnn/logits/kernel"])


def test_training_goes_on_where_it_ended(tmp_path):
    def trained(folder, *steps):
        for count in steps:
            est = DNNRegressor(
                [4], COLUMNS, str(tmp_path / folder), optimizer="Adam", batch_norm=True, config=SEEDED
            )
            est.train(batches(NUMBERS, 32), steps=count)
        return values_of(est)

    whole, parts = trained("whole", 5), trained("parts", 2, 3)
    assert "dnn/hiddenlayer_0/batchnorm_0/moving_mean" in whole
    for name, value in whole.items():
        np.testing.assert_allclose(parts[name], value, rtol=1e-5, atol=1e-7, err_msg=name)


@pytest.mark.slow
def test_two_heads_on_one_model(tmp_path):
    head = MultiHead([BinaryClassHead(name="c", label_vocabulary=["no", "yes"]), RegressionHead(name="n")])
    est = DNNEstimator(head, [4], COLUMNS, str(tmp_path), optimizer="Adam", config=SEEDED)
    labels = {"c": CLASSES, "n": NUMBERS}
    est.train(batches(labels), steps=4)
    metrics = est.evaluate(batches(labels, times=1))
    assert metrics["loss"] == pytest.approx(metrics["loss/c"] + metrics["loss/n"], rel=1e-5)
    first = next(est.predict(batches(labels, times=1)))
    assert first["n", "predictions"].shape == (1,)
    assert first["c", "classes"][0] in (b"no", b"yes")


def test_logit_functions_in_a_model_fn(tmp_path):
    head = BinaryClassHead()
    functions = [
        linear_logit_fn_builder(1, COLUMNS),
        dnn_logit_fn_builder(1, [3], COLUMNS, "relu", None, False),
    ]

    def model_fn(features, labels, mode, params, config):
        logits = sum(call_logit_fn(each, features, mode, params, config) for each in functions)
        return head.create_estimator_spec(
            features, mode, logits, labels, optimizer=keras.optimizers.SGD(params["rate"])
        )

    numbers = {key: X[key] for key in "ab"}
    est = Estimator(model_fn, str(tmp_path), params={"rate": 0.5})
    est.train(lambda: Dataset.from_tensors((numbers, CLASSES == "yes")).repeat(), steps=50)
    assert {"linear/linear_model/a/weights", "dnn/hiddenlayer_0/kernel"} < set(est.get_variable_names())
    assert est.evaluate(lambda: Dataset.from_tensors((numbers, CLASSES == "yes")))["accuracy"] > 0.9


def test_a_logit_function_that_returns_no_array():
    with pytest.raises(ValueError, match="logit_fn should return a Tensor"):
        call_logit_fn(lambda features: "x", {}, "train", None, None)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DNNClassifier([0], COLUMNS), "hidden_units must be positive integers"),
        (lambda: DNNClassifier(["8", "x"], COLUMNS), "hidden_units must be positive integers"),
        (lambda: DNNClassifier([2], COLUMNS, dropout=1), "dropout must be at least 0 and less than 1"),
        (lambda: DNNClassifier([2], []), "feature_columns must not be empty"),
        (lambda: DNNLinearCombinedClassifier(), "Either linear_feature_columns or dnn_feature_columns"),
        (
            lambda: DNNLinearCombinedClassifier(dnn_feature_columns=COLUMNS),
            "dnn_hidden_units must be defined",
        ),
        (lambda: LinearClassifier(COLUMNS, optimizer="Bogus"), "Unsupported optimizer name: Bogus"),
        (lambda: BaselineRegressor(loss_reduction="none"), "Invalid loss_reduction: none"),
    ],
)
def test_arguments_that_are_wrong(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(("reduction", "divisor"), [("sum", 1), ("sum_over_batch_size", 4)])
def test_reductions(tmp_path, reduction, divisor):
    est = BaselineRegressor(str(tmp_path), weight_column="w", loss_reduction=reduction)
    features = {"a": np.ones(4, "float32"), "w": np.float32([3, 0.5, 0, 0])}
    seen = Losses()
    labels = np.float32([1, 2, 3, 4])
    est.train(lambda: Dataset.from_tensors((features, labels)), hooks=[seen])
    assert seen.losses == pytest.approx([(3 * 1 + 0.5 * 4) / divisor])
    nothing = features | {"w": np.zeros(4, "float32")}
    assert est.evaluate(lambda: Dataset.from_tensors((nothing, labels)))["loss"] == 0


def test_optimizers_are_copied_made_and_named(tmp_path):
    def trained(folder, optimizer):
        est = LinearRegressor(COLUMNS, str(tmp_path / folder), optimizer=optimizer)
        return est.train(batches(NUMBERS), steps=2).get_variable_value("linear/linear_model/a/weights")

    given = trained("given", keras.optimizers.SGD(0.01, momentum=0.9))
    made = trained("made", lambda: keras.optimizers.SGD(0.01, momentum=0.9))
    assert given == made != 0
    assert trained("named", "SGD") != 0


@pytest.mark.slow
def test_replicas_evaluate_as_one_device_does(tmp_path):
    weighted = X | {"w": np.linspace(0.1, 2, 32, dtype="float32")}

    def made(config=None):
        return LinearClassifier(
            COLUMNS, str(tmp_path), weight_column="w", label_vocabulary=["no", "yes"], config=config
        )

    def once():
        return Dataset.from_tensor_slices((weighted, CLASSES)).batch(7)

    expected = made().train(once).evaluate(once)
    strategy = MirroredStrategy(["/cpu:0", "/cpu:1"])
    found = made(RunConfig(eval_distribute=strategy)).evaluate(once)
    assert 0.5 < expected["auc"] < 1
    for name in expected.keys() - {"loss"}:  # the loss is the mean of batches, of which there are fewer
        assert found[name] == pytest.approx(expected[name], rel=1e-5), name


def test_losses_have_their_names_in_graphs():
    """Names and values are those of TensorFlow's ``tf.compat.v1.estimator``."""
    seen = {}

    class Read(SessionRunHook):
        def __init__(self, *names):
            self.names = names

        def before_run(self, run_context):
            return SessionRunArgs(list(self.names))

        def after_run(self, run_context, run_values):
            seen.update(zip(self.names, run_values.results, strict=True))

    columns = [numeric_column("x")]
    batch = {"x": np.float32([[1], [2]]), "w": np.float32([[1], [3]])}, np.float32([[1], [3]])
    linear = LinearRegressor(columns, weight_column="w", loss_reduction="sum")
    linear.train(lambda: batch, [Read("linear/head/weighted_loss/Sum", "linear/head/truediv")], steps=1)
    dense = DNNClassifier([2], columns, n_classes=4)
    dense.train(lambda: (batch[0], np.array([1, 3])), [Read("dnn/head/weighted_loss/value", "loss")], steps=1)
    assert seen["linear/head/weighted_loss/Sum"] == 28
    assert seen["linear/head/truediv"] == 7
    assert seen["dnn/head/weighted_loss/value"] == seen["loss"]
