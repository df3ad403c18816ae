"""Each operation means what it means in tf.data."""

import re
import subprocess
import sys
from collections import Counter, OrderedDict, namedtuple

import numpy as np
import pytest
from dataset_model import plain, read

from muster._errors import DatasetError, OutOfRangeError
from muster.data import (
    AUTOTUNE,
    INFINITE_CARDINALITY,
    UNKNOWN_CARDINALITY,
    AutoShardPolicy,
    Dataset,
    Options,
    TensorSpec,
)

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


def test_nothing_is_read_ahead_of_need() -> None:
    pulled = []

    def generate():  # type: ignore[no-untyped-def]
        for i in range(100):
            pulled.append(i)
            yield i

    dataset = Dataset.from_generator(generate, output_types=np.int64)
    for pipeline, needed in [
        (dataset.take(3), 3),
        (dataset.shard(4, 1).take(3), 10),
        (dataset.batch(5).take(2), 10),
        (dataset.filter(lambda x: x % 2 == 0).take(2), 3),
        (dataset.map(lambda x: x + 1).batch(4).take(1), 4),
    ]:
        pulled.clear()
        read(pipeline)
        assert len(pulled) == needed


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


def test_unbatch() -> None:
    assert read(Dataset.range(7).batch(3).unbatch()) == list(range(7))
    pairs = Dataset.from_tensors((np.arange(3), np.arange(6).reshape(3, 2)))
    assert read(pairs.unbatch()) == [(0, [0, 1]), (1, [2, 3]), (2, [4, 5])]
    assert read(Dataset.range(7).batch(3).unbatch().batch(4)) == [[0, 1, 2, 3], [4, 5, 6]]


def test_shard_take_skip_repeat() -> None:
    assert read(Dataset.range(10).shard(3, 1)) == [1, 4, 7]
    assert read(Dataset.range(2).shard(3, 2)) == []
    assert read(Dataset.range(5).take(-1)) == list(range(5))
    assert read(Dataset.range(5).take(0)) == []
    assert read(Dataset.range(5).skip(-1)) == []
    assert read(Dataset.range(5).skip(9)) == []
    assert read(Dataset.range(2).repeat(0)) == []
    assert read(Dataset.range(2).repeat(-1).take(5)) == [0, 1, 0, 1, 0]
    assert read(Dataset.range(0).repeat()) == []
    assert read(Dataset.range(5).filter(lambda x: x < 0).repeat()) == []


def test_each_shard_reads_its_own_and_all_read_everything() -> None:
    parts = [read(Dataset.range(11).shard(4, index)) for index in range(4)]
    assert sorted(sum(parts, [])) == list(range(11))


def test_shuffle_whole_and_windowed() -> None:
    assert sorted(read(Dataset.range(100).shuffle(100, seed=1))) == list(range(100))
    assert read(Dataset.range(100).shuffle(1, seed=1)) == list(range(100))
    order = read(Dataset.range(5000).shuffle(7, seed=1))
    assert sorted(order) == list(range(5000))
    # Element i cannot leave before the buffer has reached it.
    assert all(value < place + 7 for place, value in enumerate(order))
    assert order != list(range(5000))


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


def test_filter() -> None:
    assert read(Dataset.range(10).filter(lambda x: x % 3 == 0)) == [0, 3, 6, 9]
    assert read(Dataset.range(10).filter(lambda x: 2 < x and x < 5).batch(2)) == [[3, 4]]
    words = Dataset.from_tensor_slices((["a", "bb", "ccc"], [1, 2, 3]))
    assert read(words.filter(lambda word, n: len(word) > 1)) == [("bb", 2), ("ccc", 3)]


def test_padded_batch() -> None:
    rows = Dataset.from_generator(lambda: iter([[1], [2, 3], [4, 5, 6]]), output_types=np.int32)
    assert read(rows.padded_batch(2)) == [[[1, 0], [2, 3]], [[4, 5, 6]]]
    assert read(rows.padded_batch(2, drop_remainder=True, padding_values=-1)) == [[[1, -1], [2, 3]]]
    assert read(rows.padded_batch(3, padded_shapes=(4,)))[0][0] == [1, 0, 0, 0]
    assert read(rows.padded_batch(3, padded_shapes=[-1]))[0][0] == [1, 0, 0]
    pairs = rows.map(lambda x: (x, {"n": len(x), "t": "x" * len(x)}))
    padded = read(
        pairs.padded_batch(2, padded_shapes=([3], {"n": [], "t": ()}), padding_values=(7, {"n": 0, "t": ""}))
    )
    assert padded[0] == ([[1, 7, 7], [2, 3, 7]], {"n": [1, 2], "t": ["x", "xx"]})
    words = Dataset.from_generator(lambda: iter([["a"], ["b", "cc"]]), output_types=str)
    assert read(words.padded_batch(2)) == [[["a", ""], ["b", "cc"]]]


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


@pytest.mark.parametrize(
    ("dataset", "cardinality"),
    [
        (Dataset.range(10), 10),
        (Dataset.range(10).batch(3), 4),
        (Dataset.range(10).batch(3, True), 3),
        (Dataset.range(10).shard(3, 0), 4),
        (Dataset.range(10).shard(3, 2), 3),
        (Dataset.range(10).repeat(), INFINITE_CARDINALITY),
        (Dataset.range(0).repeat(), 0),
        (Dataset.range(10).repeat(3).skip(5).take(99), 25),
        (Dataset.range(10).repeat().take(7), 7),
        (Dataset.range(10).filter(lambda x: True), UNKNOWN_CARDINALITY),
        (Dataset.range(10).filter(lambda x: True).take(0), 0),
        (Dataset.range(10).batch(3).unbatch(), UNKNOWN_CARDINALITY),
        (Dataset.range(10).batch(3, True).unbatch(), 9),
        (Dataset.range(10).concatenate(Dataset.range(3)), 13),
        (Dataset.range(10).concatenate(Dataset.range(3).repeat()), INFINITE_CARDINALITY),
        (Dataset.zip((Dataset.range(4).repeat(), Dataset.range(3))), 3),
        (Dataset.zip((Dataset.range(4).repeat(), Dataset.range(3).repeat())), INFINITE_CARDINALITY),
        (Dataset.range(4).enumerate().shuffle(2).cache().prefetch(AUTOTUNE).map(lambda i, x: x), 4),
        (Dataset.from_generator(lambda: iter([1]), output_types=np.int32), UNKNOWN_CARDINALITY),
        (
            Dataset.from_generator(lambda: iter([1]), output_types=np.int32).batch(2).repeat(2),
            UNKNOWN_CARDINALITY,
        ),
    ],
)
def test_cardinality(dataset: Dataset, cardinality: int) -> None:
    assert dataset.cardinality() == cardinality
    assert dataset
    if cardinality >= 0:
        assert len(dataset) == cardinality
    else:
        with pytest.raises(TypeError, match="infinite|unknown"):
            len(dataset)


def test_element_spec_without_reading() -> None:
    def never():  # type: ignore[no-untyped-def]
        pytest.fail("the generator must not run")

    dataset = Dataset.from_generator(
        never, output_signature=(TensorSpec((None, 2), np.float32), TensorSpec((), str))
    )
    assert dataset.element_spec == (TensorSpec((None, 2), np.float32), TensorSpec((), str))
    assert dataset.batch(3).element_spec[0] == TensorSpec((None, None, 2), np.float32)
    assert dataset.batch(3, True).element_spec[1] == TensorSpec((3,), str)
    numbers = dataset.batch(2, True).unbatch().enumerate()
    assert numbers.element_spec[0] == TensorSpec((), np.int64)
    arrays = Dataset.from_tensor_slices((np.zeros((6, 28, 28, 1), np.uint8), np.zeros(6, np.int64)))
    scaled = arrays.map(lambda image, label: (image.astype(np.float32) / 255, label)).batch(2)
    assert scaled.element_spec == (TensorSpec((None, 28, 28, 1), np.float32), TensorSpec((None,), np.int64))
    after = arrays.batch(4).map(lambda image, label: (image.reshape((-1, 784)) / 2, label.sum()))
    assert after.element_spec[0] == TensorSpec((None, 784), np.float32)
    assert after.element_spec[1] == TensorSpec((), np.int32)
    padded = Dataset.range(3).batch(2).padded_batch(2, padded_shapes=(4,))
    assert padded.element_spec == TensorSpec((None, 4), np.int64)
    mixed = Dataset.from_tensor_slices(np.zeros((2, 3))).concatenate(
        Dataset.from_tensor_slices(np.zeros((2, 4)))
    )
    assert mixed.element_spec == TensorSpec((None,), np.float64)
    assert [len(x) for x in mixed] == [3, 3, 4, 4]


def test_element_spec_of_a_python_map_looks_at_one_element() -> None:
    calls = []

    def python(x: object) -> tuple[str, np.ndarray]:
        calls.append(x)
        return str(np.asarray(x)), np.zeros(2)

    dataset = Dataset.range(5).map(python)
    assert dataset.element_spec == (TensorSpec(None, str), TensorSpec(None, np.float64))
    assert dataset.element_spec is not None
    assert len(calls) <= 2  # tried with a tracer, then once with the first element
    assert len(read(dataset)) == 5


def test_options_travel() -> None:
    options = Options()
    options.experimental_distribute.auto_shard_policy = AutoShardPolicy.DATA
    dataset = Dataset.range(3).with_options(options).batch(2)
    options.experimental_distribute.auto_shard_policy = AutoShardPolicy.OFF
    assert dataset.options().experimental_distribute.auto_shard_policy is AutoShardPolicy.DATA
    assert Dataset.range(3).options().experimental_distribute.auto_shard_policy is AutoShardPolicy.AUTO


def test_tensor_spec() -> None:
    spec = TensorSpec([None, 3], np.float32, name="x")
    assert spec.is_compatible_with(np.zeros((7, 3), np.float32))
    assert not spec.is_compatible_with(np.zeros((7, 4), np.float32))
    assert not spec.is_compatible_with(np.zeros((7, 3)))
    assert TensorSpec(None).is_compatible_with(TensorSpec((1, 2)))
    assert hash(spec) == hash(TensorSpec((None, 3)))
    assert repr(spec) == "TensorSpec(shape=(None, 3), dtype=float32, name='x')"
    assert TensorSpec((), "U7") == TensorSpec((), str)


def test_importing_does_not_import_jax() -> None:
    code = (
        "import sys, numpy as np; from muster.data import Dataset;"
        "list(Dataset.range(5).shuffle(5).batch(2).repeat(2).prefetch(1)); assert 'jax' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_numbers_may_begin_below_zero() -> None:
    assert plain(list(Dataset.range(3).enumerate(-1))) == [(-1, 0), (0, 1), (1, 2)]


def test_iterators_have_the_methods_of_tensorflows() -> None:
    iterator = iter(Dataset.range(2))
    assert iterator.element_spec == TensorSpec((), np.int64)
    assert iterator.get_next() == 0
    last = iterator.get_next_as_optional()
    assert last.has_value()
    assert last.get_value() == 1
    assert iterator.position["elements"] == 2
    nothing = iterator.get_next_as_optional()
    assert not nothing.has_value()
    with pytest.raises(ValueError, match="has_value"):
        nothing.get_value()
    with pytest.raises(OutOfRangeError, match="End of sequence"):
        iterator.get_next()


def test_padding_text_may_be_longer_than_the_texts() -> None:
    rows = Dataset.from_generator(lambda: [["a", "b"], ["c"]], output_signature=TensorSpec([None], str))
    assert read(rows.padded_batch(2, padding_values="<pad>")) == [[["a", "b"], ["c", "<pad>"]]]


@pytest.mark.parametrize(
    ("kind", "value"), [(np.int32, 0.5), (np.uint8, -1), (np.int32, "x"), (np.float32, [1, 2])]
)
def test_padding_of_another_type(kind: type, value: object) -> None:
    rows = Dataset.from_generator(lambda: [[1, 2], [3]], output_signature=TensorSpec([None], kind))
    with pytest.raises(DatasetError, match=rf"padding_values has {re.escape(repr(value))} for a component"):
        read(rows.padded_batch(2, padding_values=value))


def test_options_that_do_not_exist_are_refused() -> None:
    options = Options()
    options.deterministic = False
    options.experimental_distribute.auto_shard_policy = AutoShardPolicy.OFF
    assert Dataset.range(1).with_options(options).options() == options
    with pytest.raises(AttributeError, match="Cannot set 'auto_shard_policy'.* has experimental_distribute"):
        options.auto_shard_policy = AutoShardPolicy.OFF  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="Cannot set 'auto_shard_polcy'"):
        options.experimental_distribute.auto_shard_polcy = AutoShardPolicy.OFF  # type: ignore[attr-defined]
    for wrong in (-1, "OFF"):
        with pytest.raises(TypeError, match=rf"auto_shard_policy is .*OFF, AUTO.* got {wrong!r}"):
            options.experimental_distribute.auto_shard_policy = wrong  # type: ignore[assignment]
