"""Encoding and decoding the events of an event file.

Fields that are not described here are skipped when reading.

Source: tensorflow/core/util/event.proto, framework/summary.proto and framework/tensor.proto.
"""

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from muster._errors import SummaryError
from muster._protobuf import message_class

_DT_STRING = 7
_DESCRIPTION = """
name: "event.proto" package: "tensorflow" syntax: "proto3"
message_type {
  name: "Event" oneof_decl { name: "what" }
  field { name: "wall_time" number: 1 type: TYPE_DOUBLE }
  field { name: "step" number: 2 type: TYPE_INT64 }
  field { name: "file_version" number: 3 type: TYPE_STRING oneof_index: 0 }
  field { name: "summary" number: 5 type: TYPE_MESSAGE type_name: "Summary" oneof_index: 0 }
  field { name: "session_log" number: 7 type: TYPE_MESSAGE type_name: "SessionLog" oneof_index: 0 }
}
message_type {
  name: "Summary"
  field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: "Value" }
}
message_type {
  name: "Value" oneof_decl { name: "kind" }
  field { name: "tag" number: 1 type: TYPE_STRING }
  field { name: "simple_value" number: 2 type: TYPE_FLOAT oneof_index: 0 }
  field { name: "tensor" number: 8 type: TYPE_MESSAGE type_name: "Tensor" oneof_index: 0 }
  field { name: "metadata" number: 9 type: TYPE_MESSAGE type_name: "Metadata" }
}
message_type {
  name: "Metadata" field { name: "plugin_data" number: 1 type: TYPE_MESSAGE type_name: "PluginData" }
}
message_type { name: "PluginData" field { name: "plugin_name" number: 1 type: TYPE_STRING } }
message_type { name: "Shape" }
message_type {
  name: "Tensor"
  field { name: "dtype" number: 1 type: TYPE_INT32 }
  field { name: "shape" number: 2 type: TYPE_MESSAGE type_name: "Shape" }
  field { name: "string_val" number: 8 label: LABEL_REPEATED type: TYPE_BYTES }
}
message_type {
  name: "SessionLog"
  field { name: "status" number: 1 type: TYPE_INT32 }
  field { name: "checkpoint_path" number: 2 type: TYPE_STRING }
}
"""


class SessionLog(IntEnum):
    """A change of the session. At START, TensorBoard drops earlier events from that step on."""

    START = 1
    STOP = 2
    CHECKPOINT = 3


@dataclass(frozen=True)
class Event:
    """A value of an event file.

    Attributes:
        step: The global step.
        wall_time: When it was written, in seconds since the epoch.
        tag: The name of the value; ``session_log`` for a session log.
        value: A scalar (float), a text (str), or the path in a session log.
        status: The change that a session log records; None for everything else.
    """

    step: int
    wall_time: float
    tag: str
    value: float | str
    status: SessionLog | None = None


def file_version(wall_time: float) -> bytes:
    """Return the first event of every file."""
    return _encoded(_message()(wall_time=wall_time, file_version="brain.Event:2"))


def scalars(wall_time: float, step: int, values: Iterable[tuple[str, float]]) -> bytes:
    """Return an event of float32 values by tag."""
    event = _event(wall_time, step)
    for tag, value in values:
        event.summary.value.add(tag=tag, simple_value=value)
    return _encoded(event)


def text(wall_time: float, step: int, tag: str, value: str) -> bytes:
    """Return an event of a text, for TensorBoard's text plugin."""
    event = _event(wall_time, step)
    entry = event.summary.value.add(tag=tag, tensor={"dtype": _DT_STRING, "shape": {}})
    entry.tensor.string_val.append(value.encode())
    entry.metadata.plugin_data.plugin_name = "text"
    return _encoded(event)


def session_log(wall_time: float, step: int, status: SessionLog, path: str) -> bytes:
    """Return an event that records a change of the session."""
    event = _event(wall_time, step)
    event.session_log.status, event.session_log.checkpoint_path = status, path
    return _encoded(event)


def parse_event(data: bytes) -> Iterator[Event]:
    """Yield the scalars, the texts and the session log of an event.

    Raises:
        SummaryError: The data is no message.
    """
    from google.protobuf.message import DecodeError

    try:
        event = _message().FromString(data)
    except DecodeError as exc:
        raise SummaryError(f"An event is no message: {exc}") from exc
    for value in event.summary.value:
        if value.HasField("simple_value"):
            yield Event(event.step, event.wall_time, value.tag, value.simple_value)
        elif value.tensor.dtype == _DT_STRING and value.tensor.string_val:
            yield Event(event.step, event.wall_time, value.tag, value.tensor.string_val[0].decode())
    log = event.session_log
    if log.status in set(SessionLog):
        status = SessionLog(log.status)
        yield Event(event.step, event.wall_time, "session_log", log.checkpoint_path, status)


@functools.cache
def _message() -> Any:
    """Return the message class of an event."""
    return message_class(_DESCRIPTION, "tensorflow.Event")


def _event(wall_time: float, step: int) -> Any:
    if step < 0:
        raise ValueError(f"The step of an event must be >= 0, not {step}.")
    return _message()(wall_time=wall_time, step=step)


def _encoded(event: Any) -> bytes:
    data: bytes = event.SerializeToString()
    return data
