"""Dataset.save and load, and cache and snapshot in files."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from dataset_model import read

from muster import DatasetError
from muster.data import Dataset, SparseTensor, TensorSpec, TextLineDataset
from muster.data.sharding._shard_files import shard_files


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, tuple):
        return all(map(_equal, one, other))
    return type(one) is type(other) and np.array_equal(one, other)


@pytest.mark.parametrize(
    "element",
    [
        np.arange(6, dtype=np.int16).reshape(2, 3),
        np.float32(0.5),
        "text",
        np.str_(""),
        b"bytes\0",
        (np.array(["a", "longer"]), np.array([True, False])),
        (np.array([1, 2], ml_dtypes.bfloat16), np.zeros((0, 4))),
        np.array([b"a\0", b""], object),
    ],
    ids=repr,
)
def test_elements_are_what_they_were(element: Any, tmp_path: Path) -> None:
    Dataset.from_generator(lambda: [element], output_signature=_specs(element)).save(tmp_path / "saved")
    assert _equal(Dataset.load(tmp_path / "saved").get_single_element(), element)


def _specs(element: Any) -> Any:
    from muster.data.pipeline._spec import spec_of
    from muster.data.pipeline._structure import map_leaves

    return map_leaves(spec_of, element)


@pytest.mark.parametrize("compression", [None, "GZIP"])
def test_saved_elements_are_a_dataset(tmp_path: Path, compression: str | None) -> None:
    data = Dataset.range(9).map(lambda x: {"x": x, "twice": 2 * x})
    data.save(tmp_path / "saved", compression)
    loaded = Dataset.load(tmp_path / "saved", compression=compression)
    assert [int(each["twice"]) for each in loaded.skip(3)] == [6, 8, 10, 12, 14, 16]
    assert loaded.element_spec["x"].dtype == np.int64
    assert loaded.cardinality() == (9 if compression is None else -2)
    assert sorted(int(each["x"]) for each in loaded.shuffle(9)) == list(range(9))


def test_a_folder_without_elements_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="has no elements: Dataset.save writes them"):
        Dataset.load(tmp_path)
    (tmp_path / "elements.tfrecord").write_bytes(b"")
    with pytest.raises(DatasetError, match="has no elements that muster wrote"):
        list(Dataset.load(tmp_path))


def test_what_is_no_array_is_refused_and_leaves_no_file(tmp_path: Path) -> None:
    sparse = SparseTensor([[0, 1]], [1.0], (1, 3))
    with pytest.raises(DatasetError, match="a file of elements has arrays, text and bytes".capitalize()):
        Dataset.from_tensor_slices(sparse).save(tmp_path / "saved")
    assert list((tmp_path / "saved").iterdir()) == []


def test_a_cache_in_a_file_is_computed_once(tmp_path: Path) -> None:
    calls: list[int] = []

    def record(x: Any) -> Any:
        calls.append(int(np.float64(x)))
        return x * 2

    def pipeline() -> Dataset:
        return Dataset.range(5).map(record).cache(str(tmp_path / "cached"))

    calls.clear()
    data = pipeline()
    first = read(data.repeat(2))
    assert first == [0, 2, 4, 6, 8] * 2
    computed = len(calls)
    assert read(data) == read(pipeline().shuffle(1)) == first[:5]
    assert read(pipeline().skip(2)) == first[2:5]
    assert len(calls) == computed
    assert [path.name for path in tmp_path.iterdir()] == ["cached"]


def test_elements_of_a_cache_can_be_changed_in_every_pass(tmp_path: Path) -> None:
    spec = TensorSpec((2,), np.float64)
    data = Dataset.from_generator(lambda: [np.zeros(2)], output_signature=spec).cache(str(tmp_path / "cache"))
    for _ in range(2):
        for element in data:
            element += 1
            assert element.tolist() == [1, 1]


def test_a_pass_that_is_not_read_to_its_end_leaves_no_cache(tmp_path: Path) -> None:
    data = Dataset.range(5).cache(str(tmp_path / "cached"))
    with data.iterator() as iterator:
        next(iterator)
    assert list(tmp_path.iterdir()) == []
    assert read(data) == list(range(5))
    assert read(data) == list(range(5))


def test_two_readers_of_a_cache_that_is_not_written_yet(tmp_path: Path) -> None:
    data = Dataset.range(5).cache(str(tmp_path / "cached"))
    pairs = Dataset.zip(data, data)
    assert [(int(a), int(b)) for a, b in pairs] == [(x, x) for x in range(5)]
    assert read(data) == list(range(5))


def test_a_snapshot_is_a_cache_in_a_folder(tmp_path: Path) -> None:
    data = Dataset.range(5).map(lambda x: x * 3).snapshot(str(tmp_path / "snapshot"))
    assert read(data) == [0, 3, 6, 9, 12]
    assert read(Dataset.load(tmp_path / "snapshot")) == [0, 3, 6, 9, 12]


@pytest.mark.parametrize("kept", ["cache", "snapshot"])
def test_workers_that_divide_files_keep_their_shares(tmp_path: Path, kept: str) -> None:
    for file in range(4):
        (tmp_path / f"{file}.txt").write_text(f"{file} a\n{file} b\n")
    names = [str(tmp_path / f"{file}.txt") for file in range(4)]

    def share(worker: int) -> Dataset:
        lines = TextLineDataset(names)
        return shard_files(getattr(lines, kept)(str(tmp_path / "kept")), 2, worker).dataset

    shares = [["0 a", "0 b", "2 a", "2 b"], ["1 a", "1 b", "3 a", "3 b"]]
    for _ in range(2):  # which compute, and read
        assert [read(share(worker)) for worker in range(2)] == shares


def test_a_cache_whose_file_is_gone_has_the_order_of_the_first_pass(tmp_path: Path) -> None:
    def dataset(name: str) -> Dataset:
        return Dataset.range(6).shuffle(6, seed=1).cache(str(tmp_path / name)).repeat(2)

    elements = read(dataset("here"))
    assert elements[:6] == elements[6:]
    with dataset("here").iterator() as iterator:
        for _ in range(8):
            next(iterator)
        position = iterator.position
    with dataset("elsewhere").iterator(position) as iterator:
        assert [int(each) for each in iterator] == elements[8:]
