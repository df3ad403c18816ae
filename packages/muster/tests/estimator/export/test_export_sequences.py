"""Exported models of sequences, crosses and sparse features answer what they predict."""

import functools
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import muster
from muster import feature_column as fc
from muster import keras
from muster.data import (
    BytesList,
    Dataset,
    Example,
    Feature,
    Features,
    FloatList,
    Int64List,
    RaggedTensor,
    SparseTensor,
)
from muster.estimator import (
    DNNLinearCombinedRegressor,
    Estimator,
    EstimatorSpec,
    ModeKeys,
    MultiClassHead,
    MultiHead,
    RegressionHead,
    RNNClassifier,
    RNNEstimator,
    build_parsing_serving_input_receiver_fn,
    build_raw_serving_input_receiver_fn,
    build_raw_supervised_input_receiver_fn,
)

pytestmark = pytest.mark.usefixtures("compiled_once")

# Three examples: sequences of text and of numbers, and values of which there are any number.
WORDS = [["good", "film"], ["bad"], ["bad", "bad", "film"]]
PRICES = [[1.5, 2.0], [3.0], [0.5, 4.0, 2.5]]
TAGS = [["x", "y"], [], ["z"]]
AGES = [[30.0], [41.0], [55.0]]
DAYS = [[3], [0], [6]]
LABELS = np.array([1, 0, 0])

FEATURES = {
    "words": RaggedTensor.from_row_lengths(np.array(sum(WORDS, [])), [2, 1, 3]),
    "prices": RaggedTensor.from_row_lengths(np.float32(sum(PRICES, [])), [2, 1, 3]),
    "tags": SparseTensor([[0, 0], [0, 1], [2, 0]], np.array(["x", "y", "z"]), (3, 2)),
    "age": np.float32(AGES),
    "day": np.array(DAYS),
}


def padded(rows, fill):
    longest = max(map(len, rows))
    return np.array([row + [fill] * (longest - len(row)) for row in rows])


# The same as arrays, as requests have them.
ARRAYS = {
    "words": padded(WORDS, ""),
    "prices": padded(PRICES, 0.0).astype(np.float32),
    "tags": padded(TAGS, ""),
    "age": FEATURES["age"],
    "day": FEATURES["day"],
}

WORD = fc.sequence_categorical_column_with_vocabulary_list("words", ["good", "bad"], num_oov_buckets=1)
PRICE = fc.sequence_numeric_column("prices", normalizer_fn=lambda x: x / 10.0)
TAG = fc.categorical_column_with_vocabulary_list("tags", ["x", "y", "z"])
AGE = fc.numeric_column("age")
AGES_OF_TEN = fc.bucketized_column(AGE, [40.0, 50.0])
DAY = fc.categorical_column_with_identity("day", 7)
SEQUENCES = [fc.embedding_column(WORD, 2), PRICE]
WIDE = [
    TAG,
    fc.crossed_column(["tags", AGES_OF_TEN], 30),
    fc.crossed_column([AGES_OF_TEN, DAY, TAG], 30, hash_key=7),
]
DEEP = [
    fc.indicator_column(fc.crossed_column(["tags", DAY], 10)),
    fc.embedding_column(TAG, 2, "sqrtn"),
    *fc.shared_embeddings(
        [TAG, fc.categorical_column_with_vocabulary_list("words", ["good", "bad", "film"])], 2
    ),
]


def chosen(keys, features=FEATURES):
    return {key: features[key] for key in keys}


def examples(keys) -> list[bytes]:
    def feature(key, row):
        match key:
            case "words" | "tags":
                values = {"words": WORDS, "tags": TAGS}[key][row]
                return Feature(bytes_list=BytesList([value.encode() for value in values]))
            case "day":
                return Feature(int64_list=Int64List(DAYS[row]))
        return Feature(float_list=FloatList({"prices": PRICES, "age": AGES}[key][row]))

    return [
        Example(features=Features(feature={key: feature(key, row) for key in keys})).SerializeToString()
        for row in range(3)
    ]


def trained(estimator, keys, labels=LABELS):
    return estimator.train(lambda: Dataset.from_tensors((chosen(keys), labels)), steps=1)


def predicted(estimator, features):
    (found,) = estimator.predict(lambda: Dataset.from_tensors(features), yield_single_examples=False)
    found.pop("sequence_mask", None)  # which no signature answers, as in TensorFlow
    return {"/".join(key) if isinstance(key, tuple) else key: value for key, value in found.items()}


def loaded(estimator, folder, receiver_fn):
    return muster.saved_model.load(estimator.export_saved_model(folder / "exports", receiver_fn)).signatures


def same(got, want) -> None:
    assert sorted(got) == sorted(want)
    for name, value in want.items():
        if value.dtype.kind == "f":
            np.testing.assert_allclose(got[name], value, 1e-5, 1e-6, err_msg=name)
        else:
            np.testing.assert_array_equal(got[name], value, name)


def rnn(folder):
    return RNNClassifier(SEQUENCES, [AGE], [3], model_dir=folder)


def lstm_of_steps(folder):
    return RNNClassifier([PRICE], units=2, cell_type="lstm", return_sequences=True, model_dir=folder)


def gru_cells(folder):
    def cells():
        return [keras.layers.GRUCell(2), keras.layers.GRUCell(2)]

    return RNNEstimator(RegressionHead(), [fc.indicator_column(WORD)], rnn_cell_fn=cells, model_dir=folder)


def several_heads(folder):
    kinds = MultiClassHead(3, label_vocabulary=["a", "b", "c"], name="kind")
    return RNNEstimator(MultiHead([kinds, RegressionHead(name="size")]), [PRICE], units=[2], model_dir=folder)


def wide_and_deep(folder):
    return DNNLinearCombinedRegressor(
        folder, linear_feature_columns=WIDE, dnn_feature_columns=DEEP, dnn_hidden_units=[2]
    )


MODELS = {
    "rnn": (rnn, ("words", "prices", "age"), LABELS),
    "lstm_of_steps": (lstm_of_steps, ("prices",), np.array([[1, 0, -1], [0, -1, -1], [1, 1, 0]])),
    "gru_cells": (gru_cells, ("words",), np.float32([1, 2, 3])),
    "several_heads": (
        several_heads,
        ("prices",),
        {"kind": np.array(["a", "c", "b"]), "size": np.float32([1, 2, 3])},
    ),
    "wide_and_deep": (wide_and_deep, ("tags", "age", "day", "words"), np.float32([1, 2, 3])),
}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Return what finds a trained model by its name, and the keys of its features."""

    @functools.cache
    def find(name):
        make, keys, labels = MODELS[name]
        return trained(make(tmp_path_factory.mktemp(name)), keys, labels), keys

    return find


@pytest.mark.samples("rnn")
@pytest.mark.parametrize("name", MODELS)
def test_arrays_are_answered_by_predictions(models, name, tmp_path):
    estimator, keys = models(name)
    # Given as the input has them, so that some are sparse and some ragged; requests have arrays.
    predict = loaded(estimator, tmp_path, build_raw_serving_input_receiver_fn(chosen(keys)))["predict"]
    arrays = chosen(keys, ARRAYS)
    same(predict(**arrays), predicted(estimator, arrays))
    alone = predict(**{key: array[1:2] for key, array in arrays.items()})
    assert all(len(value) == 1 for value in alone.values())


CHILD = """
import pickle, sys
import muster
path, examples, answers = sys.argv[1:]
with open(examples, "rb") as file:
    examples = pickle.load(file)
got = muster.saved_model.load(path).signatures["predict"](examples=examples)
with open(answers, "wb") as file:
    pickle.dump(("keras" in sys.modules, got), file)
"""


@pytest.mark.samples("rnn-columns0")
@pytest.mark.processes
@pytest.mark.parametrize(("name", "columns"), [("rnn", [*SEQUENCES, AGE]), ("wide_and_deep", [*WIDE, *DEEP])])
def test_examples_are_answered_by_predictions_in_a_process_without_keras(models, name, columns, tmp_path):
    estimator, keys = models(name)
    spec = fc.make_parse_example_spec(columns)
    path = estimator.export_saved_model(tmp_path, build_parsing_serving_input_receiver_fn(spec))
    (tmp_path / "examples").write_bytes(pickle.dumps(examples(keys)))
    command = [sys.executable, "-c", CHILD, os.fsdecode(path), tmp_path / "examples", tmp_path / "answers"]
    subprocess.run(list(map(str, command)), check=True, timeout=120)
    has_keras, got = pickle.loads((tmp_path / "answers").read_bytes())
    assert not has_keras
    same(got, predicted(estimator, chosen(keys)))


@pytest.mark.slow
def test_sequences_may_all_be_empty(models, tmp_path):
    estimator, _ = models("lstm_of_steps")
    spec = fc.make_parse_example_spec([PRICE])
    serve = loaded(estimator, tmp_path, build_parsing_serving_input_receiver_fn(spec))["predict"]
    got = serve(examples=[Example(features=Features(feature={})).SerializeToString()] * 2)
    same(got, predicted(estimator, {"prices": RaggedTensor.from_row_lengths(np.float32([]), [0, 0])}))


def test_a_model_of_sequences_is_exported_to_train(models, tmp_path):
    estimator, keys = models("rnn")
    receiver_fn = build_raw_supervised_input_receiver_fn(chosen(keys), LABELS)
    path = estimator.export_saved_model(tmp_path, receiver_fn, experimental_mode=ModeKeys.TRAIN)
    got = muster.saved_model.load(path).signatures["train"](**chosen(keys, ARRAYS), label=LABELS)
    want = estimator.evaluate(lambda: Dataset.from_tensors((chosen(keys), LABELS)))
    np.testing.assert_allclose(got["loss"], want["loss"], 1e-5)


@pytest.mark.parametrize("rows", [3, 1])
def test_columns_take_what_a_request_parses_though_training_had_numbers(rows, tmp_path):
    days, towns = (fc.categorical_column_with_identity(key, 7) for key in ("day", "town"))
    first, second = [fc.embedding_column(days, 2), AGE], [fc.embedding_column(towns, 3)]

    def model_fn(features, labels, mode):
        age = features["age"] * 0.01
        x = keras.ops.concatenate([fc.input_layer(features, first), fc.input_layer(features, second), age], 1)
        logits = keras.layers.Dense(1)(x)
        if mode == ModeKeys.PREDICT:
            return EstimatorSpec(mode, predictions={"logits": logits})
        loss = keras.ops.mean(keras.ops.square(logits[:, 0] - labels))
        step = muster.get_or_create_global_step()
        train_op = muster.minimize(keras.optimizers.SGD(0.01), loss, global_step=step)
        return EstimatorSpec(mode, loss=loss, train_op=train_op)

    features = {"day": np.array([3, 0, 6]), "town": np.array([1, 2, 5]), "age": np.float32(AGES)}
    estimator = Estimator(model_fn, tmp_path / "model")
    estimator.train(lambda: Dataset.from_tensors((features, np.float32(LABELS))), steps=2)
    spec = fc.make_parse_example_spec([*first, *second])
    receiver_fn = build_parsing_serving_input_receiver_fn(spec)
    serve = loaded(estimator, tmp_path, receiver_fn)["serving_default"]
    examples = [
        Example(
            features=Features(
                feature={
                    "day": Feature(int64_list=Int64List([int(features["day"][row])])),
                    "town": Feature(int64_list=Int64List([int(features["town"][row])])),
                    "age": Feature(float_list=FloatList(AGES[row])),
                }
            )
        ).SerializeToString()
        for row in range(rows)
    ]
    same(serve(examples=examples), {k: v[:rows] for k, v in predicted(estimator, features).items()})
    estimator.train(lambda: Dataset.from_tensors((features, np.float32(LABELS))), steps=1)
