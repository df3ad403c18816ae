"""shuffle."""

import random
from collections import Counter

import pytest
from dataset_model import read

from muster.data import Dataset


def test_shuffle_whole_and_windowed() -> None:
    assert sorted(read(Dataset.range(100).shuffle(100, seed=1))) == list(range(100))
    assert read(Dataset.range(100).shuffle(1, seed=1)) == list(range(100))
    assert read(Dataset.range(9).shuffle(True)) == list(range(9))
    order = read(Dataset.range(5000).shuffle(7, seed=1))
    assert sorted(order) == list(range(5000))
    # Element i cannot leave before the buffer has reached it.
    assert all(value < place + 7 for place, value in enumerate(order))
    assert order != list(range(5000))


@pytest.mark.samples("2")
@pytest.mark.parametrize("size", [2, 3, 4])
def test_shuffle_is_uniform(size: int) -> None:
    """Chi-squared over all orders that the buffer allows, against their exact probabilities."""
    counts = Counter(tuple(read(Dataset.range(4).shuffle(size, seed))) for seed in range(2400))
    expected: dict[tuple[int, ...], float] = {}

    def walk(buffer: tuple[int, ...], rest: tuple[int, ...], out: tuple[int, ...], chance: float) -> None:
        if not buffer:
            expected[out] = expected.get(out, 0) + chance
        for i, value in enumerate(buffer):
            left = buffer[:i] + rest[:1] + buffer[i + 1 :]
            walk(left, rest[1:], (*out, value), chance / len(buffer))

    walk(tuple(range(size)), tuple(range(size, 4)), (), 1.0)
    assert counts.keys() <= expected.keys()
    statistic = sum((counts[o] - 2400 * p) ** 2 / (2400 * p) for o, p in expected.items())
    assert statistic < {2: 25, 3: 40, 4: 55}[size]  # 7, 17, 23 degrees of freedom, p < 0.001


def test_shuffle_order_depends_on_seed_iteration_and_epoch_alone() -> None:
    def make(**options: object) -> Dataset:
        return Dataset.range(50).shuffle(50, seed=3, **options)  # type: ignore[arg-type]

    first, again = make(), make()
    passes = [read(first), read(first)]
    assert passes[0] != passes[1]
    assert passes == [read(again), read(again)]
    fixed = make(reshuffle_each_iteration=False)
    assert read(fixed) == read(fixed)
    assert read(fixed.repeat(2)) == read(fixed) * 2
    epochs = read(make().repeat(2))
    assert epochs[:50] != epochs[50:]
    assert sorted(epochs[:50]) == sorted(epochs[50:]) == list(range(50))
    assert read(make().take(5)) == read(make())[:5]
    assert read(Dataset.range(50).shuffle(50, seed=4)) != passes[0]
    unseeded = Dataset.range(50).shuffle(50)
    assert read(unseeded) != read(Dataset.range(50).shuffle(50))
    assert read(Dataset.range(9).shuffle(9, reshuffle_each_iteration=None)) is not None


def test_derived_datasets_reshuffle_too() -> None:
    shuffled = Dataset.range(50).shuffle(50, seed=1)
    assert read(shuffled.take(50)) != read(shuffled.take(50))


def test_equal_seeds_keep_pairs_together() -> None:
    images, labels = Dataset.range(20).shuffle(8, seed=2), Dataset.range(100, 120).shuffle(8, seed=2)
    assert all(b - a == 100 for a, b in read(Dataset.zip((images, labels))))


def test_the_seed_of_python_fixes_shuffles_that_have_none() -> None:
    def order() -> list[int]:
        random.seed(3)
        return read(Dataset.range(50).shuffle(50))

    before = random.getstate()
    try:
        assert order() == order()
        assert read(Dataset.range(50).shuffle(50)) != read(Dataset.range(50).shuffle(50))
    finally:
        random.setstate(before)
