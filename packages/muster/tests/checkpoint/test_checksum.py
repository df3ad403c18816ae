"""JSON with a checksum in its first line is whole, or known to be damaged."""

import json
import zlib

import pytest

from muster.checkpoint import with_checksum, without_checksum

REST = b'"a": 1,\n"b": [2]}\n'


def test_the_first_line_is_the_checksum_of_the_others():
    data = with_checksum(REST)
    first, _, rest = data.partition(b"\n")
    assert rest == REST
    assert json.loads(data) == {"crc32": f"{zlib.crc32(REST):08x}", "a": 1, "b": [2]}
    assert json.loads(first + b'"": 0}')["crc32"] == f"{zlib.crc32(REST):08x}"
    assert json.loads(without_checksum(data)) == {"a": 1, "b": [2]}


@pytest.mark.parametrize("place", range(len(with_checksum(REST))))
def test_every_changed_byte_is_noticed(place):
    data = bytearray(with_checksum(REST))
    data[place] ^= 1
    assert without_checksum(bytes(data)) is None


@pytest.mark.parametrize("end", [0, 5, 22, 30])
def test_what_was_cut_off_is_noticed(end):
    assert without_checksum(with_checksum(REST)[:end]) is None
