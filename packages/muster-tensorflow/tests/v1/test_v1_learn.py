"""``tf.contrib.learn``: Estimators, metrics and Experiments of before ``tf.estimator``."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import muster_tensorflow.compat.v1 as tf
from muster_tensorflow import contrib

learn = contrib.learn
X = np.float32([[1], [2], [3], [4]])
Y = 2 * X[:, 0] + 1


def line(features: Any, target: Any, mode: Any, params: Any = None) -> Any:
    x = features["x"] if isinstance(features, dict) else features
    w = tf.get_variable("w", [1, 1], initializer=tf.zeros_initializer())
    b = tf.get_variable("b", [1], initializer=tf.zeros_initializer())
    predicted = tf.squeeze(tf.matmul(x, w) + b, 1)
    if mode == learn.ModeKeys.INFER:
        return {"y": predicted, "x": x}, None, None
    loss = tf.losses.mean_squared_error(target, predicted)
    step = tf.contrib.framework.get_global_step()
    train_op = tf.contrib.layers.optimize_loss(loss, step, (params or {}).get("rate", 0.1), "SGD")
    return {"y": predicted, "x": x}, loss, train_op


def ops(features: Any, labels: Any, mode: Any) -> Any:
    return learn.ModelFnOps(mode, *line(features, labels, mode))


def test_estimators_fit_arrays_and_evaluate_metrics(tmp_path: Path) -> None:
    estimator = learn.Estimator(line, str(tmp_path), params={"rate": 0.1})
    assert estimator.fit(X, Y, steps=1) is estimator
    # The gradients are -2 mean(x y) = -35 and -2 mean(y) = -12.
    found = list(estimator.predict(X, outputs=["y"]))
    np.testing.assert_allclose([each["y"] for each in found], 3.5 * X[:, 0] + 1.2, rtol=1e-5)
    metrics = {
        ("largest", "y"): lambda predictions: tf.metrics.mean(tf.reduce_max(predictions)),
        "error": learn.MetricSpec(tf.metrics.mean_absolute_error, "y"),
        "labelled": learn.MetricSpec(lambda first, second: tf.metrics.mean(second - first), "y"),
        "weighted": learn.MetricSpec(tf.contrib.metrics.streaming_mean_absolute_error, "y", weight_key="x"),
    }
    results = estimator.evaluate({"x": X}, Y, metrics=metrics)
    off = 1.5 * X[:, 0] + 0.2
    assert results["largest"] == pytest.approx(15.2)
    assert results["error"] == pytest.approx(off.mean())
    assert results["labelled"] == pytest.approx(-off.mean())
    assert results["weighted"] == pytest.approx((off * X[:, 0]).sum() / X.sum())
    assert results["loss"] == pytest.approx((off**2).mean())
    assert results["global_step"] == 1
    assert {"b", "w"} < set(estimator.get_variable_names())


def test_arrays_are_predicted_as_scikit_learn_does(tmp_path: Path) -> None:
    fitted = learn.SKCompat(learn.Estimator(ops, str(tmp_path))).fit(X, Y, batch_size=4, steps=1)
    np.testing.assert_allclose(fitted.predict(X, batch_size=3)["y"], 3.5 * X[:, 0] + 1.2, rtol=1e-5)
    assert fitted.score(X, Y, metrics={"error": learn.MetricSpec(tf.metrics.mean_absolute_error, "y")})[
        "error"
    ] == pytest.approx(3.95)


def test_a_model_fn_without_a_mode_has_labels_in_prediction(tmp_path: Path) -> None:
    estimator = learn.Estimator(lambda features, target: line(features, target, "train"), str(tmp_path))
    estimator.fit(X, Y, steps=1)
    np.testing.assert_allclose([each["y"] for each in estimator.predict(X)], 3.5 * X[:, 0] + 1.2, rtol=1e-5)


def test_features_are_engineered_and_other_returns_refused(tmp_path: Path) -> None:
    estimator = learn.Estimator(
        line, str(tmp_path / "a"), feature_engineering_fn=lambda features, labels: (features["a"] * 2, labels)
    )
    estimator.fit({"a": X / 2}, Y, steps=1)
    (first, *_) = estimator.predict({"a": X / 2})
    assert first["y"] == pytest.approx(4.7)
    with pytest.raises(ValueError, match="please return ModelFnOps"):
        learn.Estimator(lambda features, labels, mode: 1, str(tmp_path / "b")).fit(X, Y, steps=1)
    with pytest.raises(ValueError, match="x or input_fn"):
        estimator.fit(steps=1)


def test_an_experiment_has_metrics_and_exports(tmp_path: Path) -> None:
    def serving_input_fn() -> Any:
        inputs = {"x": tf.placeholder(tf.float32, [None, 1])}
        return learn.utils.input_fn_utils.InputFnOps(inputs, None, inputs)

    def experiment_fn(output_dir: str) -> Any:
        return learn.Experiment(
            learn.Estimator(ops, output_dir),
            train_input_fn=lambda: ({"x": X}, Y),
            eval_input_fn=lambda: tf.data.Dataset.from_tensors(({"x": X}, Y)),
            eval_metrics={"error": learn.MetricSpec(tf.metrics.mean_absolute_error, prediction_key="y")},
            train_steps=1,
            eval_steps=1,
            export_strategies=[learn.make_export_strategy(serving_input_fn, exports_to_keep=1)],
        )

    metrics, (exported,) = learn.learn_runner.run(experiment_fn, str(tmp_path))
    assert metrics["error"] == pytest.approx(3.95)
    assert Path(exported.decode()).parent == tmp_path / "export" / "Servo"
    predict = tf.contrib.predictor.from_saved_model(exported)
    np.testing.assert_allclose(predict({"x": X})["y"], 3.5 * X[:, 0] + 1.2, rtol=1e-5)
    with pytest.raises(ValueError, match="both `output_dir` and `run_config`"):
        learn.learn_runner.run(experiment_fn, str(tmp_path), run_config=learn.RunConfig())
    with pytest.raises(ValueError, match="`eval_metrics` must be `None`"):
        learn.Experiment(tf.estimator.BaselineRegressor(str(tmp_path)), len, len, {})


def test_alternatives_are_signatures(tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: Any) -> Any:
        predictions, *rest = line(features, labels, mode)
        alternatives = {
            "double": (None, {"z": predictions["y"] * 2}),
            "plain": ("LINEAR_REGRESSION", {"y": predictions["y"]}),
        }
        return learn.ModelFnOps(mode, predictions, *rest, output_alternatives=alternatives)

    estimator = learn.Estimator(model_fn, str(tmp_path)).fit(X, Y, steps=1)
    receiver_fn = learn.utils.input_fn_utils.build_default_serving_input_fn(
        {"x": tf.placeholder(tf.float32, [None, 1])}
    )
    with pytest.raises(ValueError, match="one of the output alternatives"):
        estimator.export_savedmodel(tmp_path / "export", receiver_fn)
    exported = estimator.export_savedmodel(tmp_path / "export", receiver_fn, "double")
    predict = tf.contrib.predictor.from_saved_model(exported)
    np.testing.assert_allclose(predict({"x": X[:1]})["z"], [9.4], rtol=1e-5)


def test_canned_models_fit_arrays(tmp_path: Path) -> None:
    """One step down the mean of the squares: as of ``test_estimators_fit_arrays``."""
    columns = learn.infer_real_valued_columns_from_input(X)
    descent = tf.train.GradientDescentOptimizer(0.1)
    regressor = learn.LinearRegressor(columns, str(tmp_path), optimizer=descent)
    regressor.fit(X, Y, steps=1)
    np.testing.assert_allclose(list(regressor.predict(X)), 3.5 * X[:, 0] + 1.2, rtol=1e-5)
    np.testing.assert_allclose(regressor.predict(X, as_iterable=False), 3.5 * X[:, 0] + 1.2, rtol=1e-5)
    np.testing.assert_allclose(list(regressor.predict(input_fn=lambda: X[:2])), [4.7, 8.2], rtol=1e-5)
    results = regressor.evaluate(input_fn=lambda: tf.data.Dataset.from_tensors((X, Y)))
    assert results.keys() == {"loss", "global_step"}
    assert results["loss"] == pytest.approx(((1.5 * X[:, 0] + 0.2) ** 2).mean())
    # The gradients are -35 and -12: of norm 37, which is to be 1.
    clipped = learn.LinearRegressor(columns, optimizer=descent, gradient_clip_norm=1.0).fit(X, Y, steps=1)
    (one, two) = clipped.predict(X[:2])
    np.testing.assert_allclose([two - one, one], [3.5 / 37, 4.7 / 37], rtol=1e-5)
    with pytest.raises(ValueError, match="enable_centered_bias must be False"):
        learn.DNNRegressor([2], columns, enable_centered_bias=True)
    with pytest.raises(ValueError, match=r"should be numbers of shape \(examples, dimension\)"):
        learn.infer_real_valued_columns_from_input(X[:, 0])


def test_canned_classifiers_name_what_they_predict(tmp_path: Path) -> None:
    columns = [tf.contrib.layers.real_valued_column("", dimension=1)]
    classifier = learn.DNNClassifier([4], columns, str(tmp_path), n_classes=3)
    classifier.fit(X, np.array([0, 1, 2, 2]), steps=1)
    classes = list(classifier.predict(X))
    likely = np.array(list(classifier.predict_proba(X)))
    assert likely.shape == (4, 3)
    assert classes == likely.argmax(1).tolist()
    found = learn.SKCompat(classifier).predict(X)
    assert found.keys() == {"classes", "logits", "probabilities"}
    metrics = {"right": learn.MetricSpec(tf.metrics.accuracy, prediction_key="classes")}
    results = classifier.evaluate(X, np.array([0, 1, 2, 2]), metrics=metrics)
    assert results.keys() == {"accuracy", "global_step", "loss", "right"}
    assert results["right"] == results["accuracy"]


def test_tables_are_read(tmp_path: Path) -> None:
    rows = "1.5,2,0\n3,4,1\n"
    (tmp_path / "header.csv").write_text("2,2,cold,warm\n" + rows)
    (tmp_path / "plain.csv").write_text(rows)
    base = learn.datasets.base
    read = [
        base.load_csv_with_header(str(tmp_path / "header.csv"), int, features_dtype=np.float32),
        base.load_csv_without_header(str(tmp_path / "plain.csv"), int, features_dtype=np.float32),
    ]
    for each in read:
        assert each.data.tolist() == [[1.5, 2], [3, 4]]
        assert (each.data.dtype, each.target.tolist()) == (np.float32, [0, 1])
    with pytest.raises(ValueError, match="There is no dataset 'dbpedia' here"):
        learn.datasets.load_dataset("dbpedia")
