"""Linear models of feature columns."""

import math
from collections.abc import Iterable
from typing import TypeAlias

import jax

from muster.estimator._mode_keys import ModeKeys
from muster.estimator.canned._canned_estimator import Part
from muster.estimator.canned._optimizer_makers import OptimizerLike, optimizer_maker
from muster.feature_column import (
    CategoricalColumn,
    DenseColumn,
    Features,
    linear_model,
    require_combiner,
    sorted_columns,
)

LinearColumns: TypeAlias = Iterable[DenseColumn | CategoricalColumn] | DenseColumn | CategoricalColumn
"""One column, or columns in any order, dense or categorical."""


class LinearLogits:
    """Weighted sums of columns, as logits.

    The variables have TensorFlow's names: ``linear/linear_model/<column>/weights`` and
    ``linear/linear_model/bias_weights``.

    Args:
        feature_columns: The features that the model reads.
        sparse_combiner: How the weights of several ids of a column add up: ``"sum"``, ``"mean"`` or
            ``"sqrtn"``.

    Raises:
        ValueError: The columns cannot make a model, or there is no such combiner.

    Source: ``_linear_model_fn_v2`` (tensorflow_estimator/python/estimator/canned/linear.py).
    """

    def __init__(self, feature_columns: LinearColumns, sparse_combiner: str) -> None:
        require_combiner(sparse_combiner)
        self.columns = sorted_columns(feature_columns, wanted=(DenseColumn, CategoricalColumn))
        self._sparse_combiner = sparse_combiner

    def __call__(self, features: Features, units: int, mode: ModeKeys) -> jax.Array:
        """Return the sums: float32 of shape (batch, units)."""
        scope = ("linear", "linear_model")
        return linear_model(features, self.columns, units, self._sparse_combiner, scope=scope)


def linear_part(
    feature_columns: LinearColumns,
    optimizer: OptimizerLike,
    sparse_combiner: str,
    largest_rate: float = 0.2,
) -> Part:
    """Return a linear model as a part of a canned one.

    Args:
        feature_columns: As for `LinearLogits`.
        optimizer: Updates the weights; one that is given by name has the learning rate
            min(largest_rate, 1 / sqrt(number of columns)).
        sparse_combiner: As for `LinearLogits`.
        largest_rate: The limit of that learning rate.

    Raises:
        ValueError: There is no such optimizer, or as for `LinearLogits`.
    """
    logits = LinearLogits(feature_columns, sparse_combiner)
    rate = min(largest_rate, 1 / math.sqrt(len(logits.columns)))
    return Part(logits, optimizer_maker(optimizer, rate), scope="linear/")
