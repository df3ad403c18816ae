"""``tf.train.SequenceExample``: named features and lists of features, a feature a step, as bytes and back.

Source: tensorflow/core/example/example.proto; tensorflow/python/ops/parsing_ops.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from muster._errors import DatasetError
from muster.data.files._example import (
    Feature,
    Features,
    decode_feature,
    encode_feature,
    example_message_class,
)
from muster.data.files._parse_example import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    OneFeature,
    RaggedFeature,
    Spec,
    VarLenFeature,
    parse_example,
    parse_rows,
    parse_single_example,
)
from muster.data.files._sparse_feature import SparseFeature
from muster.data.pipeline._ragged_tensor import RaggedTensor
from muster.data.pipeline._sparse_tensor import SparseTensor


@dataclass(frozen=True)
class FeatureList:
    """The features of steps, one a step."""

    feature: Sequence[Feature] = ()


@dataclass(frozen=True)
class FeatureLists:
    """Lists of features by name."""

    feature_list: Mapping[str, FeatureList] = field(default_factory=dict)


@dataclass(frozen=True)
class SequenceExample:
    """Named features of a sequence, and lists of those of its steps."""

    context: Features = field(default_factory=Features)
    feature_lists: FeatureLists = field(default_factory=FeatureLists)

    def SerializeToString(self) -> bytes:
        """Encode the example, in the order of names: equal examples give equal bytes.

        Raises:
            ValueError: A number does not fit into int64.
        """
        message = example_message_class("SequenceExample")()
        for name, feature in self.context.feature.items():
            encode_feature(feature, message.context.feature[name])
        for name, steps in self.feature_lists.feature_list.items():
            encoded = message.feature_lists.feature_list[name].feature
            for feature in steps.feature:
                encode_feature(feature, encoded.add())
        serialized: bytes = message.SerializeToString()
        return serialized

    @classmethod
    def FromString(cls, serialized: bytes) -> "SequenceExample":
        """Decode what `SerializeToString` returned, here or in TensorFlow.

        Raises:
            DatasetError: `serialized` is no SequenceExample.
        """
        message = _read(serialized)
        context = {name: decode_feature(each) for name, each in message.context.feature.items()}
        lists = {
            name: FeatureList([decode_feature(each) for each in steps.feature])
            for name, steps in message.feature_lists.feature_list.items()
        }
        return cls(Features(context), FeatureLists(lists))


def parse_single_sequence_example(
    serialized: bytes,
    context_features: Mapping[str, Spec] | None = None,
    sequence_features: Mapping[str, Spec] | None = None,
    example_name: str | None = None,
    name: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parse a serialized SequenceExample.

    Args:
        serialized: Its bytes.
        context_features: Name -> what `parse_single_example` takes; None for none.
        sequence_features: Name -> `FixedLenSequenceFeature`, for arrays of shape (steps, *shape);
            `VarLenFeature`, for a `SparseTensor` of shape (steps, the most values of one); or
            `RaggedFeature`, for a `RaggedTensor` of as many rows. None for none.
        example_name: The name of the example, for errors.
        name: Ignored.

    Returns:
        The values of the context and those of lists, by name.

    Raises:
        DatasetError: `serialized` is no SequenceExample, or a feature is missing or has another type or size.
        ValueError: A list is described by a `FixedLenFeature`.
    """
    place = f" of {example_name}" if example_name else ""
    lists = _read(serialized).feature_lists.feature_list
    # An Example has its features where a SequenceExample has its context.
    context = parse_single_example(serialized, context_features, example_name) if context_features else {}
    specs = _checked_lists(sequence_features)
    return context, {key: _steps(key, spec, lists, place) for key, spec in specs.items()}


def parse_sequence_example(
    serialized: Any,
    context_features: Mapping[str, Spec] | None = None,
    sequence_features: Mapping[str, Spec] | None = None,
    example_names: Any = None,
    name: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Parse a batch of serialized SequenceExamples.

    Args:
        serialized: A vector or a list of bytes.
        context_features: Name -> what `parse_example` takes; None for none.
        sequence_features: Name -> `FixedLenSequenceFeature`, for arrays of shape (examples, most steps,
            *shape), padded with zeros or empty bytes; `VarLenFeature`, for a `SparseTensor` of shape
            (examples, most steps, most values of one); or `RaggedFeature`, for a `RaggedTensor` of as many
            rows of rows. None for none.
        example_names: The names of the examples, for errors.
        name: Ignored.

    Returns:
        The values of the context by name; those of lists; and the number of steps of each list that is
        described by a `FixedLenSequenceFeature`, as int64 arrays of shape (examples,).

    Raises:
        DatasetError: As by `parse_single_sequence_example`.
        ValueError: As by it, or `serialized` has another number of axes than one.

    Source: tensorflow/python/ops/parsing_ops.py, ``parse_sequence_example``.
    """
    if isinstance(serialized, bytes | str) or np.ndim(serialized) != 1:
        raise ValueError(
            f"parse_sequence_example needs a vector of bytes, got shape {np.shape(serialized)}. Call it "
            "after batch, or use parse_single_sequence_example."
        )
    rows = list(np.asarray(serialized, object))
    places = [f" of example {i} of the batch" for i in range(len(rows))]
    if example_names is not None:
        places = [f" of {each}" for each in example_names]
    messages = [_read(row).feature_lists.feature_list for row in rows]
    context = parse_example(serialized, context_features, example_names) if context_features else {}
    found: dict[str, Any] = {}
    lengths: dict[str, Any] = {}
    for key, spec in _checked_lists(sequence_features).items():
        parts = [_steps(key, spec, *each) for each in zip(messages, places, strict=True)]
        if isinstance(spec, VarLenFeature):
            found[key] = _sparse_steps(parts, spec)
        elif isinstance(spec, RaggedFeature):
            found[key] = _ragged_steps(parts, spec)
        else:
            found[key], lengths[key] = _padded_steps(parts, spec)
    return context, found, lengths


def _checked_lists(specs: Mapping[str, Spec] | None) -> dict[str, OneFeature]:
    checked: dict[str, OneFeature] = {}
    for key, spec in (specs or {}).items():
        if isinstance(spec, FixedLenFeature):
            raise ValueError(f"The list {key!r} is described by {spec!r}: use FixedLenSequenceFeature.")
        if isinstance(spec, SparseFeature):
            raise ValueError(f"The list {key!r} is described by {spec!r}: use VarLenFeature.")
        checked[key] = spec
    return checked


def _steps(key: str, spec: OneFeature, lists: Any, place: str) -> Any:
    steps = list(lists[key].feature) if key in lists else []
    if isinstance(spec, FixedLenSequenceFeature):
        if key not in lists and not spec.allow_missing:
            raise DatasetError(
                f"Feature list {key!r} is required but could not be found{place}. Describe it with "
                "allow_missing=True if it may be missing."
            )
        spec = FixedLenFeature(spec.shape, spec.dtype)
    elif isinstance(spec, VarLenFeature) and not steps:
        empty = parse_rows(key, spec, [None], [place])
        return type(empty)(np.zeros((0, 2), np.int64), empty.values, (0, 0))
    return parse_rows(key, spec, steps, [f"{place}, step {step}" for step in range(len(steps))])


def _padded_steps(parts: list[Any], spec: Any) -> tuple[Any, Any]:
    """Return arrays of steps as one, of which each is padded to the most steps; and their numbers."""
    lengths = np.array([len(part) for part in parts], np.int64)
    longest = int(lengths.max(initial=0))
    blank, dtype = (b"", object) if spec.kind == "bytes" else (0, spec.dtype)
    padded = np.full((len(parts), longest, *spec.shape), blank, dtype)
    for row, part in zip(padded, parts, strict=True):
        row[: len(part)] = part
    return padded, lengths


def _sparse_steps(parts: list[SparseTensor], spec: VarLenFeature) -> SparseTensor:
    indices = [np.insert(np.asarray(part.indices), 0, row, axis=1) for row, part in enumerate(parts)]
    sizes = np.array([part.dense_shape for part in parts], np.int64).reshape(-1, 2)
    shape = (len(parts), *(int(size) for size in sizes.max(axis=0, initial=0)))
    values = [np.asarray(part.values) for part in parts]
    blank = np.zeros(0, object if spec.items.kind == "bytes" else spec.dtype)
    return SparseTensor(
        np.concatenate([np.zeros((0, 3), np.int64), *indices]), np.concatenate([blank, *values]), shape
    )


def _ragged_steps(parts: list[RaggedTensor], spec: RaggedFeature) -> RaggedTensor:
    blank = np.zeros(0, object if spec.items.kind == "bytes" else spec.dtype)
    values = np.concatenate([blank, *(np.asarray(part.flat_values) for part in parts)])
    lengths = np.concatenate([np.zeros(0, np.int64), *(np.asarray(part.row_lengths()) for part in parts)])
    steps = RaggedTensor.from_row_lengths(values, lengths)
    return RaggedTensor.from_row_lengths(steps, [len(part) for part in parts])


def _read(serialized: bytes) -> Any:
    try:
        return example_message_class("SequenceExample").FromString(serialized)
    except (DecodeError, TypeError) as exc:
        raise DatasetError(f"{serialized[:40]!r} is no tf.train.SequenceExample: {exc}") from exc
