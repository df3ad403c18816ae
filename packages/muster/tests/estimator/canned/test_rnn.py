"""Recurrent canned Estimators: numbers computed by hand, the steps of sequences, variables, and bad input."""

import numpy as np
import pytest

from muster._errors import DatasetError
from muster._keras import keras
from muster.checkpoint import write_checkpoint
from muster.data import Dataset, RaggedTensor, SparseTensor
from muster.distribute import MirroredStrategy
from muster.estimator import (
    BinaryClassHead,
    MultiClassHead,
    MultiHead,
    RegressionHead,
    RNNClassifier,
    RNNEstimator,
    RunConfig,
    SequentialHeadWrapper,
)
from muster.feature_column import (
    categorical_column_with_vocabulary_list,
    embedding_column,
    indicator_column,
    numeric_column,
    sequence_categorical_column_with_vocabulary_list,
    sequence_numeric_column,
)
from noted_losses import Losses

pytestmark = [
    pytest.mark.usefixtures("compiled_once"),
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),  # Keras' own
]

PRICE = sequence_numeric_column("price")
SEEDED = RunConfig(tf_random_seed=1)
# Two prices, then one: the first state is tanh([.1, -.2] * price + [.2, .5]), and so on.
PRICES = SparseTensor([[0, 0], [0, 1], [1, 0]], np.float32([10, 5, 2]), (2, 2))
WEIGHTS = {
    "rnn_model/rnn/simple_rnn_cell/kernel": [[0.1, -0.2]],
    "rnn_model/rnn/simple_rnn_cell/recurrent_kernel": [[0.2, -0.3], [0.3, -0.4]],
    "rnn_model/rnn/simple_rnn_cell/bias": [0.2, 0.5],
    "rnn_model/logits/kernel": [[-1.0], [1.0]],
    "rnn_model/logits/bias": [0.3],
}
STEP_LOGITS = [-1.4388, -0.6033, 0.0197]  # of the first sequence's two steps, and the second's one


def known(folder, **arguments):
    """A classifier with these weights."""
    values = {name: np.array(value, np.float32) for name, value in WEIGHTS.items()}
    seed = {"rnn_model/seed_generator/seed_generator_state": np.zeros(2, np.uint32)}
    write_checkpoint(folder, 7, values | seed | {"global_step": np.int32(7)}, {})
    return RNNClassifier([PRICE], units=[2], model_dir=str(folder), **arguments)


def once(features, labels=None):
    return lambda: Dataset.from_tensors(features if labels is None else (features, labels))


def cross_entropy(logits, labels):
    logits = np.array(logits)
    return np.log1p(np.exp(logits)) - logits * labels


@pytest.mark.slow
def test_logits_are_those_of_the_last_step_of_each_sequence(tmp_path):
    est = known(tmp_path)
    found = [each["logits"] for each in est.predict(once({"price": PRICES}))]
    np.testing.assert_allclose(found, [[-0.6033], [0.0197]], atol=1e-4)
    metrics = est.evaluate(once({"price": PRICES}, [[0], [1]]))
    assert metrics["loss"] == pytest.approx(cross_entropy([-0.6033, 0.0197], [0, 1]).mean(), abs=1e-4)
    assert (metrics["accuracy"], metrics["global_step"]) == (1, 7)


@pytest.mark.samples("labels0-options0")
@pytest.mark.parametrize(
    ("labels", "options"),
    [
        (np.array([[0, 1], [0, 1]]), {}),
        (np.array([[[0], [1]], [[0], [-5]]]), {}),  # the last one is of no step
        (SparseTensor([[0, 0], [0, 1], [1, 0]], np.array([0, 1, 0]), (2, 2)), {}),
        (RaggedTensor.from_rows([["no", "yes"], ["no"]]), {"label_vocabulary": ["no", "yes"]}),
        (np.array([["no", "yes"], ["no", ""]]), {"label_vocabulary": ["no", "yes"]}),
    ],
)
def test_steps_beyond_the_end_count_in_no_loss_and_no_metric(tmp_path, labels, options):
    est = known(tmp_path, return_sequences=True, **options)
    losses = cross_entropy(STEP_LOGITS, [0, 1, 0])
    metrics = est.evaluate(once({"price": PRICES}, labels))
    assert metrics["loss"] == pytest.approx(losses.mean(), abs=1e-4)
    assert metrics["average_loss"] == pytest.approx(losses.mean(), abs=1e-4)
    assert metrics["accuracy"] == pytest.approx(1 / 3)
    assert metrics["label/mean"] == pytest.approx(1 / 3)
    found = list(est.predict(once({"price": PRICES})))
    logits = np.stack([each["logits"] for each in found])
    np.testing.assert_allclose(logits.ravel(), [*STEP_LOGITS, STEP_LOGITS[-1]], atol=1e-4)
    assert [each["sequence_mask"].tolist() for each in found] == [[1, 1], [1, 0]]


@pytest.mark.slow
def test_weights_of_steps_and_a_mask_of_the_programs_own(tmp_path):
    est = known(
        tmp_path, return_sequences=True, weight_column="w", sequence_mask="there", loss_reduction="sum"
    )
    weights = np.float32([[1, 2], [3, 9]])
    losses = cross_entropy(STEP_LOGITS, [0, 1, 0])
    features = {"price": PRICES, "w": weights}
    metrics = est.evaluate(once(features, [[0, 1], [0, 0]]))
    assert metrics["loss"] == pytest.approx(losses @ [1, 2, 3], abs=1e-3)
    assert metrics["average_loss"] == pytest.approx(losses @ [1, 2, 3] / 6, abs=1e-4)
    first = features | {"there": np.array([[True, False], [True, False]])}
    metrics = est.evaluate(once(first, [[0, 1], [0, 0]]))
    assert metrics["loss"] == pytest.approx(losses @ [1, 0, 3], abs=1e-3)


@pytest.mark.slow
def test_labels_that_are_no_classes(tmp_path):
    est = RNNClassifier([PRICE], units=[2], return_sequences=True, model_dir=str(tmp_path))
    with pytest.raises(DatasetError, match="Given: 2"):
        est.train(once({"price": PRICES}, [[0, 1], [2, 0]]), steps=2)


@pytest.mark.slow
def test_optimizers_by_name_clip_gradients_to_norm_5(tmp_path):
    def values(steps):
        est = RNNClassifier(
            [PRICE],
            units=[2],
            weight_column="w",
            optimizer="SGD",
            model_dir=str(tmp_path / str(steps)),
            config=SEEDED,
        )
        small = PRICES.with_values(PRICES.values / 10)  # far from where tanh is flat
        features = {"price": small, "w": np.float32([1e7, 1e7])}
        return est.train(lambda: once(features, [[0], [0]])().repeat(), steps=steps)

    one, two = values(1), values(2)
    for name in WEIGHTS:
        moved = two.get_variable_value(name) - one.get_variable_value(name)
        assert np.linalg.norm(moved) == pytest.approx(0.05 * 5, rel=1e-4)


WORDS = ["a", "b", "c"]
RNG = np.random.default_rng(0)
TOKENS = [[WORDS[RNG.integers(3)] for _ in range(RNG.integers(1, 6))] for _ in range(128)]


def words():
    return sequence_categorical_column_with_vocabulary_list("words", WORDS)


def sentences(labels, batch_size=32, times=None, **others):
    rows = RaggedTensor.from_rows(TOKENS).to_sparse()
    data = Dataset.from_tensor_slices(({"words": rows, **others}, labels))
    return lambda: data.repeat(times).batch(batch_size)


@pytest.mark.samples("options3-names3")
@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"units": [4], "cell_type": "lstm"}, {"rnn/lstm_cell/kernel", "rnn/lstm_cell/bias"}),
        ({"units": 4, "cell_type": "gru"}, {"gru/gru_cell/kernel", "gru/gru_cell/recurrent_kernel"}),
        (
            {"units": [3, 4]},
            {
                "rnn/stacked_rnn_cells/simple_rnn_cell/kernel",
                "rnn/stacked_rnn_cells/simple_rnn_cell_1/recurrent_kernel",
            },
        ),
        (
            {"rnn_cell_fn": lambda: [keras.layers.GRUCell(3), keras.layers.LSTMCell(4, dropout=0.1)]},
            {"rnn/stacked_rnn_cells/gru_cell/kernel", "rnn/stacked_rnn_cells/lstm_cell/kernel"},
        ),
        ({"units": (4,), "cell_type": keras.layers.GRUCell}, {"rnn/gru_cell/bias"}),
    ],
)
def test_classifiers_learn_what_came_first(tmp_path, options, names):
    labels = np.array([WORDS.index(row[0]) for row in TOKENS])
    est = RNNClassifier(
        [embedding_column(words(), 3)],
        n_classes=3,
        model_dir=str(tmp_path),
        optimizer=lambda: keras.optimizers.Adam(0.05),
        config=SEEDED,
        **options,
    )
    metrics = est.train(sentences(labels), steps=40).evaluate(sentences(labels, times=1))
    assert metrics["accuracy"] > 0.9
    names = {f"rnn_model/{name}" for name in {*names, "logits/kernel", "logits/bias"}}
    found = set(est.get_variable_names())
    assert names | {"sequence_features/words_embedding/embedding_weights"} <= found


@pytest.mark.slow
def test_each_step_reads_the_context(tmp_path):
    """Classes say whether a step has the word that its example asks for."""
    asked = np.array([WORDS[RNG.integers(3)] for _ in TOKENS])
    rows = [[int(word == one) for word in row] for row, one in zip(TOKENS, asked, strict=True)]
    context = categorical_column_with_vocabulary_list("asked", WORDS)
    est = RNNClassifier(
        [indicator_column(words())],
        [embedding_column(context, 3), numeric_column("bias")],
        units=[12],
        return_sequences=True,
        model_dir=str(tmp_path),
        optimizer=lambda: keras.optimizers.Adam(0.05),
        config=SEEDED,
    )
    labels = RaggedTensor.from_rows(rows).to_sparse()
    others = {"asked": asked, "bias": np.ones(len(asked), "float32")}
    est.train(sentences(labels, **others), steps=80)
    assert est.evaluate(sentences(labels, times=1, **others))["accuracy"] > 0.95
    assert "dense_features/asked_embedding/embedding_weights" in est.get_variable_names()


@pytest.mark.slow
def test_replicas_and_other_heads(tmp_path):
    numbers = np.array([len(row) for row in TOKENS], "float32")

    def trained(folder, batch_size, strategy=None):
        config = RunConfig(tf_random_seed=1, train_distribute=strategy)
        est = RNNEstimator(
            RegressionHead(),
            [indicator_column(words())],
            units=[3],
            cell_type="lstm",
            model_dir=str(tmp_path / folder),
            optimizer="Adam",
            config=config,
        )
        seen = Losses()
        est.train(sentences(numbers, batch_size), hooks=[seen], steps=4)
        return est, seen.losses

    one, losses = trained("one", 32)
    two, of_two = trained("two", 16, MirroredStrategy(["/cpu:0", "/cpu:1"]))
    assert losses[-1] < losses[0]
    np.testing.assert_allclose(of_two, losses, rtol=1e-5)
    for name in one.get_variable_names():
        expected = one.get_variable_value(name)
        np.testing.assert_allclose(two.get_variable_value(name), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_sequences_that_are_all_empty(tmp_path):
    empty = SparseTensor(np.zeros((0, 2), int), np.zeros(0, np.float32), (2, 0))
    est = known(tmp_path, return_sequences=True)
    (whole,) = est.predict(once({"price": empty}), yield_single_examples=False)
    assert whole["sequence_mask"].tolist() == [[0], [0]]
    assert est.evaluate(once({"price": empty}, np.zeros((2, 0), int)))["loss"] == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RNNClassifier([], units=[2]), "feature_columns must not be empty"),
        (lambda: RNNClassifier([numeric_column("a")], units=[2]), "must be a SequenceDenseColumn"),
        (lambda: RNNClassifier([PRICE], [PRICE], units=[2]), "must be a DenseColumn"),
        (lambda: RNNClassifier([PRICE]), "units must be a positive integer"),
        (lambda: RNNClassifier([PRICE], units=[2, 0]), "units must be a positive integer"),
        (lambda: RNNClassifier([PRICE], units=[2], cell_type="grub"), "`cell_type` should be a class"),
        (
            lambda: RNNClassifier([PRICE], units=[2], rnn_cell_fn=lambda: None),
            "units and cell_type must not be specified when using rnn_cell_fn",
        ),
        (
            lambda: RNNEstimator(MultiClassHead(3), [PRICE], units=[2], return_sequences=True),
            "Provided head must be a `_SequentialHead` object",
        ),
        (
            lambda: SequentialHeadWrapper(MultiHead([BinaryClassHead(name="a")])),
            "`MultiHead` is not supported",
        ),
        (
            lambda: RNNClassifier([PRICE], units=[2], cell_type=lambda units: units).train(
                once({"price": PRICES}, [[0], [1]])
            ),
            "RNN cell should have a `call` and `state_size` method. Given: 2",
        ),
        (
            lambda: RNNClassifier([PRICE], units=[2], return_sequences=True).train(
                once({"price": PRICES}, np.zeros((2, 3), int))
            ),
            r"labels of sequences must have the shape .* \(2, 2, \.\.\.\), given \(2, 3\)",
        ),
    ],
)
def test_arguments_that_are_wrong(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_keys_that_are_no_text():
    with pytest.raises(TypeError, match="Column must a string"):
        RNNClassifier([PRICE], units=[2], return_sequences=True, weight_column=numeric_column("w"))
    with pytest.raises(TypeError, match="`sequence_mask` column must be a string"):
        SequentialHeadWrapper(BinaryClassHead(), 3)
