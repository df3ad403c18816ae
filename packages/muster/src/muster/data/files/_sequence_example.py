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
    Spec,
    VarLenFeature,
    parse_rows,
    parse_single_example,
)
from muster.data.files._sparse_feature import SparseFeature


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
    lists = _read(serialized).feature_lists.feature_list
    # An Example has its features where a SequenceExample has its context.
    context = parse_single_example(serialized, context_features, example_name) if context_features else {}
    found = {}
    for key, spec in (sequence_features or {}).items():
        if isinstance(spec, FixedLenFeature):
            raise ValueError(f"The list {key!r} is described by {spec!r}: use FixedLenSequenceFeature.")
        if isinstance(spec, SparseFeature):
            raise ValueError(f"The list {key!r} is described by {spec!r}: use VarLenFeature.")
        found[key] = _steps(key, spec, lists, f" of {example_name}" if example_name else "")
    return context, found


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


def _read(serialized: bytes) -> Any:
    try:
        return example_message_class("SequenceExample").FromString(serialized)
    except (DecodeError, TypeError) as exc:
        raise DatasetError(f"{serialized[:40]!r} is no tf.train.SequenceExample: {exc}") from exc
