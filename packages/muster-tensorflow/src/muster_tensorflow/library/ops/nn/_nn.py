"""The functions of ``tf.nn`` that model functions use."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from muster.data import RaggedTensor, SparseTensor
from muster.distribute import ShardedVariable
from muster.extend import NO_ROW, combined
from muster.program import SparseRows, check_ids, label_factor
from muster_tensorflow.library.ops._arrays import Array, ArrayLike, Axis, DTypeLike, as_array, as_axis
from muster_tensorflow.library.ops._operation import operation
from muster_tensorflow.library.ops.nn._logits import SOFTMAX, note_logits


@operation
def relu(features: ArrayLike, name: str | None = None) -> jax.Array:
    """Return ``max(x, 0)``."""
    return jax.nn.relu(as_array(features))


@operation
def relu6(features: ArrayLike, name: str | None = None) -> jax.Array:
    """Return ``min(max(x, 0), 6)``."""
    return jax.nn.relu6(as_array(features))


@operation
def elu(features: ArrayLike, name: str | None = None) -> jax.Array:
    """Return ``x`` above zero, ``exp(x) - 1`` below."""
    return jax.nn.elu(as_array(features))


@operation
def leaky_relu(features: ArrayLike, alpha: float = 0.2, name: str | None = None) -> jax.Array:
    """Return ``x`` above zero, ``alpha * x`` below."""
    return jax.nn.leaky_relu(as_array(features), alpha)


@operation
def gelu(features: ArrayLike, approximate: bool = False, name: str | None = None) -> jax.Array:
    """Return ``x`` times the standard normal CDF at ``x``; if ``approximate``, by the formula with tanh."""
    return jax.nn.gelu(as_array(features), approximate)


@operation
def selu(features: ArrayLike, name: str | None = None) -> jax.Array:
    """Return the scaled exponential linear unit."""
    return jax.nn.selu(as_array(features))


@operation
def silu(features: ArrayLike, beta: float = 1.0) -> jax.Array:
    """Return ``x * sigmoid(beta * x)``."""
    value = jnp.asarray(as_array(features))
    return value * jax.nn.sigmoid(beta * value)


@operation
def softsign(features: ArrayLike, name: str | None = None) -> jax.Array:
    """Return ``x / (1 + |x|)``."""
    return jax.nn.soft_sign(as_array(features))


@operation
def zero_fraction(value: ArrayLike, name: str | None = None) -> jax.Array:
    """Return the fraction of zeros, shape ()."""
    return jnp.mean(jnp.asarray(as_array(value)) == 0, dtype=jnp.float32)


@operation
def softplus(features: ArrayLike, name: str | None = None) -> jax.Array:
    """Return ``log(1 + exp(x))``."""
    return jax.nn.softplus(as_array(features))


@operation
def softmax(logits: ArrayLike, axis: int | None = None, name: str | None = None) -> jax.Array:
    """Return probabilities: ``exp(x)`` divided by its sum along the axis, the last one by default."""
    logits = as_array(logits)
    output = jax.nn.softmax(logits, -1 if axis is None else axis)
    note_logits(output, logits, SOFTMAX)
    return output


@operation
def log_softmax(logits: ArrayLike, axis: int | None = None, name: str | None = None) -> jax.Array:
    """Return the logarithm of `softmax`."""
    return jax.nn.log_softmax(as_array(logits), -1 if axis is None else axis)


@operation
def l2_loss(t: ArrayLike, name: str | None = None) -> jax.Array:
    """Return half the sum of the squares."""
    return jnp.sum(jnp.square(as_array(t))) / 2


@operation
def l2_normalize(
    x: ArrayLike, axis: Axis = None, epsilon: float = 1e-12, name: str | None = None, dim: Axis = None
) -> jax.Array:
    """Scale values to Euclidean norm 1 along the axes, all by default; ``dim`` is an old name of ``axis``."""
    value = jnp.asarray(as_array(x))
    total = jnp.sum(jnp.square(value), axis=as_axis(dim if axis is None else axis), keepdims=True)
    return value * jax.lax.rsqrt(jnp.maximum(total, epsilon))


@operation
def moments(
    x: ArrayLike, axes: Axis, shift: None = None, keepdims: bool = False, name: str | None = None
) -> tuple[jax.Array, jax.Array]:
    """Return the mean and the variance over axes; ``shift`` is unused, as in TensorFlow."""
    value, axis = as_array(x), as_axis(axes)
    return jnp.mean(value, axis, keepdims=keepdims), jnp.var(value, axis, keepdims=keepdims)


@operation
def embedding_lookup(
    params: ArrayLike, ids: ArrayLike, max_norm: float | None = None, name: str | None = None
) -> jax.Array:
    """Take rows of a table: shape (rows, width), and ids of shape S, give shape (\\*S, width).

    The table may be a `muster.distribute.ShardedVariable`, whose shards are read where they are.

    Args:
        params: The table.
        ids: Numbers of its rows.
        max_norm: The largest Euclidean norm of a row, to which longer ones are scaled; None for any.
        name: Unused.
    """
    ids = as_array(ids)
    if isinstance(params, ShardedVariable):
        check_ids(ids, params.shape[0])
        rows = params.sparse_read(ids)
    else:
        table = as_array(params)
        check_ids(ids, len(table))
        rows = jnp.take(table, ids, axis=0)
    return rows if max_norm is None else _at_most(rows, max_norm)


def _at_most(rows: jax.Array, max_norm: float) -> jax.Array:
    """Scale rows so that the Euclidean norm of none is larger."""
    squares = jnp.sum(rows * rows, -1, keepdims=True)
    norms = jnp.sqrt(jnp.where(squares > 0, squares, 1))
    return rows * (max_norm / jnp.maximum(norms, max_norm))


@operation
def embedding_lookup_sparse(
    params: ArrayLike,
    sp_ids: ArrayLike,
    sp_weights: ArrayLike | None,
    combiner: str | None = None,
    max_norm: float | None = None,
    name: str | None = None,
    allow_fast_lookup: bool = False,
) -> jax.Array:
    """Take the rows of each example's ids of a table, and combine them; zeros for an example without ids.

    Args:
        params: The table, of shape (rows, width); it may be a `muster.distribute.ShardedVariable`.
        sp_ids: Ids: a sparse matrix, a ragged tensor, or an array of shape (..., most ids of an example) with
            -1 where there are fewer.
        sp_weights: The weight of each id, likewise; None weighs all alike.
        combiner: ``"sum"``; ``"mean"``, the default, divided by the sum of the weights; or ``"sqrtn"``,
            divided by the root of the sum of their squares.
        max_norm: The largest Euclidean norm of a row, to which longer ones are scaled; None for any.
        name: Unused.
        allow_fast_lookup: Unused.

    Returns:
        Of shape (..., width).

    Raises:
        ValueError: There is no such combiner.

    Source: tensorflow/python/ops/embedding_ops.py, ``embedding_lookup_sparse_v2``.
    """
    if combiner not in (None, "mean", "sqrtn", "sum"):
        raise ValueError(f"combiner must be one of 'mean', 'sqrtn' or 'sum', got {combiner!r}.")
    ids = _by_rows(sp_ids, -1)
    there = ids >= 0
    wanted = jnp.where(there, ids, NO_ROW)
    if isinstance(params, ShardedVariable):
        rows = params.sparse_read(wanted)
    else:
        rows = jnp.take(as_array(params), wanted, axis=0)
    rows = jnp.where(there[..., None], rows, 0)
    if max_norm is not None:
        rows = _at_most(rows, max_norm)
    weights = jnp.where(there, 1 if sp_weights is None else _by_rows(sp_weights, 0), 0).astype(rows.dtype)
    return combined(rows, weights, combiner or "mean")


def _by_rows(values: Any, padding: int) -> Any:
    """Return what each example has of sparse or ragged values side by side; arrays as they are."""
    if isinstance(values, RaggedTensor):
        return as_array(values.to_tensor(padding))
    if not isinstance(values, SparseTensor):
        return as_array(values)
    return (values if isinstance(values, SparseRows) else SparseRows.of(values)).by_rows(padding)


@operation
def safe_embedding_lookup_sparse(
    embedding_weights: ArrayLike,
    sparse_ids: ArrayLike,
    sparse_weights: ArrayLike | None = None,
    combiner: str = "mean",
    default_id: int | None = None,
    max_norm: float | None = None,
    name: str | None = None,
    allow_fast_lookup: bool = False,
) -> jax.Array:
    """Do as `embedding_lookup_sparse`, without ids that are negative, or whose weight is not positive.

    Args:
        embedding_weights: The table.
        sparse_ids: As there.
        sparse_weights: As there.
        combiner: As there; with ``"sum"``, all weights count.
        default_id: The id of an example that has none; None gives zeros.
        max_norm: As there.
        name: Unused.
        allow_fast_lookup: Unused.

    Source: tensorflow/python/ops/embedding_ops.py, ``safe_embedding_lookup_sparse``.
    """
    ids = _by_rows(sparse_ids, -1)
    weights = None if sparse_weights is None else _by_rows(sparse_weights, 0)
    if weights is not None and combiner != "sum":
        ids = jnp.where(weights > 0, ids, -1)
    if default_id is not None:
        missing = ~(ids >= 0).any(-1, keepdims=True)
        ids = jnp.concatenate([ids, jnp.where(missing, default_id, -1)], -1)
        weights = None if weights is None else jnp.concatenate([weights, jnp.ones_like(weights[..., :1])], -1)
    return embedding_lookup_sparse(embedding_weights, ids, weights, combiner, max_norm)


@operation
def in_top_k(targets: ArrayLike, predictions: ArrayLike, k: int, name: str | None = None) -> jax.Array:
    """Return whether each target is among the ``k`` highest predictions; a tie counts for the target.

    It is not if it is no class, or if a score is not finite.

    Args:
        targets: Indices, shape (batch,).
        predictions: Scores, shape (batch, classes).
        k: How many predictions count.
        name: Unused.
    """
    scores, indices = as_array(predictions), as_array(targets)
    of_target = jnp.take_along_axis(scores, indices[:, None], axis=1)
    is_class = (indices >= 0) & (indices < scores.shape[1])
    return (jnp.sum(scores > of_target, axis=1) < k) & is_class & jnp.isfinite(scores).all(axis=1)


class TopK(NamedTuple):
    """The result of `top_k`."""

    values: Array
    indices: Array


@operation
def top_k(
    input: ArrayLike,
    k: int = 1,
    sorted: bool = True,
    index_type: DTypeLike = np.int32,
    name: str | None = None,
) -> "TopK":
    """Return the ``k`` largest values along the last axis, and their indices."""
    values, indices = jax.lax.top_k(as_array(input), k)
    return TopK(values, indices if np.dtype(index_type) == np.int32 else as_array(indices, index_type))


@operation
def softmax_cross_entropy_with_logits(
    labels: ArrayLike, logits: ArrayLike, axis: int = -1, name: str | None = None
) -> jax.Array:
    """Return the softmax cross entropy of class probabilities and logits.

    Args:
        labels: Probabilities, in the shape of the logits; or of shape (classes,), for all. Other axes may be
            divided otherwise, if there are as many examples.
        logits: Float, shape (…, classes).
        axis: The axis of the classes.
        name: Unused.

    Returns:
        A value for each example: the shape of the logits without that axis.

    Source: tensorflow/python/ops/nn_ops.py, ``softmax_cross_entropy_with_logits_v2``.
    """
    logits = as_array(logits)
    labels = as_array(labels, logits.dtype)
    if labels.ndim == 1 and axis in (-1, logits.ndim - 1):
        labels = labels.reshape((1,) * (logits.ndim - 1) + labels.shape)
    if axis in (-1, logits.ndim - 1) and labels.ndim != logits.ndim and labels.size == logits.size:
        labels = labels.reshape(logits.shape) if labels.shape[-1] == logits.shape[-1] else labels
    same = labels.ndim == logits.ndim and all(
        a in (1, b) for a, b in zip(labels.shape, logits.shape, strict=True)
    )
    _require_shapes(labels, logits, same, "have one shape")
    return -jnp.sum(labels * jax.nn.log_softmax(logits, axis), axis)


@operation
def sparse_softmax_cross_entropy_with_logits(
    labels: ArrayLike, logits: ArrayLike, name: str | None = None
) -> jax.Array:
    """Return the softmax cross entropy of integer labels and logits.

    Args:
        labels: Class indices, shape (…).
        logits: Float, shape (…, classes).
        name: Unused.

    Returns:
        A value for each example: the shape of the labels.

    Raises:
        DatasetError: A label is less than 0, or not less than the number of classes.

    Source: tensorflow/python/ops/nn_ops.py, ``sparse_softmax_cross_entropy_with_logits``.
    """
    labels, logits = as_array(labels), as_array(logits)
    same = labels.shape == logits.shape[:-1]
    _require_shapes(labels, logits, same, "have one shape, but for the last axis of the logits")
    if not jnp.issubdtype(labels.dtype, jnp.integer):
        raise TypeError(f"`labels` must be class indices, which are integers, got {labels.dtype}.")
    factor = label_factor(labels, logits.shape[-1]).astype(logits.dtype)
    scores = jax.nn.log_softmax(logits * factor[..., None])
    index = as_array(labels, "int32")[..., None]
    return -jnp.take_along_axis(scores, index, axis=-1, mode="fill")[..., 0]


@operation
def sigmoid_cross_entropy_with_logits(
    labels: ArrayLike, logits: ArrayLike, name: str | None = None
) -> jax.Array:
    """Return the binary cross entropy of each label in [0, 1] and its logit, in the shape of the logits.

    Source: tensorflow/python/ops/nn_impl.py, ``sigmoid_cross_entropy_with_logits``.
    """
    logits = as_array(logits)
    labels = as_array(labels, logits.dtype)
    _require_shapes(labels, logits, labels.shape == logits.shape, "have one shape")
    return jax.nn.softplus(logits) - logits * labels


@operation
def weighted_cross_entropy_with_logits(
    labels: ArrayLike, logits: ArrayLike, pos_weight: ArrayLike, name: str | None = None
) -> jax.Array:
    """Return the binary cross entropy, with the part of positive labels times ``pos_weight``.

    Source: tensorflow/python/ops/nn_impl.py, ``weighted_cross_entropy_with_logits_v2``.
    """
    logits = jnp.asarray(as_array(logits))
    labels = jnp.asarray(as_array(labels, logits.dtype))
    _require_shapes(labels, logits, labels.shape == logits.shape, "have one shape")
    positive = labels * as_array(pos_weight) * jax.nn.softplus(-logits)
    return positive + (1 - labels) * jax.nn.softplus(logits)


def _require_shapes(labels: Array, logits: Array, fit: bool, must: str) -> None:
    if not fit:
        raise ValueError(f"`labels` and `logits` must {must}, got {labels.shape} and {logits.shape}.")
