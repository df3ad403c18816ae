"""Sparse tensors, and datasets of them."""

import numpy as np
import pytest

from muster import DatasetError
from muster.data import Dataset, SparseTensor


def test_what_it_holds():
    tensor = SparseTensor([[1, 0], [0, 2]], ["b", "a"], [2, 3])
    assert tensor.shape == (2, 3)
    assert tensor.dtype.kind == "U"
    np.testing.assert_array_equal(tensor.indices, [[0, 2], [1, 0]])
    np.testing.assert_array_equal(tensor.to_dense(), [["", "", "a"], ["b", "", ""]])
    np.testing.assert_array_equal(SparseTensor([[0]], [3.5], [2]).to_dense(-1), [3.5, -1])
    assert SparseTensor([[1]], [b"x\0"], [2]).to_dense().tolist() == [b"", b"x\0"]


def test_none_and_three_axes():
    assert SparseTensor([], [], [2, 3]).indices.shape == (0, 2)
    tensor = SparseTensor([[1, 0, 1], [0, 1, 0], [0, 0, 1]], [1, 2, 3], [2, 2, 2])
    assert tensor.values.tolist() == [3, 2, 1]
    assert tensor.to_dense().tolist() == [[[0, 3], [2, 0]], [[0, 1], [0, 0]]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[0, 0]], [1, 2], [1, 1]), r"values of shape \(n,\).*got \(2,\), \(1, 2\) and \(2,\)"),
        (([[0]], [1], [1, 1]), "indices of shape"),
        (([[0, 3]], [1], [2, 3]), r"up to its dense_shape \[2, 3\]"),
        (([[-1, 0]], [1], [2, 3]), "indices from 0"),
    ],
)
def test_what_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        SparseTensor(*arguments)


def counted(count):
    return SparseTensor([[i] for i in range(count)], np.arange(count), [count])


@pytest.mark.parametrize("batched", [Dataset.batch, Dataset.padded_batch])
def test_a_batch_of_them(batched):
    dataset = batched(Dataset.from_tensor_slices([2, 0, 3]).map(counted), 2)
    first, second = list(dataset)
    assert first.shape == (2, 2)
    assert first.to_dense(-1).tolist() == [[0, 1], [-1, -1]]
    assert second.to_dense().tolist() == [[0, 1, 2]]


def test_those_that_differ_are_not_batched():
    def number_or_text(i):
        return SparseTensor([[0]], [int(i)] if i else ["a"], [1])

    with pytest.raises(DatasetError, match="sparse tensors of different ranks or types"):
        list(Dataset.from_tensor_slices([0, 1]).map(number_or_text).batch(2))
