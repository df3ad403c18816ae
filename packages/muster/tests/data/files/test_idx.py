"""idx files: read as they are, refused when damaged."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy
from idx_files import CODES, idx_bytes

from muster._errors import DatasetError
from muster.data import read_idx


@settings(max_examples=50, derandomize=True)
@given(
    data=st.data(),
    dtype=st.sampled_from(list(CODES)),
    compress=st.booleans(),
)
def test_round_trip(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, dtype: str, compress: bool
) -> None:
    shape = data.draw(st_numpy.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    array = data.draw(st_numpy.arrays(np.dtype(dtype), shape))
    path = tmp_path_factory.getbasetemp() / "round-trip"
    path.write_bytes(gzip.compress(idx_bytes(array)) if compress else idx_bytes(array))
    got = read_idx(path)
    assert got.dtype == array.dtype
    assert got.dtype.isnative
    np.testing.assert_array_equal(got, array)


_GOOD = idx_bytes(np.arange(12, dtype=np.uint8).reshape(3, 4))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not an idx file: it begins with nothing"),
        (b"<html>", "not an idx file: it begins with 3c 68 74 6d"),
        (b"\0\0\x0a\1" + bytes(8), "not an idx file"),
        (_GOOD[:9], "truncated: its header for 2 dimensions takes 12 bytes, it has 9"),
        (_GOOD[:-1], r"truncated: shape \(3, 4\) of uint8 takes 24 bytes, it has 23"),
        (_GOOD + b"x", "too long"),
        (b"\0\0\x08\2" + b"\xff" * 8, "truncated"),
        (gzip.compress(_GOOD, mtime=0)[:-9], "damaged or truncated gzip"),
        (gzip.compress(_GOOD, mtime=0)[:12] + b"\0" * 20, "damaged or truncated gzip"),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "file.gz"
    path.write_bytes(content)
    with pytest.raises(DatasetError, match=message) as info:
        read_idx(path)
    assert str(path) in str(info.value)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_idx(tmp_path / "none")
