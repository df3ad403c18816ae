"""``tf.nn``."""

import jax
import numpy as np
import pytest

import muster_tensorflow as tf
from muster._keras import keras
from muster.distribute import ShardedVariable

X = np.array([[1.5, -2.0, 0.25], [4.0, 0.5, -1.0]], np.float32)


def test_cross_entropies_agree_with_each_other_and_with_numpy() -> None:
    labels = np.array([2, 0])
    probabilities = np.exp(X) / np.exp(X).sum(1, keepdims=True)
    expected = -np.log(probabilities[[0, 1], labels])
    sparse = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, X)
    dense = tf.nn.softmax_cross_entropy_with_logits(tf.one_hot(labels, 3), X)
    np.testing.assert_allclose(sparse, expected, rtol=1e-5)
    np.testing.assert_allclose(dense, expected, rtol=1e-5)
    assert np.isnan(jax.jit(tf.nn.sparse_softmax_cross_entropy_with_logits)(np.array([3, -1]), X)).all()
    z = np.float32([[0, 1, 1], [1, 0, 0]])
    sigmoid = 1 / (1 + np.exp(-X))
    np.testing.assert_allclose(
        tf.nn.sigmoid_cross_entropy_with_logits(z, X),
        -(z * np.log(sigmoid) + (1 - z) * np.log(1 - sigmoid)),
        rtol=1e-5,
    )


RAGGED = np.array([[2, 0, -1], [1, -1, -1], [-1, -1, -1], [3, 3, 1]], np.int32)
WEIGHTS = np.array([[0.5, -2.0, 9.0], [3.0, 9.0, 9.0], [9.0, 9.0, 9.0], [1.0, 2.0, 4.0]], np.float32)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn", None])
@pytest.mark.parametrize("max_norm", [None, 1.5])
def test_rows_of_ragged_ids_are_combined(
    combiner: str | None, weighted: bool, max_norm: float | None
) -> None:
    table = np.arange(8, dtype=np.float32).reshape(4, 2) - 3
    weights = WEIGHTS if weighted else None
    shards = ShardedVariable([keras.Variable(table[:1]), keras.Variable(table[1:])])
    rows = (
        table
        if max_norm is None
        else table * np.minimum(1, max_norm / np.linalg.norm(table, axis=1))[:, None]
    )
    expected = np.zeros((4, 2), np.float32)
    for example, ids in enumerate(RAGGED):
        there = ids >= 0
        w = WEIGHTS[example][there] if weighted else np.ones(there.sum())
        if there.any():
            divisor = {"sum": 1, "sqrtn": np.sqrt((w * w).sum())}.get(combiner or "mean", w.sum())
            expected[example] = (rows[ids[there]] * w[:, None]).sum(0) / divisor
    for params in (table, shards):
        found = tf.nn.embedding_lookup_sparse(params, RAGGED, weights, combiner=combiner, max_norm=max_norm)
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_another_combiner_is_refused() -> None:
    with pytest.raises(ValueError, match="'mean', 'sqrtn' or 'sum', got 'max'"):
        tf.nn.embedding_lookup_sparse(X, RAGGED, None, combiner="max")


def test_in_top_k_counts_ties_for_the_target() -> None:
    scores = np.float32([[1, 3, 3], [2, 1, 0]])
    assert tf.nn.in_top_k([2, 2], scores, 1).tolist() == [True, False]
    assert tf.nn.top_k(scores, 2)[1].tolist() == [[1, 2], [0, 1]]


def test_ids_of_sparse_and_ragged_tensors() -> None:
    table = tf.constant([[0.0, 0.0], [1.0, 10.0], [2.0, 20.0], [3.0, 30.0]])
    at = [[0, 0], [0, 1], [2, 3]]
    ids = tf.SparseTensor(at, [1, 2, 3], [3, 4])
    weights = tf.SparseTensor(at, [1.0, 3.0, 2.0], [3, 4])
    mean = [[1.75, 17.5], [0, 0], [3, 30]]
    assert tf.nn.embedding_lookup_sparse(table, ids, weights).tolist() == mean
    ragged = tf.ragged.constant([[1, 2], [], [3]])
    assert tf.nn.embedding_lookup_sparse(table, ragged, None, "sum").tolist() == [[3, 30], [0, 0], [3, 30]]


def test_ids_that_are_invalid_are_left_out() -> None:
    table = tf.constant([[5.0], [1.0], [2.0], [3.0]])
    at = [[0, 0], [0, 1], [1, 0], [2, 0]]
    ids = tf.SparseTensor(at, [1, -1, -2, 3], [4, 2])
    weights = tf.SparseTensor(at, [1.0, 1.0, 1.0, 0.0], [4, 2])
    safe = tf.nn.safe_embedding_lookup_sparse
    assert safe(table, ids).tolist() == [[1], [0], [3], [0]]
    assert safe(table, ids, default_id=0).tolist() == [[1], [5], [3], [5]]
    assert safe(table, ids, weights, default_id=2).tolist() == [[1], [2], [2], [2]]
    assert safe(table, ids, weights, combiner="sum").tolist() == [[1], [0], [0], [0]]
    assert tf.compat.v1.nn.safe_embedding_lookup_sparse([table], ids).tolist() == [[1], [0], [3], [0]]


def test_class_probabilities_of_one_example_serve_all() -> None:
    logits = tf.constant([[1.0, 2.0, 3.0], [0.0, 0.0, 1.0]])
    found = tf.nn.softmax_cross_entropy_with_logits([0.0, 0.0, 1.0], logits)
    np.testing.assert_allclose(found, [0.407606, 0.551445], rtol=1e-5)
    assert tf.nn.softmax_cross_entropy_with_logits([0.0, 0.0, 1.0], logits[0]).shape == ()
