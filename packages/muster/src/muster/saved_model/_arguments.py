"""Convert the inputs of a signature, on the host, into the arguments of its module."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
import jax.export
import numpy as np

from muster.data import (
    CsvField,
    FixedLenFeature,
    FixedLenSequenceFeature,
    TensorSpec,
    VarLenFeature,
    parse_example,
    read_csv_fields,
)
from muster.feature_column import FeatureColumn, host_arrays, host_specs
from muster.saved_model._manifest import CsvRecord, FeatureRecord, ParseRecord, SignatureRecord

Axes: TypeAlias = tuple[str | int, ...]
"""Sizes, and names of those that are free."""
OwnCode: TypeAlias = Callable[[Mapping[str, Any]], Mapping[str, np.ndarray[Any, Any]]]
"""Returns arguments of a module by key, given the features by key, of which text is bytes."""


@dataclass(frozen=True)
class Feature:
    """The source of a feature of a model.

    Attributes:
        input: The name of an input.
        parse: The key and the description, as for `muster.data.parse_example`, of a feature of the Examples
            that the input has, or the description of a field of lines; None if the feature is the input
            itself.
        words: The words whose numbers, from 0, the feature consists of, while the input has their text; None
            for what the input has.
    """

    input: str
    parse: tuple[str, Any] | None = None
    words: tuple[str, ...] | None = None


def feature_spec(inputs: Mapping[str, TensorSpec], feature: Feature) -> TensorSpec:
    """Return the shape and dtype of a feature; the shape is None for a sparse one."""
    if feature.parse is None:
        return inputs[feature.input]
    spec = feature.parse[1]
    if isinstance(spec, VarLenFeature):
        return TensorSpec(None, spec.dtype)
    free = (None, None) if isinstance(spec, FixedLenSequenceFeature) else (None,)
    return TensorSpec((*free, *spec.shape), spec.dtype)


def named_axes(features: Mapping[str, TensorSpec], *, shared: bool = False) -> dict[str, Axes]:
    """Return the axes of features by key: sizes, and names for those that any call has its own of.

    Args:
        features: The shapes of the features. None is the number of rows on the first axis, and any size on
            others.
        shared: Whether other free sizes are the same for all features, on axes of one number.
    """
    return {
        key: tuple(
            size
            if size is not None
            else "batch"
            if axis == 0
            else f"size_{axis}"
            if shared
            else f"size_{number}_{axis}"
            for axis, size in enumerate(spec.shape or ())
        )
        for number, (key, spec) in enumerate(features.items())
    }


def symbolic_arguments(
    features: Mapping[str, TensorSpec],
    columns: Sequence[FeatureColumn],
    rows: str | None,
    axes_of: Mapping[str, Axes] | None = None,
) -> dict[str, jax.ShapeDtypeStruct]:
    """Return the arguments of a module, with symbols for the sizes that any call has its own of.

    Args:
        features: The shapes and dtypes of the features that reach the module as they are, by key, and of
            what the program's own code computes on the host.
        columns: What the host computes.
        rows: The key of an argument with a zero for each row, or None.
        axes_of: The axes of the features by key; None for those of `named_axes`.
    """
    scope = jax.export.SymbolicScope()

    def shape(axes: Sequence[str | int]) -> tuple[Any, ...]:
        return tuple(jax.export.symbolic_shape(", ".join(map(str, axes)), scope=scope)) if axes else ()

    axes_of = named_axes(features) if axes_of is None else axes_of
    arguments = {
        key: jax.ShapeDtypeStruct(shape(axes_of[key]), step_dtype(spec.dtype))
        for key, spec in features.items()
    }
    for number, column in enumerate(columns):
        for key, made in host_specs(column).items():
            axes = [f"width_{number}" if axis == "width" else axis for axis in made.axes]
            arguments[key] = jax.ShapeDtypeStruct(shape(axes), np.dtype(made.dtype))
    if rows is not None:
        arguments[rows] = jax.ShapeDtypeStruct(shape(["batch"]), np.dtype(np.float32))
    return arguments


def step_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which JAX computes with arrays of a dtype."""
    return np.dtype(jax.dtypes.canonicalize_dtype(dtype))


def feature_record(feature: Feature) -> FeatureRecord:
    """Return where a feature comes from as data."""
    parse = None if feature.parse is None else _parse_record(*feature.parse)
    return FeatureRecord(input=feature.input, parse=parse, words=feature.words)


def _parse_record(key: str, spec: Any) -> ParseRecord:
    """Return a description of a feature of Examples or lines as data."""
    if isinstance(spec, CsvField):
        return ParseRecord(
            key=key,
            kind="csv",
            dtype="str" if spec.dtype.kind == "U" else spec.dtype.name,
            shape=spec.shape,
            default=_json(spec.default),
            csv=CsvRecord(**{each.name: getattr(spec, each.name) for each in dataclasses.fields(CsvRecord)}),
        )
    kind, items = {FixedLenFeature: "fixed", FixedLenSequenceFeature: "sequence"}.get(type(spec)), spec
    if kind is None:
        kind, items = "variable", spec.items
    default = items.default_value
    return ParseRecord(
        key=key,
        kind=kind,
        dtype="str" if items.kind == "bytes" else np.dtype(items.dtype).name,
        shape=tuple(items.shape),
        default=None if default is None else _json(np.asarray(default, object).tolist()),
    )


def _json(value: Any) -> Any:
    if isinstance(value, list):
        return [_json(each) for each in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return value.item() if isinstance(value, np.generic) else value


def parse_spec(record: ParseRecord) -> Any:
    """Return the description of a feature of which `feature_record` made data."""
    if record.csv is not None:
        return CsvField(
            place=int(record.key),
            dtype=np.dtype(record.dtype),
            default=record.default,
            shape=record.shape,
            **dataclasses.asdict(record.csv),
        )
    if record.kind == "variable":
        return VarLenFeature(record.dtype)
    if record.kind == "sequence":
        return FixedLenSequenceFeature(record.shape, record.dtype, True, record.default)
    return FixedLenFeature(record.shape, record.dtype, record.default)


class SignatureHostPart:
    """Turns the inputs of a signature into the arguments of its module.

    Args:
        record: The signature.
        columns: Its columns.
        own_code: What the program's own code computes; None for nothing.
        made: Which features it makes of others before that; None for none.
    """

    def __init__(
        self,
        record: SignatureRecord,
        columns: Sequence[FeatureColumn],
        own_code: OwnCode | None,
        made: OwnCode | None = None,
    ) -> None:
        self._record, self._columns, self._own_code, self._made = record, tuple(columns), own_code, made
        self._parsed: dict[str, dict[str, Any]] = {}
        self._numbers = {
            key: {word: number for number, word in enumerate(feature.words)}
            for key, feature in record.features.items()
            if feature.words is not None
        }
        self._fields: dict[str, dict[str, CsvField]] = {}
        for key, feature in record.features.items():
            if feature.parse is not None and feature.parse.csv is not None:
                self._fields.setdefault(feature.input, {})[key] = parse_spec(feature.parse)
            elif feature.parse is not None:
                specs = self._parsed.setdefault(feature.input, {})
                specs[feature.parse.key] = parse_spec(feature.parse)

    def arguments(
        self, inputs: Mapping[str, np.ndarray[Any, Any]]
    ) -> tuple[dict[str, np.ndarray[Any, Any]], Mapping[str, Any]]:
        """Return the module's arguments by key, and the values that the host has by key.

        Raises:
            ValueError: An Example, a line or a value of an input is none that the model can take.
        """
        parsed = {name: parse_example(inputs[name], specs) for name, specs in self._parsed.items()}
        features: dict[str, Any] = {}
        for key, feature in self._record.features.items():
            if feature.parse is None:
                features[key] = inputs[feature.input]
            elif feature.parse.csv is None:
                features[key] = parsed[feature.input][feature.parse.key]
        for name, fields in self._fields.items():
            features |= read_csv_fields(inputs[name], fields)
        for key, numbers in self._numbers.items():
            features[key] = _numbered(key, features[key], numbers)
        if self._made is not None:
            features |= self._made(features)
        arrays = {key: _not_empty(array) for key, array in host_arrays(features, self._columns).items()}
        if self._own_code is not None:
            arrays.update(self._own_code(features))
        if self._record.rows is not None:
            first = next(iter(inputs.values()))
            arrays[self._record.rows] = np.zeros(len(first), np.float32)
        known = {**features, **arrays}
        return {
            key: _narrowed(key, known[key], np.dtype(dtype)) for key, dtype in self._record.arguments.items()
        }, known


def _not_empty(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return what the host made of columns with a place, at least: modules take no sequences without steps.

    What is added are no ids, which are -1, and numbers beyond the sequences' ends.
    """
    if array.size:
        return array
    missing = [(0, int(size == 0)) for size in array.shape]
    return np.pad(array, missing, constant_values=-1 if array.dtype.kind == "i" else 0)


def _numbered(
    key: str, text: np.ndarray[Any, Any], numbers: Mapping[str, int]
) -> np.ndarray[Any, np.dtype[np.int32]]:
    words = [
        word.decode("utf-8", "replace") if isinstance(word, bytes) else str(word)
        for word in text.ravel().tolist()
    ]
    if unknown := sorted(set(words) - numbers.keys()):
        raise ValueError(
            f"{key} has {', '.join(map(repr, unknown[:5]))}, which is none of the words that it takes: "
            f"{', '.join(map(repr, numbers))}."
        )
    return np.array([numbers[word] for word in words], np.int32).reshape(text.shape)


def _narrowed(key: str, array: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    if array.dtype == dtype:
        return array
    with np.errstate(over="ignore"):  # large numbers of 64 bits are infinite
        narrow = array.astype(dtype)
    if dtype.kind in "iu" and (narrow != array).any():
        raise ValueError(
            f"Feature {key} has numbers that {dtype} does not hold: {array[narrow != array][:5]}."
        )
    return narrow
