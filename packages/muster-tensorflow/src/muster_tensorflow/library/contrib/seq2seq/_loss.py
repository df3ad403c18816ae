"""Losses of sequences."""

from collections.abc import Callable

import jax.numpy as jnp

from muster_tensorflow.library.ops._arrays import Array, ArrayLike, as_array
from muster_tensorflow.library.ops.math._math import divide_no_nan
from muster_tensorflow.library.ops.nn._nn import sparse_softmax_cross_entropy_with_logits


def sequence_loss(
    logits: ArrayLike,
    targets: ArrayLike,
    weights: ArrayLike,
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    sum_over_timesteps: bool = False,
    sum_over_batch: bool = False,
    softmax_loss_function: Callable[..., Array] | None = None,
    name: str | None = None,
) -> Array:
    """Return the weighted cross entropy of sequences of classes.

    Args:
        logits: Of shape (batch, time, classes). Time steps beyond those of the targets do not count: what a
            step decodes may have more, of zeros (see ``dynamic_decode``).
        targets: The classes, integers of shape (batch, time).
        weights: Of shape (batch, time), such as 0 for padding.
        average_across_timesteps: Whether to divide the sum over time by that of the weights.
        average_across_batch: Likewise over the batch.
        sum_over_timesteps: Whether to divide the sum over time by the number of weights that are not 0.
        sum_over_batch: Likewise over the batch.
        softmax_loss_function: Takes ``labels`` and ``logits``, without the axis of time; None for the cross
            entropy.
        name: Unused.

    Returns:
        Of shape (), (batch,), (time,), or (batch, time), without the axes that are averaged or summed.

    Raises:
        ValueError: The shapes do not fit, or an axis is averaged while one is summed.

    Source: tensorflow/contrib/seq2seq/python/ops/loss.py, ``sequence_loss``.
    """
    scores, classes, factors = (
        jnp.asarray(as_array(logits)),
        as_array(targets),
        jnp.asarray(as_array(weights)),
    )
    for array, needed, what in (
        (scores, 3, "Logits must be a [batch_size x sequence_length x logits] tensor"),
        (classes, 2, "Targets must be a [batch_size, sequence_length] tensor"),
        (factors, 2, "Weights must be a [batch_size, sequence_length] tensor"),
    ):
        if array.ndim != needed:
            raise ValueError(f"{what}, got the shape {array.shape}.")
    scores = scores[:, : classes.shape[1]]
    averaged = (average_across_batch, average_across_timesteps)
    summed = (sum_over_batch, sum_over_timesteps)
    if any(averaged) and any(summed):
        raise ValueError("An axis is averaged and one is summed: choose one of both.")
    loss_of = softmax_loss_function or sparse_softmax_cross_entropy_with_logits
    flat = loss_of(labels=classes.reshape(-1), logits=scores.reshape(-1, scores.shape[-1]))
    losses = flat.reshape(classes.shape) * factors
    axes = tuple(axis for axis in (0, 1) if averaged[axis] or summed[axis])
    if not axes:
        return losses
    counted = factors if any(averaged) else (factors != 0).astype(losses.dtype)
    found: Array = divide_no_nan(jnp.sum(losses, axes), jnp.sum(counted, axes))
    return found
