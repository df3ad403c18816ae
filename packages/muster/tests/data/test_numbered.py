"""Elements read by their number are those of an iteration, in whatever order they are asked for."""

import json
import random
import threading

import numpy as np
import pytest
from dataset_model import Pipeline, pipelines, plain
from hypothesis import given, settings

from muster._errors import DatasetError, PositionError
from muster.data import Dataset, NoElementError, NumberedReader, TensorSpec, TFRecordDataset, TFRecordWriter
from muster.data._numbered_reader import foreseen


@settings(max_examples=80, derandomize=True)
@given(pipelines())
def test_elements_are_those_of_an_iteration(pipeline: Pipeline) -> None:
    expected = [plain(element) for element in pipeline.model(())]
    with pipeline.dataset.iterator() as iterator:
        # Iterations that begin anew are shuffled anew: read the first one.
        position = {**iterator.position, "orders": [[s, 0] for s, _ in iterator.position["orders"]]}
    numbers = list(range(len(expected)))
    random.Random(0).shuffle(numbers)
    with pipeline.dataset.numbered(position) as elements:
        for number in [*range(0, len(expected), 3), *numbers[:20]]:
            assert plain(elements.read(number)) == expected[number]
        with pytest.raises(NoElementError):
            elements.read(len(expected))
    with pipeline.dataset.numbered(position) as elements:
        assert [elements.has(number) for number in range(len(expected) + 2)] == [True] * len(expected) + [
            False,
            False,
        ]


def test_a_pass_that_is_shuffled_by_chance_is_the_same_elsewhere() -> None:
    first, second = (Dataset.range(50).shuffle(50).batch(4) for _ in range(2))
    with first.numbered() as here, second.numbered(json.loads(json.dumps(here.position))) as there:
        batches = [(here if number % 2 else there).read(number).tolist() for number in range(13)]
    assert sorted(sum(batches, [])) == list(range(50))
    assert sum(batches, []) != list(range(50))


def test_a_pass_of_another_pipeline_is_refused() -> None:
    with Dataset.range(5).numbered() as elements, pytest.raises(PositionError, match="another pipeline"):
        Dataset.range(6).numbered(elements.position)


def test_what_is_passed_over_is_not_computed() -> None:
    computed = []

    def note(x):
        computed.append(int(x))
        return x

    data = Dataset.from_generator(lambda: iter(range(100)), output_types=np.int32).map(note)
    with data.numbered() as elements:
        assert [elements.read(number) for number in (3, 40, 30)] == [3, 40, 30]
        assert elements.has(90)
    assert computed == [3, 40, 30]


def test_elements_a_little_before_are_still_at_hand(tmp_path) -> None:
    with TFRecordWriter(tmp_path / "records") as writer:
        for number in range(100):
            writer.write(b"%d" % number)
    opened = []
    data = TFRecordDataset(str(tmp_path / "records"))
    node = data._node
    open_file = node.open_file
    node.open_file = lambda path: opened.append(path) or open_file(path)
    with data.numbered() as elements:
        assert [elements.read(number) for number in (50, 45, 60)] == [b"50", b"45", b"60"]
        assert len(opened) == 1
        assert elements.read(2) == b"2"
        assert len(opened) == 2


def test_a_function_that_raises_stop_iteration_does_not_end_the_data() -> None:
    def stops(x):
        raise StopIteration

    with (
        Dataset.from_generator(lambda: iter([1]), output_types=np.int32).map(stops).numbered() as elements,
        pytest.raises(DatasetError, match="raised StopIteration"),
    ):
        elements.read(0)


def test_an_iterator_goes_on_where_another_was() -> None:
    data = Dataset.range(20).shuffle(20).prefetch(2)
    first = iter(data)
    taken = [next(first) for _ in range(8)]
    saved = json.loads(json.dumps(first.position))
    rest = list(first)
    other = iter(Dataset.range(20).shuffle(20).prefetch(2))
    next(other)
    other.go_on(saved)
    assert list(other) == rest
    assert sorted(taken + rest) == list(range(20))


@pytest.mark.parametrize(
    ("last", "asked", "expected"),
    [
        (None, [3], []),
        (3, [4], [5]),
        (3, [5], [7]),
        (3, [5, 6], [8, 9]),
        (3, [2], []),
        (3, [30], []),
        (3, [], []),
    ],
)
def test_what_a_worker_is_asked_for_next_is_foreseen(last, asked, expected):
    assert foreseen(last, asked) == expected


def test_a_reader_makes_what_is_asked_for_and_probably_next() -> None:
    made, wakes = [], threading.Semaphore(0)

    def note(x):
        made.append(int(x))
        if int(x) == 9:
            raise KeyError("a column")
        return x

    data = Dataset.from_generator(lambda: iter(range(12)), output_types=np.int32).map(note)
    reader = NumberedReader(data.numbered, wakes.release)
    try:
        reader.ask([1])
        assert reader.take(1) == 1
        reader.ask([3])
        assert reader.take(3) == 3
        for _ in range(3):
            assert wakes.acquire(timeout=60)
        assert made == [1, 3, 5]
        reader.ask([5])
        assert reader.ready(5)
        assert reader.take(5) == 5
        reader.ask([9, 2])
        with pytest.raises(KeyError, match="a column"):
            reader.take(9)
        assert reader.take(2) == 2
        reader.ask([12])
        with pytest.raises(NoElementError):
            reader.take(12)
    finally:
        reader.close()
        reader.join(60)
    reader.ask([4])
    with pytest.raises(ValueError, match="closed"):
        reader.take(4)


@pytest.mark.parametrize(("count", "error"), [(3, NoElementError), (5, KeyError)])
def test_a_reader_in_order_ends_with_the_first_element_that_is_not_there(count, error) -> None:
    def numbers():
        yield from range(3)
        if count > 3:
            raise KeyError("a column")

    data = Dataset.from_generator(numbers, output_types=np.int32)
    reader = NumberedReader(data.numbered, in_order=True)
    reader.ask((), range(2))
    reader.ask([0, 1, 2, 3], [4, 5])
    assert [reader.take(number) for number in (0, 1, 2)] == [0, 1, 2]
    reader.join(60)
    reader.ask([2, 3], [4, 5])  # the last one was given back
    assert reader.ready(3)
    assert reader.take(2) == 2
    for number in (3, 4):
        with pytest.raises(error):
            reader.take(number)


def test_an_index_error_of_a_dataset_is_not_the_end_of_a_pass() -> None:
    def numbers():
        yield 0
        raise IndexError("list index out of range")

    data = Dataset.from_generator(numbers, output_types=np.int32)
    with data.numbered() as elements:
        assert elements.read(0) == 0
        with pytest.raises(IndexError, match="list index") as raised:
            elements.read(1)
    assert not isinstance(raised.value, NoElementError)


def test_a_reader_says_why_it_cannot_open_a_pass() -> None:
    def opened():
        raise OSError("no such folder")

    reader = NumberedReader(opened)
    reader.ask([0])
    with pytest.raises(OSError, match="no such folder"):
        reader.take(0)
    reader.join(60)


def test_after_an_error_elements_have_their_numbers() -> None:
    fails = [True]

    def keep(number: int) -> bool:
        if int(number) == 2 and fails:
            fails.pop()
            raise OSError("gone for a moment")
        return True

    with Dataset.range(8).filter(keep).batch(3).numbered() as elements:
        with pytest.raises(OSError, match="for a moment"):
            elements.read(0)
        assert [plain(elements.read(number)) for number in (0, 1, 2)] == [[0, 1, 2], [3, 4, 5], [6, 7]]


def test_an_error_is_not_the_end_of_a_pass() -> None:
    fails = [True]

    def numbers():
        for number in range(4):
            if number == 2 and fails:
                fails.pop()
                raise OSError("gone for a moment")
            yield number

    dataset = Dataset.from_generator(numbers, output_signature=TensorSpec((), np.int32))
    with dataset.numbered() as elements:
        with pytest.raises(OSError, match="for a moment"):
            elements.has(2)
        assert [elements.has(number) for number in (2, 3, 4)] == [True, True, False]
