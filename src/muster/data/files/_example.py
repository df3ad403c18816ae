"""``tf.train.Example``: named features as bytes, and back.

Field numbers are those of tensorflow/core/example/example.proto and feature.proto.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from muster._errors import DatasetError
from muster._wire import WireError, fields, number, read_field, read_number, sized

_FEATURES = 1  # Example
_FEATURE = 1  # Features: entries of a map
_KEY, _VALUE = 1, 2  # of such an entry
_BYTES, _FLOATS, _INTEGERS = 1, 2, 3  # Feature
_LIST = 1  # BytesList, FloatList, Int64List

_KINDS = {_BYTES: "bytes", _FLOATS: "float", _INTEGERS: "int64"}
# Of fewer bytes, a loop in Python is faster than NumPy.
_FEW = 64
_ONES = 2**64 - 1

Values = list[bytes] | np.ndarray[Any, Any]
"""The values of a feature: bytes, float32 or int64."""


@dataclass(frozen=True)
class BytesList:
    """Values of bytes. Source: tensorflow/core/example/feature.proto, as all here."""

    value: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        for each in self.value:
            if not isinstance(each, bytes | np.bytes_):
                raise TypeError(f"A BytesList holds bytes, got {each!r} of type {type(each).__name__}.")


@dataclass(frozen=True)
class FloatList:
    """Values of float32."""

    value: Iterable[float] = ()


@dataclass(frozen=True)
class Int64List:
    """Values of int64."""

    value: Iterable[int] = ()

    def __post_init__(self) -> None:
        values = np.asarray(list(self.value))
        if values.size and values.dtype.kind not in "iub":
            raise TypeError(f"An Int64List holds whole numbers, got {values.dtype}: {list(self.value)!r}.")


@dataclass(frozen=True, kw_only=True)
class Feature:
    """The values of one name: of one kind, or none."""

    bytes_list: BytesList | None = None
    float_list: FloatList | None = None
    int64_list: Int64List | None = None

    def __post_init__(self) -> None:
        kinds = [each for each in (self.bytes_list, self.float_list, self.int64_list) if each is not None]
        if len(kinds) > 1:
            raise ValueError(f"A Feature has values of one kind, got {len(kinds)}: {self!r}.")


@dataclass(frozen=True)
class Features:
    """Features by name."""

    feature: Mapping[str, Feature] = field(default_factory=dict)


@dataclass(frozen=True)
class Example:
    """What a record of a TFRecord file usually is."""

    features: Features = field(default_factory=Features)

    def SerializeToString(self) -> bytes:
        """The example as bytes; features in the order of their names, so that equal ones are equal."""
        entries = (
            sized(_FEATURE, sized(_KEY, name.encode()) + sized(_VALUE, _encoded(each)))
            for name, each in sorted(self.features.feature.items())
        )
        return sized(_FEATURES, b"".join(entries))

    @classmethod
    def FromString(cls, serialized: bytes) -> "Example":
        """The example in what `SerializeToString` gave, here or in TensorFlow.

        Raises:
            DatasetError: These bytes are no Example.
        """
        found = {}
        for name, (kind, values) in read_example(serialized).items():
            match kind:
                case "bytes":
                    found[name] = Feature(bytes_list=BytesList(list(values)))
                case "float":
                    found[name] = Feature(float_list=FloatList([float(each) for each in values]))
                case "int64":
                    found[name] = Feature(int64_list=Int64List([int(each) for each in values]))
                case _:
                    found[name] = Feature()
        return cls(Features(found))


def _encoded(feature: Feature) -> bytes:
    if feature.bytes_list is not None:
        values = b"".join(sized(_LIST, bytes(each)) for each in feature.bytes_list.value)
        return sized(_BYTES, values)
    if feature.float_list is not None:
        floats = np.asarray(list(feature.float_list.value), "<f4").tobytes()
        return sized(_FLOATS, sized(_LIST, floats) if floats else b"")
    if feature.int64_list is not None:
        numbers = b"".join(number(int(each) % 2**64) for each in feature.int64_list.value)
        return sized(_INTEGERS, sized(_LIST, numbers) if numbers else b"")
    return b""


def read_example(serialized: bytes) -> dict[str, tuple[str, Values]]:
    """The kind (bytes, float, int64; empty for no values) and the values of each feature, by name.

    Raises:
        DatasetError: These bytes are no Example.
    """
    try:
        found: dict[str, tuple[str, Values]] = {}
        for tag, wire_type, start, end in fields(serialized):
            if tag == _FEATURES and wire_type == 2:
                _read_features(serialized[start:end], found)
        return found
    except (WireError, ValueError, TypeError) as exc:
        shown = repr(serialized[:40] if isinstance(serialized, bytes) else serialized)
        raise DatasetError(f"{shown}{'…' if len(shown) > 40 else ''} is no tf.train.Example: {exc}") from exc


def _read_features(data: bytes, found: dict[str, tuple[str, Values]]) -> None:
    at, end = 0, len(data)
    while at < end:
        tag, wire_type, start, at = read_field(data, at, end)
        if tag != _FEATURE or wire_type != 2:
            continue
        name, feature = "", (0, 0)
        while start < at:
            key, _, first, start = read_field(data, start, at)
            if key == _KEY:
                name = data[first:start].decode()
            elif key == _VALUE:
                feature = (first, start)
        found[name] = _read_values(data, *feature)


def _read_values(data: bytes, at: int, end: int) -> tuple[str, Values]:
    kind, values = 0, list[Any]()
    while at < end:
        tag, _, start, at = read_field(data, at, end)
        if tag not in _KINDS:
            continue
        kind, values = tag, []
        while start < at:
            # Numbers are packed, many in a field, or written one by one.
            key, wire_type, first, start = read_field(data, start, at)
            if key == _LIST:
                values.append(read_number(data, first)[0] if wire_type == 0 else data[first:start])
    if kind == _FLOATS:
        return "float", np.frombuffer(values[0] if len(values) == 1 else b"".join(values), "<f4")
    if kind == _INTEGERS:
        parts = [_numbers(each) if isinstance(each, bytes) else [each] for each in values]
        return "int64", _signed(parts[0] if len(parts) == 1 else [each for part in parts for each in part])
    return _KINDS.get(kind, ""), values


def _numbers(packed: bytes) -> list[int] | np.ndarray[Any, Any]:
    """The varints that follow each other."""
    if len(packed) < _FEW:
        found, at = [], 0
        while at < len(packed):
            value, at = read_number(packed, at)
            found.append(value)
        return found
    array = np.frombuffer(packed, np.uint8)
    ends = np.flatnonzero(array < 0x80)
    if not len(ends) or ends[-1] != len(array) - 1:
        raise WireError("it ends within a number.")
    starts = np.concatenate([[0], ends[:-1] + 1])
    widths = ends - starts + 1
    if widths.max() > 10:
        raise WireError("a number has more than ten bytes.")
    numbers = np.zeros(len(ends), np.uint64)
    for place in range(widths.max()):
        wide = np.flatnonzero(widths > place)
        part = (array[starts[wide] + place] & 0x7F).astype(np.uint64)
        numbers[wide] |= part << np.uint64(7 * place)
    return numbers


def _signed(numbers: list[int] | np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if isinstance(numbers, list):
        numbers = np.array([number & _ONES for number in numbers], np.uint64)
    return numbers.view(np.int64)
