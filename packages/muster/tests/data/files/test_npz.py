"""npz files."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dataset_model import check_resuming, read

from muster._errors import DatasetError
from muster.data import NpzDataset


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
    check_resuming(dataset.shuffle(10, seed=2, reshuffle_each_iteration=False), 1)
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
