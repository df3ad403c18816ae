"""``tf.train.Example``: named features as bytes, and back.

Source: tensorflow/core/example/example.proto and feature.proto.
"""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from muster._errors import DatasetError
from muster._protobuf import message_class

_MESSAGES = """
message BytesList { repeated bytes value = 1; }
message FloatList { repeated float value = 1; }
message Int64List { repeated int64 value = 1; }
message Feature {
  oneof kind { BytesList bytes_list = 1; FloatList float_list = 2; Int64List int64_list = 3; }
}
message Features { map<string, Feature> feature = 1; }
message Example { Features features = 1; }
message FeatureList { repeated Feature feature = 1; }
message FeatureLists { map<string, FeatureList> feature_list = 1; }
message SequenceExample { Features context = 1; FeatureLists feature_lists = 2; }
"""

# Up to so many numbers, a list is faster than an array.
_FEW = 64

Values = list[Any] | np.ndarray[Any, Any]
"""The values of a feature: bytes, float32 or int64; many numbers are an array."""


@dataclass(frozen=True)
class BytesList:
    """A list of bytes; NumPy's, too.

    Raises:
        TypeError: A value is not bytes.

    Example:
        ```python
        towns = muster.data.BytesList(value=[b"Oslo"])
        feature = muster.data.Feature(bytes_list=towns)
        assert list(feature.bytes_list.value) == [b"Oslo"]
        ```
    """

    value: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        if any(isinstance(value, np.ndarray) for value in self.value):
            single = [
                value.item() if np.shape(value) == () else value for value in map(np.asarray, self.value)
            ]
            object.__setattr__(self, "value", single)
        for value in self.value:
            if not isinstance(value, bytes):
                raise TypeError(f"A BytesList holds bytes, got {value!r} of type {type(value).__name__}.")


@dataclass(frozen=True)
class FloatList:
    """A list of numbers, which are stored as float32."""

    value: Iterable[float] = ()


@dataclass(frozen=True)
class Int64List:
    """A list of integers, which are stored as int64.

    Raises:
        TypeError: A value is not an integer.
    """

    value: Iterable[int] = ()

    def __post_init__(self) -> None:
        values = np.asarray(list(self.value))
        if values.size and values.dtype.kind not in "iub":
            raise TypeError(f"An Int64List holds integers, got {values.dtype}: {list(self.value)!r}.")


_NO_BYTES, _NO_FLOATS, _NO_INTEGERS = BytesList(), FloatList(), Int64List()
_ABSENT = {"bytes_list": _NO_BYTES, "float_list": _NO_FLOATS, "int64_list": _NO_INTEGERS}


@dataclass(frozen=True, kw_only=True)
class Feature:
    """The values of one feature: a list of one of three kinds, or none.

    A list that a feature does not have reads as an empty one, as in every message of Protocol Buffers.

    Raises:
        ValueError: There are lists of several kinds.

    Example:
        ```python
        ages = muster.data.Feature(int64_list=muster.data.Int64List(value=[42, 43]))
        assert list(ages.int64_list.value) == [42, 43]
        assert list(ages.float_list.value) == []
        ```
    """

    bytes_list: BytesList = _NO_BYTES
    float_list: FloatList = _NO_FLOATS
    int64_list: Int64List = _NO_INTEGERS

    def __post_init__(self) -> None:
        for name, absent in _ABSENT.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, absent)
        if (kinds := sum(map(self._has, _ABSENT))) > 1:
            raise ValueError(f"A Feature has values of one kind, got {kinds}: {self!r}.")

    def _has(self, name: str) -> bool:
        return getattr(self, name) is not _ABSENT[name]

    def WhichOneof(self, group: str) -> str | None:
        """Return the name of the list that there is; None if there is none.

        Args:
            group: ``"kind"``.
        """
        return next(filter(self._has, _ABSENT), None)

    def HasField(self, name: str) -> bool:
        """Return whether there is a list of this name."""
        return self.WhichOneof("kind") == name

    def SerializeToString(self) -> bytes:
        """Encode the feature.

        Raises:
            ValueError: A number does not fit into int64.
        """
        message = example_message_class("Feature")()
        encode_feature(self, message)
        serialized: bytes = message.SerializeToString()
        return serialized


@dataclass(frozen=True)
class Features:
    """Features by name.

    Example:
        ```python
        town = muster.data.Feature(bytes_list=muster.data.BytesList(value=[b"Oslo"]))
        features = muster.data.Features(feature={"town": town})
        assert list(features.feature) == ["town"]
        ```
    """

    feature: Mapping[str, Feature] = field(default_factory=dict)


@dataclass(frozen=True)
class Example:
    """Named features, the usual content of a TFRecord.

    Example:
        ```python
        towns = muster.data.Feature(bytes_list=muster.data.BytesList(value=[b"Oslo"]))
        example = muster.data.Example(features=muster.data.Features(feature={"town": towns}))
        with muster.data.TFRecordWriter("towns.tfrecord") as writer:
            writer.write(example.SerializeToString())
        (record,) = muster.data.TFRecordDataset("towns.tfrecord")
        assert muster.data.Example.FromString(record) == example
        ```
    """

    features: Features = field(default_factory=Features)

    def SerializeToString(self) -> bytes:
        """Encode the example, its features in the order of their names: equal examples give equal bytes.

        Raises:
            ValueError: A number does not fit into int64.
        """
        message = example_message_class("Example")()
        for name, feature in self.features.feature.items():
            encode_feature(feature, message.features.feature[name])
        serialized: bytes = message.SerializeToString()
        return serialized

    @classmethod
    def FromString(cls, serialized: bytes) -> "Example":
        """Decode what `SerializeToString` returned, here or in TensorFlow.

        Raises:
            DatasetError: `serialized` is not an Example.
        """
        return cls(Features({name: decode_feature(each) for name, each in read_example(serialized).items()}))

    def ParseFromString(self, serialized: bytes) -> int:
        """Replace the features of this example by those that `FromString` decodes.

        Returns:
            The number of bytes.

        Raises:
            DatasetError: `serialized` is not an Example.
        """
        object.__setattr__(self, "features", Example.FromString(serialized).features)
        return len(serialized)


def encode_feature(feature: Feature, encoded: Any) -> None:
    """Write the values of a feature into a message."""
    convert: Any
    for name, convert in (("bytes_list", bytes), ("float_list", float), ("int64_list", int)):
        if feature.HasField(name):
            getattr(encoded, name).value.extend(map(convert, getattr(feature, name).value))
            getattr(encoded, name).SetInParent()


def decode_feature(encoded: Any) -> Feature:
    """Return the feature that a message holds."""
    kind, values = feature_values(encoded)
    match kind:
        case "bytes":
            return Feature(bytes_list=BytesList(list(values)))
        case "float":
            return Feature(float_list=FloatList([float(value) for value in values]))
        case "int64":
            return Feature(int64_list=Int64List([int(value) for value in values]))
        case _:
            return Feature()


@functools.cache
def example_message_class(name: str) -> Any:
    """Return the Protocol Buffers class of a message, such as ``Example``, whose equals give equal bytes."""
    found = message_class(_MESSAGES, f"tensorflow.{name}")
    serialize = found.SerializeToString
    # Its classes cannot be derived from; left alone, they write maps in an order that each process draws.
    found.SerializeToString = lambda self, deterministic=True: serialize(self, deterministic=True)
    return found


def read_example(serialized: bytes) -> Mapping[str, Any]:
    """Decode an Example into its features, by name; `feature_values` returns the values of one.

    Raises:
        DatasetError: `serialized` is not an Example.
    """
    try:
        features: Mapping[str, Any] = example_message_class("Example").FromString(serialized).features.feature
    except (DecodeError, TypeError) as exc:
        shown = repr(serialized[:40] if isinstance(serialized, bytes) else serialized)
        raise DatasetError(f"{shown}{'…' if len(shown) > 40 else ''} is no tf.train.Example: {exc}") from exc
    return features


def feature_values(feature: Any) -> tuple[str, Values]:
    """Return the kind (``bytes``, ``float``, ``int64``; empty without values) and values of a feature."""
    match feature.WhichOneof("kind"):
        case "bytes_list":
            return "bytes", feature.bytes_list.value[:]
        case "float_list":
            return "float", _numbers(feature.float_list.value, np.float32)
        case "int64_list":
            return "int64", _numbers(feature.int64_list.value, np.int64)
        case _:
            return "", []


def _numbers(values: Any, dtype: type[np.generic]) -> Values:
    return values[:] if len(values) <= _FEW else np.array(values, dtype)
