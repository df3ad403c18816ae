"""More of ``tf.nn``: normalization with its moments, dropout by a function, labels, isotonic fits."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from muster_tensorflow.library.ops._arrays import Array, ArrayLike, as_array
from muster_tensorflow.library.ops._operation import operation
from muster_tensorflow.library.ops.control._needs_values import known
from muster_tensorflow.library.ops.nn._layers_of_nn import batch_normalization
from muster_tensorflow.library.ops.random._stateless import stateless_uniform


class IsotonicRegression(NamedTuple):
    """The fitted values, and the numbers of the segments that share one; `isotonic_regression` returns it."""

    output: Any
    segments: Any


@operation
def fused_batch_norm(
    x: ArrayLike,
    scale: ArrayLike,
    offset: ArrayLike,
    mean: ArrayLike | None = None,
    variance: ArrayLike | None = None,
    epsilon: float = 0.001,
    data_format: str = "NHWC",
    is_training: bool = True,
    name: str | None = None,
    exponential_avg_factor: float = 1.0,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Normalize each channel, by the moments of the batch or by those given; return these moments, too.

    Args:
        x: Of shape (batch, …, channels), or (batch, channels, …) for ``"NC…"``.
        scale: What to multiply channels by.
        offset: What to add to them afterwards.
        mean: The mean, unless training; in training, what the batch's is added to.
        variance: The variance, likewise.
        epsilon: What is added to the variance.
        data_format: The order of axes.
        is_training: Whether to use the batch's moments.
        name: Unused.
        exponential_avg_factor: How much the batch's moments count in those returned.

    Returns:
        The values, the mean, and the variance, that of a sample in training.

    Raises:
        ValueError: There are no moments, and training is off.

    Source: tensorflow/python/ops/nn_impl.py, ``fused_batch_norm``.
    """
    value = jnp.asarray(as_array(x))
    first = data_format.startswith("NC")
    value = jnp.moveaxis(value, 1, -1) if first else value
    given = [None if each is None else jnp.asarray(as_array(each)) for each in (mean, variance)]
    if is_training:
        over = tuple(range(value.ndim - 1))
        count = math.prod(value.shape[:-1])
        used_mean, used_variance = jnp.mean(value, over), jnp.var(value, over)
        moments = [used_mean, used_variance * count / jax.core.max_dim(count - 1, 1)]
        if exponential_avg_factor != 1.0:
            share = exponential_avg_factor
            moments = [
                (1 - share) * (0 if old is None else old) + share * new
                for old, new in zip(given, moments, strict=True)
            ]
    elif given[0] is None or given[1] is None:
        raise ValueError("Both 'mean' and 'variance' must be given when is_training is False.")
    else:
        used_mean, used_variance = moments = given[0], given[1]  # type: ignore[assignment]
    made = batch_normalization(value, used_mean, used_variance, offset, scale, epsilon)
    return jnp.moveaxis(made, -1, 1) if first else made, moments[0], moments[1]


@operation
def batch_norm_with_global_normalization(
    input: ArrayLike,
    mean: ArrayLike,
    variance: ArrayLike,
    beta: ArrayLike,
    gamma: ArrayLike,
    variance_epsilon: float,
    scale_after_normalization: bool,
    name: str | None = None,
) -> jax.Array:
    """Normalize values by moments, add ``beta``, and before that multiply by ``gamma`` if asked."""
    scale = gamma if scale_after_normalization else None
    return batch_normalization(input, mean, variance, beta, scale, variance_epsilon)


@operation
def relu_layer(x: ArrayLike, weights: ArrayLike, biases: ArrayLike, name: str | None = None) -> jax.Array:
    """Return ``relu(x @ weights + biases)``."""
    product = jnp.asarray(as_array(x)) @ jnp.asarray(as_array(weights))
    return jax.nn.relu(product + jnp.asarray(as_array(biases)))


@operation
def general_dropout(
    x: ArrayLike,
    rate: float,
    uniform_sampler: Callable[..., Any],
    noise_shape: Any = None,
    name: str | None = None,
) -> jax.Array:
    """Set a fraction ``rate`` of the values to 0, and divide the others by ``1 - rate``.

    Args:
        x: Values of any shape.
        rate: The fraction, in [0, 1).
        uniform_sampler: Draws numbers from 0 to 1: of a shape and a ``dtype``.
        noise_shape: The shape of the random decisions; None is that of the values.
        name: Unused.
    """
    values = jnp.asarray(as_array(x))
    asked = values.shape if noise_shape is None else noise_shape
    sizes = [full if size is None else int(size) for size, full in zip(asked, values.shape, strict=True)]
    kept = jnp.asarray(as_array(uniform_sampler(shape=sizes, dtype=np.dtype(values.dtype)))) >= rate
    return jnp.where(kept, values / (1 - rate), 0).astype(values.dtype)


@operation
def stateless_dropout(
    x: ArrayLike,
    rate: float,
    seed: ArrayLike,
    rng_alg: str = "auto_select",
    noise_shape: Any = None,
    name: str | None = None,
) -> jax.Array:
    """Set values to 0 as a seed of two integers says; other arguments as for `general_dropout`."""

    def sample(shape: Any, dtype: Any) -> Array:
        return stateless_uniform(shape, seed, dtype=dtype)

    return general_dropout(x, rate, sample, noise_shape)


@operation
def collapse_repeated(labels: ArrayLike, seq_length: ArrayLike, name: str | None = None) -> tuple[Any, Any]:
    """Merge equal labels that follow each other, and return rows, with zeros at their ends, and lengths.

    Raises:
        TraceError: A compiled function or a step computes the labels.
    """
    rows, lengths = (known(as_array(each), "tf.nn.collapse_repeated") for each in (labels, seq_length))
    kept = np.ones(rows.shape, bool)
    kept[:, 1:] = rows[:, 1:] != rows[:, :-1]
    kept &= np.arange(rows.shape[1]) < lengths[:, None]
    counts = kept.sum(1)
    collapsed = np.zeros((len(rows), counts.max(initial=0)), rows.dtype)
    collapsed[np.arange(collapsed.shape[1]) < counts[:, None]] = rows[kept]
    return collapsed, counts.astype(lengths.dtype)


@operation
def ctc_unique_labels(labels: ArrayLike, name: str | None = None) -> tuple[Any, Any]:
    """Return the different labels of each row, with zeros after the last, and each label's place in them."""
    rows = jnp.asarray(as_array(labels))

    def of_row(row: jax.Array) -> tuple[jax.Array, jax.Array]:
        first = jnp.argmax(row[:, None] == row, axis=1)  # where each label comes first
        new = first == np.arange(len(row))
        places = jnp.cumsum(new) - 1
        found = jnp.zeros_like(row).at[jnp.where(new, places, len(row))].set(row, mode="drop")
        return found, places[first]

    found, places = jax.vmap(of_row)(rows)
    return found, places.astype(rows.dtype)


@operation
def isotonic_regression(
    inputs: ArrayLike, decreasing: bool = True, axis: int = -1, name: str | None = None
) -> IsotonicRegression:
    """Return the closest values, by squares, that only fall along an axis, or only rise."""
    values = jnp.moveaxis(jnp.asarray(as_array(inputs)), axis, -1)

    def blocks(rows: Any) -> Any:
        flat = np.asarray(rows).reshape(-1, rows.shape[-1])
        numbers = np.zeros(flat.shape, np.int32)
        for number, row in zip(numbers, flat, strict=True):
            starts = scipy.optimize.isotonic_regression(row, increasing=not decreasing).blocks
            number[:] = np.searchsorted(starts, np.arange(len(row)), side="right") - 1
        return numbers.reshape(rows.shape)

    kind = jax.ShapeDtypeStruct(values.shape, np.int32)
    segments = jax.pure_callback(blocks, kind, jax.lax.stop_gradient(values), vmap_method="expand_dims")
    same = (segments[..., :, None] == segments[..., None, :]).astype(values.dtype)
    output = jnp.squeeze(same @ values[..., None], -1) / jnp.sum(same, -1)
    return IsotonicRegression(jnp.moveaxis(output, -1, axis), jnp.moveaxis(segments, -1, axis))
