"""Cardinality, element specs and lazy reading of datasets."""

import subprocess
import sys

import numpy as np
import pytest
from dataset_model import read

from muster.data import AUTOTUNE, INFINITE_CARDINALITY, UNKNOWN_CARDINALITY, Dataset, TensorSpec


def test_types_and_shapes_as_tensorflow_1_names_them() -> None:
    dataset = Dataset.from_tensor_slices(({"x": np.zeros((4, 2), np.float32)}, ["a", "b", "c", "d"])).batch(2)
    assert dataset.output_types == ({"x": np.dtype(np.float32)}, np.dtype(str))
    assert dataset.output_shapes == ({"x": (None, 2)}, (None,))
    ragged = Dataset.range(3).map(lambda n: np.ones(int(n), np.int64))
    padded = ragged.padded_batch(3, ragged.output_shapes)
    assert [each.tolist() for each in padded] == [[[0, 0], [1, 0], [1, 1]]]


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
        (Dataset.range(10).batch(5, True).rebatch(4), 3),
        (Dataset.range(10).batch(5, True).rebatch(4, True), 2),
        (Dataset.range(10).batch(5, True).rebatch([1, 2, 4]), 5),
        (Dataset.range(10).batch(5, True).rebatch([1, 2, 4], True), 5),
        (Dataset.range(10).batch(5, True).rebatch([1, 3, 4], True), 4),
        (Dataset.range(10).batch(5, True).rebatch([5, 7]), 2),
        (Dataset.range(10).batch(3).rebatch(5), UNKNOWN_CARDINALITY),
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


@pytest.mark.processes
def test_importing_does_not_import_jax() -> None:
    code = (
        "import sys, numpy as np; from muster.data import Dataset;"
        "list(Dataset.range(5).shuffle(5).batch(2).repeat(2).prefetch(1)); assert 'jax' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_which_datasets_are_the_same_in_each_pass():
    data = Dataset.range(6)
    same = [data, data.map(lambda x: x + 1).batch(2), data.filter(lambda x: x > 2), data.concatenate(data)]
    others = [
        *(data.shuffle(6), data.map(str), data.filter(lambda x: bool(x > 2)), data.window(2)),
        *(data.flat_map(lambda x: data), Dataset.from_generator(lambda: [1], output_types=np.int64)),
    ]
    assert [each.is_constant for each in (*same, *others)] == [True] * len(same) + [False] * len(others)


def test_counts_may_be_numbers_of_numpy() -> None:
    dataset = Dataset.range(10).take(np.ceil(np.float32(3.5))).batch(np.int64(2))
    assert [batch.tolist() for batch in dataset] == [[0, 1], [2, 3]]
