"""What the host makes of batches of a model_fn: it looks up text for columns, and leaves out other text."""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import jax
import numpy as np

from muster.data import RaggedTensor, SparseTensor
from muster.feature_column import FeatureColumn, transform_features

_log = logging.getLogger(__name__)


class HostPart:
    """Prepares features that are no arrays of numbers, with which a step cannot compute.

    Attributes:
        columns: The feature columns that the model_fn has been seen to use, and whose ids the host finds.
        left_out: The keys of features that no step gets.
    """

    def __init__(self) -> None:
        self.columns: list[FeatureColumn] = []
        self.left_out: set[str] = set()

    def concerns(self, features: Any) -> bool:
        """Return whether a batch of features needs to be prepared."""
        return isinstance(features, Mapping) and (
            bool(self.columns) or not all(map(_is_numbers, features.values()))
        )

    def prepare(self, features: Any, labels: Any) -> tuple[Any, Any]:
        """Return features of numbers, with those that columns need, and the labels."""
        kept = {key: value for key, value in features.items() if _is_numbers(value)}
        left_out = features.keys() - kept.keys()
        if self.columns:
            kept |= transform_features(features, self.columns)
        elif left_out - self.left_out:
            _log.info(
                "Left out of batches, since steps compute with numbers: %s.", ", ".join(sorted(left_out))
            )
        self.left_out |= left_out
        return kept, labels

    def add(self, columns: Iterable[FeatureColumn]) -> bool:
        """Add columns that the model_fn uses; return whether one of them was not known."""
        new = [column for column in columns if column not in self.columns]
        self.columns += new
        return bool(new)


def _is_numbers(value: Any) -> bool:
    """Return whether a feature is an array of numbers, or a structure of them."""
    return all(map(_is_array_of_numbers, jax.tree.leaves(value)))


def _is_array_of_numbers(value: Any) -> bool:
    if isinstance(value, SparseTensor | RaggedTensor):
        return False
    return (value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype).kind in "biufcV"
