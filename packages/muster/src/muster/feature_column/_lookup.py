"""Look-ups of ids in tables, in a step."""

from typing import Any

import jax
import jax.numpy as jnp

from muster._ratios import combined
from muster._row_ids import NO_ROW
from muster.feature_column._categorical_column import PaddedIds
from muster.program.variables import rows_by_id

COMBINERS = ("mean", "sqrtn", "sum")


def require_combiner(combiner: str) -> None:
    """Check that there is such a combiner.

    Raises:
        ValueError: There is none.
    """
    if combiner not in COMBINERS:
        raise ValueError(f"combiner must be one of 'mean', 'sqrtn' or 'sum', got {combiner}")


def combined_rows(table: Any, found: PaddedIds, combiner: str, max_norm: float | None = None) -> jax.Array:
    """Return a combination of the rows of each example's ids; zeros if it has none.

    Only rows that were looked up have a gradient. Ids beyond the table give NaNs.

    Args:
        table: Of shape (buckets, dimension); the variable of a hashed table.
        found: Ids of shape (..., width).
        combiner: ``"sum"``; ``"mean"``, divided by the sum of the weights; or ``"sqrtn"``, divided by the
            root of the sum of their squares. The latter two leave out ids with weights <= 0.
        max_norm: The largest Euclidean norm of a row, to which longer ones are scaled; None for any.

    Returns:
        Of shape (..., dimension).

    Source: ``safe_embedding_lookup_sparse`` (tensorflow/python/ops/embedding_ops.py).
    """
    ids, weights = found
    is_hashed = ids.dtype == jnp.uint32
    rows, there = rows_by_id(table, ids) if is_hashed else (None, ids >= 0)
    if weights is not None and combiner != "sum":
        there &= weights > 0
    if rows is None:
        rows = jnp.take(table, jnp.where(there, ids, NO_ROW), axis=0, mode="fill", fill_value=jnp.nan)
    rows = jnp.where(there[..., None], rows, 0)
    if max_norm is not None:
        rows = _clipped(rows, max_norm)
    scale = there.astype(rows.dtype) if weights is None else jnp.where(there, weights, 0)
    if weights is None and there.shape[-1] == 1:
        return rows[..., 0, :]  # the combination of one is itself
    return combined(rows, scale, combiner)


def counts(found: PaddedIds, num_buckets: int) -> jax.Array:
    """Return how often each id occurs, or the sum of its weights.

    Args:
        found: Ids of shape (..., width).
        num_buckets: The number of ids.

    Returns:
        float32 of shape (..., num_buckets).
    """
    ids, weights = found
    ones = jax.nn.one_hot(ids, num_buckets, dtype="float32")
    return (ones if weights is None else ones * weights[..., None]).sum(-2)


def _clipped(rows: jax.Array, max_norm: float) -> jax.Array:
    squares = (rows * rows).sum(-1, keepdims=True)
    norms = jnp.sqrt(jnp.where(squares > 0, squares, 1))
    return rows * (max_norm / jnp.maximum(norms, max_norm))
