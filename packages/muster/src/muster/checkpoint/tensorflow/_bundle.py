"""Read the index of a TensorFlow checkpoint: each tensor's location, shape and dtype.

Source: tensorflow/core/protobuf/tensor_bundle.proto; tensorflow/core/util/tensor_bundle/tensor_bundle.cc;
``EncodeTensorNameSlice`` (tensorflow/core/util/saved_tensor_slice_util.cc) and
tensorflow/core/lib/strings/ordered_code.cc for the keys of slices.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from muster._protobuf import message_class
from muster.checkpoint.tensorflow._table import read_table
from muster.checkpoint.tensorflow._varints import FormatError

STRING = "string"
# The name of what tf.train.Checkpoint stores about the objects whose variables it has.
OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
# Quantized types are the integers that they are stored as.
_DTYPES = {
    1: "float32",
    2: "float64",
    3: "int32",
    4: "uint8",
    5: "int16",
    6: "int8",
    7: STRING,
    8: "complex64",
    9: "int64",
    10: "bool",
    11: "int8",
    12: "uint8",
    13: "int32",
    14: "bfloat16",
    15: "int16",
    16: "uint16",
    17: "uint16",
    18: "complex128",
    19: "float16",
    22: "uint32",
    23: "uint64",
    24: "float8_e5m2",
    25: "float8_e4m3fn",
    29: "int4",
    30: "uint4",
}
_NUMERIC = {*_DTYPES.values()} - {STRING}
_HEADER_KEY = b""
_VERSION = 1
_MESSAGES = """
message Index { Header header = 1; Entry entry = 2; }
message Header { int32 num_shards = 1; int32 endianness = 2; Version version = 3; }
message Version { int32 producer = 1; int32 min_consumer = 2; }
message Entry {
  int32 dtype = 1; Shape shape = 2; int32 shard_id = 3; int64 offset = 4; int64 size = 5; fixed32 crc32c = 6;
  repeated Slice slices = 7;
}
message Shape { repeated Dim dim = 2; }
message Dim { int64 size = 1; }
message Slice { repeated Extent extent = 1; }
message Extent { int64 start = 1; oneof has { int64 length = 2; } }
"""


@dataclass(frozen=True)
class Extent:
    """The range of one dimension that a slice covers; a length of None covers all of it."""

    start: int
    length: int | None


@dataclass(frozen=True)
class Slice:
    """A part of a variable that a partitioner divided, and where its bytes are."""

    extents: tuple[Extent, ...]
    entry: "Entry"

    def indices(self) -> tuple[slice, ...]:
        """Return what the part is of the whole, as an index of an array."""
        return tuple(
            slice(None) if extent.length is None else slice(extent.start, extent.start + extent.length)
            for extent in self.extents
        )


@dataclass(frozen=True)
class Entry:
    """A tensor in a checkpoint.

    Attributes:
        dtype: The name of its dtype, or `STRING`.
        shape: Its shape.
        shard: The number of the data file.
        offset: Where its bytes begin in that file.
        size: How many there are.
        crc32c: Their masked checksum.
        slices: The parts of a divided variable, which has no bytes itself; empty for any other.
    """

    dtype: str
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    crc32c: int
    slices: tuple[Slice, ...] = ()

    @property
    def is_numeric(self) -> bool:
        """True if it holds numbers or booleans, rather than strings or TensorFlow's own types."""
        return self.dtype in _NUMERIC


@dataclass(frozen=True)
class Index:
    """The tensors of a checkpoint by name, sorted, and how many data files there are."""

    shards: int
    entries: Mapping[str, Entry]


def parse_index(data: bytes) -> Index:
    """Parse the bytes of an index file.

    Raises:
        FormatError: They are damaged, or of a version that this one does not read.
    """
    table = read_table(data)
    if _HEADER_KEY not in table:
        raise FormatError("it has no header")
    header = _parsed("header", table.pop(_HEADER_KEY))
    if header.endianness:
        raise FormatError("it was written on a big-endian machine, which this version does not read")
    if header.version.min_consumer > _VERSION:
        raise FormatError(
            f"it needs a reader of version {header.version.min_consumer}; this one is of version {_VERSION}"
        )
    messages = {key: _parsed("entry", value) for key, value in table.items()}
    parts: set[bytes] = set()
    entries = {}
    for key, message in messages.items():
        if message.slices:
            slices = [_extents(each) for each in message.slices]
            keys = [slice_key(key, extents) for extents in slices]
            parts.update(keys)
            entries[key] = _entry(
                message,
                tuple(
                    Slice(extents, _part(messages, part)) for extents, part in zip(slices, keys, strict=True)
                ),
            )
        else:
            entries[key] = _entry(message)
    try:
        named = {key.decode(): entry for key, entry in entries.items() if key not in parts}
    except UnicodeDecodeError as exc:
        raise FormatError(f"a name in it is not text: {exc.object!r}") from exc
    return Index(header.num_shards, named)


def slice_key(name: bytes, extents: Sequence[Extent]) -> bytes:
    """Return the key under which a part of a variable is stored."""
    key = [_unsigned(0), _escaped(name), b"\x00\x01", _unsigned(len(extents))]
    for extent in extents:
        key += _signed(extent.start), _signed(-1 if extent.length is None else extent.length)
    return b"".join(key)


def _escaped(name: bytes) -> bytes:
    return b"".join({0: b"\x00\xff", 0xFF: b"\xff\x00"}.get(byte, bytes([byte])) for byte in name)


def _unsigned(value: int) -> bytes:
    length = (value.bit_length() + 7) // 8
    return bytes([length]) + value.to_bytes(length, "big")


def _signed(value: int) -> bytes:
    """Return a number so that encodings are in the order of their numbers: the more bits are set in front,
    the longer it is."""
    length = 1
    while not -1 << 7 * length - 1 <= value < 1 << 7 * length - 1:
        length += 1
    bits = 8 * length
    return (value % (1 << bits) ^ ((1 << length) - 1) << bits - length).to_bytes(length, "big")


def _part(messages: Mapping[bytes, Any], key: bytes) -> Entry:
    if key not in messages or messages[key].slices:
        raise FormatError(f"a part of a variable is not there: {key!r}")
    return _entry(messages[key])


def _extents(message: Any) -> tuple[Extent, ...]:
    extents = tuple(
        Extent(each.start, each.length if each.HasField("length") else None) for each in message.extent
    )
    if any(min(extent.start, extent.length or 0) < 0 for extent in extents):
        raise FormatError(f"a part of a variable begins or ends before it: {extents}")
    return extents


def _entry(message: Any, slices: tuple[Slice, ...] = ()) -> Entry:
    shape = tuple(dim.size for dim in message.shape.dim)
    if min(*shape, message.offset, message.size, message.shard_id, 0) < 0:
        raise FormatError(f"an entry has a negative size: {shape}, {message.offset}, {message.size}")
    return Entry(
        _DTYPES.get(message.dtype, f"type {message.dtype}"),
        shape,
        message.shard_id,
        message.offset,
        message.size,
        message.crc32c,
        slices,
    )


def _parsed(field: str, data: bytes) -> Any:
    from google.protobuf.message import DecodeError

    message = getattr(_message()(), field)
    try:
        message.MergeFromString(data)
    except DecodeError as exc:
        raise FormatError(f"an entry of it is no message: {exc}") from exc
    return message


@functools.cache
def _message() -> Any:
    """Return the class of a message that has one of each kind."""
    return message_class(_MESSAGES, "tensorflow.Index")
