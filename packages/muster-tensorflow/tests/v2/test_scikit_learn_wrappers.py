"""``tf.keras.wrappers.scikit_learn``."""

import numpy as np
import pytest
from muster_tensorflow.keras.wrappers.scikit_learn import KerasClassifier, KerasRegressor

import muster_tensorflow as tf

X = np.random.default_rng(0).normal(size=(60, 2)).astype("float32")
LABELS = np.where(X[:, 0] > 0, "right", "left")


def classifier(units=4, loss="sparse_categorical_crossentropy", outputs=2):
    last = tf.keras.layers.Dense(outputs, "softmax" if outputs > 1 else "sigmoid")
    model = tf.keras.Sequential([tf.keras.layers.Dense(units, "tanh"), last])
    model.compile(tf.keras.optimizers.Adam(0.1), loss, metrics=["accuracy"])
    return model


@pytest.mark.parametrize(
    ("loss", "outputs"),
    [("sparse_categorical_crossentropy", 2), ("categorical_crossentropy", 2), ("binary_crossentropy", 1)],
)
def test_a_classifier_learns_labels(loss, outputs):
    wrapped = KerasClassifier(classifier, loss=loss, outputs=outputs, epochs=8, verbose=0)
    history = wrapped.fit(X, LABELS, batch_size=20)
    assert (len(history.epoch), history.params["steps"]) == (8, 3)
    assert wrapped.classes_.tolist() == ["left", "right"]
    assert set(np.ravel(wrapped.predict(X))) == {"left", "right"}
    probabilities = wrapped.predict_proba(X)
    assert probabilities.shape == (60, 2)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    score = wrapped.score(X, LABELS)
    assert score > 0.8
    assert score == pytest.approx(np.mean(np.ravel(wrapped.predict(X)) == LABELS))


def test_a_search_over_parameters_finds_the_best():
    selection = pytest.importorskip("sklearn.model_selection", reason="needs scikit-learn")
    wrapped = KerasClassifier(build_fn=classifier, verbose=0)
    grid = {"units": [3], "epochs": [1, 10]}
    search = selection.GridSearchCV(wrapped, grid, cv=2, scoring="neg_log_loss", error_score="raise")
    search.fit(X, LABELS)
    assert search.best_params_ == {"units": 3, "epochs": 10}
    assert search.best_estimator_.model.layers[0].units == 3


def test_a_regressor_predicts_numbers():
    def build():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        return model

    selection = pytest.importorskip("sklearn.model_selection", reason="needs scikit-learn")
    wrapped = KerasRegressor(build, epochs=2, verbose=0)
    scores = selection.cross_val_score(wrapped, X, X[:, 1], cv=2, error_score="raise")
    assert (scores < 0).all()
    wrapped.fit(X, X[:, 1])
    predicted = wrapped.predict(X)
    assert predicted.shape == (60,)
    assert wrapped.score(X, X[:, 1]) == pytest.approx(-np.mean((predicted - X[:, 1]) ** 2), rel=1e-4)


def test_a_class_may_build_the_model_itself():
    class Own(KerasClassifier):
        def __call__(self, units):
            return classifier(units)

    wrapped = Own(units=5, verbose=0).set_params(units=6)
    wrapped.fit(X, LABELS)
    assert wrapped.model.layers[0].units == 6
    assert wrapped.get_params() == {"units": 6, "verbose": 0, "build_fn": None}


def test_what_is_wrong_is_said():
    with pytest.raises(ValueError, match="'colour' is not a legal parameter"):
        KerasClassifier(classifier, colour=3)
    with pytest.raises(ValueError, match=r"Invalid shape for y: \(2, 2, 2\)"):
        KerasClassifier(classifier).fit(X[:2], np.ones((2, 2, 2)))

    def without():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        return model

    wrapped = KerasClassifier(without, verbose=0)
    wrapped.fit(X, LABELS)
    with pytest.raises(ValueError, match="not accuracy"):
        wrapped.score(X, LABELS)
