"""``tf.io.parse_example``: arrays from serialized Examples.

Source: tensorflow/python/ops/parsing_ops.py; tensorflow/core/util/example_proto_fast_parsing.cc.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from muster._errors import DatasetError
from muster.data.files._example import feature_values, read_example
from muster.data.files._example_columns import Wanted, columns
from muster.data.files._placeholder import Parsed, Placeholder
from muster.data.files._sparse_feature import SparseFeature, sparse_tensor
from muster.data.pipeline._ragged_tensor import RaggedTensor
from muster.data.pipeline._sparse_tensor import SparseTensor
from muster.data.pipeline._spec import named_dtype, object_array, short_dtype

_KINDS: dict[str, str] = {"float32": "float", "int64": "int64", "str": "bytes", "object": "bytes"}


class _Shaped:
    """The type, shape and default of a feature."""

    shape: Any
    dtype: DTypeLike
    default_value: Any

    def check(self) -> None:
        """Check the type and the default.

        Raises:
            ValueError: An Example has no values of this type, or the default has another type.
        """
        object.__setattr__(self, "dtype", named_dtype(self.dtype))  # also where the feature is frozen
        kinds: dict[str, Any] = {"bytes": (str, bytes), "int64": (int, np.integer)}
        known = kinds.get(self.kind, (int, float, np.integer, np.floating))
        defaults: Any = [] if self.default_value is None else np.asarray(self.default_value, object).flat
        if not all(isinstance(value, known) for value in defaults):
            raise ValueError(
                f"The default_value of a feature of dtype {short_dtype(named_dtype(self.dtype))} cannot be "
                f"{self.default_value!r}."
            )

    @cached_property
    def kind(self) -> str:
        """The kind of the values in an Example: ``bytes``, ``float`` or ``int64``."""
        dtype = named_dtype(self.dtype)
        name = "str" if dtype.kind in "US" else str(dtype)
        if name not in _KINDS:
            raise ValueError(
                f"A feature of an Example has dtype float32, int64 or string, got {dtype}. Ask for one of "
                "them and cast what comes."
            )
        return _KINDS[name]

    @cached_property
    def size(self) -> int:
        """The number of values in the shape."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class FixedLenFeature(_Shaped):
    """A feature with the same shape in all examples.

    Args:
        shape: Shape of the values in one example; a number is the length of a vector.
        dtype: float32, int64, or ``tf.string`` for bytes.
        default_value: Value or values for an example without the feature, or None to refuse it.

    Raises:
        ValueError: A size is negative, an Example cannot hold `dtype`, or the default is of another type.

    Example:
        ```python
        spec = {"x": muster.data.FixedLenFeature([2], np.float32, default_value=[0, 0])}
        example = muster.data.Example(features=muster.data.Features(feature={}))
        assert muster.data.parse_single_example(example.SerializeToString(), spec)["x"].tolist() == [0, 0]
        ```
    """

    shape: Sequence[int] | int
    dtype: DTypeLike
    default_value: Any = None

    def __post_init__(self) -> None:
        shape = (self.shape,) if isinstance(self.shape, int) else tuple(self.shape)
        if any(not isinstance(size, int) or size < 0 for size in shape):
            raise ValueError(f"A FixedLenFeature needs sizes >= 0, got shape {self.shape!r}.")
        object.__setattr__(self, "shape", shape)
        self.check()


@dataclass(frozen=True)
class FixedLenSequenceFeature(_Shaped):
    """A feature with a varying number of items of one shape, which are padded to the most in a batch.

    Args:
        shape: Shape of one item.
        dtype: As for `FixedLenFeature`.
        allow_missing: Whether it may be missing; for Examples, it must be True.
        default_value: Value to pad with; by default 0, or empty bytes.

    Raises:
        ValueError: An Example cannot hold `dtype`, or the default has another type.
    """

    shape: Sequence[int] | int
    dtype: DTypeLike
    allow_missing: bool = False
    default_value: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", (self.shape,) if isinstance(self.shape, int) else tuple(self.shape))
        self.check()


@dataclass(frozen=True)
class VarLenFeature:
    """A feature with a varying number of values, which become a `SparseTensor`.

    Args:
        dtype: float32, int64, or ``tf.string`` for bytes.

    Raises:
        ValueError: An Example cannot hold `dtype`.
    """

    dtype: DTypeLike

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", named_dtype(self.dtype))
        _ = self.items

    @cached_property
    def items(self) -> FixedLenSequenceFeature:
        """The same values, as items of a sequence."""
        return FixedLenSequenceFeature((), self.dtype, allow_missing=True)


@dataclass(frozen=True)
class RaggedFeature:
    """A feature with a varying number of values, which become a `RaggedTensor`; of one Example an array.

    Args:
        dtype: float32, int64, or ``tf.string`` for bytes.
        value_key: The name of the feature in Examples; None is its key.
        partitions: Only empty.
        row_splits_dtype: Unused: splits are int64.
        validate: Unused, without partitions.

    Raises:
        ValueError: An Example cannot hold `dtype`, or there are partitions.

    Source: tensorflow/python/ops/parsing_config.py, ``RaggedFeature``.
    """

    dtype: DTypeLike
    value_key: str | None = None
    partitions: Sequence[Any] = ()
    row_splits_dtype: DTypeLike = np.int32
    validate: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", named_dtype(self.dtype))
        _ = self.items
        if len(self.partitions):
            raise ValueError(
                "A RaggedFeature has no partitions here. Read them as features, and give them to "
                "tf.RaggedTensor.from_row_lengths or another of its functions."
            )

    @cached_property
    def items(self) -> FixedLenSequenceFeature:
        """The same values, as items of a sequence."""
        return FixedLenSequenceFeature((), self.dtype, allow_missing=True)


_FEW_VALUES = 8  # of a feature: more are converted by NumPy
_Dense = FixedLenFeature | FixedLenSequenceFeature
OneFeature = _Dense | VarLenFeature | RaggedFeature
Spec = OneFeature | SparseFeature


def parse_single_example(
    serialized: bytes, features: Mapping[str, Spec], example_names: str | None = None, name: str | None = None
) -> dict[str, Any]:
    """Parse a serialized Example.

    Args:
        serialized: The bytes of an Example.
        features: Name -> `FixedLenFeature`, `FixedLenSequenceFeature`, `VarLenFeature` or `SparseFeature`.
        example_names: The name of the example, for errors.
        name: Ignored.

    Returns:
        Name -> array of the feature's shape, or (items, *shape) for sequences, or a `SparseTensor` of shape
        (values,). Bytes are in arrays of Python objects.

    Raises:
        DatasetError: `serialized` is not an Example, or a feature is missing or has another type or length.
        TypeError: `features` has a value of another type.
    """
    _check(features)
    example = read_example(serialized)
    place = f" of {example_names}" if example_names else ""
    return {
        key: _sparse_feature(key, spec, [example], [place], alone=True)
        if isinstance(spec, SparseFeature)
        else _single(key, spec, example.get(_name_of(key, spec)), place)
        for key, spec in features.items()
    }


def parse_example(
    serialized: Any, features: Mapping[str, Spec], example_names: Any = None, name: str | None = None
) -> dict[str, Any]:
    """Parse a batch of serialized Examples.

    Args:
        serialized: A vector or a list of bytes; or bytes, for one example; or a `Placeholder`, for
            placeholders of what an exported model will read.
        features: Name -> `FixedLenFeature`, `FixedLenSequenceFeature` or `VarLenFeature`.
        example_names: The names of the examples, for errors.
        name: Ignored.

    Returns:
        Name -> array of shape (examples, *feature's shape), or (examples, most items, *shape) for sequences,
        or a `SparseTensor` of shape (examples, most values).

    Raises:
        DatasetError: As by `parse_single_example`.
        TypeError: As by `parse_single_example`.
        ValueError: `serialized` has more than one axis, or `features` is empty.

    Example:
        ```python
        ages = muster.data.Feature(int64_list=muster.data.Int64List(value=[42]))
        example = muster.data.Example(features=muster.data.Features(feature={"age": ages}))
        spec = {"age": muster.data.FixedLenFeature([], np.int64)}
        parsed = muster.data.parse_example([example.SerializeToString()] * 2, spec)
        assert parsed["age"].tolist() == [42, 42]
        ```
    """
    if isinstance(serialized, bytes):
        return parse_single_example(serialized, features, example_names)
    _check(features)
    if isinstance(serialized, Placeholder):
        return {key: _placeholder(serialized, key, spec) for key, spec in features.items()}
    # Programs pad batches with empty text, which is an Example too.
    rows = [row or b"" for row in np.asarray(serialized, object).reshape(-1).tolist()]
    if np.ndim(serialized) > 1:
        raise ValueError(f"parse_example needs a vector of bytes, got shape {np.shape(serialized)}.")
    fixed = {key: spec for key, spec in features.items() if isinstance(spec, FixedLenFeature)}
    alike = columns(rows, [Wanted(key, spec.kind, spec.size) for key, spec in fixed.items()])
    examples, names = [], []
    if len(alike) < len(features):
        examples = [read_example(row) for row in rows]
        names = [f" of example {i} of the batch" for i in range(len(rows))]
        if example_names is not None:
            names = [f" of {name}" for name in example_names]
    found: dict[str, Any] = {}
    for key, spec in features.items():
        if key in alike:
            shape: Any = fixed[key].shape
            found[key] = alike[key].reshape(len(rows), *shape)
        elif isinstance(spec, SparseFeature):
            found[key] = _sparse_feature(key, spec, examples, names)
        else:
            name = _name_of(key, spec)
            found[key] = parse_rows(key, spec, [example.get(name) for example in examples], names)
    return found


def _placeholder(examples: Placeholder, key: str, spec: Spec) -> Placeholder:
    parsed = Parsed(examples, key, spec)
    if isinstance(spec, RaggedFeature | SparseFeature):
        raise TypeError(f"An exported model reads no {type(spec).__name__}: use VarLenFeature for {key!r}.")
    if isinstance(spec, VarLenFeature):
        return Placeholder(spec.dtype, None, key, parsed=parsed)
    items: Any = spec.shape
    rows = (examples.shape or (None,))[:1]
    shape = (*rows, None, *items) if isinstance(spec, FixedLenSequenceFeature) else (*rows, *items)
    return Placeholder(spec.dtype, shape, key, parsed=parsed)


def _name_of(key: str, spec: Spec) -> str:
    """Return the name in Examples of a feature."""
    return (isinstance(spec, RaggedFeature) and spec.value_key) or key


def _check(features: Mapping[str, Spec]) -> None:
    if not features:
        raise ValueError("Missing: features was {}. Name the features to read, each with its shape and type.")
    for key, spec in features.items():
        if not isinstance(spec, Spec):
            raise TypeError(
                f"The feature {key!r} is described by {spec!r}. There are FixedLenFeature, VarLenFeature, "
                "SparseFeature, RaggedFeature and FixedLenSequenceFeature, which pads."
            )
        if isinstance(spec, FixedLenSequenceFeature) and not spec.allow_missing:
            raise ValueError(
                "A FixedLenSequenceFeature needs allow_missing=True: its number of items may be zero. "
                "Use a FixedLenFeature for values that must be there."
            )


def _single(key: str, spec: OneFeature, found: Any, place: str) -> Any:
    if isinstance(spec, VarLenFeature):
        values = _array(spec.items, _values(key, spec.items, found, place))
        return SparseTensor(np.arange(len(values))[:, None], values, (len(values),))
    if isinstance(spec, RaggedFeature):
        return _array(spec.items, _values(key, spec.items, found, place))
    values = _values(key, spec, found, place)
    shape: Any = spec.shape
    shaped = (-1, *shape) if isinstance(spec, FixedLenSequenceFeature) else shape
    return _array(spec, values).reshape(shaped)[()]


def parse_rows(key: str, spec: OneFeature, found: list[Any], places: list[str]) -> Any:
    if isinstance(spec, VarLenFeature):
        return _sparse(
            spec,
            [_values(key, spec.items, feature, place) for feature, place in zip(found, places, strict=True)],
        )
    if isinstance(spec, RaggedFeature):
        lists = [_values(key, spec.items, *each) for each in zip(found, places, strict=True)]
        return RaggedTensor.from_row_lengths(_joined(spec.items, lists), list(map(len, lists)))
    shape: Any = spec.shape
    if isinstance(spec, FixedLenFeature) and (flat := _as_wanted(spec, found)) is not None:
        return _joined(spec, [flat]).reshape(len(found), *shape)
    rows = [_values(key, spec, feature, place) for feature, place in zip(found, places, strict=True)]
    if isinstance(spec, FixedLenFeature):
        return _joined(spec, rows).reshape(len(rows), *shape)
    longest = max((len(row) for row in rows), default=0)
    blank = _padding(spec)
    rows = [[*row, *[blank] * (longest - len(row))] if len(row) < longest else row for row in rows]
    return _joined(spec, rows).reshape(len(rows), longest // max(1, spec.size), *shape)


def _as_wanted(spec: FixedLenFeature, found: list[Any]) -> list[Any] | None:
    """Return the values of all examples in one list; None if one lacks them, or has others."""
    name, size = f"{spec.kind}_list", spec.size
    if not 0 < size <= _FEW_VALUES:
        return None
    flat: list[Any] = []
    for feature in found:
        if feature is None:
            return None
        values = getattr(feature, name).value  # empty if the feature is of another kind
        if len(values) != size:
            return None
        flat += values
    return flat


def _sparse(spec: VarLenFeature, rows: list[Any]) -> SparseTensor:
    """Return the values of examples as a sparse tensor, a row an example."""
    lengths = np.array([len(row) for row in rows], np.int64)
    columns = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    indices = np.stack([np.repeat(np.arange(len(rows)), lengths), columns], axis=1)
    return SparseTensor(indices, _joined(spec.items, rows), (len(rows), lengths.max(initial=0)))


def _sparse_feature(
    key: str,
    spec: SparseFeature,
    examples: Sequence[Mapping[str, Any]],
    places: list[str],
    alone: bool = False,
) -> SparseTensor:
    def read(name: str, dtype: DTypeLike) -> list[np.ndarray[Any, Any]]:
        items = VarLenFeature(dtype).items
        pairs = zip(examples, places, strict=True)
        return [_array(items, _values(name, items, example.get(name), place)) for example, place in pairs]

    return sparse_tensor(key, spec, read, alone)


def _joined(spec: _Dense, rows: list[Any]) -> np.ndarray[Any, Any]:
    """Join the values of examples in a vector."""
    if spec.kind == "bytes":
        return object_array([value for row in rows for value in row])
    if any(isinstance(row, np.ndarray) for row in rows):
        return np.concatenate([np.asarray(row, spec.dtype) for row in rows])
    return np.array(list(chain.from_iterable(rows)), spec.dtype)


def _array(spec: _Dense, values: Any) -> np.ndarray[Any, Any]:
    return object_array(values) if spec.kind == "bytes" else np.array(values, np.dtype(spec.dtype))


def _values(key: str, spec: _Dense, found: Any, place: str) -> Any:
    """Return the values of a feature in one example, or its defaults.

    Raises:
        DatasetError: The feature is missing, or its values have another type or number.
    """
    shape, size = spec.shape, spec.size
    kind, values = ("", []) if found is None else feature_values(found)
    if not kind:
        return [] if isinstance(spec, FixedLenSequenceFeature) else _defaults(key, spec, place)
    if kind != spec.kind:
        raise DatasetError(
            f"The feature {key!r}{place} holds values of type {kind}, where {spec.kind} was asked for."
        )
    if isinstance(spec, FixedLenSequenceFeature):
        if len(values) % max(1, size):
            raise DatasetError(
                f"The feature {key!r}{place} has {len(values)} values, no multiple of the {size} of an item "
                f"of shape {shape}."
            )
    elif len(values) != size:
        raise DatasetError(
            f"The feature {key!r}{place} has {len(values)} values, where its shape {shape} needs {size}. "
            "Read one of varying length as FixedLenSequenceFeature."
        )
    return values


def _defaults(key: str, spec: FixedLenFeature, place: str) -> list[Any]:
    if spec.default_value is None:
        raise DatasetError(
            f"The feature {key!r}{place} is required but could not be found. Give its FixedLenFeature a "
            "default_value if examples may lack it."
        )
    values = np.asarray(spec.default_value, object).reshape(-1).tolist()
    values = [value.encode() if isinstance(value, str) else value for value in values]
    if len(values) not in (1, spec.size):
        raise DatasetError(
            f"The default_value of {key!r} has {len(values)} values, its shape {spec.shape} {spec.size}."
        )
    return values * spec.size if len(values) == 1 else values


def _padding(spec: FixedLenSequenceFeature) -> Any:
    blank: Callable[[], Any] = bytes if spec.kind == "bytes" else int
    value = blank() if spec.default_value is None else spec.default_value
    return value.encode() if isinstance(value, str) else value


def decode_raw(
    input_bytes: Any,
    out_type: DTypeLike,
    little_endian: bool = True,
    fixed_length: int | None = None,
    name: str | None = None,
) -> Any:
    """Decode bytes as numbers.

    Args:
        input_bytes: Bytes or text, or an array of these of one length.
        out_type: The dtype of the numbers.
        little_endian: Whether the lowest byte of a number comes first.
        fixed_length: How many bytes to take of each: the others are cut, and missing ones are 0.
        name: Ignored.

    Returns:
        Array of `out_type` and of shape (*input_bytes.shape, bytes // size of a number).

    Raises:
        DatasetError: Lengths differ, or are no multiple of the size of a number.

    Source: tensorflow/python/ops/parsing_ops.py, ``decode_raw``.
    """
    dtype = np.dtype(out_type)
    stored = dtype.newbyteorder("<" if little_endian else ">")
    rows = [input_bytes] if isinstance(input_bytes, bytes) else np.asarray(input_bytes).reshape(-1).tolist()
    rows = [row.encode() if isinstance(row, str) else row for row in rows]
    if fixed_length is not None:
        rows = [row[:fixed_length].ljust(fixed_length, b"\0") for row in rows]
    lengths = sorted(set(map(len, rows)))
    if len(lengths) > 1:
        raise DatasetError(f"decode_raw needs bytes that are equally long, got lengths {lengths}.")
    if any(length % dtype.itemsize for length in lengths):
        raise DatasetError(
            f"decode_raw got {lengths[0]} bytes, which are no whole number of {dtype}, of {dtype.itemsize} "
            "bytes each."
        )
    numbers = np.frombuffer(b"".join(rows), stored).astype(dtype)
    return numbers.reshape(*([] if isinstance(input_bytes, bytes) else np.shape(input_bytes)), -1)
