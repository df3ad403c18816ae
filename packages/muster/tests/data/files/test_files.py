"""Datasets of files of any format."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from dataset_model import check_resuming, read

from muster._errors import DatasetError
from muster._extras import working_command
from muster.data import (
    ArrayRecordDataset,
    Dataset,
    NpzDataset,
    ParquetDataset,
    TextLineDataset,
    TFRecordDataset,
)


def test_a_dataset_may_name_the_files(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_text(f"{name}1\n{name}2\n")
    names = Dataset.from_tensor_slices([str(tmp_path / "b"), str(tmp_path / "a")])
    assert read(TextLineDataset(names)) == ["b1", "b2", "a1", "a2"]
    check_resuming(TextLineDataset(names), 1)


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
        ImportError,
        match=re.escape(f"{kind.__name__} needs the package {package}: {working_command(extra)}."),
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
