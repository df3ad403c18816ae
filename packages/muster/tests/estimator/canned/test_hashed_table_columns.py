"""Canned Estimators with columns of ids of 64 bits, in tables that grow."""

import numpy as np
import pytest

from muster import feature_column as fc
from muster import keras
from muster.checkpoint import latest_checkpoint, read_checkpoint
from muster.data import Dataset, TensorSpec
from muster.estimator import (
    DNNClassifier,
    DNNLinearCombinedClassifier,
    LinearClassifier,
    RunConfig,
    build_raw_serving_input_receiver_fn,
)
from muster.saved_model import load

RANDOM = np.random.default_rng(0)
USERS = RANDOM.integers(-(2**62), 2**62, 12)[RANDOM.integers(0, 12, 48)]
WORDS = np.array(["apple", "pear", "plum", "fig", ""])[RANDOM.integers(0, 5, (48, 3))]
CLICKS = (USERS % 2).astype("int32")


def batches(users=USERS, words=WORDS, clicks=CLICKS):
    features = {"user": users, "word": words}
    return Dataset.from_tensor_slices((features, clicks)).batch(16)


def columns(**keeping):
    user = fc.categorical_column_with_hashed_table("user", "int64", **keeping)
    word = fc.categorical_column_with_hashed_table("word", **keeping)
    return user, word


def deep_columns(**keeping):
    user, word = columns(**keeping)
    return [fc.embedding_column(user, 4), fc.embedding_column(word, 3, combiner="sum")]


def classifier(kind, folder, strategy=None):
    config = RunConfig(tf_random_seed=1, train_distribute=strategy, log_step_count_steps=None)
    deep, wide = keras.optimizers.Adagrad(0.3), keras.optimizers.Ftrl(0.5)
    match kind:
        case "deep":
            return DNNClassifier([8], deep_columns(), str(folder), optimizer=deep, config=config)
        case "wide":
            return LinearClassifier(columns(), str(folder), optimizer=wide, config=config)
        case "both":
            return DNNLinearCombinedClassifier(
                str(folder),
                columns(),
                wide,
                dnn_feature_columns=deep_columns(),
                dnn_optimizer=deep,
                dnn_hidden_units=[8],
                config=config,
            )


@pytest.mark.parametrize("kind", ["deep", "wide", "both"])
def test_a_classifier_learns_by_the_ids(tmp_path, kind):
    estimator = classifier(kind, tmp_path)
    estimator.train(lambda: batches().repeat(), steps=60)
    assert estimator.evaluate(batches)["accuracy"] > 0.95
    saved = read_checkpoint(latest_checkpoint(tmp_path)).variables
    tables = [name for name in saved if f"{name}#ids" in saved]
    assert len(tables) == {"deep": 2, "wide": 2, "both": 4}[kind]
    for name in tables:
        assert len(saved[name]) == (12 if "user" in name else 4)
    assert {*saved[next(each for each in tables if "user" in each) + "#ids"].tolist()} == {*USERS.tolist()}


def test_what_is_exported_answers_as_predict_does(tmp_path):
    estimator = classifier("both", tmp_path / "model")
    estimator.train(lambda: batches().repeat(), steps=20)
    users, words = USERS[:6].copy(), WORDS[:6].copy()
    users[0], words[1] = 12345, ["unknown", "", ""]
    features = Dataset.from_tensor_slices({"user": users, "word": words}).batch(6)
    expected = [each["probabilities"] for each in estimator.predict(lambda: features)]
    receiver = build_raw_serving_input_receiver_fn(
        {"user": TensorSpec((None,), "int64"), "word": TensorSpec((None, 3), str)}
    )
    loaded = load(estimator.export_saved_model(str(tmp_path / "export"), receiver))
    answers = loaded.signatures["predict"](user=users, word=words)
    np.testing.assert_allclose(answers["probabilities"], np.stack(expected), rtol=1e-6)
