"""cache."""

import numpy as np
import pytest
from dataset_model import read

from muster.data import Dataset


def test_cache_keeps_the_first_order() -> None:
    calls = []

    def slow(x: object) -> np.ndarray:
        calls.append(int(np.asarray(x)))
        return np.asarray(x)

    dataset = Dataset.range(5).map(slow).cache()
    assert read(dataset) == read(dataset) == list(range(5))
    assert calls == list(range(5))
    shuffled = Dataset.range(30).shuffle(30).cache()
    assert read(shuffled.repeat(2)) == read(shuffled) * 2
    vectorised = Dataset.range(3000).map(lambda x: x * 2).cache()
    assert read(vectorised) == read(vectorised) == list(range(0, 6000, 2))


def test_cache_of_text_beside_computed_numbers() -> None:
    words = Dataset.from_tensor_slices(["a", "bb"]).concatenate(Dataset.from_tensor_slices(["a long one"]))
    dataset = Dataset.zip((words, Dataset.range(3).map(lambda x: x * 2))).cache()
    assert read(dataset) == read(dataset) == [("a", 0), ("bb", 2), ("a long one", 4)]
    assert read(dataset.concatenate(dataset).batch(6))[0][0] == ["a", "bb", "a long one"] * 2


def test_cache_survives_partial_reading_and_two_readers() -> None:
    dataset = Dataset.from_generator(lambda: iter(range(6)), output_types=np.int64).cache()
    with dataset.iterator() as first, dataset.iterator() as second:
        assert [int(next(first)) for _ in range(3)] == [0, 1, 2]
        assert [int(next(second)) for _ in range(5)] == [0, 1, 2, 3, 4]
        assert [int(x) for x in first] == [3, 4, 5]
        assert [int(x) for x in second] == [5]
    assert read(dataset) == list(range(6))


def test_cached_elements_cannot_be_changed() -> None:
    dataset = Dataset.from_generator(lambda: iter([[1, 2]]), output_types=np.int64).cache()
    with pytest.raises(ValueError, match="read-only"):
        next(iter(dataset))[0] = 9
    slices = Dataset.from_tensor_slices(np.zeros((2, 2))).cache()
    next(iter(slices))[:] = 1
    assert read(slices) == [[0, 0], [0, 0]]


def test_cache_of_an_endless_dataset_computes_what_is_read() -> None:
    assert read(Dataset.range(3).map(lambda x: x + 1).repeat().cache().take(5)) == [1, 2, 3, 1, 2]
