"""Batches that replicas and workers take together are joined, though their rows differ in length."""

import logging

import numpy as np
import pytest

from muster import DatasetError
from muster.data import SparseTensor
from muster.distribute.engine._join import _warn_once, joined
from muster.program import SparseRows


def test_equal_rows_are_concatenated(caplog):
    _warn_once.cache_clear()
    made = joined(
        [{"x": np.ones((2, 3)), "rate": np.float32(1)}, {"x": np.zeros((1, 3)), "rate": np.float32(2)}]
    )
    assert made["x"].tolist() == [[1, 1, 1], [1, 1, 1], [0, 0, 0]]
    assert made["rate"] == 1
    assert not caplog.records


def test_shorter_rows_are_filled_up_and_that_is_told_once(caplog):
    _warn_once.cache_clear()
    with caplog.at_level(logging.WARNING, logger="muster"):
        for _ in range(2):
            words, lengths = joined(
                [
                    (np.array([[1, 2, 3]]), np.array([3])),
                    (np.array([[4], [5]]), np.array([1, 1])),
                ]
            )
    assert words.tolist() == [[1, 2, 3], [4, 0, 0], [5, 0, 0]]
    assert lengths.tolist() == [3, 1, 1]
    assert ["filled up with zeros" in each.message for each in caplog.records] == [True]


def test_sparse_matrices_have_the_columns_of_the_widest():
    first = SparseRows.of(SparseTensor([[0, 0], [1, 1]], np.array([1.0, 2.0]), [2, 2]))
    second = SparseRows.of(SparseTensor([[0, 0], [0, 2], [0, 3]], np.array([3.0, 4.0, 5.0]), [1, 4]))
    made = joined([first, second])
    assert np.asarray(made.to_dense()).tolist() == [[1, 0, 0, 0], [0, 2, 0, 0], [3, 0, 4, 5]]


def test_rows_of_other_kinds_are_refused():
    with pytest.raises(DatasetError, match=r"shapes of their rows: \[3\] and \[\]"):
        joined([np.ones((2, 3)), np.ones(2)])
