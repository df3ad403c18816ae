"""TFRecord files."""

import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dataset_model import read

from muster._errors import DatasetError
from muster.data import (
    BytesList,
    Dataset,
    Example,
    Feature,
    Features,
    FixedLenFeature,
    Int64List,
    TFRecordDataset,
    TFRecordOptions,
    TFRecordWriter,
    decode_raw,
    parse_single_example,
)

RECORDS = [random.Random(size).randbytes(size) for size in (0, 1, 11, 12, 200, 5000, 100_000)]


def write(path: Path, records: list[bytes], options: Any = None) -> str:
    with TFRecordWriter(path, options) as writer:
        for record in records:
            writer.write(record)
    return str(path)


@pytest.mark.parametrize("compression", [None, "", "GZIP", "ZLIB"])
def test_records_come_back(tmp_path: Path, compression: str | None) -> None:
    path = write(tmp_path / "a", RECORDS, TFRecordOptions(compression))
    dataset = TFRecordDataset([path, Path(path)], compression)
    assert read(dataset) == 2 * RECORDS
    for place in range(0, 2 * len(RECORDS) + 1, 3):
        with dataset.iterator() as iterator:
            for _ in range(place):
                next(iterator)
            assert read(dataset.iterator(iterator.position)) == (2 * RECORDS)[place:]


def test_a_record_is_its_length_its_data_and_masked_checksums(tmp_path: Path) -> None:
    path = write(tmp_path / "a", [b"123456789", b""])
    data = Path(path).read_bytes()
    assert data[:8] == struct.pack("<Q", 9)
    # CRC-32C of "123456789" is e3069283 by RFC 3720; rotated by 15 bits, plus a282ead8.
    rotated = (0xE3069283 >> 15 | 0xE3069283 << 17) & 0xFFFFFFFF
    assert data[21:25] == struct.pack("<I", rotated + 0xA282EAD8 & 0xFFFFFFFF)
    assert len(data) == 16 + 9 + 16


def test_every_damage_is_found(tmp_path: Path) -> None:
    path = Path(write(tmp_path / "a", [b"first", b"second"]))
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        expected = f"{path}: The record at byte {0 if place < 21 else 21} is damaged"
        with pytest.raises(DatasetError, match=expected):
            read(TFRecordDataset(path))
        if place not in (0, 21):
            path.write_bytes(whole[:place])
            with pytest.raises(DatasetError, match="the file ends"):
                read(TFRecordDataset(path))


@pytest.mark.parametrize("compression", [None, "GZIP"])
def test_many_records_are_read_at_a_time(tmp_path: Path, compression: str | None) -> None:
    records = [random.Random(size).randbytes(size * 5) for size in range(600)]  # 900 KB, three buffers
    batches = TFRecordDataset(write(tmp_path / "a", records, compression), compression).batch(250)
    assert [record for batch in batches for record in batch] == records


@pytest.mark.parametrize("place", [3, 9, 20, 30])  # the length, its checksum, the data, theirs
def test_damage_is_found_among_many_records(place: int, tmp_path: Path) -> None:
    path = Path(write(tmp_path / "a", [b"x" * 16] * 60))
    content = bytearray(path.read_bytes())
    content[40 * 32 + place] ^= 1
    path.write_bytes(content)
    records = iter(TFRecordDataset(str(path)).batch(50))
    with pytest.raises(DatasetError, match=f"record at byte {40 * 32} is damaged"):
        next(records)


@pytest.mark.parametrize("compression", ["GZIP", "ZLIB"])
def test_a_compressed_file_that_is_cut_off(tmp_path: Path, compression: str) -> None:
    path = Path(write(tmp_path / "a", RECORDS, compression))
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DatasetError, match=f"{path} cannot be uncompressed as {compression}: .*cut off"):
        read(TFRecordDataset(path, compression))


def test_a_wrong_compression_is_an_error(tmp_path: Path) -> None:
    plain, gzip = write(tmp_path / "plain", RECORDS), write(tmp_path / "gzip", RECORDS, "GZIP")
    with pytest.raises(DatasetError, match="cannot be uncompressed as GZIP"):
        read(TFRecordDataset(plain, "GZIP"))
    with pytest.raises(DatasetError, match="Is it compressed"):
        read(TFRecordDataset(gzip))
    with pytest.raises(ValueError, match="compression_type is 'GZIP', 'ZLIB', '' or None, got 'gzip'"):
        TFRecordDataset(plain, "gzip")


def test_a_missing_file_is_told_with_those_that_are_there(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tfrecord", RECORDS)
    with pytest.raises(
        DatasetError, match=rf"no file {tmp_path}/b.tfrecord.*looked for.*a.tfrecord.*In {tmp_path} there"
    ):
        read(TFRecordDataset([path, tmp_path / "b.tfrecord"]))
    with pytest.raises(DatasetError, match="The folder /nowhere is not there either"):
        read(TFRecordDataset("/nowhere/a"))
    with pytest.raises(DatasetError, match="cannot be written: No such file"):
        TFRecordWriter("/nowhere/a")


@pytest.mark.parametrize(("given", "error"), [(3, TypeError), ([], ValueError), ([3], TypeError)])
def test_what_is_no_path_is_refused(given: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="TFRecordDataset needs"):
        TFRecordDataset(given)


def test_only_bytes_are_written(tmp_path: Path) -> None:
    with (
        TFRecordWriter(tmp_path / "a") as writer,
        pytest.raises(TypeError, match="A record is bytes, got 'text'"),
    ):
        writer.write("text")  # type: ignore[arg-type]


def test_examples_are_written_and_read_in_batches(tmp_path: Path) -> None:
    images = np.arange(24, dtype=np.uint8).reshape(6, 2, 2)
    with TFRecordWriter(tmp_path / "images.tfrecord") as writer:
        for label, image in enumerate(images):
            feature = {
                "image": Feature(bytes_list=BytesList(value=[image.tobytes()])),
                "label": Feature(int64_list=Int64List(value=[label])),
            }
            writer.write(Example(features=Features(feature=feature)).SerializeToString())

    def parse(record: Any) -> Any:
        parsed = parse_single_example(
            record, {"image": FixedLenFeature([], str), "label": FixedLenFeature([], np.int64)}
        )
        image = decode_raw(parsed["image"], np.uint8).reshape(2, 2)
        return image.astype(np.float32) / 255, parsed["label"]

    files = Dataset.list_files(str(tmp_path / "*.tfrecord"))
    dataset = files.interleave(TFRecordDataset).map(parse).batch(4)
    (first, labels), (second, _) = dataset
    np.testing.assert_allclose(np.concatenate([first, second]) * 255, images)
    np.testing.assert_array_equal(labels, [0, 1, 2, 3])
