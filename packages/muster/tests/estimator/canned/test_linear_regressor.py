"""LinearRegressor: its optimizers, strategies, and what it says to bad input."""

import numpy as np
import pytest

from muster._keras import keras
from muster.data import Dataset
from muster.distribute import MirroredStrategy
from muster.estimator import (
    EvalSpec,
    LinearRegressor,
    RunConfig,
    TrainSpec,
    train_and_evaluate,
)
from muster.feature_column import numeric_column
from noted_losses import Losses

pytestmark = [
    pytest.mark.usefixtures("compiled_once"),
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),  # Keras' own
]

X = {"x1": np.array([0.5, -1, 2, 0], np.float32), "x2": np.array([1, 0, -1, 2], np.float32)}
Y = np.array([2, -1, 3.5, 1], np.float32)
COLUMNS = [numeric_column("x2"), numeric_column("x1")]
WEIGHTS = [f"linear/linear_model/{name}" for name in ("bias_weights", "x1/weights", "x2/weights")]


def whole_batch(features=X, labels=Y):
    return lambda: Dataset.from_tensors((features, labels)).repeat()


def test_replicas_add_sums(tmp_path):
    weighted = X | {"w": np.array([1, 0.5, 2, 3], np.float32)}

    def trained(folder, batch_size, strategy=None):
        est = LinearRegressor(
            COLUMNS,
            str(tmp_path / folder),
            weight_column="w",
            optimizer=keras.optimizers.SGD(0.02),
            loss_reduction="sum",
            config=RunConfig(train_distribute=strategy),
        )
        est.train(lambda: Dataset.from_tensor_slices((weighted, Y)).repeat().batch(batch_size), steps=4)
        return [est.get_variable_value(name) for name in WEIGHTS]

    one = trained("one", 4)
    two = trained("two", 2, MirroredStrategy(["/cpu:0", "/cpu:1"]))
    np.testing.assert_allclose(two[0], one[0], rtol=1e-5)
    np.testing.assert_allclose(two[1:], one[1:], rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "variables"),
    [
        ("Adagrad", "Adagrad"),
        ("Adam", "Adam"),
        ("Ftrl", "Ftrl"),
        ("RMSProp", "RMSprop"),
        ("SGD", "SGD"),
    ],
)
def test_optimizers_by_name(tmp_path, name, variables):
    est = LinearRegressor(COLUMNS, str(tmp_path), optimizer=name).train(whole_batch(), steps=1)
    assert est.get_variable_value(f"{variables}/learning_rate") == np.float32(0.2)
    assert np.all(est.get_variable_value(WEIGHTS[1]) > 0)


def test_the_rate_falls_with_the_number_of_columns(tmp_path):
    columns = [numeric_column(f"x{i}") for i in range(36)]
    features = {column.key: np.ones(2, np.float32) for column in columns}
    est = LinearRegressor(columns, str(tmp_path), optimizer="SGD")
    est.train(whole_batch(features, Y[:2]), steps=1)
    assert est.get_variable_value("SGD/learning_rate") == np.float32(1 / 6)


def test_training_goes_on_with_a_new_optimizer_of_the_same_kind(tmp_path):
    def trained(folder, *steps):
        for count in steps:
            est = LinearRegressor(COLUMNS, str(tmp_path / folder), optimizer=keras.optimizers.Adam(0.1))
            est.train(whole_batch(), steps=count)
        return {name: est.get_variable_value(name) for name in est.get_variable_names()}

    whole, parts = trained("whole", 6), trained("parts", 2, 4)  # Keras calls them adam, adam_1, adam_2
    assert {"adam/iteration", "global_step"} < whole.keys() == parts.keys()
    for name, value in whole.items():
        np.testing.assert_allclose(parts[name], value, rtol=1e-6, err_msg=name)


def test_an_optimizer_keeps_its_name_and_its_schedule(tmp_path):
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5)
    given = keras.optimizers.SGD(schedule, momentum=0.9, name="mine")
    made = lambda: keras.optimizers.SGD(schedule, momentum=0.9, name="mine")  # noqa: E731
    weights = []
    for folder, optimizer in (("given", given), ("made", made)):
        est = LinearRegressor(COLUMNS, str(tmp_path / folder), optimizer=optimizer)
        est.train(whole_batch(), steps=3)
        assert "mine/iteration" in est.get_variable_names()
        weights.append(est.get_variable_value(WEIGHTS[1]))
    assert weights[0] == weights[1] != 0


class Unknown(keras.optimizers.SGD):
    """Cannot tell what it was made with."""

    def get_config(self):
        raise NotImplementedError("no configuration")


@pytest.mark.parametrize(
    ("optimizer", "message"),
    [
        ("Bogus", r"Unsupported optimizer name: Bogus. Supported names are: \('Adagrad', 'Adam', 'Ftrl', "),
        (5, "not a tf.keras.optimizers.Optimizer instance. Given: 5. Give a name"),
        (Unknown(0.1), "cannot be copied from its configuration.*: no configuration. Give a function"),
    ],
)
def test_optimizers_that_are_none(optimizer, message):
    with pytest.raises(ValueError, match=message):
        LinearRegressor(COLUMNS, optimizer=optimizer)


def test_a_function_that_returns_no_optimizer(tmp_path):
    est = LinearRegressor(COLUMNS, str(tmp_path), optimizer=lambda: "SGD")
    with pytest.raises(ValueError, match="not a tf.keras.optimizers.Optimizer instance. Given: 'SGD'"):
        est.train(whole_batch(), steps=1)


def test_training_and_evaluating_from_where_another_model_is(tmp_path):
    first = LinearRegressor(COLUMNS, str(tmp_path / "first"), optimizer="SGD")
    spec = EvalSpec(lambda: Dataset.from_tensors((X, Y)), start_delay_secs=0, throttle_secs=0)
    metrics, _ = train_and_evaluate(first, TrainSpec(whole_batch(), max_steps=50), spec)
    assert metrics["global_step"] == 50
    assert metrics["average_loss"] < 0.1 * np.mean(Y**2)
    seen = Losses()
    second = LinearRegressor(
        COLUMNS, str(tmp_path / "second"), optimizer="SGD", warm_start_from=str(tmp_path / "first")
    )
    second.train(whole_batch(), hooks=[seen], steps=1)
    assert seen.losses == pytest.approx([metrics["average_loss"]], rel=1e-5)


def test_columns_of_several_numbers_and_of_any_name(tmp_path):
    columns = [numeric_column("in m/s [é]", (2, 2), normalizer_fn=lambda x: x / 10), numeric_column("b")]
    features = {"in m/s [é]": np.arange(16).reshape(4, 2, 2), "b": np.ones((4, 1), bool), "unread": X["x1"]}
    est = LinearRegressor(columns, str(tmp_path), optimizer="SGD").train(whole_batch(features), steps=1)
    assert est.get_variable_value("linear/linear_model/in_m/s____/weights").shape == (4, 1)
    assert est.get_variable_value("linear/linear_model/b/weights").shape == (1, 1)


@pytest.mark.parametrize(
    ("features", "labels", "message"),
    [
        (X["x1"], Y, "features should be a dictionary"),
        ({"x1": X["x1"]}, Y, "Feature x2 is not in features dictionary. There are: 'x1'."),
        (X | {"x1": np.zeros((4, 2), np.float32)}, Y, r"Feature x1 has the shape \(4, 2\)"),
        (X, np.zeros((4, 2), np.float32), "Mismatched label shape. Expected labels dimension=1.  Received 2"),
    ],
)
def test_input_that_does_not_fit(tmp_path, features, labels, message):
    with pytest.raises(ValueError, match=message):
        LinearRegressor(COLUMNS, str(tmp_path)).train(whole_batch(features, labels), steps=1)


def test_input_without_labels(tmp_path):
    est = LinearRegressor(COLUMNS, str(tmp_path))
    with pytest.raises(ValueError, match="You must provide a labels Tensor"):
        est.train(lambda: Dataset.from_tensors(X), steps=1)
    predicted = est.predict(lambda: Dataset.from_tensors(X))
    assert [each["predictions"].tolist() for each in predicted] == [[0.0]] * 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"feature_columns": []}, "feature_columns must not be empty"),
        ({"feature_columns": COLUMNS[:1] * 2}, "Duplicate feature column name"),
        ({"feature_columns": ["x1"]}, "must be a DenseColumn or CategoricalColumn. .*Given: 'x1'"),
        ({"sparse_combiner": "max"}, "combiner must be one of 'mean', 'sqrtn' or 'sum', got max"),
    ],
)
def test_what_cannot_make_a_model(arguments, message):
    with pytest.raises(ValueError, match=message):
        LinearRegressor(**({"feature_columns": COLUMNS} | arguments))
