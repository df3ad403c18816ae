"""``tf.random.stateless_…``: numbers that follow from a seed, the same in every call."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster_tensorflow.library.ops._arrays import Array, ArrayLike, DTypeLike, as_array, as_shape
from muster_tensorflow.library.ops._operation import operation

Shape = Any


def key_of(seed: ArrayLike) -> jax.Array:
    """Return JAX's key of a seed of TensorFlow: two integers, which may be values of a step.

    The numbers are not TensorFlow's, which has other generators.
    """
    words = jnp.asarray(as_array(seed)).astype(jnp.uint32)
    key: jax.Array = jax.random.wrap_key_data(words.reshape(2), impl="threefry2x32")
    return key


@operation
def stateless_uniform(
    shape: Shape,
    seed: ArrayLike,
    minval: ArrayLike = 0,
    maxval: ArrayLike | None = None,
    dtype: DTypeLike = np.float32,
    name: str | None = None,
    alg: str = "auto_select",
) -> Array:
    """Draw numbers uniformly from ``minval`` up to, but without, ``maxval``.

    Args:
        shape: The shape of the result.
        seed: Two integers.
        minval: The lower bound.
        maxval: The upper bound, which is not drawn; None is 1. Integers need one.
        dtype: The dtype of the result.
        name: Unused.
        alg: Unused: the numbers are those of JAX's generator.

    Raises:
        ValueError: There are integers without ``maxval``.

    Source: tensorflow/python/ops/stateless_random_ops.py, ``stateless_random_uniform``.
    """
    kind: Any = jax.dtypes.canonicalize_dtype(dtype)
    low = as_array(minval)
    if np.dtype(kind).kind in "iu":
        if maxval is None:
            raise ValueError("Integers need maxval, the bound that they stay below.")
        return jax.random.randint(key_of(seed), as_shape(shape), low, as_array(maxval), kind)
    high = as_array(1.0 if maxval is None else maxval)
    return jax.random.uniform(key_of(seed), as_shape(shape), kind) * (high - low) + low


@operation
def stateless_normal(
    shape: Shape,
    seed: ArrayLike,
    mean: ArrayLike = 0.0,
    stddev: ArrayLike = 1.0,
    dtype: DTypeLike = np.float32,
    name: str | None = None,
    alg: str = "auto_select",
) -> Array:
    """Draw numbers from a normal distribution; arguments as for `stateless_uniform`."""
    kind: Any = jax.dtypes.canonicalize_dtype(dtype)
    return jax.random.normal(key_of(seed), as_shape(shape), kind) * as_array(stddev) + as_array(mean)


@operation
def stateless_truncated_normal(
    shape: Shape,
    seed: ArrayLike,
    mean: ArrayLike = 0.0,
    stddev: ArrayLike = 1.0,
    dtype: DTypeLike = np.float32,
    name: str | None = None,
    alg: str = "auto_select",
) -> Array:
    """Draw numbers from a normal distribution within two standard deviations."""
    kind: Any = jax.dtypes.canonicalize_dtype(dtype)
    drawn = jax.random.truncated_normal(key_of(seed), -2.0, 2.0, as_shape(shape), kind)
    return drawn * as_array(stddev) + as_array(mean)


@operation
def stateless_categorical(
    logits: ArrayLike,
    num_samples: int,
    seed: ArrayLike,
    dtype: DTypeLike = np.int64,
    name: str | None = None,
) -> Array:
    """Draw ``num_samples`` classes of each row of logits, of shape (batch, classes)."""
    scores = jnp.asarray(as_array(logits))
    shape = (*scores.shape[:-1], int(num_samples))
    found = jax.random.categorical(key_of(seed), scores[..., None, :], shape=shape)
    return as_array(found, dtype)


@operation
def stateless_shuffle(
    value: ArrayLike, seed: ArrayLike, alg: str = "auto_select", name: str | None = None
) -> Array:
    """Shuffle the values along the first axis."""
    return jax.random.permutation(key_of(seed), jnp.asarray(as_array(value)))


@operation
def stateless_split(seed: ArrayLike, num: int = 2, alg: str = "auto_select") -> Array:
    """Make ``num`` seeds of one, of shape (num, 2)."""
    return jax.random.key_data(jax.random.split(key_of(seed), num)).astype(jnp.int32)


@operation
def stateless_fold_in(seed: ArrayLike, data: ArrayLike, alg: str = "auto_select") -> Array:
    """Make another seed of a seed and an integer."""
    folded = jax.random.fold_in(key_of(seed), jnp.asarray(as_array(data)))
    return jax.random.key_data(folded).astype(jnp.int32)


@operation
def stateless_gamma(
    shape: Shape,
    seed: ArrayLike,
    alpha: ArrayLike,
    beta: ArrayLike | None = None,
    dtype: DTypeLike = np.float32,
    name: str | None = None,
) -> Array:
    """Draw numbers of gamma distributions, whose ``alpha`` and rate ``beta`` broadcast to the shape."""
    kind: Any = jax.dtypes.canonicalize_dtype(dtype)
    drawn = jax.random.gamma(key_of(seed), jnp.asarray(as_array(alpha), kind), as_shape(shape), kind)
    return drawn if beta is None else drawn / jnp.asarray(as_array(beta), kind)


@operation
def stateless_poisson(
    shape: Shape, seed: ArrayLike, lam: ArrayLike, dtype: DTypeLike = np.int32, name: str | None = None
) -> Array:
    """Draw numbers of Poisson distributions, whose rates broadcast to the shape."""
    kind: Any = jax.dtypes.canonicalize_dtype(dtype)
    return jax.random.poisson(key_of(seed), jnp.asarray(as_array(lam)), as_shape(shape)).astype(kind)


@operation
def stateless_binomial(
    shape: Shape,
    seed: ArrayLike,
    counts: ArrayLike,
    probs: ArrayLike,
    output_dtype: DTypeLike = np.int32,
    name: str | None = None,
) -> Array:
    """Draw how many of ``counts`` trials succeed; counts and probabilities broadcast to the shape."""
    trials, chances = (jnp.asarray(as_array(each), jnp.float32) for each in (counts, probs))
    kind: Any = jax.dtypes.canonicalize_dtype(output_dtype)
    return jax.random.binomial(key_of(seed), trials, chances, as_shape(shape)).astype(kind)


@operation
def stateless_parameterized_truncated_normal(
    shape: Shape,
    seed: ArrayLike,
    means: ArrayLike = 0.0,
    stddevs: ArrayLike = 1.0,
    minvals: ArrayLike = -2.0,
    maxvals: ArrayLike = 2.0,
    name: str | None = None,
) -> Array:
    """Draw numbers from normal distributions between two bounds, which broadcast to the shape."""
    mean, deviation, low, high = (
        jnp.asarray(as_array(each), jnp.float32) for each in (means, stddevs, minvals, maxvals)
    )
    drawn = jax.random.truncated_normal(
        key_of(seed), (low - mean) / deviation, (high - mean) / deviation, as_shape(shape)
    )
    return drawn * deviation + mean
