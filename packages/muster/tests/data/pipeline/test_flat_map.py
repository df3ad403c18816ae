"""flat_map and interleave."""

import pytest
from dataset_model import read

from muster.data import Dataset


def test_interleave_is_in_tensorflows_order() -> None:
    # The example of TensorFlow's documentation.
    dataset = Dataset.range(1, 6).interleave(
        lambda x: Dataset.from_tensors(x).repeat(6), cycle_length=2, block_length=4
    )
    assert read(dataset) == [
        *[1, 1, 1, 1, 2, 2, 2, 2, 1, 1, 2, 2],
        *[3, 3, 3, 3, 4, 4, 4, 4, 3, 3, 4, 4],
        *[5, 5, 5, 5, 5, 5],
    ]


def test_shuffles_inside_are_exact_to_go_on_with() -> None:
    dataset = (
        Dataset.range(4).interleave(lambda x: Dataset.range(10).shuffle(10).map(lambda y: y), 2).repeat(2)
    )
    with dataset.iterator() as iterator:
        places = [iterator.position]
        whole = []
        for element in iterator:
            whole.append(int(element))
            places.append(iterator.position)
    for place in range(0, 81, 9):
        assert read(dataset.iterator(places[place])) == whole[place:]
    assert whole[:40] != whole[40:]
    assert sorted(whole) == sorted(8 * list(range(10)))


def test_seeds_given_to_an_iteration_settle_the_shuffles_inside() -> None:
    def elements() -> list[int]:
        dataset = Dataset.range(3).flat_map(lambda x: Dataset.range(20).shuffle(20))
        return read(dataset.iterator(seed=5))

    assert elements() == elements()


def test_only_what_is_read_is_loaded() -> None:
    calls: list[int] = []

    def record(x: int) -> int:
        calls.append(int(x))
        return x

    dataset = Dataset.range(3).flat_map(lambda x: Dataset.range(100).map(record)).skip(250)
    assert read(dataset.take(1)) == [50]
    assert calls == [50]


def test_batches_of_traced_maps_are_computed_at_once(caplog: pytest.LogCaptureFixture) -> None:
    shapes = []

    def double(x):
        shapes.append(x.shape)
        return 2 * x

    dataset = Dataset.range(4).interleave(lambda x: Dataset.range(100).map(lambda y: y), 4).map(double)
    assert read(dataset.batch(400))[0] == [2 * (i // 4) for i in range(400)]
    assert set(shapes) == {()}
    assert len(shapes) <= 4  # traced, and never called for an element


def test_functions_are_checked() -> None:
    with pytest.raises(TypeError, match="interleave needs a function, got 3"):
        Dataset.range(3).interleave(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="flat_map must return a Dataset, it returned 0"):
        read(Dataset.range(3).flat_map(lambda x: int(x)))  # type: ignore[arg-type, return-value]
    with pytest.raises(ValueError, match="cycle_length must be at least 1, got 0"):
        Dataset.range(3).interleave(Dataset.range, cycle_length=0)
    with pytest.raises(ValueError, match="block_length must be at least 1, got -2"):
        Dataset.range(3).interleave(Dataset.range, block_length=-2)


def test_datasets_without_elements() -> None:
    assert read(Dataset.range(5).interleave(lambda x: Dataset.range(x % 2), 3)) == [0, 0]
    assert read(Dataset.range(0).flat_map(Dataset.range)) == []
    assert Dataset.range(0).flat_map(Dataset.range).cardinality() == 0
    assert Dataset.range(2).flat_map(Dataset.range).repeat().cardinality() == -1
