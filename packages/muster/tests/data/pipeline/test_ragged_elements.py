"""Datasets of the rows of ragged and sparse tensors; elements are those of TensorFlow's documentation."""

import numpy as np
import pytest

from muster.data import (
    Dataset,
    Example,
    Feature,
    Features,
    Int64List,
    RaggedFeature,
    RaggedTensor,
    RaggedTensorSpec,
    SparseTensor,
    TensorSpec,
    parse_example,
    parse_single_example,
)

ROWS = [[7], [], [1, 3], [3, 5, 2]]
RAGGED = RaggedTensor.from_rows(ROWS, np.int64)


def lists(dataset: Dataset) -> list[object]:
    return [each.lists() if isinstance(each, RaggedTensor) else np.asarray(each).tolist() for each in dataset]


def test_rows_become_ragged_in_batches_and_rows_again() -> None:
    dataset = Dataset.from_tensor_slices(RAGGED)
    assert lists(dataset) == ROWS
    batches = dataset.batch(2)
    assert lists(batches) == [ROWS[:2], ROWS[2:]]
    assert batches.element_spec == TensorSpec((None, None), np.int64)
    assert isinstance(batches.element_spec, RaggedTensorSpec)
    assert lists(batches.unbatch()) == ROWS
    assert lists(batches.batch(2)) == [[ROWS[:2], ROWS[2:]]]
    assert lists(dataset.shuffle(4, seed=1).take(4).batch(4).map(lambda x: x.row_lengths().sum())) == [6]


def test_rows_of_one_length_are_ragged_too() -> None:
    (batch,) = Dataset.from_tensor_slices(RaggedTensor.from_rows([[1, 2], [3, 4]])).batch(2)
    assert isinstance(batch, RaggedTensor)


def test_other_components_are_arrays() -> None:
    dataset = Dataset.from_tensor_slices({"x": RAGGED, "y": np.arange(4)}).batch(4)
    (batch,) = dataset
    assert (batch["x"].lists(), batch["y"].tolist()) == (ROWS, [0, 1, 2, 3])
    assert not isinstance(dataset.element_spec["y"], RaggedTensorSpec)


def test_rows_of_rows() -> None:
    nested = RaggedTensor(RAGGED, [0, 3, 4])
    dataset = Dataset.from_tensor_slices(nested)
    assert lists(dataset) == [ROWS[:3], ROWS[3:]]
    assert lists(dataset.batch(2)) == [[ROWS[:3], ROWS[3:]]]


def test_what_a_function_returns_is_batched() -> None:
    dataset = Dataset.range(3).map(lambda n: RaggedTensor.from_row_lengths(np.arange(n), [n]))
    assert lists(dataset.batch(3)) == [[[[]], [[0]], [[0, 1]]]]


def test_sparse_batches_become_rows() -> None:
    sparse = SparseTensor([[0, 1], [2, 0]], [5, 6], [3, 2])
    rows = list(Dataset.from_tensor_slices(sparse).batch(2).unbatch())
    assert [row.to_dense().tolist() for row in rows] == [[0, 5], [0, 0], [6, 0]]


def test_features_of_examples() -> None:
    written = [
        Example(
            features=Features(feature={"n": Feature(int64_list=Int64List(value=row))})
        ).SerializeToString()
        for row in ROWS
    ]
    parsed = parse_example(written, {"n": RaggedFeature(np.int64), "m": RaggedFeature(np.int64, "n")})
    assert parsed["n"].lists() == parsed["m"].lists() == ROWS
    assert parse_single_example(written[3], {"n": RaggedFeature(np.int64)})["n"].tolist() == ROWS[3]
    with pytest.raises(ValueError, match="no partitions"):
        RaggedFeature(np.int64, partitions=[1])
