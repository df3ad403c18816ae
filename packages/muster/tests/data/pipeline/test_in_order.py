"""window, group_by_window, scan, sample_from_datasets and others whose elements depend on those before."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from dataset_model import read

import muster.data
from muster import DatasetError
from muster.data import INFINITE_CARDINALITY, UNKNOWN_CARDINALITY, Dataset, TensorSpec


def _lists(windows: Dataset) -> list[list[int]]:
    return [[int(element) for element in window] for window in windows]


def _of_lengths(*lengths: int) -> Dataset:
    return Dataset.from_generator(
        lambda: ([length] * length for length in lengths), output_signature=TensorSpec([None], np.int32)
    )


def test_windows_are_tensorflows() -> None:
    # The examples of TensorFlow's documentation.
    assert _lists(Dataset.range(7).window(3)) == [[0, 1, 2], [3, 4, 5], [6]]
    assert _lists(Dataset.range(7).window(3, drop_remainder=True)) == [[0, 1, 2], [3, 4, 5]]
    shifted = Dataset.range(7).window(3, shift=1, drop_remainder=True)
    assert _lists(shifted) == [[0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5], [4, 5, 6]]
    assert _lists(Dataset.range(7).window(3, 1, 2, True)) == [[0, 2, 4], [1, 3, 5], [2, 4, 6]]
    assert _lists(Dataset.range(7).window(2, shift=5)) == [[0, 1], [5, 6]]


@pytest.mark.parametrize("arguments", [(3,), (3, 1), (3, 5), (2, 1, 3), (4, 2, 2), (9, 1)])
@pytest.mark.parametrize("drop", [False, True])
def test_the_number_of_windows_is_known(arguments: tuple[int, ...], drop: bool) -> None:
    for size in range(12):
        windows = Dataset.range(size).window(*arguments, drop_remainder=drop)
        assert len(windows) == len(_lists(windows))
    assert Dataset.range(3).repeat().window(*arguments).cardinality() == INFINITE_CARDINALITY


def test_windows_of_a_structure_are_structures_of_datasets() -> None:
    data = Dataset.from_tensor_slices({"x": np.arange(6), "y": (np.arange(6) * 10, ["a"] * 6)})
    first = next(iter(data.window(4)))
    assert read(first["x"]) == [0, 1, 2, 3]
    assert read(first["y"][0].skip(1)) == [10, 20, 30]
    assert first["y"][0].element_spec == TensorSpec((), np.int64)
    pairs = Dataset.from_tensor_slices((np.arange(6), np.arange(6) * 10)).window(3)
    joined = pairs.flat_map(lambda x, y: Dataset.zip((x.batch(3), y.batch(3))))
    assert [(x.tolist(), y.tolist()) for x, y in joined][1] == ([3, 4, 5], [30, 40, 50])


def test_windows_make_time_series() -> None:
    windows = Dataset.range(20).window(5, shift=1, drop_remainder=True).flat_map(lambda each: each.batch(5))
    inputs, label = next(iter(windows.map(lambda rows: (rows[:-1], rows[-1])).batch(2)))
    assert inputs.tolist() == [[0, 1, 2, 3], [1, 2, 3, 4]]
    assert label.tolist() == [4, 5]


@pytest.mark.parametrize("wrong", [{"size": 0}, {"size": 1, "shift": 0}, {"size": 1, "stride": -1}])
def test_sizes_of_windows_are_positive(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be at least 1"):
        Dataset.range(3).window(**wrong)


def test_take_while_ends_at_the_first_that_fails() -> None:
    assert read(Dataset.range(10).map(lambda x: x % 6).take_while(lambda x: x < 4)) == [0, 1, 2, 3]
    pairs = Dataset.zip(Dataset.range(5), Dataset.range(9))
    assert len(list(pairs.take_while(lambda x, y: x + y < 6))) == 3

    def until_three() -> Any:
        yield from range(3)
        raise AssertionError("read too far")

    numbers = Dataset.from_generator(until_three, output_signature=TensorSpec((), np.int32))
    assert read(numbers.take_while(lambda x: x < 2)) == [0, 1]


def test_scan_hands_a_state_on() -> None:
    sums = Dataset.range(5).scan(np.int64(0), lambda state, x: (state + x, state))
    assert read(sums) == [0, 0, 1, 3, 6]
    assert len(sums) == 5
    assert sums.element_spec.dtype == np.int64


def test_reduce_is_what_is_left() -> None:
    assert Dataset.range(5).reduce(np.int64(0), lambda state, x: state + x) == 10
    pairs = Dataset.from_tensor_slices((np.arange(4), np.arange(4) * 10))
    # The items of an element are not spread, unlike those of map.
    total, count = pairs.reduce((0, 0), lambda state, pair: (state[0] + pair[1], state[1] + 1))
    assert (total, count) == (60, 4)


def test_unique_keeps_the_first_of_equals() -> None:
    assert read(Dataset.from_tensor_slices([1, 37, 2, 37, 2, 1]).unique()) == [1, 37, 2]
    assert read(Dataset.from_tensor_slices(["a", "b", "a"]).unique()) == ["a", "b"]
    pairs = Dataset.from_tensor_slices((np.array([0, 0, 1, 0]), np.array([1, 2, 1, 1]))).unique()
    assert [(int(a), int(b)) for a, b in pairs] == [(0, 1), (0, 2), (1, 1)]


def test_group_by_window_is_in_tensorflows_order() -> None:
    def batches(size: int) -> list[list[int]]:
        grouped = Dataset.range(10).group_by_window(
            lambda x: x % 2, lambda key, window: window.batch(size), window_size=5
        )
        return [batch.tolist() for batch in grouped]

    # The example of TensorFlow's documentation.
    assert batches(5) == [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]]
    assert batches(3) == [[0, 2, 4], [6, 8], [1, 3, 5], [7, 9]]


def test_groups_that_are_left_come_by_their_keys() -> None:
    grouped = Dataset.range(7).group_by_window(
        lambda x: -(x % 3),
        lambda key, window: window.batch(9).map(lambda rows: (key, rows)),
        window_size_func=lambda key: 3 - key,
    )
    assert [(int(key), rows.tolist()) for key, rows in grouped] == [
        (0, [0, 3, 6]),
        (-2, [2, 5]),
        (-1, [1, 4]),
    ]


def test_group_by_window_needs_one_size() -> None:
    for sizes in ({}, {"window_size": 2, "window_size_func": lambda key: 2}):
        with pytest.raises(ValueError, match="window_size or window_size_func, one of them"):
            Dataset.range(3).group_by_window(lambda x: x, lambda key, window: window, **sizes)  # type: ignore[arg-type]
    grouped = Dataset.range(3).group_by_window(lambda x: 0, lambda key, window: 5, window_size=2)
    with pytest.raises(TypeError, match="The function of group_by_window must return a Dataset"):
        list(grouped)


def test_buckets_hold_elements_of_about_one_length() -> None:
    data = _of_lengths(1, 5, 2, 7, 3, 4)
    batches = data.bucket_by_sequence_length(lambda row: np.int32([len(row)]), [3, 5], [2, 2, 2])
    assert [batch.shape for batch in batches] == [(2, 2), (2, 7), (2, 4)]
    bounded = data.filter(lambda row: len(row) < 5).bucket_by_sequence_length(
        lambda row: len(row), [3, 5], [2, 2, 2], pad_to_bucket_boundary=True
    )
    assert [batch.tolist() for batch in bounded] == [[[1, 0], [2, 2]], [[3, 3, 3, 0], [4, 4, 4, 4]]]
    with pytest.raises(DatasetError, match="as long as the last boundary, 5, or longer"):
        list(data.bucket_by_sequence_length(len, [3, 5], [2, 2, 2], pad_to_bucket_boundary=True))
    with pytest.raises(ValueError, match="got 1 sizes and 2 boundaries"):
        data.bucket_by_sequence_length(len, [3, 5], [2])


def test_buckets_of_one_length_need_no_padding() -> None:
    batches = _of_lengths(2, 3, 2, 3, 2).bucket_by_sequence_length(
        len, [3], [2, 2], no_padding=True, drop_remainder=True
    )
    assert [batch.tolist() for batch in batches] == [[[2, 2], [2, 2]], [[3, 3, 3], [3, 3, 3]]]


def test_buckets_pad_structures_with_values() -> None:
    data = _of_lengths(1, 3).map(lambda row: {"row": row, "label": row[0]})
    (batch,) = data.bucket_by_sequence_length(
        lambda each: len(each["row"]),
        [9],
        [2, 2],
        padded_shapes={"row": [None], "label": []},
        padding_values={"row": -1, "label": 0},
        pad_to_bucket_boundary=True,
    )
    assert batch["row"].tolist() == [[1] + 7 * [-1], [3, 3, 3] + 5 * [-1]]
    assert batch["label"].tolist() == [1, 3]


def test_samples_have_every_element_and_follow_the_weights() -> None:
    low, high = Dataset.range(1000), Dataset.range(1000).map(lambda x: x + 1000)
    sampled = read(Dataset.sample_from_datasets([low, high], [0.9, 0.1], seed=1))
    assert sorted(sampled) == list(range(2000))
    assert 850 < sum(x < 1000 for x in sampled[:1000]) < 950
    ended = read(Dataset.sample_from_datasets([low, high], [0.5, 0.5], 1, stop_on_empty_dataset=True))
    assert sorted(ended) != list(range(2000))
    assert read(Dataset.sample_from_datasets([low.take(3), high], [1.0, 0.0], seed=3)) == [0, 1, 2]


def test_seeds_fix_samples_and_random_numbers() -> None:
    def samples(seed: int | None) -> list[int]:
        return read(Dataset.sample_from_datasets([Dataset.range(50), Dataset.range(50)], seed=seed))

    assert samples(4) == samples(4) != samples(5)
    numbers = Dataset.random(seed=4).take(3)
    assert read(numbers) == read(numbers) == read(Dataset.random(seed=4).take(3))
    assert read(Dataset.random(seed=5).take(3)) != read(numbers)
    other_each_time = Dataset.random(4, rerandomize_each_iteration=True).take(3)
    assert read(other_each_time) != read(other_each_time)
    assert Dataset.random().cardinality() == INFINITE_CARDINALITY
    assert read(Dataset.counter(5, -2).take(3)) == [5, 3, 1]
    assert Dataset.counter().cardinality() == INFINITE_CARDINALITY
    assert all(0 <= x < 2**32 for x in read(Dataset.random().take(99)))


@pytest.mark.parametrize("weights", [[1.0], [-1.0, 2.0], [0.0, 0.0]])
def test_each_dataset_needs_a_weight(weights: list[float]) -> None:
    with pytest.raises(ValueError, match="needs a weight for each of 2 datasets"):
        Dataset.sample_from_datasets([Dataset.range(3), Dataset.range(3)], weights)


def test_a_dataset_chooses_among_others() -> None:
    ones, twos = (Dataset.from_tensors(x).repeat(3) for x in (1, 2))
    assert read(Dataset.choose_from_datasets([ones, twos], Dataset.range(2).repeat(9))) == [1, 2, 1, 2, 1, 2]
    choices = Dataset.from_tensor_slices([0, 0, 0, 0, 1])
    assert read(Dataset.choose_from_datasets([ones, twos], choices)) == [1, 1, 1]
    assert read(Dataset.choose_from_datasets([ones, twos], choices, False)) == [1, 1, 1, 2]
    with pytest.raises(DatasetError, match="has 2 datasets, and choice_dataset chose number 2"):
        list(Dataset.choose_from_datasets([ones, twos], Dataset.range(3)))


def test_datasets_that_are_mixed_have_one_structure() -> None:
    mixed = Dataset.sample_from_datasets([Dataset.range(3), Dataset.from_tensor_slices(["a"])])
    with pytest.raises(DatasetError, match="different elements"):
        mixed.element_spec  # noqa: B018
    with pytest.raises(TypeError, match="needs a list of datasets"):
        Dataset.sample_from_datasets([Dataset.range(3), [1]])
    with pytest.raises(ValueError, match="at least one dataset"):
        Dataset.sample_from_datasets([])


@pytest.mark.parametrize("initial", [None, [0.9, 0.1]])
def test_rejected_elements_leave_the_wished_classes(initial: list[float] | None) -> None:
    classes = np.random.default_rng(0).permutation([0] * 9000 + [1] * 1000)
    resampled = Dataset.from_tensor_slices(classes).rejection_resample(
        lambda x: x, [0.5, 0.5], initial, seed=1
    )
    kept = [(int(number), int(x)) for number, x in resampled]
    assert all(number == x for number, x in kept)
    assert 1500 < len(kept) < 2500
    assert 0.45 < np.mean([number for number, _ in kept]) < 0.55


def test_ragged_batches_have_rows_as_they_are() -> None:
    (batch,) = _of_lengths(1, 3, 2).map(lambda row: (row, row[0])).ragged_batch(3)
    assert batch[0].to_list() == [[1], [3, 3, 3], [2, 2]]
    assert batch[1].tolist() == [1, 3, 2]
    assert len(list(_of_lengths(1, 3, 2).ragged_batch(2, drop_remainder=True))) == 1


def test_the_only_element() -> None:
    assert Dataset.range(5).batch(9).get_single_element().tolist() == list(range(5))
    for wrong, found in ((0, "none"), (2, "more than one")):
        with pytest.raises(DatasetError, match=found):
            Dataset.range(wrong).get_single_element()


def test_who_says_how_many_elements_there_are_is_held_to_it() -> None:
    data = _of_lengths(1, 2, 3)
    assert data.cardinality() == UNKNOWN_CARDINALITY
    counted = data.assert_cardinality(3)
    assert len(counted) == len(list(counted)) == 3
    assert len(counted.batch(2)) == 2
    for wrong, found in ((2, "more"), (4, "only 3")):
        with pytest.raises(DatasetError, match=f"says {wrong} elements, and the dataset has {found}"):
            list(data.assert_cardinality(wrong))
    with pytest.raises(DatasetError, match="no end, and it has 3 elements"):
        list(data.assert_cardinality(INFINITE_CARDINALITY))


_PIPELINES: dict[str, Callable[[], Dataset]] = {
    "window": lambda: (
        Dataset.range(30).shuffle(30).window(4, 2).flat_map(lambda each: each.batch(4)).map(lambda x: x[0])
    ),
    "take_while": lambda: Dataset.range(30).take_while(lambda x: x < 17),
    "scan": lambda: Dataset.range(30).scan(np.int64(0), lambda state, x: (state + x, state)),
    "unique": lambda: Dataset.range(30).map(lambda x: x // 2).unique(),
    "group_by_window": lambda: Dataset.range(30).group_by_window(
        lambda x: x % 3, lambda key, window: window.shuffle(4), 4
    ),
    "sample": lambda: Dataset.sample_from_datasets([Dataset.range(10), Dataset.range(20).shuffle(20)]),
    "choose": lambda: Dataset.choose_from_datasets([Dataset.range(9)] * 2, Dataset.range(2).repeat()),
    "resample": lambda: Dataset.range(40).rejection_resample(lambda x: x % 2, [0.3, 0.7]).map(lambda c, x: x),
    "random": lambda: Dataset.random(rerandomize_each_iteration=True).take(20),
    "assert_cardinality": lambda: Dataset.range(9).assert_cardinality(9),
}


@pytest.mark.parametrize("name", _PIPELINES)
def test_it_goes_on_at_a_position(name: str) -> None:
    with _PIPELINES[name]().repeat(2).iterator() as iterator:
        places = [iterator.position]
        whole = []
        for element in iterator:
            whole.append(int(element))
            places.append(iterator.position)
    assert len(whole) > 8
    for place in range(0, len(places), 5):
        assert read(_PIPELINES[name]().repeat(2).iterator(places[place])) == whole[place:]


@pytest.mark.parametrize("name", ["take_while", "scan", "rejection_resample"])
def test_what_is_called_is_a_function(name: str) -> None:
    arguments = {"take_while": (5,), "scan": (0, 5), "rejection_resample": (5, [0.5, 0.5])}[name]
    with pytest.raises(TypeError, match=f"{name} needs a function, got 5"):
        getattr(muster.data.Dataset.range(3), name)(*arguments)
