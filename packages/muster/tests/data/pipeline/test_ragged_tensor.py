"""Ragged tensors, and datasets of them and of sparse ones."""

import numpy as np
import pytest

from muster.data import Dataset, RaggedTensor, SparseTensor, TensorSpec

WORDS = RaggedTensor.from_rows([["a", "bc"], [], ["d"]])


def test_what_it_holds():
    assert WORDS.shape == (3, None)
    assert WORDS.row_lengths().tolist() == [2, 0, 1]
    assert WORDS.lists() == [["a", "bc"], [], ["d"]]
    assert WORDS.to_tensor().tolist() == [["a", "bc"], ["", ""], ["d", ""]]
    sparse = WORDS.to_sparse()
    assert sparse.indices.tolist() == [[0, 0], [0, 1], [2, 0]]
    assert sparse.shape == (3, 2)
    assert RaggedTensor.from_rows([[0.5], [1.5, 2.5]]).dtype == np.float32
    assert RaggedTensor.from_rows([[b"x\0"]]).lists() == [[b"x\0"]]
    assert RaggedTensor.from_row_splits([1, 2, 3], [0, 3, 3]).to_list() == [[1, 2, 3], []]
    assert RaggedTensor.from_rows([]).to_list() == []


@pytest.mark.parametrize("splits", [[], [1, 2], [0, 1], [0, 2, 1, 2], [[0, 2]]])
def test_what_is_refused(splits):
    with pytest.raises(ValueError, match="row_splits of a RaggedTensor rise from 0 to the number of values"):
        RaggedTensor([1, 2], splits)


def test_rows_that_are_padded():
    dataset = Dataset.from_tensor_slices((WORDS, [1, 2, 3]))
    assert dataset.element_spec[0] == TensorSpec((None,), str)
    first, second = list(dataset.padded_batch(2))
    assert first[0].tolist() == [["a", "bc"], ["", ""]]
    assert second[0].tolist() == [["d"]]
    assert second[1].tolist() == [3]
    (together, _), _ = dataset.batch(2)
    assert together.lists() == [["a", "bc"], []]


def test_rows_of_sparse_tensors_are_batched():
    sparse = SparseTensor([[0, 1], [2, 0], [2, 2]], [1, 2, 3], (4, 3))
    dataset = Dataset.from_tensor_slices({"s": sparse, "n": [1, 2, 3, 4]})
    assert [each["s"].to_dense().tolist() for each in dataset] == sparse.to_dense().tolist()
    first, second = list(dataset.batch(3))
    assert first["s"].to_dense().tolist() == sparse.to_dense().tolist()[:3]
    assert second["s"].to_dense().tolist() == [[0, 0, 0]]
    assert second["n"].tolist() == [4]
    shuffled = list(dataset.shuffle(4, seed=1).repeat(2).batch(4))
    assert sorted(shuffled[1]["s"].to_dense().tolist()) == sorted(sparse.to_dense().tolist())


def test_none():
    assert SparseTensor([], [], (0, 3)).rows() == []
    assert list(Dataset.from_tensor_slices(SparseTensor([], [], (0, 3))).batch(2)) == []


def test_rows_by_number() -> None:
    ragged = RaggedTensor.from_rows([[1, 2], [], [3]])
    assert len(ragged) == 3
    assert ragged[0].tolist() == [1, 2]
    assert ragged[-1].tolist() == [3]
    assert ragged[0, 1] == 2
    assert ragged[1:].to_list() == [[], [3]]
    assert ragged[[2, 0]].to_list() == [[3], [1, 2]]
    assert [row.tolist() for row in ragged] == ragged.to_list()
    assert ragged.flat_values.tolist() == [1, 2, 3]
