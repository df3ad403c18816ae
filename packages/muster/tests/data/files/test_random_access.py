"""Elements by number: ArrayRecord files, and objects of users."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dataset_model import check_resuming, open_files, read

from muster._errors import DatasetError
from muster.data import ArrayRecordDataset, Dataset


def test_array_record(tmp_path: Path) -> None:
    writers = pytest.importorskip(
        "array_record.python.array_record_module", reason='pip install "muster-train[grain]"'
    )
    pytest.importorskip("grain", reason='pip install "muster-train[grain]"')
    for name, count in (("a", 7), ("b", 5)):
        writer = writers.ArrayRecordWriter(str(tmp_path / name), "group_size:1")
        for i in range(count):
            writer.write(f"{name}{i}".encode())
        writer.close()
    dataset = ArrayRecordDataset([tmp_path / "a", tmp_path / "b"])
    expected = [f"{name}{i}".encode() for name, count in (("a", 7), ("b", 5)) for i in range(count)]
    assert read(dataset) == expected
    assert len(dataset) == 12
    assert sorted(read(dataset.shuffle(12, seed=1))) == sorted(expected)
    check_resuming(dataset.shuffle(12, seed=1, reshuffle_each_iteration=False).batch(5), 1)
    iterator = dataset.iterator()
    next(iterator)
    assert str(tmp_path / "a") in open_files()
    for _ in iterator:
        pass
    assert str(tmp_path / "a") not in open_files()  # though somebody still has the iterator
    (tmp_path / "c").write_bytes(b"nothing")
    with pytest.raises(DatasetError, match="c: these are no ArrayRecord files"):
        read(ArrayRecordDataset(tmp_path / "c"))


class Squares:
    """What Grain and PyTorch call a data source and a map-style dataset."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> dict[str, Any]:
        self.asked.append(index)
        return {"square": index**2, "name": str(index)}


def test_elements_by_number() -> None:
    squares = Squares()
    dataset = Dataset.from_source(squares)
    assert [element["square"] for element in dataset] == [i**2 for i in range(20)]
    assert dataset.element_spec["square"].dtype == np.int32
    squares.asked.clear()
    assert next(iter(dataset.shuffle(20, seed=1).skip(10).batch(4)))["name"].tolist() == list(
        map(str, squares.asked)
    )
    assert len(squares.asked) == 4
    check_resuming(dataset.shuffle(20, seed=1, reshuffle_each_iteration=False).batch(3), 1)
    with pytest.raises(TypeError, match="from_source needs an object with len"):
        Dataset.from_source(iter([1]))  # type: ignore[arg-type]


def test_grain_is_a_source() -> None:
    grain = pytest.importorskip("grain", reason='pip install "muster-train[grain]"')
    numbers = grain.MapDataset.range(10).map(lambda i: {"x": np.float32(i), "twice": 2 * i})
    batch = next(iter(Dataset.from_source(numbers).shuffle(10, seed=1).batch(10)))
    assert sorted(batch["x"]) == list(range(10))
    np.testing.assert_array_equal(batch["twice"], 2 * batch["x"])
    batches = numbers.batch(4)
    loaded = Dataset.from_generator(
        lambda: iter(batches.to_iter_dataset()), output_types={"x": np.float32, "twice": np.int64}
    )
    assert [len(each["x"]) for each in loaded] == [4, 4, 2]
    check_resuming(loaded, 1)
