"""More of ``tf.math``: special functions, complex numbers, and sums with weights."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
import jax.scipy.special
import numpy as np

from muster.extend import ratio
from muster_tensorflow.library.ops._arrays import (
    Array,
    ArrayLike,
    Axis,
    DTypeLike,
    apply,
    as_array,
    as_arrays,
    as_axis,
)
from muster_tensorflow.library.ops._operation import operation as as_operation
from muster_tensorflow.library.ops._parameters import takes


def _of_one(name: str, function: Callable[..., Any], what: str) -> Callable[..., Array]:
    def operation(x: ArrayLike, name: str | None = None) -> Array:
        return function(jnp.asarray(as_array(x)))  # type: ignore[no-any-return]

    return _named(operation, name, what)


def _of_two(name: str, function: Callable[..., Any], what: str) -> Callable[..., Array]:
    def operation(x: ArrayLike, y: ArrayLike, name: str | None = None) -> Array:
        return function(*map(jnp.asarray, as_arrays(x, y)))  # type: ignore[no-any-return]

    return _named(operation, name, what)


def _named(operation: Callable[..., Array], name: str, what: str) -> Callable[..., Array]:
    operation.__name__ = operation.__qualname__ = name
    operation.__doc__ = f"Return {what}."
    return as_operation(operation)


_special = jax.scipy.special

acosh = _of_one("acosh", jnp.arccosh, "the inverse of ``cosh``")
asinh = _of_one("asinh", jnp.arcsinh, "the inverse of ``sinh``")
atanh = _of_one("atanh", jnp.arctanh, "the inverse of ``tanh``")
angle = takes(_of_one("angle", jnp.angle, "the angles of complex numbers"), "input=x name")
bessel_i0 = _of_one("bessel_i0", _special.i0, "the modified Bessel function of order 0")
bessel_i0e = _of_one("bessel_i0e", _special.i0e, "the scaled modified Bessel function of order 0")
bessel_i1 = _of_one("bessel_i1", _special.i1, "the modified Bessel function of order 1")
bessel_i1e = _of_one("bessel_i1e", _special.i1e, "the scaled modified Bessel function of order 1")
conj = _of_one("conj", jnp.conj, "the conjugates of complex numbers")
digamma = _of_one("digamma", _special.digamma, "the derivative of ``lgamma``")
erfc = _of_one("erfc", _special.erfc, "1 less the error function")
erfcinv = _of_one("erfcinv", lambda x: -_special.ndtri(x / 2) / np.sqrt(2), "the inverse of ``erfc``")
erfinv = _of_one("erfinv", _special.erfinv, "the inverse of the error function")
expint = _of_one("expint", _special.expi, "the exponential integral")
imag = takes(_of_one("imag", jnp.imag, "the imaginary parts of complex numbers"), "input=x name")
ndtri = _of_one("ndtri", _special.ndtri, "the quantiles of the normal distribution")
real = takes(_of_one("real", jnp.real, "the real parts of complex numbers"), "input=x name")
rint = _of_one("rint", jnp.rint, "the closest integers, in the dtype of the values")

igamma = takes(
    _of_two("igamma", _special.gammainc, "the lower regularised incomplete gamma function"), "a=x x=y name"
)
igammac = takes(
    _of_two("igammac", _special.gammaincc, "the upper regularised incomplete gamma function"), "a=x x=y name"
)
nextafter = takes(
    _of_two("nextafter", jnp.nextafter, "the next number after ``x1`` in the direction of ``x2``"),
    "x1=x x2=y name",
)
polygamma = takes(
    _of_two(
        "polygamma",
        lambda n, x: _special.polygamma(n.astype(int), x),
        "the derivatives of ``digamma`` of the orders ``a``",
    ),
    "a=x x=y name",
)
xdivy = _of_two(
    "xdivy", lambda x, y: jnp.where(x == 0, 0, x / jnp.where(x == 0, 1, y)), "``x / y``, 0 where x is 0"
)
xlog1py = _of_two(
    "xlog1py",
    lambda x, y: jnp.where(x == 0, 0, x * jnp.log1p(jnp.where(x == 0, 0, y))),
    "``x * log1p(y)``, 0 where ``x`` is 0",
)
xlogy = _of_two(
    "xlogy",
    lambda x, y: jnp.where(x == 0, 0, x * jnp.log(jnp.where(x == 0, 1, y))),
    "``x * log(y)``, 0 where ``x`` is 0",
)
zeta = takes(_of_two("zeta", _special.zeta, "the Hurwitz zeta function"), "x q=y name")


@as_operation
def complex(real: ArrayLike, imag: ArrayLike, name: str | None = None) -> Array:
    """Make complex numbers of their parts."""
    return jax.lax.complex(jnp.asarray(as_array(real)), jnp.asarray(as_array(imag)))


@as_operation
def lbeta(x: ArrayLike, name: str | None = None) -> Array:
    """Return the logarithm of the absolute value of the beta function, along the last axis."""
    values = jnp.asarray(as_array(x))
    return jnp.sum(_special.gammaln(values), -1) - _special.gammaln(jnp.sum(values, -1))


@as_operation
def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike, name: str | None = None) -> Array:
    """Return the regularised incomplete beta function."""
    return _special.betainc(*map(jnp.asarray, as_arrays(a, b, x)))


@as_operation
def scalar_mul(scalar: ArrayLike, x: ArrayLike, name: str | None = None) -> Array:
    """Multiply an array by a number."""
    return apply("multiply", *as_arrays(scalar, x))


@as_operation
def polyval(coeffs: Sequence[ArrayLike], x: ArrayLike, name: str | None = None) -> Array:
    """Return a polynomial's values; the first coefficient is that of the highest power."""
    value = as_array(x)
    total: Any = value * 0
    for each in coeffs:
        total = total * value + as_array(each)
    return total  # type: ignore[no-any-return]


@as_operation
def reduce_euclidean_norm(
    input_tensor: ArrayLike, axis: Axis = None, keepdims: bool = False, name: str | None = None
) -> Array:
    """Return the root of the sum of squares, along axes or of all values."""
    values = as_array(input_tensor)
    squares = apply("sum", apply("square", values), axis=as_axis(axis), keepdims=keepdims)
    return as_array(apply("sqrt", squares), values.dtype)


@as_operation
def cumulative_logsumexp(
    x: ArrayLike, axis: int = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
) -> Array:
    """Return the logarithms of the sums of ``exp(x)`` up to each value along an axis, without overflow."""
    values = jnp.flip(jnp.asarray(as_array(x)), axis) if reverse else jnp.asarray(as_array(x))
    found = jax.lax.cumlogsumexp(values, axis % values.ndim)
    if exclusive:
        least = float(np.finfo(values.dtype).min)
        first = jnp.full_like(jnp.take(found, np.array([0]), axis=axis), least)
        found = jnp.concatenate([first, jnp.take(found, np.arange(values.shape[axis] - 1), axis=axis)], axis)
    return jnp.flip(found, axis) if reverse else found


@as_operation
def invert_permutation(x: ArrayLike, name: str | None = None) -> Array:
    """Return the permutation that undoes another one."""
    return as_array(apply("argsort", as_array(x)), np.int32)


def _ordered(name: str, compare: str, what: str) -> Callable[..., Array]:
    def operation(x: ArrayLike, name: str | None = None) -> Array:
        flat = as_array(x).reshape(-1)
        return apply("all", apply(compare, flat[1:], flat[:-1]))

    return _named(operation, name, f"whether no value is {what} the one before it")


is_non_decreasing = _ordered("is_non_decreasing", "greater_equal", "less than")
is_strictly_increasing = _ordered("is_strictly_increasing", "greater", "less than or equal to")


def _bits(name: str, function: str) -> Callable[..., Array]:
    def operation(x: ArrayLike, y: ArrayLike, name: str | None = None) -> Array:
        return apply(function, *as_arrays(x, y))

    return _named(operation, name, f"``numpy.{function}`` of integers")


bitwise_and = _bits("bitwise_and", "bitwise_and")
bitwise_or = _bits("bitwise_or", "bitwise_or")
bitwise_xor = _bits("bitwise_xor", "bitwise_xor")
left_shift = _bits("left_shift", "left_shift")
right_shift = _bits("right_shift", "right_shift")


@as_operation
def invert(x: ArrayLike, name: str | None = None) -> Array:
    """Return integers with all bits changed."""
    return apply("invert", as_array(x))


@as_operation
def weighted_moments(
    x: ArrayLike, axes: Axis, frequency_weights: ArrayLike, keepdims: bool = False, name: str | None = None
) -> tuple[Array, Array]:
    """Return the mean and the variance over axes, of values that count by their weights."""
    values, along = jnp.asarray(as_array(x)), as_axis(axes)
    weights = jnp.broadcast_to(jnp.asarray(as_array(frequency_weights), values.dtype), values.shape)
    total = jnp.sum(weights, along, keepdims=True)
    mean = ratio(jnp.sum(values * weights, along, keepdims=True), total)
    variance = ratio(jnp.sum(jnp.square(values - mean) * weights, along, keepdims=True), total)
    if keepdims:
        return mean, variance
    return jnp.squeeze(mean, along), jnp.squeeze(variance, along)


@as_operation
def bitcast(input: ArrayLike, type: DTypeLike, name: str | None = None) -> Array:
    """Read the bytes of values as another dtype."""
    kind: Any = np.dtype(type)
    value = as_array(input)
    if isinstance(value, np.ndarray) and value.dtype.itemsize == kind.itemsize:
        return cast(Array, value.view(kind))
    return jax.lax.bitcast_convert_type(jnp.asarray(value), kind)
