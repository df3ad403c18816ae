"""Losses averaged over the global batch: each replica computes its share of the mean."""

import operator

import jax
import jax.numpy as jnp

from muster.distribute import get_replica_context, has_strategy, in_cross_replica_context
from muster.extend import ratio
from muster.program import replica_weight
from muster_tensorflow.library.ops._arrays import ArrayLike, as_array
from muster_tensorflow.library.ops.arrays._chosen import Chosen, filled_with_zeros


def compute_average_loss(
    per_example_loss: ArrayLike, sample_weight: ArrayLike | None = None, global_batch_size: int | None = None
) -> jax.Array:
    """Return this replica's share of the mean loss over the batch; the shares add up to the mean.

    Args:
        per_example_loss: Float, shape (examples, ...), per replica.
        sample_weight: Weights of the examples; they broadcast to the losses.
        global_batch_size: The number to divide by; None takes the number of examples on all replicas.

    Returns:
        Float, shape (), per replica.

    Raises:
        ValueError: ``per_example_loss`` is a single number.
        TypeError: ``global_batch_size`` is not an integer.
        RuntimeError: The call is in the cross-replica context, without a ``global_batch_size``.

    Source: tensorflow/python/ops/nn_impl_distribute.py, ``compute_average_loss``.
    """
    examples: jax.Array | None = None
    if isinstance(per_example_loss, Chosen):
        examples, per_example_loss = per_example_loss.count(), filled_with_zeros(per_example_loss)
    losses = jnp.asarray(as_array(per_example_loss))
    if losses.ndim == 0:
        raise ValueError(
            "Invalid value passed for `per_example_loss`. Expected a tensor with at least rank 1. Received "
            f"per_example_loss={per_example_loss} with rank 0"
        )
    if sample_weight is not None:
        weights = jnp.asarray(as_array(sample_weight), losses.dtype)
        losses = losses * weights.reshape(weights.shape + (1,) * (losses.ndim - weights.ndim))
    if global_batch_size is None:
        _require_replica("compute_average_loss")
        count = losses.shape[0] if examples is None else examples
        return ratio(jnp.sum(losses), jnp.asarray(count)) * _replica_share()
    try:
        size = operator.index(global_batch_size)
    except TypeError as exc:
        raise TypeError(f"global_batch_size must be an integer, got {global_batch_size!r}.") from exc
    if size < 0:
        raise ValueError(f"global_batch_size must be non-negative, got {size}.")
    return jnp.sum(losses) / size if size else jnp.zeros((), losses.dtype)


def scale_regularization_loss(regularization_loss: ArrayLike) -> jax.Array:
    """Return this replica's share of a loss that is equal on all replicas.

    Args:
        regularization_loss: Float, of any shape; the sum counts.

    Raises:
        RuntimeError: The call is in the cross-replica context.

    Source: tensorflow/python/ops/nn_impl_distribute.py, ``scale_regularization_loss``.
    """
    _require_replica("scale_regularization_loss")
    return jnp.sum(jnp.asarray(as_array(regularization_loss))) * _replica_share()


def _replica_share() -> float:
    """Return this replica's share of the batch; of a replicated batch, the first replica's is 1."""
    context = get_replica_context()
    return 1.0 if context is None or context.num_replicas_in_sync == 1 else replica_weight()


def _require_replica(name: str) -> None:
    if has_strategy() and in_cross_replica_context():
        raise RuntimeError(
            f"You are calling `{name}` in cross replica context, while it was expected to be called in "
            "replica context."
        )
