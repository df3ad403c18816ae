"""The few Protocol Buffers messages of an event file, to bytes and back.

Field numbers are those of tensorflow/core/util/event.proto, framework/summary.proto and
framework/tensor.proto. Everything else in them is skipped when reading.
"""

import math
import struct
from collections.abc import Iterable, Iterator
from enum import IntEnum

from .._errors import SummaryError

# The key of a field is its number and the wire type of its value: 0 varint, 1 eight bytes,
# 2 bytes with their length before them, 5 four bytes.
_WALL_TIME, _STEP, _FILE_VERSION, _SUMMARY, _SESSION_LOG = 1, 2, 3, 5, 7  # Event
_VALUE = 1  # Summary
_TAG, _SIMPLE_VALUE, _TENSOR, _METADATA = 1, 2, 8, 9  # Summary.Value
_PLUGIN_DATA, _PLUGIN_NAME = 1, 1  # SummaryMetadata, SummaryMetadata.PluginData
_DTYPE, _TENSOR_SHAPE, _STRING_VAL = 1, 2, 8  # TensorProto
_STATUS, _CHECKPOINT_PATH = 1, 2  # SessionLog
_DT_STRING = 7


class SessionLog(IntEnum):
    """What happened to the session: TensorBoard cuts a run at START, and drops what is after its step."""

    START = 1
    STOP = 2
    CHECKPOINT = 3


def file_version(wall_time: float) -> bytes:
    """The first event of every file."""
    return _event(wall_time, 0, _bytes(_FILE_VERSION, b"brain.Event:2"))


def scalars(wall_time: float, step: int, values: Iterable[tuple[str, float]]) -> bytes:
    """An event of float32 values by tag."""
    entries = (_text(_TAG, tag) + b"\x15" + _float32(value) for tag, value in values)
    return _event(wall_time, step, _bytes(_SUMMARY, b"".join(_bytes(_VALUE, entry) for entry in entries)))


def text(wall_time: float, step: int, tag: str, value: str) -> bytes:
    """An event of a text, for TensorBoard's text plugin."""
    tensor = _varint(_DTYPE, _DT_STRING) + _bytes(_TENSOR_SHAPE, b"") + _text(_STRING_VAL, value)
    metadata = _bytes(_PLUGIN_DATA, _text(_PLUGIN_NAME, "text"))
    entry = _text(_TAG, tag) + _bytes(_TENSOR, tensor) + _bytes(_METADATA, metadata)
    return _event(wall_time, step, _bytes(_SUMMARY, _bytes(_VALUE, entry)))


def session_log(wall_time: float, step: int, status: SessionLog, path: str) -> bytes:
    """An event that says what happened to the session."""
    log = _varint(_STATUS, status) + (_text(_CHECKPOINT_PATH, path) if path else b"")
    return _event(wall_time, step, _bytes(_SESSION_LOG, log))


def parse_event(
    data: bytes,
) -> tuple[float, int, list[tuple[str, float | str]], tuple[SessionLog, str] | None]:
    """Returns the wall time, the step, the scalars and texts by tag, and the session log or None."""
    fields = dict(_fields(data))
    (wall_time,) = struct.unpack("<d", fields.get(_WALL_TIME, bytes(8)))
    step = int.from_bytes(fields.get(_STEP, b""), "little")
    values: list[tuple[str, float | str]] = []
    for _, entry in _fields(fields.get(_SUMMARY, b"")):
        value = dict(_fields(entry))
        tag = value.get(_TAG, b"").decode()
        if _SIMPLE_VALUE in value:
            values.append((tag, struct.unpack("<f", value[_SIMPLE_VALUE])[0]))
        elif _TENSOR in value:
            tensor = dict(_fields(value[_TENSOR]))
            if tensor.get(_DTYPE, b"")[:1] == bytes([_DT_STRING]) and _STRING_VAL in tensor:
                values.append((tag, tensor[_STRING_VAL].decode()))
    log = None
    if _SESSION_LOG in fields:
        entries = dict(_fields(fields[_SESSION_LOG]))
        status = int.from_bytes(entries.get(_STATUS, b""), "little")
        if status in set(SessionLog):
            log = SessionLog(status), entries.get(_CHECKPOINT_PATH, b"").decode()
    return wall_time, step, values, log


def _event(wall_time: float, step: int, what: bytes) -> bytes:
    if step < 0:
        raise ValueError(f"The step of an event must be >= 0, not {step}.")
    return b"\x09" + struct.pack("<d", wall_time) + _varint(_STEP, step) + what


def _float32(value: float) -> bytes:
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return struct.pack("<f", math.copysign(math.inf, value))


def _number(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _varint(field: int, value: int) -> bytes:
    return _number(field << 3) + _number(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _number(field << 3 | 2) + _number(len(value)) + value


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields the fields of a message: the number, and the value's bytes (a varint's as little-endian)."""
    at = 0

    def number() -> int:
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = number()
        match key & 7:
            case 0:
                yield key >> 3, number().to_bytes(10, "little")
                continue
            case 1:
                size = 8
            case 2:
                size = number()
            case 5:
                size = 4
            case wire_type:
                raise SummaryError(f"An event has a field of wire type {wire_type}, which is not in use.")
        yield key >> 3, data[at : at + size]
        at += size
