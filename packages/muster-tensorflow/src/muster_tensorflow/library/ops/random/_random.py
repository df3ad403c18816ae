"""``tf.random``: new numbers in every call, also of a compiled function."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster import keras
from muster_tensorflow.library.ops._arrays import Array, ArrayLike, DTypeLike, as_array, as_shape
from muster_tensorflow.library.ops._operation import operation
from muster_tensorflow.library.ops.random._generators import next_key, numpy_generator, step_generator

Shape = Any


@operation
def uniform(
    shape: Shape,
    minval: ArrayLike = 0,
    maxval: ArrayLike | None = None,
    dtype: DTypeLike = np.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Array:
    """Draw numbers uniformly from ``minval`` up to, but without, ``maxval``.

    In a ``tf.function`` each replica draws different numbers, and new ones in every call. In a layer the
    model that is called holds their state. Outside of both, NumPy draws them. ``tf.random.set_seed`` makes
    them repeatable.

    Args:
        shape: The shape of the result.
        minval: The lower bound.
        maxval: The upper bound, which is not drawn; None is 1. Integers need one.
        dtype: The dtype of the result.
        seed: Seeds a sequence of its own; None takes the one that all calls share.
        name: Unused.

    Raises:
        ValueError: There are integers without ``maxval``.
        TraceError: JAX traces the call, and nothing holds the state of the numbers.

    Source: tensorflow/python/ops/random_ops.py, ``random_uniform``.
    """
    kind: Any = np.dtype(dtype)
    integers = kind.kind in "iu"
    if maxval is None:
        if integers:
            raise ValueError("tf.random.uniform of integers needs maxval, the bound that they stay below.")
        maxval = 1
    sizes, bounds = as_shape(shape), (minval, maxval)
    generator = step_generator("uniform", seed)
    if generator is not None:
        draw = keras.random.randint if integers else keras.random.uniform
        drawn: jax.Array = draw(sizes, *bounds, dtype=str(kind), seed=generator)
        return drawn
    numpy = numpy_generator(seed)
    if integers:
        return numpy.randint(*bounds, sizes, dtype=kind)  # type: ignore[no-any-return]
    return np.asarray(numpy.uniform(*bounds, sizes)).astype(kind)


@operation
def normal(
    shape: Shape,
    mean: ArrayLike = 0.0,
    stddev: ArrayLike = 1.0,
    dtype: DTypeLike = np.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Array:
    """Draw numbers from a normal distribution, in the way of `uniform`.

    Args:
        shape: The shape of the result.
        mean: The mean of the distribution.
        stddev: Its standard deviation.
        dtype: The dtype of the result.
        seed: Seeds a sequence of its own; None takes the one that all calls share.
        name: Unused.

    Source: tensorflow/python/ops/random_ops.py, ``random_normal``.
    """
    generator = step_generator("normal", seed)
    if generator is not None:
        kind = str(np.dtype(dtype))
        numbers: jax.Array = keras.random.normal(as_shape(shape), dtype=kind, seed=generator)
        return numbers * as_array(stddev) + as_array(mean)
    numpy = numpy_generator(seed)
    return np.asarray(numpy.normal(as_array(mean), as_array(stddev), as_shape(shape))).astype(dtype)


@operation
def truncated_normal(
    shape: Shape,
    mean: ArrayLike = 0.0,
    stddev: ArrayLike = 1.0,
    dtype: DTypeLike = np.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Array:
    """Draw numbers from a normal distribution within two standard deviations; arguments as for `normal`."""
    sizes = as_shape(shape)
    generator = step_generator("truncated_normal", seed)
    if generator is not None:
        numbers: jax.Array = keras.random.truncated_normal(sizes, dtype=str(np.dtype(dtype)), seed=generator)
        return numbers * as_array(stddev) + as_array(mean)
    numpy = numpy_generator(seed)
    drawn = numpy.normal(size=sizes)
    while (outside := np.abs(drawn) > 2).any():
        drawn = np.where(outside, numpy.normal(size=sizes), drawn)
    return np.asarray(drawn * as_array(stddev) + as_array(mean)).astype(dtype)


@operation
def shuffle(value: ArrayLike, seed: int | None = None, name: str | None = None) -> Array:
    """Shuffle the values along the first axis, in the way of `uniform`."""
    generator, values = step_generator("shuffle", seed), as_array(value)
    if generator is not None:
        return jax.random.permutation(next_key(generator), jnp.asarray(values))
    return values[numpy_generator(seed).permutation(len(values))]


@operation
def categorical(
    logits: ArrayLike,
    num_samples: int,
    dtype: DTypeLike = None,
    seed: int | None = None,
    name: str | None = None,
) -> Array:
    """Draw classes, whose logarithms of probabilities are ``logits`` plus any constant.

    Args:
        logits: Of shape (batch, classes).
        num_samples: How many to draw for each row.
        dtype: The dtype of the classes; None is int64.
        seed: Seeds a sequence of its own; None takes the one that all calls share.
        name: Unused.

    Returns:
        Of shape (batch, num_samples).

    Source: tensorflow/python/ops/random_ops.py, ``categorical``.
    """
    # The class with the largest sum of its logit and a number of Gumbel's distribution.
    scores = as_array(logits)
    shape = (*scores.shape[:-1], int(num_samples), scores.shape[-1])
    drawn = uniform(shape, np.finfo(np.float32).tiny, 1.0, np.float32, seed)
    xp: Any = jnp if isinstance(drawn, jax.Array) or isinstance(scores, jax.Array) else np
    noise = -xp.log(-xp.log(xp.minimum(drawn, np.float32(1 - 2**-24))))
    found: Array = xp.argmax(scores[..., None, :] + noise, axis=-1)
    kind: Any = np.int64 if dtype is None else dtype
    return as_array(found, kind)


def multinomial(
    logits: ArrayLike,
    num_samples: int,
    seed: int | None = None,
    name: str | None = None,
    output_dtype: DTypeLike = None,
) -> Array:
    """Draw classes, as `categorical`, by TensorFlow 1's name and in its order of arguments."""
    drawn: Array = categorical(logits, num_samples, dtype=output_dtype, seed=seed)
    return drawn


def _of_parameters(
    function: str, key_draw: Callable[..., jax.Array], host_draw: Callable[..., Any]
) -> Callable[..., Array]:
    """Return a function that draws numbers of the shape ``(*shape, *shape of the parameters)``."""

    def drawn(shape: Shape, parameters: list[ArrayLike], dtype: DTypeLike, seed: int | None) -> Array:
        generator = step_generator(function, seed)
        arrays = [as_array(each) for each in parameters]
        sizes = (*as_shape(shape), *np.broadcast_shapes(*(each.shape for each in arrays)))
        if generator is not None:
            kind: Any = jax.dtypes.canonicalize_dtype(dtype)
            return key_draw(next_key(generator), sizes, *arrays).astype(kind)
        return np.asarray(host_draw(numpy_generator(seed), sizes, *arrays)).astype(dtype)

    return drawn


_gamma = _of_parameters(
    "gamma",
    lambda key, shape, alpha, beta: jax.random.gamma(key, alpha, shape) / beta,
    lambda numpy, shape, alpha, beta: numpy.gamma(alpha, 1 / beta, shape),
)
_poisson = _of_parameters(
    "poisson",
    lambda key, shape, rate: jax.random.poisson(key, rate, shape),
    lambda numpy, shape, rate: numpy.poisson(rate, shape),
)


@operation
def gamma(
    shape: Shape,
    alpha: ArrayLike,
    beta: ArrayLike | None = None,
    dtype: DTypeLike = np.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Array:
    """Draw numbers of gamma distributions, ``shape`` of them for each ``alpha`` and rate ``beta``."""
    return _gamma(shape, [alpha, as_array(1.0) if beta is None else beta], dtype, seed)


@operation
def poisson(
    shape: Shape,
    lam: ArrayLike,
    dtype: DTypeLike = np.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Array:
    """Draw numbers of Poisson distributions, ``shape`` of them for each rate ``lam``."""
    return _poisson(shape, [lam], dtype, seed)
