"""Sources in memory, and generators."""

from collections import OrderedDict, namedtuple

import numpy as np
import pytest
from dataset_model import plain, read

from muster.data import Dataset, TensorSpec

Point = namedtuple("Point", ["x", "y"])


def test_slices_of_nested_structures() -> None:
    dataset = Dataset.from_tensor_slices({"a": np.arange(3), "b": (np.ones((3, 2)), ["u", "vv", "w"])})
    first = next(iter(dataset))
    assert plain(first) == {"a": 0, "b": ([1.0, 1.0], "u")}
    assert first["a"].dtype == np.int64
    points = list(Dataset.from_tensor_slices(Point(np.arange(2), [1.5, 2.5])))
    assert points == [Point(0, 1.5), Point(1, 2.5)]
    assert type(points[0]) is Point


def test_python_numbers_become_32_bit_and_arrays_stay() -> None:
    assert Dataset.from_tensor_slices([1, 2]).element_spec == TensorSpec((), np.int32)
    assert Dataset.from_tensor_slices([1.0, 2.0]).element_spec == TensorSpec((), np.float32)
    assert Dataset.from_tensor_slices([2**40]).element_spec == TensorSpec((), np.int64)
    assert Dataset.from_tensor_slices(np.ones(2)).element_spec == TensorSpec((), np.float64)
    batch = next(iter(Dataset.from_tensor_slices(np.arange(4)).shuffle(4).batch(4)))
    assert batch.dtype == np.int64


def test_bytes_keep_their_zeros() -> None:
    dataset = Dataset.from_tensor_slices([b"a\0", b"\0\0b"])
    assert list(dataset) == [b"a\0", b"\0\0b"]
    assert next(iter(dataset.map(lambda text: text + b"\0").batch(2))).tolist() == [b"a\0\0", b"\0\0b\0"]


def test_from_tensors_is_one_element() -> None:
    dataset = Dataset.from_tensors({"a": np.arange(3), "b": "text", "c": b"\0"})
    assert read(dataset) == [{"a": [0, 1, 2], "b": "text", "c": b"\0"}]
    assert read(dataset.repeat(2).batch(2))[0]["a"] == [[0, 1, 2], [0, 1, 2]]


@pytest.mark.parametrize("args", [(5,), (2, 7), (7, 2), (0, 10, 3), (10, 0, -4), (0,)])
def test_range(args: tuple[int, ...]) -> None:
    assert read(Dataset.range(*args)) == list(range(*args))
    assert Dataset.range(*args).element_spec == TensorSpec((), np.int64)
    assert next(iter(Dataset.range(3, output_type=np.float32))).dtype == np.float32


def test_generator_with_signature_and_arguments() -> None:
    def count(stop: int, text: str):  # type: ignore[no-untyped-def]
        for i in range(stop):
            yield {"i": i, "t": [text] * i}

    signature = {"i": TensorSpec((), np.int64), "t": TensorSpec((None,), str)}
    dataset = Dataset.from_generator(count, output_signature=signature, args=(3, "ab"))
    assert [plain(element)["i"] for element in dataset] == [0, 1, 2]
    assert next(iter(dataset.skip(2)))["t"].tolist() == ["ab", "ab"]
    older = Dataset.from_generator(lambda: iter([(1, [2.0, 3.0])]), (np.int32, np.float32), ((), (2,)))
    assert older.element_spec == (TensorSpec((), np.int32), TensorSpec((2,), np.float32))
    assert read(older) == [(1, [2.0, 3.0])]


def test_generator_that_fills_one_buffer_again_and_again() -> None:
    def generate():  # type: ignore[no-untyped-def]
        buffer = np.zeros(2, np.float32)
        for i in range(4):
            buffer[:] = i
            yield buffer

    dataset = Dataset.from_generator(generate, output_signature=TensorSpec((2,), np.float32))
    assert sorted(read(dataset.shuffle(2, seed=1).batch(4))[0]) == [[float(i)] * 2 for i in range(4)]
    buffer = np.zeros(1)

    def fill(x: np.int64) -> np.ndarray:
        buffer[:] = np.asarray(x)
        return buffer

    assert read(Dataset.range(3).map(fill).batch(3)) == [[[0.0], [1.0], [2.0]]]


def test_generator_is_closed_and_begun_anew() -> None:
    events = []

    def generate():  # type: ignore[no-untyped-def]
        events.append("begin")
        try:
            yield from range(3)
        finally:
            events.append("end")

    dataset = Dataset.from_generator(generate, output_types=np.int64)
    assert read(dataset.repeat(2)) == [0, 1, 2, 0, 1, 2]
    assert events == ["begin", "end"] * 2
    with dataset.iterator() as iterator:
        next(iterator)
    assert events == ["begin", "end"] * 3


def test_python_objects() -> None:
    class Thing:
        pass

    dataset = Dataset.range(3).map(lambda x: (int(np.asarray(x)), Thing()))
    things = next(iter(dataset.batch(3)))[1]
    assert things.dtype == object
    assert all(isinstance(thing, Thing) for thing in things)


def test_ordered_dict_keys_in_any_order() -> None:
    def generate():  # type: ignore[no-untyped-def]
        yield OrderedDict(a=1, b=2)
        yield {"b": 4, "a": 3}

    signature = {"a": TensorSpec((), np.int32), "b": TensorSpec((), np.int32)}
    dataset = Dataset.from_generator(generate, output_signature=signature)
    assert read(dataset.batch(2)) == [{"a": [1, 3], "b": [2, 4]}]


def test_a_generators_tuples_are_arrays_where_its_signature_has_one() -> None:
    data = Dataset.from_generator(lambda: [(1, 2), (3, 4)], output_signature=TensorSpec([2], np.int64))
    assert [each.tolist() for each in data] == [[1, 2], [3, 4]]


def test_a_generators_bytes_are_text_of_its_signature() -> None:
    data = Dataset.from_generator(lambda: [b"\xff\0", "b"], output_signature=TensorSpec([], str))
    assert list(data) == [b"\xff\0", "b"]


def test_generators_yield_lists_of_bytes_as_texts():
    def elements():
        yield [b"a", "ä".encode()], [b"\xff"]
        yield [], [b"b"]

    signature = (TensorSpec([None], str), TensorSpec([None], object))
    first, second = Dataset.from_generator(elements, output_signature=signature)
    assert first[0].tolist() == ["a", "ä"]
    assert first[0].dtype.kind == "U"
    assert first[1].tolist() == [b"\xff"]
    assert second[0].tolist() == []


def test_python_numbers_of_a_generator_keep_64_bits_where_its_signature_has_them() -> None:
    times = 1700000000.25, [0.1, 0.2], {"rate": 0.1 + 0.2j}
    signature = (
        TensorSpec((), np.float64),
        TensorSpec((2,), np.float64),
        {"rate": TensorSpec((), np.complex128)},
    )
    ((time, pair, rate),) = Dataset.from_generator(lambda: iter([times]), output_signature=signature)
    assert float(time) == times[0]
    assert pair.tolist() == times[1]
    assert complex(rate["rate"]) == times[2]["rate"]
    (narrow,) = Dataset.from_generator(lambda: iter([0.1]), output_signature=TensorSpec((), np.float32))
    assert narrow.dtype == np.float32
    assert narrow == np.float32(0.1)
