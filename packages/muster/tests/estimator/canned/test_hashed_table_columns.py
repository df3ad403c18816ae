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
    RNNClassifier,
    RunConfig,
    build_raw_serving_input_receiver_fn,
)
from muster.feature_column._fingerprint import fingerprint64
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


def test_sequences_shared_tables_and_weights_read_rows_by_id(tmp_path):
    one = fc.categorical_column_with_hashed_table("one")
    two = fc.weighted_categorical_column(fc.categorical_column_with_hashed_table("two"), "weight")
    plain = fc.categorical_column_with_hashed_table("two")
    columns = [
        *fc.shared_embeddings([one, plain], 3),
        fc.embedding_column(two, 2, combiner="sum", max_norm=1.0),
    ]
    features = {"one": WORDS, "two": WORDS[::-1], "weight": np.ones((48, 3), "float32")}
    config = RunConfig(tf_random_seed=1, log_step_count_steps=None)
    estimator = DNNClassifier([4], columns, str(tmp_path), config=config)
    estimator.train(lambda: Dataset.from_tensor_slices((features, CLICKS)).batch(16), steps=2)
    saved = read_checkpoint(latest_checkpoint(tmp_path)).variables
    tables = sorted(name.rpartition("input_layer/")[2] for name in saved if name.endswith("#ids"))
    assert tables == [
        "one_two_shared_embedding#ids",
        "two_weighted_by_weight_embedding/embedding_weights#ids",
    ]


def test_a_column_is_refused_where_it_makes_no_sense():
    words = fc.categorical_column_with_hashed_table("word")
    with pytest.raises(ValueError, match="admit_after must be at least 1. admit_after: 0, key: word"):
        fc.categorical_column_with_hashed_table("word", admit_after=0)
    with pytest.raises(ValueError, match="evict must be 'recently' or 'frequently'. evict: 'never'"):
        fc.categorical_column_with_hashed_table("word", evict="never")
    with pytest.raises(ValueError, match="indicator_column has a value for each id of word"):
        fc.indicator_column(words)
    with pytest.raises(ValueError, match="cannot share a hashed table, .*'admit_after': 2"):
        fc.shared_embeddings([words, fc.categorical_column_with_hashed_table("w", admit_after=2)], 3)
    with pytest.raises(ValueError, match="cannot be loaded by ckpt_to_load_from"):
        fc.embedding_column(words, 3, ckpt_to_load_from="c", tensor_name_in_ckpt="t")
    with pytest.raises(TypeError, match="rows of a hashed table cannot be made by .*GlorotUniform"):
        _ = fc.embedding_column(words, 3, initializer=keras.initializers.GlorotUniform()).table


def test_ids_are_integers_as_they_are_and_fingerprints_of_text():
    user = fc.categorical_column_with_hashed_table("user", "int64")
    word = fc.categorical_column_with_hashed_table("word")
    features = {"user": np.array([[2**40 + 7, -1, -3]]), "word": np.array([["pear", "", "fig"]])}
    made = fc.transform_features(features, [fc.embedding_column(each, 2) for each in (user, word)])
    (users,), (words,) = (made[each.host_key].view("<i8")[..., 0] for each in (user, word))
    assert users.tolist() == [2**40 + 7, -1, -3]
    expected = fingerprint64(["pear", "fig"]).view(np.int64).tolist()
    assert words.tolist() == [expected[0], -1, expected[1]]


def test_a_column_for_sequences_trains_a_recurrent_model(tmp_path):
    column = fc.embedding_column(fc.sequence_categorical_column_with_hashed_table("word"), 3)
    config = RunConfig(tf_random_seed=1, log_step_count_steps=None)
    estimator = RNNClassifier([column], units=[4], model_dir=str(tmp_path), config=config)
    data = Dataset.from_tensor_slices(({"word": WORDS}, CLICKS)).batch(16)
    estimator.train(lambda: data, steps=1)
    saved = read_checkpoint(latest_checkpoint(tmp_path)).variables
    assert [len(each) for name, each in saved.items() if name.endswith("#ids")] == [4]
