"""Lists of files."""

from pathlib import Path

import pytest
from dataset_model import read

from muster._errors import DatasetError
from muster.data import Dataset


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
