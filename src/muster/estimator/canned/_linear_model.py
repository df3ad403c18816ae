"""Linear models of feature columns."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from muster.estimator._estimator_spec import EstimatorSpec
from muster.estimator._mode_keys import ModeKeys
from muster.estimator.canned._optimizer_makers import OptimizerLike, optimizer_maker
from muster.estimator.heads._head import Head
from muster.feature_column import (
    CategoricalColumn,
    DenseColumn,
    linear_model,
    require_combiner,
    sorted_columns,
)

_LARGEST_RATE = 0.2

Column = DenseColumn | CategoricalColumn


def linear_model_fn(
    feature_columns: Iterable[Column] | Column,
    head: Head,
    optimizer: OptimizerLike,
    sparse_combiner: str,
) -> Callable[..., EstimatorSpec]:
    """Return the model_fn of a canned Estimator whose logits are those of a linear model.

    Args:
        feature_columns: The features that the model reads.
        head: Turns logits into predictions, loss and metrics.
        optimizer: Updates the weights; one that is given by name has the learning rate
            min(0.2, 1 / sqrt(number of columns)).
        sparse_combiner: How the weights of several ids of a column add up: ``"sum"``, ``"mean"`` or
            ``"sqrtn"``.

    Raises:
        ValueError: The columns cannot make a model, there is no such optimizer, or the combiner is another.

    Source: ``_linear_model_fn_v2`` (tensorflow_estimator/python/estimator/canned/linear.py).
    """
    require_combiner(sparse_combiner)
    columns = linear_columns(feature_columns)
    new_optimizer = optimizer_maker(optimizer, min(_LARGEST_RATE, 1 / math.sqrt(len(columns))))

    def model_fn(features: Any, labels: Any, mode: ModeKeys) -> EstimatorSpec:
        if not isinstance(features, Mapping):
            raise ValueError(
                f"features should be a dictionary of `Tensor`s. Given type: {type(features)}. Name them in "
                "the input_fn by the columns' keys."
            )
        logits = linear_model(
            features, columns, head.logits_dimension, sparse_combiner, scope=("linear", "linear_model")
        )
        trained_by = new_optimizer() if mode == ModeKeys.TRAIN else None
        return head.create_estimator_spec(features, mode, logits, labels, trained_by)

    return model_fn


def linear_columns(feature_columns: Iterable[Column] | Column) -> tuple[Column, ...]:
    """Return the columns of a linear model, sorted by name.

    Raises:
        ValueError: There is none, two have one name, or one is neither dense nor categorical.
    """
    return sorted_columns(feature_columns, wanted=(DenseColumn, CategoricalColumn))
