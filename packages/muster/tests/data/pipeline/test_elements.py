"""batch, unbatch, filter and ignore_errors."""

from typing import Any

import numpy as np
import pytest
from dataset_model import read

from muster.data import Dataset


def test_batches() -> None:
    assert read(Dataset.range(7).batch(3)) == [[0, 1, 2], [3, 4, 5], [6]]
    assert read(Dataset.range(7).batch(3, drop_remainder=True)) == [[0, 1, 2], [3, 4, 5]]
    assert read(Dataset.range(2).batch(64)) == [[0, 1]]
    assert read(Dataset.range(8).batch(2).batch(2)) == [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]
    assert read(Dataset.range(3).repeat(2).batch(4)) == [[0, 1, 2, 0], [1, 2]]


@pytest.mark.parametrize("shuffled", [False, True])
def test_batches_of_arrays_lie_where_a_step_can_read_them_in_place(shuffled: bool) -> None:
    images = np.arange(1000 * 48, dtype=np.float32).reshape(1000, 48)
    dataset = Dataset.from_tensor_slices((images, np.arange(1000, dtype=np.int32)))
    if shuffled:
        dataset = dataset.shuffle(1000, seed=1)
    rows = []
    for batch, numbers in dataset.batch(64):
        assert batch.ctypes.data % 64 == numbers.ctypes.data % 64 == 0
        np.testing.assert_array_equal(batch, images[numbers])
        with pytest.raises(ValueError, match="read-only"):  # a step may still be reading it
            batch += 1
        rows += numbers.tolist()
    assert sorted(rows) == list(range(1000))
    assert (rows == list(range(1000))) is not shuffled


def test_batches_of_arrays_without_numbers_or_rows() -> None:
    """Text has no place on a device, and empty arrays have no place at all."""
    texts = Dataset.from_tensor_slices(np.array(["a", "bc"])).batch(2)
    assert [batch.tolist() for batch in texts] == [["a", "bc"]]
    nothing = Dataset.from_tensor_slices(np.zeros((3, 0), np.float32)).batch(2)
    assert [batch.shape for batch in nothing] == [(2, 0), (1, 0)]


def test_rebatch() -> None:
    numbers = Dataset.range(7).batch(3)
    assert read(numbers.rebatch(2)) == [[0, 1], [2, 3], [4, 5], [6]]
    assert read(numbers.rebatch([1, 4], drop_remainder=True)) == [[0], [1, 2, 3, 4], [5]]
    pairs = Dataset.from_tensor_slices({"x": np.arange(4), "y": np.eye(4)}).batch(3).rebatch(2, True)
    assert {name: spec.shape for name, spec in pairs.element_spec.items()} == {"x": (2,), "y": (2, 4)}
    assert [batch["y"].argmax(1).tolist() for batch in pairs] == [[0, 1], [2, 3]]
    with pytest.raises(ValueError, match="scalar or a vector. Received `batch_sizes` of rank 2"):
        numbers.rebatch([[2]])
    with pytest.raises(ValueError, match="at least 1, got 0"):
        numbers.rebatch([2, 0])


def test_unbatch() -> None:
    assert read(Dataset.range(7).batch(3).unbatch()) == list(range(7))
    pairs = Dataset.from_tensors((np.arange(3), np.arange(6).reshape(3, 2)))
    assert read(pairs.unbatch()) == [(0, [0, 1]), (1, [2, 3]), (2, [4, 5])]
    assert read(Dataset.range(7).batch(3).unbatch().batch(4)) == [[0, 1, 2, 3], [4, 5, 6]]


def test_ignore_errors(caplog: pytest.LogCaptureFixture) -> None:
    def inverse(number: Any) -> Any:
        if number in (0, 3):
            raise ValueError(f"no inverse of {number}")
        return np.float32(1 / number)

    numbers = Dataset.from_tensor_slices([1.0, 0.0, 2.0, 3.0, 4.0]).map(inverse)
    assert read(numbers.ignore_errors()) == [1, 0.5, 0.25]
    assert caplog.text.count("leaves out an element: no inverse of 0.0") == 1
    assert "no inverse of 3.0" not in caplog.text
    assert read(numbers.ignore_errors(log_warning=True).batch(2)) == [[1, 0.5], [0.25]]
    assert "no inverse of 3.0" in caplog.text
    assert read(numbers.ignore_errors().skip(1)) == [0.5, 0.25]
    assert Dataset.range(0).ignore_errors().cardinality() == 0
    assert numbers.ignore_errors().cardinality() == -2
    with pytest.raises(NameError):
        read(Dataset.from_tensor_slices(["a"]).map(lambda text: nothing).ignore_errors())  # noqa: F821


def test_filter() -> None:
    assert read(Dataset.range(10).filter(lambda x: x % 3 == 0)) == [0, 3, 6, 9]
    assert read(Dataset.range(10).filter(lambda x: 2 < x and x < 5).batch(2)) == [[3, 4]]
    words = Dataset.from_tensor_slices((["a", "bb", "ccc"], [1, 2, 3]))
    assert read(words.filter(lambda word, n: len(word) > 1)) == [("bb", 2), ("ccc", 3)]


def test_rebatch_joins_columns_by_their_keys() -> None:
    rows = [{"a": np.array([1]), "b": np.array([-1])}, {"b": np.array([-2]), "a": np.array([2])}]
    dataset = Dataset.from_loader(rows)
    assert read(dataset.rebatch(2)) == read(dataset.unbatch().batch(2)) == [{"a": [1, 2], "b": [-1, -2]}]
