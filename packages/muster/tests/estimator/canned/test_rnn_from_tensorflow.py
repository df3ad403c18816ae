"""Recurrent canned Estimators name variables as TensorFlow's do, predict as those do, and go on from them."""

import functools
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from muster import feature_column as fc
from muster._keras import keras
from muster.checkpoint import list_variables, read_checkpoint
from muster.checkpoint.tensorflow import TensorFlowCheckpoint
from muster.data import Dataset, RaggedTensor
from muster.estimator import RegressionHead, RNNClassifier, RNNEstimator

pytestmark = [
    pytest.mark.usefixtures("compiled_once"),
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),  # Keras' own
]

FOLDER = Path(__file__).parents[2] / "oracles" / "tensorflow_rnn"
RECORDED = json.loads((FOLDER / "index.json").read_text())

layers = keras.layers
WORDS = fc.sequence_categorical_column_with_vocabulary_list("words", ["a", "b", "c", "d"])
EMBEDDED, COUNTED = fc.embedding_column(WORDS, 3), fc.indicator_column(WORDS)
PRICES, AGE = fc.sequence_numeric_column("prices"), fc.numeric_column("age")

classifier = functools.partial(
    RNNClassifier,
    sequence_feature_columns=[EMBEDDED, PRICES],
    context_feature_columns=[AGE],
    n_classes=3,
)
ESTIMATORS = {
    "simple_rnn": functools.partial(classifier, units=[4], cell_type="simple_rnn"),
    "lstm": functools.partial(classifier, units=[4], cell_type="lstm"),
    "gru": functools.partial(classifier, units=[4], cell_type="gru"),
    "default": functools.partial(classifier, units=[4], context_feature_columns=None),
    "int_units": functools.partial(classifier, units=4, cell_type="lstm"),
    "stacked_lstm": functools.partial(
        classifier, sequence_feature_columns=[COUNTED], units=[4, 3], cell_type="lstm"
    ),
    "stacked_gru_adam": functools.partial(classifier, units=[4, 3], cell_type="gru", optimizer="Adam"),
    "cell_fn": functools.partial(classifier, rnn_cell_fn=lambda: layers.GRUCell(4)),
    "cell_fn_stacked": functools.partial(
        classifier,
        rnn_cell_fn=lambda: layers.StackedRNNCells([layers.LSTMCell(4), layers.GRUCell(3)]),
        optimizer="SGD",
    ),
    "sequences": functools.partial(
        RNNEstimator,
        head=RegressionHead(),
        sequence_feature_columns=[PRICES],
        context_feature_columns=[AGE],
        units=[3, 2],
        cell_type="simple_rnn",
        optimizer="Ftrl",
    ),
}


def batch():
    features = RECORDED["features"]
    words = [np.array(row) for row in features["words"]]
    prices = [np.array(row, np.float32) for row in features["prices"]]
    return {
        "words": RaggedTensor.from_rows(words).to_sparse(),
        "prices": RaggedTensor.from_rows(prices).to_sparse(),
        "age": np.array(features["age"], np.float32),
    }, np.array(RECORDED["labels"])


@pytest.mark.samples("default")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_it_predicts_and_goes_on(name, tmp_path):
    model_dir = shutil.copytree(FOLDER / name, tmp_path / "model")
    estimator = ESTIMATORS[name](model_dir=str(model_dir))
    recorded = RECORDED["cases"][name]
    found = list(estimator.predict(lambda: Dataset.from_tensors(batch()[0])))
    key = "logits" if "logits" in found[0] else "predictions"
    np.testing.assert_allclose([row[key] for row in found], recorded["predictions"], atol=1e-5)

    estimator.train(lambda: Dataset.from_tensors(batch()), steps=1)
    assert estimator.get_variable_value("global_step") == 2
    shapes = {path: list(info.shape) for path, info in list_variables(model_dir / "ckpt-2").items()}
    # Slots are the optimizer's, and generators of random numbers have state in Keras 3.
    shapes = {path: shape for path, shape in shapes.items() if path.startswith(("rnn_", "sequence_"))}
    shapes = {path: shape for path, shape in shapes.items() if "seed_generator" not in path}
    of_model = ("rnn_model/", "sequence_features/")
    variables = recorded["variables"].items()
    assert shapes == {path: shape for path, shape in variables if path.startswith(of_model)}


@pytest.mark.slow
def test_slots_are_taken_over(tmp_path):
    name = "stacked_gru_adam"
    model_dir = shutil.copytree(FOLDER / name, tmp_path / "model")
    ESTIMATORS[name](model_dir=str(model_dir)).train(lambda: Dataset.from_tensors(batch()), steps=1)
    stored = TensorFlowCheckpoint(model_dir / "model.ckpt-1").read_all()
    began = read_checkpoint(model_dir / "ckpt-1").variables
    slots = [path for path in stored if path.startswith("training/Adam/") and path.endswith(("/m", "/v"))]
    assert len(slots) == 18
    for slot in slots:
        ours = f"Adam/{slot.removeprefix('training/Adam/').replace('/', '_')}"
        np.testing.assert_array_equal(began[ours], stored[slot], err_msg=slot)
