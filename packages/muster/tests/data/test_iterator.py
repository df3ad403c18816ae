"""Random pipelines equal the plain model, and go on exactly from any position."""

import gc
import json
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from dataset_model import Pipeline, pipelines, plain, read
from hypothesis import given, settings

from muster._errors import PositionError
from muster.data import Dataset

_SETTINGS = settings(max_examples=80, derandomize=True)


@_SETTINGS
@given(pipelines())
def test_pipeline_equals_model(pipeline: Pipeline) -> None:
    expected = [plain(element) for element in pipeline.model(())]
    assert read(pipeline.dataset) == expected
    assert pipeline.dataset.cardinality() in (len(expected), -2)


@_SETTINGS
@given(pipelines())
def test_resume_at_every_position_equals_the_uninterrupted_tail(pipeline: Pipeline) -> None:
    expected = [plain(element) for element in pipeline.model(())]
    places = range(len(expected) + 1) if len(expected) < 12 else range(0, len(expected) + 1, 7)
    for place in places:
        with pipeline.dataset.iterator() as iterator:
            # Iterations that begin anew are shuffled anew: go on with the first one.
            position = {**iterator.position, "orders": [[s, 0] for s, _ in iterator.position["orders"]]}
        with pipeline.dataset.iterator(position) as iterator:
            for _ in range(place):
                next(iterator)
            saved = json.loads(json.dumps(iterator.position))
        assert read(pipeline.dataset.iterator(saved)) == expected[place:]


def _guide() -> Dataset:
    images = np.arange(200, dtype=np.uint8).reshape(50, 2, 2)
    labels = np.arange(50)
    return (
        Dataset.from_tensor_slices((images, labels))
        .map(lambda image, label: (image / 255, label))
        .shard(2, 1)
        .cache()
        .shuffle(10)
        .batch(4)
        .repeat()
        .prefetch(3)
    )


def test_unseeded_shuffle_goes_on_in_the_same_order_elsewhere() -> None:
    dataset = _guide()
    with dataset.iterator() as first:
        for _ in range(5):
            next(first)
    with dataset.iterator() as iterator:
        for _ in range(17):
            next(iterator)
        position = json.loads(json.dumps(iterator.position))
        tail = [plain(next(iterator)) for _ in range(20)]
    again = _guide()
    with again.iterator(position) as iterator:
        assert iterator.position == position
        assert [plain(next(iterator)) for _ in range(20)] == tail
    with again.iterator() as later, dataset.iterator() as original:
        assert [plain(next(later)) for _ in range(9)] == [plain(next(original)) for _ in range(9)]


def test_position_is_that_of_the_reader_not_of_the_thread() -> None:
    with Dataset.range(100).prefetch(50).iterator() as iterator:
        for count in range(5):
            assert iterator.position["elements"] == count
            next(iterator)


def test_skipping_to_a_position_calls_no_map_function() -> None:
    calls: list[int] = []

    def record(x: np.int64) -> np.int64:
        calls.append(int(x))
        return x

    dataset = Dataset.range(1000).map(record).shuffle(10, seed=1).batch(10)
    with dataset.iterator() as iterator:
        for _ in range(50):
            next(iterator)
        position = iterator.position
    calls.clear()
    with dataset.iterator(position) as iterator:
        next(iterator)
    assert len(calls) == 10


@pytest.mark.alone
def test_far_positions_are_reached_at_once() -> None:
    dataset = Dataset.range(1_000_000).shuffle(1_000_000, seed=1).repeat().batch(64)
    with dataset.iterator() as iterator:
        position = {**iterator.position, "elements": 10**12}
    begin = time.perf_counter()
    with dataset.iterator(position) as iterator:
        assert next(iterator).shape == (64,)
    assert time.perf_counter() - begin < 2


@pytest.mark.alone
def test_taking_a_position_is_cheap() -> None:
    with _guide().iterator() as iterator:
        next(iterator)
        begin = time.perf_counter()
        for _ in range(1000):
            _ = iterator.position
        assert (time.perf_counter() - begin) / 1000 < 100e-6  # about 2e-6 when nothing else runs


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pipeline": "range(0, 9) of int64"}, "another pipeline"),
        ({"orders": [[1, 0]]}, "another pipeline"),
        ({"elements": -1}, "another pipeline"),
        ({"format": 2}, "format 2"),
        ({"orders": 3}, "DatasetIterator.position"),
        ({"elements": None}, "DatasetIterator.position"),
    ],
)
def test_position_of_another_pipeline_is_refused(change: dict[str, object], message: str) -> None:
    dataset = Dataset.range(10)
    position = dataset.iterator().position
    with pytest.raises(PositionError, match=message):
        dataset.iterator({**position, **change})


def test_position_that_is_none_of_ours_is_refused() -> None:
    with pytest.raises(PositionError, match="DatasetIterator.position gave"):
        Dataset.range(3).iterator({})


def test_position_beyond_the_data_is_refused() -> None:
    source = list(range(10))
    dataset = Dataset.from_generator(lambda: iter(source), output_types=np.int64)
    with dataset.iterator() as iterator:
        for _ in range(8):
            next(iterator)
        position = iterator.position
    del source[5:]
    with (
        dataset.iterator(position) as iterator,
        pytest.raises(PositionError, match=r"after 8 elements.* only 5"),
    ):
        next(iterator)


def test_position_names_both_pipelines() -> None:
    position = Dataset.range(10).batch(2).iterator().position
    with pytest.raises(PositionError, match=r"(?s)batch\(2\).*batch\(3\)"):
        Dataset.range(10).batch(3).iterator(position)


def test_position_ignores_what_changes_no_element() -> None:
    position = Dataset.range(10).prefetch(2).batch(2).iterator().position
    assert read(Dataset.range(10).batch(2).prefetch(7).iterator(position))[-1] == [8, 9]


@pytest.mark.processes
def test_memory_does_not_grow() -> None:
    code = """
import resource
from muster.data import Dataset
iterator = Dataset.range(1000).shuffle(100).batch(10).repeat().iterator()
def run(steps):
    for _ in range(steps):
        next(iterator)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = run(10_000)
print(run(100_000) - before)
"""
    grown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert int(grown.stdout) < 2048  # KiB


def test_unread_iterators_are_collected() -> None:
    iterator = Dataset.range(10**9).prefetch(2).iterator()
    next(iterator)
    del iterator
    gc.collect()  # the thread must be gone: the fixture for leaks looks


def test_looking_at_a_pipeline_draws_no_seed() -> None:
    """Workers that share a seed read in one order, whether they have asked what the elements are or not."""

    def pipeline() -> Dataset:
        names = Dataset.range(20).shuffle(20)
        return names.interleave(lambda i: Dataset.from_tensors(i).map(lambda x: str(int(x)))).shuffle(20)

    asked = pipeline()
    assert asked.element_spec.dtype == np.dtype(str)
    orders = [[list(each.iterator(seed=5)) for _ in range(2)] for each in (asked, pipeline())]
    assert orders[0] == orders[1]
    assert orders[0][0] != orders[0][1]
    # Nor does a position's seed come too late.
    first = pipeline()
    elsewhere = pipeline()
    assert elsewhere.element_spec is not None
    passed = first.iterator()
    next(passed)
    rest, following = list(elsewhere.iterator(passed.position)), list(elsewhere)
    assert (rest, following) == (list(passed), list(first))


def test_elements_are_converted_where_they_are_made() -> None:
    def convert(elements):
        return [(element * 10, threading.current_thread().name) for element in elements]

    dataset = Dataset.range(5)
    here = threading.current_thread().name
    assert list(dataset.iterator(convert=convert)) == [(i * 10, here) for i in range(5)]
    with dataset.prefetch(2).iterator(convert=convert) as ahead:
        assert [next(ahead) for _ in range(2)] == [(0, "muster-prefetch"), (10, "muster-prefetch")]
        position = ahead.position
    assert next(dataset.iterator(position)) == 2  # a position does not depend on what was made of elements


def test_small_batches_are_converted_together() -> None:
    seen = []

    def convert(elements):
        seen.append(len(elements))
        return elements

    batches = list(Dataset.range(40).batch(2).iterator(convert=convert))
    assert [list(batch) for batch in batches] == [[2 * i, 2 * i + 1] for i in range(20)]
    assert len(seen) < 20
    assert sum(seen) == 20


def test_errors_of_a_conversion_come_in_their_turn() -> None:
    def convert(elements):
        for element in elements:
            if element == 2:
                raise ValueError("wrong: 2")
            yield element

    with Dataset.range(5).prefetch(4).iterator(convert=convert) as elements:
        assert [next(elements), next(elements)] == [0, 1]
        with pytest.raises(ValueError, match="wrong: 2"):
            next(elements)
