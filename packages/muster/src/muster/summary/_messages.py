"""Encoding and decoding the events of an event file.

Fields that are not described here are skipped when reading.

Source: tensorflow/core/util/event.proto, framework/summary.proto and framework/tensor.proto.
"""

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from muster._errors import SummaryError
from muster._protobuf import message_class
from muster.summary._images import encode_images

_DT_FLOAT, _DT_DOUBLE, _DT_STRING = 1, 2, 7
_DATA_TENSOR, _DATA_BLOBS = 2, 3  # how TensorBoard treats the values of a tag
_BLOB_PLUGINS = ("images", "graph_keras_model")
_MESSAGES = """
message Event {
  double wall_time = 1; int64 step = 2;
  oneof what { string file_version = 3; Summary summary = 5; SessionLog session_log = 7; }
}
message Summary {
  message Value {
    string tag = 1;
    oneof kind {
      float simple_value = 2; Summary.Image image = 4; HistogramProto histo = 5; Tensor tensor = 8;
    }
    string node_name = 7; Metadata metadata = 9;
  }
  message Image { int32 height = 1; int32 width = 2; int32 colorspace = 3; bytes encoded_image_string = 4; }
  repeated Summary.Value value = 1;
}
message HistogramProto {
  double min = 1; double max = 2; double num = 3; double sum = 4; double sum_squares = 5;
  repeated double bucket_limit = 6; repeated double bucket = 7;
}
message Metadata {
  PluginData plugin_data = 1; string display_name = 2; string summary_description = 3; int32 data_class = 4;
}
message PluginData { string plugin_name = 1; bytes content = 2; }
message Shape { repeated Dim dim = 2; }
message Dim { int64 size = 1; }
message Tensor { int32 dtype = 1; Shape shape = 2; bytes tensor_content = 4; repeated bytes string_val = 8; }
message SessionLog { int32 status = 1; string checkpoint_path = 2; }
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


def text(wall_time: float, step: int, tag: str, value: str, description: str = "") -> bytes:
    """Return an event of a text, for TensorBoard's text plugin."""
    return texts(wall_time, step, tag, [value.encode()], (), "text", description)


def texts(
    wall_time: float,
    step: int,
    tag: str,
    values: Sequence[bytes],
    shape: Sequence[int],
    plugin: str,
    description: str = "",
    content: bytes = b"",
) -> bytes:
    """Return an event of an array of texts or bytes, for one of TensorBoard's plugins.

    Args:
        wall_time: When it was made, in seconds since the epoch.
        step: The global step.
        tag: The name of the value.
        values: The elements, the last axis the fastest.
        shape: The shape of the array.
        plugin: The plugin's name.
        description: Shown beside it.
        content: What the plugin keeps beside each tag.
    """
    tensor = {"dtype": _DT_STRING, "shape": _shape(shape), "string_val": values}
    return _of_plugin(wall_time, step, tag, tensor, plugin, description, content)


def doubles(
    wall_time: float,
    step: int,
    tag: str,
    values: Any,
    plugin: str,
    description: str = "",
    content: bytes = b"",
) -> bytes:
    """Return an event of an array of float64, for one of TensorBoard's plugins; see `texts`."""
    tensor = {
        "dtype": _DT_DOUBLE,
        "shape": _shape(values.shape),
        "tensor_content": values.astype("<f8").tobytes(),
    }
    return _of_plugin(wall_time, step, tag, tensor, plugin, description, content)


def plugin_content(wall_time: float, step: int, tag: str, plugin: str, content: bytes) -> bytes:
    """Return an event without a value, whose content is what a plugin reads."""
    event = _event(wall_time, step)
    metadata = {"plugin_data": {"plugin_name": plugin, "content": content}, "data_class": _DATA_TENSOR}
    event.summary.value.add(tag=tag, metadata=metadata, tensor={"dtype": _DT_FLOAT, "shape": _shape([0])})
    return _encoded(event)


def of_summary(wall_time: float, step: int, summary: bytes) -> bytes:
    """Return an event of a ``Summary`` message.

    Raises:
        SummaryError: The bytes are no message.
    """
    event = _event(wall_time, step)
    event.summary.CopyFrom(_parsed(summary_class(), summary))
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
    event = parse_message(data)
    for value in event.summary.value:
        if value.HasField("simple_value"):
            yield Event(event.step, event.wall_time, value.tag, value.simple_value)
        elif value.tensor.dtype == _DT_STRING and value.metadata.plugin_data.plugin_name in ("", "text"):
            for each in value.tensor.string_val[:1]:
                yield Event(event.step, event.wall_time, value.tag, each.decode())
    log = event.session_log
    if log.status in set(SessionLog):
        status = SessionLog(log.status)
        yield Event(event.step, event.wall_time, "session_log", log.checkpoint_path, status)


def parse_message(data: bytes) -> Any:
    """Return an event as a message of protobuf.

    Raises:
        SummaryError: The data is no message.
    """
    return _parsed(_message(), data)


@functools.cache
def _message() -> Any:
    """Return the message class of an event."""
    return message_class(_MESSAGES, "tensorflow.Event")


@functools.cache
def summary_class() -> Any:
    """Return the message class of a summary, whose ``Value`` and ``Image`` are in it."""
    return type(_message()().summary)


def images_summary(tag: str, images: Any) -> bytes:
    """Return images as a ``Summary`` message, called ``tag/0``, ``tag/1``, …, as TensorFlow 1 writes them.

    Args:
        tag: The name of the images.
        images: Shape (batch, height, width, channels) with 1 to 4 channels; uint8, or floating-point numbers
            from 0 to 1.
    """
    width, height, files = encode_images(images, len(images))
    size = {"height": height, "width": width, "colorspace": images.shape[3]}
    summary = summary_class()()
    for number, file in enumerate(files):
        summary.value.add(tag=f"{tag}/{number}", image={**size, "encoded_image_string": file})
    return _encoded(summary)


@functools.cache
def histogram_class() -> Any:
    """Return the message class of a histogram in a summary, as TensorFlow 1 writes it."""
    return type(summary_class().Value().histo)


def _parsed(kind: Any, data: bytes) -> Any:
    from google.protobuf.message import DecodeError

    try:
        return kind.FromString(data)
    except DecodeError as exc:
        raise SummaryError(f"An event is no message: {exc}") from exc


def _shape(sizes: Iterable[int]) -> dict[str, list[dict[str, int]]]:
    return {"dim": [{"size": size} for size in sizes]}


def _of_plugin(
    wall_time: float,
    step: int,
    tag: str,
    tensor: dict[str, Any],
    plugin: str,
    description: str,
    content: bytes,
) -> bytes:
    event = _event(wall_time, step)
    metadata = {
        "plugin_data": {"plugin_name": plugin, "content": content},
        "summary_description": description,
        "data_class": _DATA_BLOBS if plugin in _BLOB_PLUGINS else _DATA_TENSOR,
    }
    event.summary.value.add(tag=tag, tensor=tensor, metadata=metadata)
    return _encoded(event)


def _event(wall_time: float, step: int) -> Any:
    if step < 0:
        raise ValueError(f"The step of an event must be >= 0, not {step}.")
    return _message()(wall_time=wall_time, step=step)


def _encoded(event: Any) -> bytes:
    data: bytes = event.SerializeToString()
    return data
