"""Sources from files: text, npz, Parquet, ArrayRecord; lists of files; elements by number."""

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dataset_model import read

from muster._errors import DatasetError
from muster.data import (
    ArrayRecordDataset,
    Dataset,
    NpzDataset,
    ParquetDataset,
    TextLineDataset,
    TFRecordDataset,
)


def resumed(dataset: Dataset, every: int = 7) -> None:
    """Check that the dataset goes on from positions in it."""
    whole = read(dataset)
    for place in range(0, len(whole) + 1, every):
        with dataset.iterator() as iterator:
            for _ in range(place):
                next(iterator)
            assert read(dataset.iterator(iterator.position)) == whole[place:]


def test_lines(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes("first\r\n\nthird ä".encode())
    (tmp_path / "b").write_bytes(b"")
    (tmp_path / "c").write_bytes(b"fourth\n")
    dataset = TextLineDataset([tmp_path / name for name in "abc"])
    assert read(dataset) == ["first", "", "third ä", "fourth"]
    resumed(dataset, 1)
    (tmp_path / "b").write_bytes(b"good\n\xff\n")
    with pytest.raises(DatasetError, match=f"{tmp_path / 'b'}, line 2: it is no UTF-8 text"):
        read(dataset)


def test_a_dataset_may_name_the_files(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_text(f"{name}1\n{name}2\n")
    names = Dataset.from_tensor_slices([str(tmp_path / "b"), str(tmp_path / "a")])
    assert read(TextLineDataset(names)) == ["b1", "b2", "a1", "a2"]
    resumed(TextLineDataset(names), 1)


def test_a_position_holds_for_a_copy_of_the_files_elsewhere_and_not_for_other_files(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a").write_text("1\n2\n")
    (tmp_path / "two" / "b").write_text("1\n2\n")
    with TextLineDataset(tmp_path / "one" / "a").iterator() as iterator:
        next(iterator)
    assert read(TextLineDataset(tmp_path / "two" / "a").iterator(iterator.position)) == ["2"]
    with pytest.raises(DatasetError, match="another pipeline"):
        TextLineDataset(tmp_path / "two" / "b").iterator(iterator.position)


def test_files_are_listed(tmp_path: Path) -> None:
    for name in ("c", "a", "b"):
        (tmp_path / f"{name}.txt").touch()
    names = [str(tmp_path / f"{name}.txt") for name in "abc"]
    assert read(Dataset.list_files(f"{tmp_path}/*.txt", shuffle=False)) == names
    assert read(Dataset.list_files([f"{tmp_path}/c*", f"{tmp_path}/a.txt"], shuffle=False)) == names[::2]
    shuffled = Dataset.list_files(f"{tmp_path}/*.txt", seed=3)
    assert sorted(read(shuffled)) == names
    assert len(shuffled) == 3
    assert len({tuple(read(shuffled)) for _ in range(20)}) > 1
    with pytest.raises(DatasetError, match=r"No files matched pattern: .*/\*.csv\.$"):
        Dataset.list_files(f"{tmp_path}/*.csv")
    with pytest.raises(DatasetError, match="There is no folder /nowhere"):
        Dataset.list_files("/nowhere/*.csv")


def npz(path: Path, compressed: bool = False, **arrays: Any) -> Path:
    (np.savez_compressed if compressed else np.savez)(path, **arrays)
    return path


def test_npz(tmp_path: Path) -> None:
    x = np.asfortranarray(np.arange(30, dtype=np.int16).reshape(10, 3))
    y = np.array([f"row {i}" for i in range(10)])
    paths = [
        npz(tmp_path / "a.npz", x=x[:4], y=y[:4]),
        npz(tmp_path / "b.npz", x=x[:0], y=y[:0]),
        npz(tmp_path / "c.npz", compressed=True, x=x[4:], y=y[4:]),
    ]
    dataset = NpzDataset(paths)
    assert len(dataset) == 10
    assert [row["y"] for row in dataset] == y.tolist()
    batch = next(iter(dataset.shuffle(10, seed=1).batch(10)))
    order = [int(text.split()[1]) for text in batch["y"]]
    assert order != sorted(order)
    np.testing.assert_array_equal(batch["x"], x[order])
    assert batch["x"].dtype == np.int16
    resumed(dataset.shuffle(10, seed=2, reshuffle_each_iteration=False), 1)
    assert list(next(iter(NpzDataset(paths[0], keys=["x"])))) == ["x"]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.arange(3), "y": np.arange(4)}, "its arrays must have rows, all as many"),
        ({"x": np.array(3)}, "its arrays must have rows"),
        ({"x": np.array([{}, 3], dtype=object)}, "holds Python objects"),
        ({"z": np.arange(3.0)}, "The files of NpzDataset differ"),
    ],
)
def test_npz_that_is_wrong(tmp_path: Path, arrays: Any, message: str) -> None:
    first = npz(tmp_path / "good.npz", x=np.arange(3))
    path = npz(tmp_path / "a.npz", **arrays)
    with pytest.raises(DatasetError, match=message):
        read(NpzDataset([first, path]))
    with pytest.raises(DatasetError, match="has no array 'w'. It has x"):
        read(NpzDataset(first, keys=["w"]))
    first.write_bytes(b"nothing")
    with pytest.raises(DatasetError, match="good.npz is no npz file"):
        read(NpzDataset(first))


def test_npz_stays_in_its_file(tmp_path: Path) -> None:
    dataset = NpzDataset(npz(tmp_path / "a.npz", x=np.zeros((10, 3))))
    assert isinstance(dataset._node._parts[0]["x"], np.memmap)  # type: ignore[attr-defined]


def test_parquet(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason='pip install "muster[parquet]"')
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pa.table(
        {
            "i": np.arange(5000, dtype=np.int32),
            "t": [f"row {i}" for i in range(5000)],
            "c": pa.array(["a", "b"] * 2500).dictionary_encode(),
            "v": pa.FixedSizeListArray.from_arrays(np.arange(10_000, dtype=np.float32), 2),
            "m": pa.array([None if i % 2 else i / 2 for i in range(5000)]),
            "b": [bytes([i % 256, 0]) for i in range(5000)],
            "flag": [i % 3 == 0 for i in range(5000)],
        }
    )
    parquet.write_table(table, tmp_path / "a", row_group_size=2000)
    parquet.write_table(table.slice(0, 3), tmp_path / "b")
    dataset = ParquetDataset([tmp_path / "a", tmp_path / "b"])
    rows = list(dataset)
    assert [row["i"] for row in rows] == [*range(5000), 0, 1, 2]
    one = rows[4321]
    assert (one["t"], one["c"], one["b"], one["flag"]) == ("row 4321", "b", bytes([4321 % 256, 0]), False)
    np.testing.assert_array_equal(one["v"], [8642, 8643])
    assert np.isnan(one["m"])
    batch = next(iter(dataset.skip(1990).batch(20)))
    assert batch["i"].tolist() == list(range(1990, 2010))
    assert batch["v"].shape == (20, 2)
    assert {name: spec.dtype for name, spec in dataset.element_spec.items()}["v"] == np.float32
    resumed(ParquetDataset(tmp_path / "a", columns=["i"]).batch(100), 7)
    shuffled = next(iter(dataset.shuffle(5000, seed=1).batch(100)))
    np.testing.assert_array_equal(shuffled["v"][:, 0], 2 * shuffled["i"])
    with pytest.raises(DatasetError, match="has no column 'z'. It has i, t"):
        ParquetDataset(tmp_path / "a", columns=["z"])
    parquet.write_table(pa.table({"i": pa.array([1, None])}), tmp_path / "c")
    with pytest.raises(DatasetError, match=r"c, rows from 0: column 'i' has 1 missing values"):
        read(ParquetDataset(tmp_path / "c"))
    parquet.write_table(pa.table({"i": [[1], [2, 3]]}), tmp_path / "d")
    with pytest.raises(DatasetError, match="column 'i' is of type list"):
        ParquetDataset(tmp_path / "d")
    with pytest.raises(DatasetError, match="The files of ParquetDataset differ: .*b has i: "):
        read(ParquetDataset([tmp_path / "c", tmp_path / "b"]).skip(2))
    (tmp_path / "e").write_bytes(b"nothing")
    with pytest.raises(DatasetError, match="e is no Parquet file"):
        ParquetDataset(tmp_path / "e")


def open_files() -> list[str]:
    return [os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]


def test_array_record(tmp_path: Path) -> None:
    writers = pytest.importorskip(
        "array_record.python.array_record_module", reason='pip install "muster[grain]"'
    )
    pytest.importorskip("grain", reason='pip install "muster[grain]"')
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
    resumed(dataset.shuffle(12, seed=1, reshuffle_each_iteration=False).batch(5), 1)
    iterator = dataset.iterator()
    next(iterator)
    assert str(tmp_path / "a") in open_files()
    for _ in iterator:
        pass
    assert str(tmp_path / "a") not in open_files()  # though somebody still has the iterator
    (tmp_path / "c").write_bytes(b"nothing")
    with pytest.raises(DatasetError, match="c: these are no ArrayRecord files"):
        read(ArrayRecordDataset(tmp_path / "c"))


@pytest.mark.parametrize(
    ("kind", "package", "extra"),
    [(ParquetDataset, "pyarrow", "parquet"), (ArrayRecordDataset, "grain", "grain")],
)
def test_a_package_that_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, kind: Any, package: str, extra: str
) -> None:
    for module in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        ImportError, match=rf'{kind.__name__} needs the package {package}: pip install "muster\[{extra}\]"'
    ):
        kind("file")


@pytest.mark.parametrize(
    "kind", [TFRecordDataset, TextLineDataset, NpzDataset, ParquetDataset, ArrayRecordDataset]
)
def test_a_missing_file(tmp_path: Path, kind: Any) -> None:
    if kind in (ParquetDataset, ArrayRecordDataset):
        pytest.importorskip("pyarrow" if kind is ParquetDataset else "grain")
    (tmp_path / "there").touch()
    with pytest.raises(
        DatasetError, match=f"{kind.__name__} has found no file {tmp_path}/a. .*there is there"
    ):
        read(kind(tmp_path / "a"))


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
    resumed(dataset.shuffle(20, seed=1, reshuffle_each_iteration=False).batch(3), 1)
    with pytest.raises(TypeError, match="from_source needs an object with len"):
        Dataset.from_source(iter([1]))  # type: ignore[arg-type]


def test_grain_is_a_source() -> None:
    grain = pytest.importorskip("grain", reason='pip install "muster[grain]"')
    numbers = grain.MapDataset.range(10).map(lambda i: {"x": np.float32(i), "twice": 2 * i})
    batch = next(iter(Dataset.from_source(numbers).shuffle(10, seed=1).batch(10)))
    assert sorted(batch["x"]) == list(range(10))
    np.testing.assert_array_equal(batch["twice"], 2 * batch["x"])
    batches = numbers.batch(4)
    loaded = Dataset.from_generator(
        lambda: iter(batches.to_iter_dataset()), output_types={"x": np.float32, "twice": np.int64}
    )
    assert [len(each["x"]) for each in loaded] == [4, 4, 2]
    resumed(loaded, 1)
