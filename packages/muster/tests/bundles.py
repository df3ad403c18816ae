"""Writes checkpoints in TensorFlow's format, also those that TensorFlow's examples do not have."""

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np

from muster._records import masked
from muster.checkpoint.tensorflow import _bundle

_CODES = {name: code for code, name in reversed(_bundle._DTYPES.items())}


def varint(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def block(pairs: Mapping[bytes, bytes]) -> bytes:
    """Return a block whose keys leave out what they share with the key before."""
    out, last = b"", b""
    for key, value in pairs.items():
        shared = next((i for i, (a, b) in enumerate(zip(key, last, strict=False)) if a != b), None)
        shared = min(len(key), len(last)) if shared is None else shared
        out += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        last = key
    return out + struct.pack("<II", 0, 1)


def table(blocks: Sequence[bytes], kind: int = 0) -> bytes:
    """Return a table of blocks, the stored form of whose entries has this kind of compression."""
    out, handles = b"", {}
    for index, data in enumerate(blocks):
        handles[b"%d" % index] = varint(len(out)) + varint(len(data))
        out += sealed(data, kind)
    start = len(out)
    data = block(handles)
    out += sealed(data)
    footer = varint(start) + varint(0) + varint(start) + varint(len(data))
    return out + footer.ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57)


def sealed(data: bytes, kind: int = 0) -> bytes:
    data += bytes([kind])
    return data + struct.pack("<I", masked(google_crc32c.value(data)))


def header(shards: int = 1, **fields: Any) -> bytes:
    message = _bundle._message()().header
    message.num_shards = shards
    message.version.producer = 1
    message.endianness = fields.get("endianness", 0)
    message.version.min_consumer = fields.get("min_consumer", 0)
    return message.SerializeToString()


def entry(array: np.ndarray[Any, Any], shard: int, offset: int, **fields: Any) -> bytes:
    message = _bundle._message()().entry
    message.dtype = fields.get("dtype", _CODES[array.dtype.name])
    for size in fields.get("shape", array.shape):
        message.shape.dim.add(size=size)
    message.shard_id, message.offset = shard, offset
    message.size = fields.get("size", array.nbytes)
    message.crc32c = masked(google_crc32c.value(array.tobytes()))
    return message.SerializeToString()


def divided(array: np.ndarray[Any, Any], slices: Sequence[Sequence[_bundle.Extent]]) -> bytes:
    """Return the entry of a variable that is stored in parts."""
    message = _bundle._message()().entry
    message.dtype = _CODES[array.dtype.name]
    for size in array.shape:
        message.shape.dim.add(size=size)
    for extents in slices:
        part = message.slices.add()
        for extent in extents:
            part.extent.add(start=extent.start, length=extent.length)
    return message.SerializeToString()


def write(prefix: Path, arrays: Mapping[str, np.ndarray[Any, Any]], shards: int = 1) -> None:
    """Write arrays, spread over several data files in turn."""
    pairs, data = {b"": header(shards)}, [b""] * shards
    for index, name in enumerate(sorted(arrays)):
        shard = index % shards
        pairs[name.encode()] = entry(arrays[name], shard, len(data[shard]))
        data[shard] += arrays[name].tobytes()
    for shard, content in enumerate(data):
        Path(f"{prefix}.data-{shard:05d}-of-{shards:05d}").write_bytes(content)
    Path(f"{prefix}.index").write_bytes(table([block(pairs)]))
