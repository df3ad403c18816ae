"""Records of one length."""

import gzip
from pathlib import Path

import pytest
from dataset_model import check_resuming, read

from muster._errors import DatasetError
from muster.data import FixedLengthRecordDataset


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_records_between_headers_and_footers(tmp_path: Path, compression: str) -> None:
    pack = gzip.compress if compression else bytes
    (tmp_path / "a").write_bytes(pack(b"headabcdefghifo"))
    (tmp_path / "b").write_bytes(pack(b"headfo"))
    (tmp_path / "c").write_bytes(pack(b"headjklfo"))
    paths = [tmp_path / name for name in "abc"]
    dataset = FixedLengthRecordDataset(paths, 3, 4, 2, compression_type=compression)
    assert read(dataset) == [b"abc", b"def", b"ghi", b"jkl"]
    check_resuming(dataset, 1)


def test_records_alone(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abcd")
    assert read(FixedLengthRecordDataset(str(tmp_path / "a"), 2)) == [b"ab", b"cd"]


def test_files_of_other_lengths_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"headabcde")
    with pytest.raises(DatasetError, match="a ends 2 bytes after record 1: records have 3 bytes"):
        read(FixedLengthRecordDataset(tmp_path / "a", 3, 4))
    with pytest.raises(DatasetError, match="a ends inside of its header of 10 bytes"):
        read(FixedLengthRecordDataset(tmp_path / "a", 3, 10))
    with pytest.raises(ValueError, match="needs record_bytes of 1 at least, .* got 0, 0, 0"):
        FixedLengthRecordDataset(tmp_path / "a", 0)
    with pytest.raises(DatasetError, match="has found no file"):
        read(FixedLengthRecordDataset(tmp_path / "none", 1))
