"""Every canned Estimator as a small model, and its training step by step, for tests of strategies."""

import numpy as np

from muster import feature_column as fc
from muster._keras import keras
from muster.data import Dataset, RaggedTensor
from muster.estimator import (
    BaselineClassifier,
    BaselineEstimator,
    BaselineRegressor,
    DNNClassifier,
    DNNEstimator,
    DNNLinearCombinedClassifier,
    DNNLinearCombinedEstimator,
    DNNLinearCombinedRegressor,
    DNNRegressor,
    LinearClassifier,
    LinearEstimator,
    LinearRegressor,
    LogisticRegressionHead,
    MultiLabelHead,
    PoissonRegressionHead,
    RegressionHead,
    RNNClassifier,
    RNNEstimator,
    RunConfig,
)
from noted_losses import Losses

ROWS, BATCH, STEPS = 64, 16, 3

RNG = np.random.default_rng(0)
WORDS = np.array(["a", "b", "c", "d"])
X = {
    "age": RNG.uniform(0, 100, ROWS).astype("float32"),
    "town": RNG.choice(["ulm", "köln", "bonn"], ROWS),
    "born": RNG.choice(["ulm", "köln", "bonn"], ROWS),
    "job": RNG.integers(0, 50, ROWS).astype(str),
    "weight": RNG.uniform(0.5, 2, ROWS).astype("float32"),
    "words": RaggedTensor.from_rows([RNG.choice(WORDS, RNG.integers(1, 5)) for _ in range(ROWS)]).to_sparse(),
}
CLASSES = RNG.integers(0, 3, ROWS)
NAMES = np.where(CLASSES > 0, "yes", "no")
NUMBERS = X["age"] / 50 + CLASSES
TWO_NUMBERS = np.stack([NUMBERS, -NUMBERS], 1)
LABELS = np.stack([CLASSES > 0, CLASSES > 1, CLASSES < 1], 1).astype("int32")

AGE = fc.numeric_column("age", normalizer_fn=lambda years: years / 100)
AGES = fc.bucketized_column(fc.numeric_column("age"), [20, 40, 60])
TOWN, BORN = (
    fc.categorical_column_with_vocabulary_list(key, ["ulm", "köln", "bonn"]) for key in ("town", "born")
)
JOB = fc.categorical_column_with_hash_bucket("job", 100)
WIDE = [AGE, AGES, TOWN, JOB, fc.crossed_column([AGES, "town"], 50)]
DEEP = [AGE, fc.embedding_column(JOB, 4, max_norm=1.0), fc.indicator_column(TOWN)]
SHARED = [AGE, *fc.shared_embeddings([TOWN, BORN], 3)]
SEQUENCE = fc.sequence_categorical_column_with_vocabulary_list("words", WORDS.tolist())
COMBINED = {
    "linear_feature_columns": WIDE,
    "linear_optimizer": lambda: keras.optimizers.Ftrl(0.1),
    "dnn_feature_columns": DEEP,
    "dnn_hidden_units": [4],
}

MODELS = {
    "BaselineClassifier": (BaselineClassifier, CLASSES, {"n_classes": 3}),
    "BaselineEstimator": (BaselineEstimator, NUMBERS, {"head": PoissonRegressionHead()}),
    "BaselineRegressor": (
        BaselineRegressor,
        TWO_NUMBERS,
        {"label_dimension": 2, "weight_column": "weight"},
    ),
    "LinearClassifier": (
        LinearClassifier,
        NAMES,
        {"feature_columns": WIDE, "label_vocabulary": ["no", "yes"], "weight_column": "weight"},
    ),
    "LinearEstimator": (LinearEstimator, LABELS, {"head": MultiLabelHead(3), "feature_columns": WIDE}),
    "LinearRegressor": (LinearRegressor, NUMBERS, {"feature_columns": WIDE, "optimizer": "Adam"}),
    "DNNClassifier": (
        DNNClassifier,
        CLASSES,
        {"hidden_units": [4, 3], "feature_columns": DEEP, "n_classes": 3},
    ),
    "DNNEstimator": (
        DNNEstimator,
        NUMBERS / 5,
        {
            "head": LogisticRegressionHead(),
            "hidden_units": [4],
            "feature_columns": SHARED,
            "optimizer": "Adam",
        },
    ),
    "DNNRegressor": (
        DNNRegressor,
        TWO_NUMBERS,
        {"hidden_units": [4], "feature_columns": DEEP, "label_dimension": 2, "loss_reduction": "sum"},
    ),
    "DNNLinearCombinedClassifier": (DNNLinearCombinedClassifier, CLASSES > 0, COMBINED),
    "DNNLinearCombinedEstimator": (
        DNNLinearCombinedEstimator,
        NUMBERS,
        {"head": RegressionHead(weight_column="weight"), **COMBINED},
    ),
    "DNNLinearCombinedRegressor": (DNNLinearCombinedRegressor, NUMBERS, COMBINED),
    "RNNClassifier": (
        RNNClassifier,
        CLASSES,
        {
            "sequence_feature_columns": [fc.embedding_column(SEQUENCE, 3)],
            "context_feature_columns": DEEP,
            "units": [4],
            "cell_type": "gru",
            "n_classes": 3,
        },
    ),
    "RNNEstimator": (
        RNNEstimator,
        NUMBERS,
        {
            "head": RegressionHead(),
            "sequence_feature_columns": [fc.indicator_column(SEQUENCE)],
            "units": [3, 4],
            "cell_type": "lstm",
            "optimizer": "SGD",
        },
    ),
}
# Estimators of a kind differ in their heads alone.
OF_EACH_KIND = [
    "BaselineEstimator",
    "LinearClassifier",
    "DNNRegressor",
    "DNNLinearCombinedEstimator",
    "RNNClassifier",
]


def made(name, folder, **config):
    """The Estimator of a model."""
    kind, _, arguments = MODELS[name]
    return kind(model_dir=str(folder), config=RunConfig(tf_random_seed=1, **config), **arguments)


def batches(name, rows=BATCH):
    """The input without end, in batches of so many rows."""
    return Dataset.from_tensor_slices((X, MODELS[name][1])).repeat().batch(rows)


def values_of(estimator):
    return {name: estimator.get_variable_value(name) for name in estimator.get_variable_names()}


def trained(name, folder, input_fn=None, **config):
    """The losses of some steps, and the values of the variables after them."""
    seen, estimator = Losses(), made(name, folder, **config)
    estimator.train(input_fn or (lambda: batches(name)), hooks=[seen], steps=STEPS)
    return seen.losses, values_of(estimator)


def check_same(found, expected):
    """Check that losses and values are the same but for the order in which numbers were added."""
    np.testing.assert_allclose(found[0], expected[0], rtol=2e-5)
    assert found[1].keys() == expected[1].keys()
    for name, value in expected[1].items():
        np.testing.assert_allclose(found[1][name], value, rtol=1e-4, atol=2e-6, err_msg=name)
