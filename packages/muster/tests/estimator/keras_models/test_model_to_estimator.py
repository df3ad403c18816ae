"""Estimators of Keras models start where the model is, and train, evaluate and predict as it does."""

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from muster._keras import keras
from muster.data import Dataset
from muster.distribute import MirroredStrategy
from muster.estimator import (
    Estimator,
    EvalSpec,
    RegressionOutput,
    RunConfig,
    TrainSpec,
    model_to_estimator,
    train_and_evaluate,
)
from muster.estimator._estimator_spec import PredictOutput

pytestmark = [
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),  # Keras' own
    pytest.mark.usefixtures("compiled_once"),
]

layers = keras.layers
ROWS = 32
X = np.random.default_rng(0).normal(size=(ROWS, 4)).astype("float32")
Y = (X.sum(1, keepdims=True) > 0).astype("float32")
WEIGHTS = np.linspace(0, 2, ROWS, dtype="float32")


def batches(data: Any = (X, Y), size: int = 8) -> Callable[[], Dataset]:
    return lambda: Dataset.from_tensor_slices(data).batch(size)


def small_model(*inner: Any, seed: int = 1, **compiled: Any) -> Any:
    keras.utils.set_random_seed(seed)
    model = keras.Sequential(
        [layers.Input((4,)), layers.Dense(3, "tanh", name="hidden"), *inner, layers.Dense(1, name="out")]
    )
    model.compile(**{"optimizer": keras.optimizers.Adam(0.05), "loss": "mse", "metrics": ["mae"]} | compiled)
    return model


def fit(model: Any, x: Any = X, y: Any = Y, **more: Any) -> None:
    model.fit(x, y, batch_size=8, shuffle=False, verbose=0, **more)


def values(model: Any) -> list[np.ndarray[Any, Any]]:
    return [np.array(each) for each in (*model.weights, *model.optimizer.variables)]


def check_evaluation(estimator: Estimator, model: Any, x: Any = X, y: Any = Y, rtol: float = 1e-5) -> None:
    """Check that an evaluation finds what the model's own does."""
    found = estimator.evaluate(batches((x, y)))
    expected = model.evaluate(x, y, batch_size=8, verbose=0, return_dict=True)
    assert found.keys() - {"global_step"} <= expected.keys()
    for name, value in found.items():
        if name != "global_step":
            np.testing.assert_allclose(value, expected[name], rtol=rtol, err_msg=name)


def test_training_goes_on_where_the_model_is(tmp_path: pathlib.Path) -> None:
    model = small_model()
    fit(model)
    before = values(model)
    estimator = model_to_estimator(model, model_dir=tmp_path)
    check_evaluation(estimator, model)
    np.testing.assert_allclose(
        [each["out"] for each in estimator.predict(batches(X))], model.predict(X, verbose=0), rtol=1e-5
    )
    estimator.train(batches())
    for one, other in zip(values(model), before, strict=True):
        np.testing.assert_array_equal(one, other)
    fit(model)  # with the optimizer's state, which the Estimator has as well
    check_evaluation(estimator, model)
    assert estimator.evaluate(batches())["global_step"] == 4
    assert estimator.get_variable_value("adam/iteration") == 8


def test_later_changes_of_the_model_do_not_count(tmp_path: pathlib.Path) -> None:
    model = small_model()
    estimator = model_to_estimator(model, model_dir=tmp_path)
    expected = model.evaluate(X, Y, batch_size=8, verbose=0)
    fit(model, epochs=3)
    np.testing.assert_allclose(estimator.evaluate(batches())["loss"], expected[0], rtol=1e-5)


def test_checkpoint_comes_before_the_models_weights(tmp_path: pathlib.Path) -> None:
    model_to_estimator(small_model(), model_dir=tmp_path).train(batches())
    again = model_to_estimator(small_model(seed=2), model_dir=tmp_path)
    kernel = again.get_variable_value("out/kernel")
    again.train(batches(), steps=1)
    assert again.evaluate(batches())["global_step"] == 5
    assert np.abs(again.get_variable_value("out/kernel") - kernel).max() < 0.1


def wrong_sum(y: Any, outputs: Any) -> Any:
    return keras.ops.mean((y - 2 * outputs) ** 2, axis=-1)


class Doubled(layers.Layer):
    """A layer whose class Keras does not find by itself."""

    def __init__(self, factor: float = 2.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.factor = factor

    def call(self, inputs: Any) -> Any:
        return inputs * self.factor

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"factor": self.factor}


@pytest.mark.slow
def test_functions_and_classes_of_the_user_are_kept(tmp_path: pathlib.Path) -> None:
    def distance(y: Any, outputs: Any) -> Any:
        return keras.ops.mean(keras.ops.abs(y - outputs), axis=-1)

    class Local(Doubled):
        pass

    inner = keras.Sequential([layers.Input((3,)), layers.Dense(3), Local(0.5)])
    inner.compile("adam", loss="mse")  # is not trained by itself
    model = small_model(
        Doubled(3.0),
        inner,
        layers.Lambda(lambda x: x + 1, output_shape=(3,)),
        loss=wrong_sum,
        metrics=[distance, keras.metrics.MeanSquaredError(name="squares")],
        weighted_metrics=[],
    )
    estimator = model_to_estimator(model, model_dir=tmp_path)
    check_evaluation(estimator, model)
    estimator.train(batches())
    fit(model)
    check_evaluation(estimator, model)


def two_in_two_out(**compiled: Any) -> Any:
    keras.utils.set_random_seed(3)
    left, right = layers.Input((2,), name="left"), layers.Input((2,), name="right")
    hidden = layers.Dense(4, "tanh")(layers.Concatenate()([right, left]))
    outputs = [layers.Dense(1, name="price")(hidden), layers.Dense(1, "sigmoid", name="sold")(hidden)]
    model = keras.Model([left, right], outputs)
    arguments = {
        "optimizer": keras.optimizers.SGD(0.1),
        "loss": {"price": "mse", "sold": "binary_crossentropy"},
        "loss_weights": {"price": 0.25, "sold": 2.0},
        "metrics": {"price": ["mae"], "sold": ["accuracy", "mse"]},
    }
    model.compile(**arguments | compiled)
    return model


INPUTS = {"left": X[:, :2], "right": X[:, 2:]}
OUTPUTS = {"price": X[:, :1], "sold": Y}


@pytest.mark.samples("names")
@pytest.mark.parametrize("named", [True, False], ids=["names", "order"])
def test_several_inputs_and_outputs(tmp_path: pathlib.Path, named: bool) -> None:
    model = two_in_two_out()
    data = (INPUTS, OUTPUTS) if named else (tuple(INPUTS.values()), tuple(OUTPUTS.values()))
    estimator = model_to_estimator(model, model_dir=tmp_path)
    estimator.train(batches(data))
    x, y = list(INPUTS.values()), list(OUTPUTS.values())
    fit(model, x, y)
    found = estimator.evaluate(batches(data))
    expected = model.evaluate(x, y, batch_size=8, verbose=0, return_dict=True)
    assert found.keys() == {"loss", "price_mae", "sold_accuracy", "sold_mse", "global_step"}
    for name in found.keys() - {"global_step"}:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5)
    (rows,) = estimator.predict(batches(data, ROWS), yield_single_examples=False)
    price, sold = model.predict(x, verbose=0)
    np.testing.assert_allclose(rows["price"], price, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(rows["sold"], sold, rtol=1e-4, atol=1e-6)


def test_the_input_of_a_sequential_model_has_the_name_of_keras_2_too(tmp_path: pathlib.Path) -> None:
    model = keras.Sequential([layers.Input((4,)), layers.Dense(1, name="first"), layers.Dense(1)])
    model.compile("sgd", "mse")
    estimator = model_to_estimator(model, model_dir=tmp_path)
    estimator.train(batches(({"first_input": X}, Y)))
    for name in ("first_input", "input_1"):
        assert estimator.evaluate(batches(({name: X}, Y))) == estimator.evaluate(batches())
    with pytest.raises(KeyError, match="Got: other"):
        estimator.evaluate(batches(({"other": X}, Y)))


def test_dictionaries_of_inputs_and_outputs(tmp_path: pathlib.Path) -> None:
    keras.utils.set_random_seed(4)
    inputs = {"a": layers.Input((2,), name="a"), "b": layers.Input((2,), name="b")}
    outputs = {"sum": layers.Dense(1)(inputs["a"]), "odd": layers.Dense(1)(inputs["b"])}
    model = keras.Model(inputs, outputs)
    model.compile("sgd", loss={"sum": "mse", "odd": "mae"})
    y = {"sum": X[:, :1], "odd": Y}
    estimator = model_to_estimator(model, model_dir=tmp_path)
    x = {"a": X[:, :2], "b": X[:, 2:]}
    expected = model.evaluate(x, y, batch_size=8, verbose=0)
    np.testing.assert_allclose(estimator.evaluate(batches((x, y)))["loss"], expected[0], rtol=1e-5)
    assert next(estimator.predict(batches(x))).keys() == {"sum", "odd"}


def test_weights_of_examples(tmp_path: pathlib.Path) -> None:
    model = small_model(weighted_metrics=["mse"])
    estimator = model_to_estimator(model, model_dir=tmp_path)
    data = ({"features": X, "sample_weights": WEIGHTS}, Y)
    estimator.train(batches(data))
    fit(model, sample_weight=WEIGHTS)
    expected = model.evaluate(X, Y, sample_weight=WEIGHTS, batch_size=8, verbose=0, return_dict=True)
    found = estimator.evaluate(batches(data))
    np.testing.assert_allclose(found["mse"], expected["mse"], rtol=1e-5)
    np.testing.assert_allclose(found["mae"], expected["mae"], rtol=1e-5)
    np.testing.assert_allclose(
        estimator.get_variable_value("out/kernel"), model.get_layer("out").kernel, rtol=1e-4
    )


@pytest.mark.slow
def test_batch_normalization_and_dropout(tmp_path: pathlib.Path) -> None:
    model = small_model(layers.BatchNormalization(name="norm"), layers.Dropout(0.5, seed=7))
    fit(model)
    estimator = model_to_estimator(model, model_dir=tmp_path)
    check_evaluation(estimator, model)  # with moving averages, and without dropout
    mean = np.array(model.get_layer("norm").moving_mean)
    estimator.train(batches())
    fit(model)
    after = estimator.get_variable_value("norm/moving_mean")
    assert np.abs(after - mean).min() > 0
    np.testing.assert_allclose(after, model.get_layer("norm").moving_mean, rtol=1e-4)
    first, second = (estimator.predict(batches(X, ROWS)) for _ in range(2))
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one["out"], other["out"])


@pytest.mark.slow
def test_moving_averages_are_those_of_all_replicas(tmp_path: pathlib.Path) -> None:
    keras.utils.set_random_seed(5)
    inner = [layers.BatchNormalization(name="norm"), layers.Dropout(0.5), layers.Dense(1, name="out")]
    model = keras.Sequential([layers.Input((4,)), *inner])
    model.compile("sgd", loss="mse")
    config = RunConfig(train_distribute=MirroredStrategy(["/cpu:0", "/cpu:1"]))
    estimator = model_to_estimator(model, model_dir=tmp_path, config=config)
    estimator.train(batches(size=4))
    fit(model)
    norm = model.get_layer("norm")
    found = estimator.get_variable_value("norm/moving_mean")
    np.testing.assert_allclose(found, norm.moving_mean, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_loss_scaling_is_kept(tmp_path: pathlib.Path) -> None:
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1, momentum=0.9))
    model = small_model(optimizer=optimizer)
    fit(model)
    estimator = model_to_estimator(model, model_dir=tmp_path)
    estimator.train(batches())
    fit(model)
    check_evaluation(estimator, model)


@pytest.mark.samples("loss0")
@pytest.mark.parametrize("loss", [keras.losses.MeanSquaredError(), keras.losses.MeanSquaredError("sum")])
def test_replicas_compute_the_same(tmp_path: pathlib.Path, loss: Any) -> None:
    model = small_model(
        layers.Dense(3, kernel_regularizer=keras.regularizers.L2(0.1)),
        loss=loss,
        optimizer=keras.optimizers.SGD(0.01, momentum=0.9),
    )
    fit(model)
    strategy = MirroredStrategy(["/cpu:0", "/cpu:1"])
    config = RunConfig(train_distribute=strategy, eval_distribute=strategy)
    estimator = model_to_estimator(model, model_dir=tmp_path, config=config)
    estimator.train(batches(size=4))  # rows of each replica
    fit(model)
    np.testing.assert_allclose(
        estimator.get_variable_value("out/kernel"), model.get_layer("out").kernel, rtol=1e-4
    )
    found = estimator.evaluate(batches(size=4))
    expected = model.evaluate(X, Y, batch_size=8, verbose=0, return_dict=True)
    np.testing.assert_allclose([found["loss"], found["mae"]], [expected["loss"], expected["mae"]], rtol=1e-4)


def test_model_from_a_file(tmp_path: pathlib.Path) -> None:
    model = small_model(Doubled(), loss=wrong_sum)
    fit(model)
    model.save(tmp_path / "model.keras")
    estimator = model_to_estimator(
        keras_model_path=tmp_path / "model.keras",
        custom_objects={"Doubled": Doubled, "wrong_sum": wrong_sum},
        model_dir=tmp_path / "run",
    )
    check_evaluation(estimator, model)
    estimator.train(batches())
    fit(model)
    check_evaluation(estimator, model)


class Subclassed(keras.Model):
    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = units
        self.hidden = layers.Dense(units, "tanh")
        self.last = layers.Dense(1)

    def call(self, inputs: Any) -> Any:
        return self.last(self.hidden(inputs))

    def get_config(self) -> dict[str, Any]:
        return {"units": self.units, "name": self.name}


def test_subclassed_models_keep_their_weights(tmp_path: pathlib.Path) -> None:
    model = Subclassed(3)
    model.compile(keras.optimizers.Adam(0.05), loss="mse", metrics=["mae"])
    fit(model)
    estimator = model_to_estimator(model, model_dir=tmp_path)
    check_evaluation(estimator, model)
    assert next(estimator.predict(batches(X))).keys() == {"output_1"}
    estimator.train(batches())
    fit(model)
    check_evaluation(estimator, model)


def test_model_that_is_not_built_yet(tmp_path: pathlib.Path) -> None:
    model = keras.Sequential([layers.Dense(3), layers.Dense(1)])
    model.compile("sgd", loss="mse")
    estimator = model_to_estimator(model, model_dir=tmp_path)
    estimator.train(batches())
    assert estimator.evaluate(batches())["global_step"] == 4
    assert not model.built


def test_train_and_evaluate(tmp_path: pathlib.Path) -> None:
    estimator = model_to_estimator(
        keras_model=small_model(),
        config=RunConfig(save_checkpoints_steps=4),
        model_dir=tmp_path,
        metric_names_map={"mae": "distance"},
    )
    train = TrainSpec(lambda: batches()().repeat(), max_steps=8)
    metrics, _ = train_and_evaluate(estimator, train, EvalSpec(batches(), steps=None, throttle_secs=0))
    assert metrics.keys() == {"loss", "distance", "global_step"}
    assert metrics["global_step"] == 8


def test_signatures(tmp_path: pathlib.Path) -> None:
    estimator = model_to_estimator(
        two_in_two_out(), model_dir=tmp_path, export_outputs={"price": RegressionOutput}
    )
    seen = []

    def spying(features: Any, labels: Any, mode: Any) -> Any:
        spec = estimator.model_fn(features, labels, mode)
        seen.append({name: type(output) for name, output in spec.export_outputs.items()})
        return spec

    next(Estimator(spying, tmp_path).predict(batches(INPUTS)))
    assert seen[0] == {"serving_default": PredictOutput, "price": RegressionOutput}


def test_weights_that_a_rebuilt_model_does_not_have(tmp_path: pathlib.Path) -> None:
    class Forgetful(Subclassed):
        def get_config(self) -> dict[str, Any]:
            return {"units": 5}

    model = Forgetful(3)
    model.compile("sgd", loss="mse")
    fit(model)
    with pytest.raises(ValueError, match="Let `get_config` of its class return all"):
        model_to_estimator(model, model_dir=tmp_path).train(batches())


def test_model_whose_class_does_not_say_how_to_build_it(tmp_path: pathlib.Path) -> None:
    class Fixed(keras.Model):
        def __init__(self, activation: Any) -> None:
            super().__init__()
            self.last = layers.Dense(1, activation)

        def call(self, inputs: Any) -> Any:
            return self.last(inputs)

    model = Fixed(lambda x: x)
    model.compile("sgd", loss="mse")
    with pytest.raises(ValueError, match="let its class Fixed implement `get_config`"):
        model_to_estimator(model, model_dir=tmp_path).train(batches())


def uncompiled() -> Any:
    return keras.Sequential([layers.Input((4,)), layers.Dense(1)])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (lambda: {}, ValueError, "needs to be provided, and neither is given"),
        (lambda: {"keras_model": small_model(), "keras_model_path": "x"}, ValueError, "but not both"),
        (lambda: {"keras_model": "model"}, ValueError, "must be a keras.Model"),
        (lambda: {"keras_model": uncompiled()}, ValueError, "has not been compiled yet"),
        (
            lambda: {"keras_model": small_model(), "checkpoint_format": "h5"},
            ValueError,
            "must be one of checkpoint, saver",
        ),
        (
            lambda: {"keras_model": small_model(), "export_outputs": {"in": PredictOutput}},
            KeyError,
            "no outputs of the Keras model: it has out",
        ),
    ],
)
def test_mistakes(arguments: Any, error: type[Exception], message: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(error, match=message):
        model_to_estimator(model_dir=tmp_path, **arguments())


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        ((INPUTS | {"more": X}, OUTPUTS), KeyError, "Expected: left, right. Got: left, more, right"),
        ((INPUTS, {"price": Y}), KeyError, "Expected: price, sold. Got: price"),
        ((X, OUTPUTS), ValueError, "gives 1 features, and the Keras model has 2 inputs: left, right"),
    ],
)
def test_names_of_features_and_labels(
    data: Any, error: type[Exception], message: str, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(error, match=message):
        model_to_estimator(two_in_two_out(), model_dir=tmp_path).evaluate(batches(data))


def test_metric_names_map_names_all_metrics(tmp_path: pathlib.Path) -> None:
    estimator = model_to_estimator(small_model(), model_dir=tmp_path, metric_names_map={"mse": "a"})
    with pytest.raises(ValueError, match="Expected keys: mae. Got: mse"):
        estimator.evaluate(batches())
