"""``tf.io.decode_proto``: fields of serialized messages as arrays.

Source: tensorflow/core/kernels/decode_proto_op.cc; tensorflow/core/util/proto/proto_utils.cc.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from google.protobuf.message import DecodeError
from numpy.typing import DTypeLike

from muster import DatasetError
from muster.extend import example_message_class, local_path, object_array
from muster_tensorflow.library.ops._operation import operation

_LINKED, _GIVEN = b"local://", b"bytes://"
_OF_EXAMPLES = (
    *("Example", "SequenceExample", "Features", "Feature", "FeatureLists", "FeatureList"),
    *("BytesList", "FloatList", "Int64List"),
)
_KINDS = {  # of fields, with the dtypes that may be asked for
    "float64": "DOUBLE",
    "float32": "FLOAT",
    "int64": "INT64 SINT64 SFIXED64",
    "uint64": "UINT64 FIXED64",
    "int32": "INT32 SINT32 SFIXED32 ENUM",
    "uint32": "UINT32 FIXED32",
    "bool": "BOOL",
    "string": "STRING BYTES MESSAGE GROUP",
}
_WIDER = {"float32": "float64", "int32": "int64", "uint32": "uint64"}


class DecodeProtoV2(NamedTuple):
    """The fields of messages.

    Attributes:
        sizes: How many values each has: int32 of shape (*messages' shape, fields).
        values: Array of each field, of shape (*messages' shape, most values), at least one; missing ones are
            the field's default.
    """

    sizes: Any
    values: list[Any]


@operation
def decode_proto(
    bytes: Any,
    message_type: str,
    field_names: Sequence[str],
    output_types: Sequence[DTypeLike],
    descriptor_source: str | bytes = "local://",
    message_format: str = "binary",
    sanitize: bool = False,
    name: str | None = None,
) -> DecodeProtoV2:
    """Read fields of serialized messages.

    Args:
        bytes: The messages, of any shape.
        message_type: The full name of their type.
        field_names: The fields to read.
        output_types: Their dtypes: those of the fields; of enums int32, of messages in messages, which stay
            serialized, string. float32, int32 and uint32 may also become 64 bits wide.
        descriptor_source: The path of a file with a serialized ``FileDescriptorSet``; or ``b"bytes://"`` and
            the set itself; or ``"local://"`` for the messages in ``tf.train.Example`` and
            ``SequenceExample``, and those of generated modules that the program has imported.
        message_format: ``"binary"`` or ``"text"``.
        sanitize: Unused: fields that were not asked for are never read.
        name: Unused.

    Raises:
        ValueError: There is no such type or field, or a field has another dtype.
        DatasetError: Bytes are no such message.

    Source: tensorflow/python/ops/proto_ops.py, ``decode_proto``.
    """
    if len(field_names) != len(output_types):
        raise ValueError(
            f"field_names and output_types must have the same length, got {len(field_names)} and "
            f"{len(output_types)}."
        )
    if message_format not in ("binary", "text"):
        raise ValueError(f"format must be one of binary or text, got {message_format!r}.")
    message_class = _message_class(message_type, descriptor_source)
    fields = [_field(message_class, *each) for each in zip(field_names, output_types, strict=True)]
    given = np.asarray(bytes, object)
    if not given.size:
        raise ValueError("Bufs argument must contain at least one value.")
    messages = [_parsed(message_class, each, message_format) for each in given.ravel().tolist()]
    found = [[_values(message, field) for message in messages] for field, _ in fields]
    sizes = np.array([[len(values) for values in rows] for rows in found], np.int32)
    return DecodeProtoV2(
        sizes.T.reshape(*given.shape, len(fields)),
        [_padded(rows, *field, given.shape) for rows, field in zip(found, fields, strict=True)],
    )


def _message_class(message_type: str, source: str | bytes) -> Any:
    """Return the class of a message.

    Raises:
        ValueError: The source has no such type, or is none.
    """
    source = source.encode() if isinstance(source, str) else source
    if source in (b"", _LINKED):
        if message_type in {f"tensorflow.{name}" for name in _OF_EXAMPLES}:
            return example_message_class(message_type.rpartition(".")[2])
        pool = descriptor_pool.Default()
    else:
        pool = _pool(source if source.startswith(_GIVEN) else local_path(source.decode()))
    try:
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(message_type))
    except KeyError as exc:
        raise ValueError(
            f"No descriptor found for message type {message_type}. Give its full name, with the package, and "
            "the descriptor_source that describes it."
        ) from exc


@functools.lru_cache(maxsize=16)
def _pool(source: str | bytes) -> Any:
    """Return the messages that a set of files describes, given as bytes or as a file's path."""
    shown = repr(source if isinstance(source, str) else source[:40])
    try:
        if isinstance(source, str):
            with open(source, "rb") as file:
                serialized = file.read()
        else:
            serialized = source.removeprefix(_GIVEN)
        described = descriptor_pb2.FileDescriptorSet.FromString(serialized)
        pool = descriptor_pool.DescriptorPool()
        for each in described.file:
            pool.Add(each)
    except (OSError, DecodeError, TypeError) as exc:
        raise ValueError(
            f"Source does not represent serialized file descriptor set proto: {shown}: {exc}. Make a file by "
            "protoc --include_imports --descriptor_set_out=FILE, or give b'bytes://' and its content."
        ) from exc
    return pool


def _field(message_class: Any, name: str, dtype: DTypeLike) -> tuple[Any, np.dtype[Any] | None]:
    """Return a field, and the dtype of its values; None of text.

    Raises:
        ValueError: There is none, or it has another dtype.
    """
    descriptor = message_class.DESCRIPTOR
    field = descriptor.fields_by_name.get(name)
    if field is None:
        raise ValueError(f"Unknown field: {name} in message type {descriptor.full_name}.")
    kind = np.dtype(dtype)
    asked = "string" if kind.kind in "USO" else str(kind)
    number_of = descriptor_pb2.FieldDescriptorProto.Type.Value
    own = next(
        found
        for found, kinds in _KINDS.items()
        if field.type in [number_of(f"TYPE_{each}") for each in kinds.split()]
    )
    if asked not in (own, _WIDER.get(own)):
        raise ValueError(
            f"Unexpected output type for {descriptor.full_name}.{name}: {asked}, where it is {own}."
        )
    return field, None if asked == "string" else kind


def _parsed(message_class: Any, given: Any, message_format: str) -> Any:
    """Return the message that text or bytes hold.

    Raises:
        DatasetError: They hold none.
    """
    try:
        if message_format == "text":
            return text_format.Parse(given, message_class())
        return message_class.FromString(given.encode() if isinstance(given, str) else given)
    except (DecodeError, text_format.ParseError, TypeError) as exc:
        shown = given[:40] if isinstance(given, str | bytes) else given
        raise DatasetError(f"{shown!r} is no {message_class.DESCRIPTOR.full_name}: {exc}.") from exc


def _values(message: Any, field: Any) -> list[Any]:
    """Return the values of a field that a message has; a field of proto3 has one if it is not the default."""
    value = getattr(message, field.name)
    if _is_repeated(field):
        is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
        return [_plain(each) for each in (_entries(value, field) if is_map else value)]
    there = message.HasField(field.name) if field.has_presence else value != field.default_value
    return [_plain(value)] if there else []


def _is_repeated(field: Any) -> bool:
    return isinstance(field.default_value, list)


def _entries(found: Any, field: Any) -> list[Any]:
    """Return the messages of which a map consists, in the order of their keys."""
    entry_class = message_factory.GetMessageClass(field.message_type)
    return [entry_class(key=key, value=found[key]) for key in sorted(found)]


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode()
    return value.SerializeToString(deterministic=True) if hasattr(value, "SerializeToString") else value


def _padded(rows: list[list[Any]], field: Any, dtype: np.dtype[Any] | None, shape: tuple[int, ...]) -> Any:
    """Return the values of a field in all messages, each filled up with the default to the most."""
    most = max(1, max(map(len, rows)))
    blank = b"" if dtype is None else 0
    if field.message_type is None and not _is_repeated(field):
        blank = _plain(field.default_value)
    flat = [value for row in rows for value in [*row, *[blank] * (most - len(row))]]
    array = object_array(flat) if dtype is None else np.array(flat, dtype)
    return array.reshape(*shape, most)
