"""Checkpoints that TensorFlow wrote are read as TensorFlow reads them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bundles
from muster._errors import CheckpointError, CheckpointNotFoundError, DamagedCheckpointError
from muster.checkpoint.tensorflow import TensorFlowCheckpoint, is_tensorflow_checkpoint, latest_prefix
from muster.checkpoint.tensorflow._bundle import Extent, slice_key
from muster.checkpoint.tensorflow._snappy import decompress
from muster.checkpoint.tensorflow._varints import FormatError
from tensorflow_checkpoints import NAMES, recorded, value_of


@pytest.mark.parametrize("name", NAMES)
def test_names_shapes_dtypes_and_values_are_those_that_tensorflow_found(name: str) -> None:
    prefix, said = recorded(name)
    checkpoint = TensorFlowCheckpoint(prefix)
    found = {
        each: {"shape": list(info.shape), "dtype": info.dtype} for each, info in checkpoint.variables.items()
    }
    assert found == {
        each: {"shape": one["shape"], "dtype": one["dtype"]} for each, one in said["variables"].items()
    }
    for each, one in said["variables"].items():
        if "unreadable" in one:
            with pytest.raises(CheckpointError, match="has the values of a part of its variable only"):
                checkpoint.read(each)
            continue
        value = checkpoint.read(each)
        assert value.shape == tuple(one["shape"])
        if "sum" in one:
            np.testing.assert_array_equal(value.ravel()[:5], np.array(one["first"], value.dtype))
            assert value.sum(dtype=np.float64) == pytest.approx(one["sum"], rel=1e-5, abs=1e-4)
        else:
            np.testing.assert_array_equal(value.astype(value_of(one).dtype), value_of(one))


@pytest.mark.parametrize("name", sorted({*NAMES} - {"saved_model_variables"}))
def test_the_newest_of_a_directory_is_found_also_after_it_was_moved(name: str) -> None:
    prefix, _ = recorded(name)
    assert latest_prefix(prefix.parent) == str(prefix)


def test_a_directory_without_a_state_file_has_no_newest(tmp_path: Path) -> None:
    assert latest_prefix(tmp_path) is None
    assert latest_prefix(tmp_path / "absent") is None
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "gone-1"\n')
    assert latest_prefix(tmp_path) is None


def test_a_state_file_that_says_nothing_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_text("{}}")
    with pytest.raises(CheckpointError, match="does not say which checkpoint is the newest"):
        latest_prefix(tmp_path)


def test_several_data_files_hold_one_checkpoint(tmp_path: Path) -> None:
    arrays = {f"layer_{i}/kernel": np.full((2, 3), i, np.float32) for i in range(7)}
    bundles.write(tmp_path / "model-5", arrays, shards=3)
    checkpoint = TensorFlowCheckpoint(tmp_path / "model-5")
    assert {name: value.tolist() for name, value in checkpoint.read_all().items()} == {
        name: value.tolist() for name, value in arrays.items()
    }
    assert checkpoint.step() == 5
    (tmp_path / "model-5.data-00001-of-00003").unlink()
    checkpoint.read("layer_0/kernel")
    with pytest.raises(
        DamagedCheckpointError, match=r"'layer_1/kernel'.*data-00001-of-00003, which is missing"
    ):
        checkpoint.read("layer_1/kernel")


def test_large_tensors_are_read_in_pieces(tmp_path: Path) -> None:
    large = np.arange(700_000, dtype=np.float32)
    bundles.write(tmp_path / "model", {"large": large})
    np.testing.assert_array_equal(TensorFlowCheckpoint(tmp_path / "model").read("large"), large)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, b"\x80"),
        (-1, b"\x7f"),
        (63, b"\xbf"),
        (64, b"\xc0\x40"),
        (-64, b"\x40"),
        (-65, b"\x3f\xbf"),
        (8191, b"\xdf\xff"),
        (8192, b"\xe0\x20\x00"),
    ],
)
def test_the_key_of_a_part_orders_as_its_numbers(value: int, expected: bytes) -> None:
    key = slice_key(b"a\x00\xff", [Extent(value, None)])
    assert key == b"\x00a\x00\xff\xff\x00\x00\x01\x01\x01" + expected + b"\x7f"


def test_parts_along_two_dimensions_make_up_a_variable(tmp_path: Path) -> None:
    whole = np.arange(200, dtype=np.float32).reshape(2, 100)
    halves = [[Extent(0, None), Extent(0, 70)], [Extent(0, None), Extent(70, 30)]]
    pairs = {b"": bundles.header(), b"w": bundles.divided(whole, halves)}
    parts = [whole[:, :70], whole[:, 70:]]
    data = b"".join(part.tobytes() for part in parts)
    keyed = {
        slice_key(b"w", extents): bundles.entry(part, 0, offset)
        for extents, part, offset in zip(halves, parts, (0, parts[0].nbytes), strict=True)
    }
    pairs |= keyed
    _write_index(tmp_path / "model", pairs)
    (tmp_path / "model.data-00000-of-00001").write_bytes(data)
    checkpoint = TensorFlowCheckpoint(tmp_path / "model")
    assert list(checkpoint.variables) == ["w"]
    np.testing.assert_array_equal(checkpoint.read("w"), whole)
    del pairs[slice_key(b"w", halves[0])]
    _write_index(tmp_path / "model", pairs)
    with pytest.raises(DamagedCheckpointError, match="a part of a variable is not there"):
        TensorFlowCheckpoint(tmp_path / "model")


# From the format's description: literals, copies that overlap, and offsets of one, two and four bytes.
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\x00", b""),
        (b"\x05\x10Snapp", b"Snapp"),
        (b"\x0a\x04ab\x11\x02", b"ababababab"),
        (b"\x0a\x04ab\x1e\x02\x00", b"ababababab"),
        (b"\x0a\x04ab\x1f\x02\x00\x00\x00", b"ababababab"),
        (b"\x46\xf0\x45" + bytes(range(70)), bytes(range(70))),
    ],
)
def test_snappy_blocks_are_decompressed(data: bytes, expected: bytes) -> None:
    assert decompress(data) == expected


@given(st.binary(max_size=80))
def test_damaged_snappy_blocks_are_errors_or_short(data: bytes) -> None:
    try:
        assert len(decompress(data)) <= 22 * len(data)
    except FormatError:
        pass


def test_compressed_blocks_of_an_index_are_read(tmp_path: Path) -> None:
    array = np.arange(4, dtype=np.int32)
    plain = bundles.block({b"": bundles.header(), b"w": bundles.entry(array, 0, 0)})
    literal = bundles.varint(len(plain)) + bytes([61 << 2]) + (len(plain) - 1).to_bytes(2, "little") + plain
    (tmp_path / "model.index").write_bytes(bundles.table([literal], kind=1))
    (tmp_path / "model.data-00000-of-00001").write_bytes(array.tobytes())
    assert TensorFlowCheckpoint(tmp_path / "model").read("w").tolist() == [0, 1, 2, 3]


def test_version_1_is_refused_by_name(tmp_path: Path) -> None:
    table = bundles.table([bundles.block({b"": b"", b"w": b"\x01"})])
    for path, prefix in (("model-1", "model-1"), ("other-00000-of-00002", "other")):
        (tmp_path / path).write_bytes(table)
        assert is_tensorflow_checkpoint(tmp_path / prefix)
        with pytest.raises(CheckpointError, match="of version 1, which muster does not read"):
            TensorFlowCheckpoint(tmp_path / prefix)


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    assert not is_tensorflow_checkpoint(tmp_path / "model")
    with pytest.raises(CheckpointNotFoundError, match=r"there is no .*model\.index"):
        TensorFlowCheckpoint(tmp_path / "model")
    bundles.write(tmp_path / "model", {"w": np.zeros(2, np.float32)})
    with pytest.raises(CheckpointNotFoundError, match="give its prefix, .*model.$"):
        TensorFlowCheckpoint(tmp_path / "model.data-00000-of-00001")
    with pytest.raises(CheckpointError, match="has no 'v'"):
        TensorFlowCheckpoint(tmp_path / "model").read("v")
    (tmp_path / "model.index").unlink()
    with pytest.raises(CheckpointNotFoundError, match="its index .* is missing"):
        TensorFlowCheckpoint(tmp_path / "model")


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ({b"w": b""}, "it has no header"),
        ({b"": bundles.header(endianness=1)}, "big-endian"),
        ({b"": bundles.header(min_consumer=2)}, "needs a reader of version 2"),
        ({b"": b"\xff"}, "is no message"),
        ({b"": bundles.header(), b"\xff": b""}, "is not text"),
    ],
)
def test_an_index_that_cannot_be_read_says_why(
    tmp_path: Path, pairs: dict[bytes, bytes], message: str
) -> None:
    _write_index(tmp_path / "model", pairs)
    with pytest.raises(DamagedCheckpointError, match=message):
        TensorFlowCheckpoint(tmp_path / "model")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"size": 4}, "has 4 bytes, but its shape .2,. needs 8"),
        ({"shape": [1 << 40, 1 << 40]}, "needs"),
        ({"shape": [1 << 40], "size": 1 << 42}, "is cut off: it has 8 bytes"),
        ({"dtype": 7, "shape": [9]}, "cannot hold 9 strings"),
    ],
)
def test_an_entry_is_checked_before_memory_is_taken(
    tmp_path: Path, fields: dict[str, Any], message: str
) -> None:
    array = np.ones(2, np.float32)
    _write_index(tmp_path / "model", {b"": bundles.header(), b"w": bundles.entry(array, 0, 0, **fields)})
    (tmp_path / "model.data-00000-of-00001").write_bytes(array.tobytes())
    with pytest.raises(DamagedCheckpointError, match=message):
        TensorFlowCheckpoint(tmp_path / "model").read("w")


def test_what_only_tensorflow_can_use_is_left_out(tmp_path: Path) -> None:
    array = np.ones(2, np.float32)
    pairs = {
        b"": bundles.header(),
        b"r": bundles.entry(array, 0, 0, dtype=20),
        b"w": bundles.entry(array, 0, 0),
    }
    _write_index(tmp_path / "model", pairs)
    (tmp_path / "model.data-00000-of-00001").write_bytes(array.tobytes())
    checkpoint = TensorFlowCheckpoint(tmp_path / "model")
    assert list(checkpoint.read_all()) == ["w"]
    with pytest.raises(CheckpointError, match="holds neither numbers nor strings, but values of type 20"):
        checkpoint.read("r")


def _write_index(prefix: Path, pairs: dict[bytes, bytes]) -> None:
    Path(f"{prefix}.index").write_bytes(bundles.table([bundles.block(dict(sorted(pairs.items())))]))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes, bytes]:
    """A folder, and the index and data of a checkpoint with a divided variable and strings."""
    prefix, _ = recorded("v1_dnn_partitioned")
    folder = tmp_path_factory.mktemp("damaged")
    index = prefix.with_name(prefix.name + ".index").read_bytes()
    data = prefix.with_name(prefix.name + ".data-00000-of-00001").read_bytes()
    return folder / "model", index, data


@given(st.data())
def test_a_flipped_or_lost_byte_is_an_error_or_changes_nothing(
    small: tuple[Path, bytes, bytes], data: st.DataObject
) -> None:
    prefix, *contents = small
    which = data.draw(st.integers(0, 1))
    at = data.draw(st.integers(0, len(contents[which]) - 1))
    if data.draw(st.booleans()):
        changed = bytearray(contents[which])
        changed[at] ^= data.draw(st.integers(1, 255))
        contents[which] = bytes(changed)
    else:
        contents[which] = contents[which][:at]
    expected = _contents(TensorFlowCheckpoint(recorded("v1_dnn_partitioned")[0]))
    Path(f"{prefix}.index").write_bytes(contents[0])
    Path(f"{prefix}.data-00000-of-00001").write_bytes(contents[1])
    try:
        assert _contents(TensorFlowCheckpoint(prefix)) == expected
    except DamagedCheckpointError:
        pass


@given(st.data())
def test_a_forged_block_is_an_error_or_a_small_table(
    small: tuple[Path, bytes, bytes], data: st.DataObject
) -> None:
    prefix, *_ = small
    array = np.arange(6, dtype=np.float32)
    block = bytearray(bundles.block({b"": bundles.header(), b"w": bundles.entry(array, 0, 0)}))
    for _ in range(data.draw(st.integers(1, 4))):
        block[data.draw(st.integers(0, len(block) - 1))] = data.draw(st.integers(0, 255))
    Path(f"{prefix}.index").write_bytes(bundles.table([bytes(block)]))
    Path(f"{prefix}.data-00000-of-00001").write_bytes(array.tobytes())
    try:
        checkpoint = TensorFlowCheckpoint(prefix)
        for name in checkpoint.variables:
            assert checkpoint.read(name).nbytes <= array.nbytes * 8
    except CheckpointError:
        pass


def _contents(checkpoint: TensorFlowCheckpoint) -> dict[str, list[Any]]:
    readable = [name for name in checkpoint.variables if "/t_" not in name]
    return {name: checkpoint.read(name).tolist() for name in readable}
