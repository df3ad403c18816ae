"""The few Protocol Buffers messages of an event file, to bytes and back.

Field numbers are those of tensorflow/core/util/event.proto, framework/summary.proto and
framework/tensor.proto. Everything else in them is skipped when reading.
"""

import math
import struct
from collections.abc import Iterable, Iterator
from enum import IntEnum

from muster._errors import SummaryError
from muster._wire import WireError, fields, read_number, sized, varint

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
    return _event(wall_time, 0, sized(_FILE_VERSION, b"brain.Event:2"))


def scalars(wall_time: float, step: int, values: Iterable[tuple[str, float]]) -> bytes:
    """An event of float32 values by tag."""
    entries = (_text(_TAG, tag) + b"\x15" + _float32(value) for tag, value in values)
    return _event(wall_time, step, sized(_SUMMARY, b"".join(sized(_VALUE, entry) for entry in entries)))


def text(wall_time: float, step: int, tag: str, value: str) -> bytes:
    """An event of a text, for TensorBoard's text plugin."""
    tensor = varint(_DTYPE, _DT_STRING) + sized(_TENSOR_SHAPE, b"") + _text(_STRING_VAL, value)
    metadata = sized(_PLUGIN_DATA, _text(_PLUGIN_NAME, "text"))
    entry = _text(_TAG, tag) + sized(_TENSOR, tensor) + sized(_METADATA, metadata)
    return _event(wall_time, step, sized(_SUMMARY, sized(_VALUE, entry)))


def session_log(wall_time: float, step: int, status: SessionLog, path: str) -> bytes:
    """An event that says what happened to the session."""
    log = varint(_STATUS, status) + (_text(_CHECKPOINT_PATH, path) if path else b"")
    return _event(wall_time, step, sized(_SESSION_LOG, log))


def parse_event(
    data: bytes,
) -> tuple[float, int, list[tuple[str, float | str]], tuple[SessionLog, str] | None]:
    """Returns the wall time, the step, the scalars and texts by tag, and the session log or None."""
    event = dict(_fields(data))
    (wall_time,) = struct.unpack("<d", event.get(_WALL_TIME, bytes(8)))
    step = int.from_bytes(event.get(_STEP, b""), "little")
    values: list[tuple[str, float | str]] = []
    for _, entry in _fields(event.get(_SUMMARY, b"")):
        value = dict(_fields(entry))
        tag = value.get(_TAG, b"").decode()
        if _SIMPLE_VALUE in value:
            values.append((tag, struct.unpack("<f", value[_SIMPLE_VALUE])[0]))
        elif _TENSOR in value:
            tensor = dict(_fields(value[_TENSOR]))
            if tensor.get(_DTYPE, b"")[:1] == bytes([_DT_STRING]) and _STRING_VAL in tensor:
                values.append((tag, tensor[_STRING_VAL].decode()))
    log = None
    if _SESSION_LOG in event:
        entries = dict(_fields(event[_SESSION_LOG]))
        status = int.from_bytes(entries.get(_STATUS, b""), "little")
        if status in set(SessionLog):
            log = SessionLog(status), entries.get(_CHECKPOINT_PATH, b"").decode()
    return wall_time, step, values, log


def _event(wall_time: float, step: int, what: bytes) -> bytes:
    if step < 0:
        raise ValueError(f"The step of an event must be >= 0, not {step}.")
    return b"\x09" + struct.pack("<d", wall_time) + varint(_STEP, step) + what


def _float32(value: float) -> bytes:
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return struct.pack("<f", math.copysign(math.inf, value))


def _text(field: int, value: str) -> bytes:
    return sized(field, value.encode())


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields the fields of a message: the number, and the value's bytes (a varint's as little-endian)."""
    try:
        for field, wire_type, start, end in fields(data):
            value = data[start:end]
            yield field, read_number(value, 0)[0].to_bytes(10, "little") if wire_type == 0 else value
    except WireError as exc:
        raise SummaryError(f"An event is no message: {exc}") from exc
