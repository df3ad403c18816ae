"""How `map` runs a function: compiled when JAX can trace it, in Python when not, the same result."""

import logging
import random
import threading
import traceback
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dataset_model import plain, read

from muster._errors import DatasetError
from muster._keras import keras
from muster.data import Dataset, TensorSpec


def _ways(caplog: pytest.LogCaptureFixture) -> list[str]:
    return ["compiled" if "compiled" in record.message else "Python" for record in caplog.records]


@pytest.fixture(autouse=True)
def _log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="muster")


_FUNCTIONS: list[tuple[Any, Any]] = [
    (lambda x, y: (x * 2, y), lambda x, y: (x * 2, y)),
    (lambda x, y: (y, x), lambda x, y: (y, x)),
    (lambda x, y: {"sum": x.sum(), "x": (x, None)}, lambda x, y: {"sum": x.sum(), "x": (x, None)}),
    (lambda x, y: jnp.where(y > 3, x, -x), lambda x, y: np.where(y > 3, x, -x)),
    (lambda x, y: [y, y + 1], lambda x, y: [y, y + 1]),
    (lambda x, y: (np.float32(1.5), 7), lambda x, y: (np.float32(1.5), 7)),
    (lambda x, y: x.reshape(3, 1) @ x.reshape(1, 3), lambda x, y: x.reshape(3, 1) @ x.reshape(1, 3)),
]


@pytest.mark.parametrize(("traced", "python"), _FUNCTIONS)
@pytest.mark.parametrize("size", [None, 1, 4, 20])
def test_traced_equals_untraced(traced: Any, python: Any, size: int | None) -> None:
    arrays = (np.arange(27, dtype=np.float32).reshape(9, 3), np.arange(9, dtype=np.int32))
    source = Dataset.from_tensor_slices(arrays).shuffle(5, seed=1, reshuffle_each_iteration=False)

    def untraceable(x: Any, y: Any) -> Any:
        return python(np.asarray(x), np.asarray(y)[()])

    vectorised, one_by_one = source.map(traced), source.map(untraceable)
    if size is not None:
        vectorised, one_by_one = vectorised.batch(size), one_by_one.batch(size)
    for got, wanted in zip(vectorised, one_by_one, strict=True):
        assert plain(got) == plain(wanted)
        assert spec_of(got) == spec_of(wanted)


def spec_of(element: Any) -> Any:
    return jax.tree.map(lambda leaf: TensorSpec(leaf.shape, leaf.dtype), element)


def test_traced_once_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    calls = []

    def scale(x: Any) -> Any:
        calls.append(x)
        return x / 2

    dataset = Dataset.range(1000).map(scale).batch(64)
    assert len(read(dataset)) == len(read(dataset)) == 16
    assert len(calls) == 2  # traced twice, to see that it does the same again
    assert _ways(caplog) == ["compiled"]
    assert "scale" in caplog.text


def test_partial_batches_share_a_compilation() -> None:
    compiled = []

    def listen(event: str, duration: float, **kwargs: Any) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            compiled.append(kwargs)

    # Eight batches are computed at a time, so the last call has one and a third.
    dataset = Dataset.range(280).map(lambda x: x * 3).batch(30)
    with dataset.iterator() as iterator:
        next(iterator)
        jax.monitoring.register_event_duration_secs_listener(listen)
        assert [len(batch) for batch in iterator] == [30] * 8 + [10]
        jax.monitoring.clear_event_listeners()
    assert compiled == []


def test_components_passed_on_keep_their_type() -> None:
    arrays = (np.zeros((4, 2), np.uint8), np.array([2**40, 1, 2, 3]), np.full(4, np.pi))
    dataset = Dataset.from_tensor_slices(arrays).map(
        lambda image, label, weight: (image / 255, label, weight)
    )
    images, labels, weights = next(iter(dataset.batch(4)))
    assert (images.dtype, labels.dtype, weights.dtype) == (np.float32, np.int64, np.float64)
    assert labels[0] == 2**40
    assert dataset.element_spec == (
        TensorSpec((2,), np.float32),
        TensorSpec((), np.int64),
        TensorSpec((), np.float64),
    )


def test_numbers_that_do_not_fit_into_32_bits_are_refused() -> None:
    dataset = Dataset.from_tensor_slices(np.array([1, 2**40])).map(lambda x: x % 10)
    with dataset.batch(2).iterator() as iterator, pytest.raises(DatasetError, match="1099511627776.*int32"):
        next(iterator)
    later = Dataset.from_tensor_slices(np.array([1, 2, 3, 4, 2**40])).map(lambda x: x % 10).batch(2)
    with later.iterator() as iterator:
        assert [next(iterator).tolist(), next(iterator).tolist()] == [[1, 2], [3, 4]]
        with pytest.raises(DatasetError, match="1099511627776"):
            next(iterator)
    with jax.enable_x64(True):
        assert read(Dataset.from_tensor_slices(np.array([1, 2**40])).map(lambda x: x % 10)) == [1, 6]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.sqrt(np.asarray(x, np.float64)).astype(np.float32),
        lambda x: x + np.float32(1) if x > 2 else x - np.float32(1),
        lambda x: np.float32(float(x)),
        lambda x: f"{x}",
        lambda x: (x, object()),
        lambda x: np.float32(x.tobytes()[0]),
    ],
)
def test_what_jax_cannot_trace_runs_in_python(function: Any, caplog: pytest.LogCaptureFixture) -> None:
    values = np.arange(6, dtype=np.float32)
    got = [
        element
        for batch in Dataset.from_tensor_slices(values).map(function).batch(4)
        for element in each(batch)
    ]
    assert len(got) == 6
    if not isinstance(got[0], tuple):
        assert got == [function(value) for value in values]
    assert _ways(caplog) == ["Python"]
    assert caplog.records[0].levelno == logging.INFO


def each(batch: Any) -> list[Any]:
    return list(zip(*batch, strict=True)) if isinstance(batch, tuple) else list(batch)


def test_text_and_objects_run_in_python(caplog: pytest.LogCaptureFixture) -> None:
    words = Dataset.from_tensor_slices({"word": ["a", "bb"], "n": [1, 2]})
    assert read(words.map(lambda row: row["word"] * int(row["n"])).batch(2)) == [["a", "bbbb"]]
    assert _ways(caplog) == ["Python"]


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: x + random.random(),
        lambda x: x + np.random.rand(),
        lambda x, rng=np.random.default_rng(0): x + rng.random(),  # noqa: B008
        lambda x, counter=iter(range(10**6)): x + next(counter),  # noqa: B008
    ],
)
def test_frozen_randomness_is_noticed(draw: Any, caplog: pytest.LogCaptureFixture) -> None:
    random.seed(1)
    np.random.seed(1)
    dataset = Dataset.from_tensor_slices(np.zeros(50, np.float32)).map(lambda x: draw(x)).batch(10)
    values = [value for batch in read(dataset) for value in batch]
    assert len(set(values)) == 50
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_a_seed_gives_the_numbers_that_it_would_give_without_the_attempt_to_trace() -> None:
    random.seed(7)
    expected = [random.random() for _ in range(4)]
    random.seed(7)
    assert read(Dataset.range(4).map(lambda x: x * 0 + random.random())) == pytest.approx(expected)


def test_keras_layers_that_change_variables_are_left_whole(caplog: pytest.LogCaptureFixture) -> None:
    noise = keras.layers.GaussianNoise(1.0, seed=3)
    noise.build((2,))
    dataset = Dataset.from_tensor_slices(np.zeros((6, 2), np.float32)).map(lambda x: noise(x, training=True))
    values = np.concatenate(list(dataset.batch(3)))
    assert len(np.unique(values)) == 12
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert np.asarray(noise.seed_generator.state.value).shape == (2,)  # no tracer was left in it


def test_keras_layers_without_changes_are_compiled(caplog: pytest.LogCaptureFixture) -> None:
    layer = keras.layers.Rescaling(0.5)
    dataset = Dataset.from_tensor_slices(np.ones((4, 3), np.float32)).map(lambda x: layer(x)).batch(4)
    assert read(dataset) == [[[0.5] * 3] * 4]
    assert _ways(caplog) == ["compiled"]


def test_map_after_batch_gets_whole_batches(caplog: pytest.LogCaptureFixture) -> None:
    shapes = []

    def centre(batch: Any) -> Any:
        shapes.append(batch.shape)
        return batch - batch.mean()

    dataset = Dataset.from_tensor_slices(np.arange(7, dtype=np.float32)).batch(3).map(centre)
    assert read(dataset) == [[-1.0, 0.0, 1.0], [-1.0, 0.0, 1.0], [0.0]]
    assert set(shapes) == {(3,), (1,)}
    assert _ways(caplog) == ["compiled"]
    assert read(Dataset.range(5).batch(2).map(lambda b: np.flip(np.asarray(b)))) == [[1, 0], [3, 2], [4]]


def test_tuples_are_spread_and_named_tuples_are_not() -> None:
    from collections import namedtuple

    pair = namedtuple("pair", ["a", "b"])
    dataset = Dataset.from_tensor_slices(pair(np.arange(3), np.arange(3)))
    assert read(dataset.map(lambda p: p.a + p.b)) == [0, 2, 4]
    assert read(Dataset.from_tensor_slices((np.arange(3), np.arange(3))).map(lambda a, b: a + b)) == [0, 2, 4]


def test_generator_elements_are_vectorised_in_batches(caplog: pytest.LogCaptureFixture) -> None:
    rows = Dataset.from_generator(
        lambda: ((np.full(3, i, np.float32), i) for i in range(10)),
        output_signature=(TensorSpec((3,), np.float32), TensorSpec((), np.int64)),
    )
    batches = read(rows.map(lambda x, i: (x + 1, i)).batch(4))
    assert [labels for _, labels in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert batches[2][0] == [[9.0] * 3, [10.0] * 3]
    assert _ways(caplog) == ["compiled"]


def test_elements_of_different_shapes(caplog: pytest.LogCaptureFixture) -> None:
    rows = Dataset.from_generator(
        lambda: (np.arange(1 + i % 3) for i in range(9)), output_signature=TensorSpec((None,), np.int64)
    )
    assert read(rows.map(lambda x: x.sum() * 1).batch(9)) == [[0, 1, 3] * 3]
    assert read(rows.map(lambda x: x * 2).padded_batch(3))[0] == [[0, 0, 0], [0, 2, 0], [0, 2, 4]]
    assert _ways(caplog) == ["compiled"] * 2


def test_many_shapes_are_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    rows = Dataset.from_generator(
        lambda: (np.zeros(i, np.float32) for i in range(40)), output_signature=TensorSpec((None,), np.float32)
    )
    assert len(read(rows.map(lambda x: x + 1))) == 40
    warnings = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "32 different shapes" in warnings[0].message


@pytest.mark.parametrize("batch", [False, True])
def test_an_error_of_the_function_shows_its_line(batch: bool) -> None:
    def fails(x: Any) -> Any:
        return x + undefined_name  # type: ignore[name-defined]  # noqa: F821

    dataset = Dataset.range(4).map(fails)
    with pytest.raises(NameError, match="undefined_name") as info:
        read(dataset.batch(2) if batch else dataset)
    last = traceback.extract_tb(info.value.__traceback__)[-1]
    assert (last.name, last.filename) == ("fails", __file__)


def test_an_error_for_one_element_comes_when_it_is_reached() -> None:
    def picky(x: Any) -> Any:
        if int(x) == 5:
            raise KeyError("five")
        return x

    with Dataset.range(9).map(picky).iterator() as iterator:
        assert [int(next(iterator)) for _ in range(5)] == [0, 1, 2, 3, 4]
        assert iterator.position["elements"] == 5
        with pytest.raises(KeyError, match="five"):
            next(iterator)


def test_a_filter_is_vectorised_too(caplog: pytest.LogCaptureFixture) -> None:
    assert read(Dataset.range(10).filter(lambda x: x % 2 == 1).batch(5)) == [[1, 3, 5, 7, 9]]
    assert _ways(caplog) == ["compiled"]


def test_results_of_unusual_types() -> None:
    assert read(Dataset.range(2).map(lambda x: jnp.bfloat16(1.5) * x).batch(2)) == [[0.0, 1.5]]
    assert next(iter(Dataset.range(2).map(lambda x: (x > 0, 2.5, 7, "t")))) == (False, 2.5, 7, "t")
    python = next(iter(Dataset.range(1).map(lambda x: (2.5, 7, [1, 2], f"{x}"))))
    assert [value.dtype for value in python[:3]] == [np.float32, np.int32, np.int32]


@pytest.mark.parametrize("python", [False, True])
def test_a_list_of_arrays_is_several_parts(python: bool) -> None:
    def parts(x: Any) -> list[Any]:
        size = int(x[0]) if python else 3  # which needs the number itself
        return [x * 2, x[0], np.zeros((size, 1), np.float32)]

    (found,) = Dataset.from_tensors(np.float32([3, 4])).map(parts)
    assert isinstance(found, tuple)
    assert [part.tolist() for part in found] == [[6, 8], 3, [[0], [0], [0]]]


def test_a_list_of_numbers_is_an_array() -> None:
    (found,) = Dataset.from_tensors("1,2").map(lambda line: [float(part) for part in line.split(",")])
    assert found.tolist() == [1, 2]


def test_numbers_that_another_thread_draws_are_not_the_functions(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[Any] = []

    def double(x: Any) -> Any:
        calls.append(x)
        if len(calls) == 1:
            other = threading.Thread(target=np.random.random)
            other.start()
            other.join()
        return x * 2

    assert [int(x) for x in Dataset.range(3).map(double)] == [0, 2, 4]
    assert _ways(caplog) == ["compiled"]


@pytest.mark.parametrize("as_filter", [False, True])
def test_variables_that_a_function_reads_are_read_anew(
    as_filter: bool, caplog: pytest.LogCaptureFixture
) -> None:
    factor = keras.Variable(1.0)
    numbers = Dataset.range(4)
    dataset = numbers.filter(lambda x: x < factor) if as_filter else numbers.map(lambda x: x * factor)
    assert read(dataset) == ([0] if as_filter else [0, 1, 2, 3])
    assert read(dataset) == ([0] if as_filter else [0, 1, 2, 3])
    assert _ways(caplog) == ["compiled"]
    factor.assign(3.0)
    assert read(dataset) == ([0, 1, 2] if as_filter else [0, 3, 6, 9])
    factor.assign(2.0)
    assert read(dataset) == ([0, 1] if as_filter else [0, 2, 4, 6])
    assert _ways(caplog) == ["compiled", "Python"]
