"""Linear models of feature columns."""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import Any

import jax
import jax.numpy as jnp

from muster._keras import keras
from muster.estimator._estimator_spec import EstimatorSpec
from muster.estimator._mode_keys import ModeKeys
from muster.estimator.canned._optimizer_makers import OptimizerLike, optimizer_maker
from muster.estimator.heads._head import Head
from muster.feature_column import DenseColumn, Features, dense_features, sorted_columns

_LARGEST_RATE = 0.2


def linear_model_fn(
    feature_columns: Iterable[DenseColumn] | DenseColumn,
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
        sparse_combiner: Only ``"sum"``.

    Raises:
        ValueError: The columns cannot make a model, there is no such optimizer, or the combiner is another.

    Source: ``_linear_model_fn_v2`` (tensorflow_estimator/python/estimator/canned/linear.py).
    """
    if sparse_combiner != "sum":
        raise ValueError(
            f"sparse_combiner must be 'sum', given: {sparse_combiner!r}. It says how categorical columns add "
            "up, and they are not there yet. There is numeric_column."
        )
    columns = sorted_columns(feature_columns)
    new_optimizer = optimizer_maker(optimizer, min(_LARGEST_RATE, 1 / math.sqrt(len(columns))))

    def model_fn(features: Any, labels: Any, mode: ModeKeys) -> EstimatorSpec:
        if not isinstance(features, Mapping):
            raise ValueError(
                f"features should be a dictionary of `Tensor`s. Given type: {type(features)}. Name them in "
                "the input_fn by the columns' keys."
            )
        logits = linear_logits(features, columns, head.logits_dimension)
        trained_by = new_optimizer() if mode == ModeKeys.TRAIN else None
        return head.create_estimator_spec(features, mode, logits, labels, trained_by)

    return model_fn


def linear_logits(features: Features, columns: tuple[DenseColumn, ...], units: int) -> jax.Array:
    """Return weighted sums of the columns' values, plus a bias; weights and bias start at zero.

    The variables have TensorFlow's names: ``linear/linear_model/<column>/weights``, of shape (num_elements,
    units), and ``linear/linear_model/bias_weights``, of shape (units,).

    Args:
        features: By key, each of shape (batch, ...), per replica.
        columns: Sorted by `muster.feature_column.sorted_columns`.
        units: How many sums to return.

    Returns:
        float32 of shape (batch, units).

    Raises:
        ValueError: A feature is missing, or does not fit its column.

    Source: ``LinearModel`` (tensorflow/python/feature_column/feature_column_v2.py).
    """
    bias = _zeros((units,), "linear", "linear_model", "bias_weights")
    weights = [
        _zeros((column.num_elements, units), "linear", "linear_model", *_scopes(column.name), "weights")
        for column in columns
    ]
    # One product, since XLA takes a second to compile ten of them.
    return jnp.matmul(dense_features(features, columns), jnp.concatenate(weights)) + bias


def _scopes(name: str) -> list[str]:
    """Return a column's name as the scopes of a variable's path, with TensorFlow's replacements by "_"."""
    return [scope for scope in re.sub(r"[^A-Za-z0-9_.\-/]", "_", name).split("/") if scope]


def _zeros(shape: tuple[int, ...], *path: str) -> jax.Array:
    """Create a trainable variable that starts at zero, and return its value."""
    *scopes, name = path
    with ExitStack() as entered:
        for scope in scopes:
            entered.enter_context(keras.name_scope(scope))
        value: jax.Array = keras.Variable("zeros", shape, "float32", name=name).value
        return value
