"""Lines of text files."""

from pathlib import Path

import pytest
from dataset_model import check_resuming, read

from muster._errors import DatasetError
from muster.data import TextLineDataset


def test_lines(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes("first\r\n\nthird ä".encode())
    (tmp_path / "b").write_bytes(b"")
    (tmp_path / "c").write_bytes(b"fourth\n")
    dataset = TextLineDataset([tmp_path / name for name in "abc"])
    assert read(dataset) == ["first", "", "third ä", "fourth"]
    check_resuming(dataset, 1)
    (tmp_path / "b").write_bytes(b"good\n\xff\n")
    with pytest.raises(DatasetError, match=f"{tmp_path / 'b'}, line 2: it is no UTF-8 text"):
        read(dataset)
