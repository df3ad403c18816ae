"""zip, concatenate and enumerate."""

import numpy as np
from dataset_model import plain, read

from muster.data import INFINITE_CARDINALITY, Dataset, RaggedTensor, RaggedTensorSpec


def test_zip_concatenate_enumerate() -> None:
    letters = Dataset.from_tensor_slices(["a", "b", "c"])
    assert read(Dataset.zip((Dataset.range(5), letters))) == [(0, "a"), (1, "b"), (2, "c")]
    assert read(Dataset.zip(Dataset.range(2), letters)) == [(0, "a"), (1, "b")]
    nested = Dataset.zip({"n": Dataset.range(2), "p": (letters, Dataset.range(9).batch(2))})
    assert read(nested) == [{"n": 0, "p": ("a", [0, 1])}, {"n": 1, "p": ("b", [2, 3])}]
    assert read(letters.enumerate(start=5)) == [(5, "a"), (6, "b"), (7, "c")]
    assert read(Dataset.range(2).concatenate(Dataset.range(5, 7))) == [0, 1, 5, 6]
    assert read(letters.concatenate(Dataset.from_tensor_slices(["long"])).batch(9)) == [
        ["a", "b", "c", "long"]
    ]
    assert read(Dataset.range(3).batch(2).concatenate(Dataset.range(1).batch(1))) == [[0, 1], [2], [0]]
    pairs = Dataset.zip((Dataset.range(3), Dataset.range(3, 6)))
    both = pairs.concatenate(Dataset.from_tensor_slices((np.arange(2), np.arange(2))))
    assert read(both.shuffle(9, seed=1).batch(9))[0][0] != [0, 1, 2, 0, 1]
    assert sorted(read(both.shuffle(9, seed=1))) == [(0, 0), (0, 3), (1, 1), (1, 4), (2, 5)]


def test_numbers_may_begin_below_zero() -> None:
    assert plain(list(Dataset.range(3).enumerate(-1))) == [(-1, 0), (0, 1), (1, 2)]


def test_numbers_of_an_endless_dataset_have_no_end() -> None:
    endless = Dataset.range(3).repeat().enumerate()
    assert endless.cardinality() == INFINITE_CARDINALITY
    assert read(endless.take(4)) == [(0, 0), (1, 1), (2, 2), (3, 0)]
    assert read(endless.cache().take(2)) == [(0, 0), (1, 1)]
    assert read(endless.skip(5).take(2)) == [(5, 2), (6, 0)]
    assert Dataset.range(3).enumerate().cardinality() == 3


def test_keys_of_dicts_may_come_in_any_order() -> None:
    first = Dataset.from_tensor_slices({"a": [1, 2], "b": [-1, -2]})
    second = Dataset.from_tensor_slices({"b": [-3], "a": [3]})
    assert read(first.concatenate(second).batch(3)) == [{"a": [1, 2, 3], "b": [-1, -2, -3]}]


def test_ragged_rows_are_concatenated() -> None:
    rows = [Dataset.from_tensor_slices(RaggedTensor.from_rows(each)) for each in ([[1], [2, 3]], [[4, 5, 6]])]
    both = rows[0].concatenate(rows[1])
    assert isinstance(both.element_spec, RaggedTensorSpec)
    (batch,) = both.batch(3)
    assert [row.tolist() for row in batch.rows()] == [[1], [2, 3], [4, 5, 6]]
