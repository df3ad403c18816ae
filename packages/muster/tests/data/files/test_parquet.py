"""Parquet files."""

from pathlib import Path

import numpy as np
import pytest
from dataset_model import check_resuming, read

from muster._errors import DatasetError
from muster.data import ParquetDataset


def test_parquet(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason='pip install "muster-train[parquet]"')
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
    check_resuming(ParquetDataset(tmp_path / "a", columns=["i"]).batch(100), 7)
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
