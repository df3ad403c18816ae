"""TensorFlow's arithmetic: on single values, along axes, and on lists of gradients."""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from muster.extend import shard_of, whole_arrays
from muster_tensorflow.library.ops._arrays import (
    Array,
    ArrayLike,
    Axis,
    DTypeLike,
    apply,
    array_module,
    as_array,
    as_arrays,
    as_axis,
    as_dtype,
    has_sizes,
    is_size,
)
from muster_tensorflow.library.ops._operation import operation as as_operation
from muster_tensorflow.library.ops.control._needs_values import NeedsValuesError
from muster_tensorflow.library.ops.nn._logits import SIGMOID, note_logits


@as_operation
def cast(x: ArrayLike, dtype: DTypeLike, name: str | None = None) -> Array:
    """Convert values to another dtype, into a copy: ``x /= 255`` afterwards leaves the argument as it was.

    Args:
        x: Values of any shape.
        dtype: Such as ``tf.float32``. While a step or a ``map`` is traced, 64-bit types become 32-bit ones,
            since JAX has no others. Sizes of shapes that are not known stay sizes as integers.
        name: Unused.

    Source: tensorflow/python/ops/math_ops.py, ``cast``.
    """
    kind = as_dtype(dtype).kind
    if has_sizes(x) and kind in "iu":
        return x  # type: ignore[return-value]  # where a shape is needed it still says one
    value = as_array(x, None if kind == "U" else dtype)
    if kind == "U" and value.dtype.kind not in "SUO":
        raise TypeError(f"tf.cast makes no text of {value.dtype}: tf.strings.as_string does.")
    if isinstance(value, jax.Array):
        return value
    copy: Array = np.array(value)[()]
    return copy


def _unary(function: str) -> Callable[..., Array]:
    def operation(x: ArrayLike, name: str | None = None) -> Array:
        return apply(function, as_array(x))

    return _named(operation, function)


def _binary(function: str, of_sizes: Callable[[Any, Any], Any] | None = None) -> Callable[..., Array]:
    def operation(x: ArrayLike, y: ArrayLike, name: str | None = None) -> Array:
        if of_sizes is not None and (is_size(x) or is_size(y)):
            return of_sizes(x, y)  # type: ignore[no-any-return]
        return apply(function, *as_arrays(x, y))

    return _named(operation, function)


def _comparison(function: str) -> Callable[..., Array]:
    def operation(x: ArrayLike, y: ArrayLike, name: str | None = None) -> Array:
        return apply(function, *_alike(*as_arrays(x, y)))

    return _named(operation, function)


def _alike(*sides: Any) -> tuple[Any, ...]:
    """Return both operands; where one has text as bytes, the other's is bytes, too, as in TensorFlow."""
    if array_module(*sides) is not np or not {np.asarray(side).dtype.kind for side in sides} & set("SO"):
        return sides
    return tuple(np.frompyfunc(_as_bytes, 1, 1)(np.asarray(side, object)) for side in sides)


def _as_bytes(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def _reduction(function: str, keep_dtype: bool = False) -> Callable[..., Array]:
    def operation(
        input_tensor: ArrayLike, axis: Axis = None, keepdims: bool | None = False, name: str | None = None
    ) -> Array:
        value = as_array(input_tensor)
        compute = _mean if function == "mean" else functools.partial(apply, function)
        if function in ("max", "min") and 0 in value.shape:
            compute = functools.partial(apply, function, initial=_extreme(value.dtype, function == "min"))
        reduced = compute(value, axis=as_axis(axis), keepdims=bool(keepdims))
        return cast(reduced, value.dtype) if keep_dtype else reduced

    note = ", but in the dtype of the input, integers too" if keep_dtype else ""
    return _named(operation, function, note, prefix="reduce_")


def _extreme(dtype: np.dtype[Any], highest: bool) -> float:
    """Return the greatest value of a type, which is the least one of nothing, or the other way round."""
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return limits.max if highest else limits.min
    return np.inf if highest else -np.inf


def _mean(value: Array, axis: Axis, keepdims: bool) -> Array:
    """Return means; that of all values is exactly their sum, divided by how many they are.

    By a number that it knows XLA does not divide: it multiplies by the reciprocal, and the mean of 41 ones,
    such as an accuracy, is 0.99999994.
    """
    axes = (axis,) if isinstance(axis, int) else axis
    of_all = axes is None or len(axes) == value.ndim
    is_known = isinstance(value, jax.Array) and not any(map(is_size, value.shape))
    if not of_all or not is_known or value.dtype != np.float32:
        return apply("mean", value, axis=axis, keepdims=keepdims)
    number = jax.lax.optimization_barrier(np.float32(value.size))
    mean: Array = jnp.sum(value, axis=axis, keepdims=keepdims) / number
    return mean


def _index_of(function: str, never: float) -> Callable[..., Array]:
    def operation(
        input: ArrayLike, axis: int | None = None, output_type: DTypeLike = np.int64, name: str | None = None
    ) -> Array:
        array = without_nan(as_array(input), never)
        return cast(apply(function, array, axis=0 if axis is None else axis), output_type)

    return _named(operation, function, "; the default axis is 0, and NaN is never found but among NaN")


def without_nan(array: Array, value: float) -> Array:
    """Return an array with a value for each NaN, which TensorFlow's ``argmax`` and ``argmin`` pass over.

    Source: Eigen's ArgMaxTupleReducer, by tensorflow/core/kernels/argmax_op.h.
    """
    if not jnp.issubdtype(array.dtype, jnp.floating):
        return array
    module = array_module(array)
    return module.where(module.isnan(array), np.asarray(value, array.dtype), array)


def _named(
    operation: Callable[..., Array], function: str, note: str = "", prefix: str = ""
) -> Callable[..., Array]:
    operation.__name__ = operation.__qualname__ = prefix + function
    operation.__doc__ = f"Compute ``numpy.{function}``, of NumPy or JAX arrays{note}."
    return as_operation(operation)


abs = _unary("abs")
acos = _unary("arccos")
asin = _unary("arcsin")
atan = _unary("arctan")
ceil = _unary("ceil")
cos = _unary("cos")
cosh = _unary("cosh")
exp = _unary("exp")
expm1 = _unary("expm1")
floor = _unary("floor")
is_finite = _unary("isfinite")
is_inf = _unary("isinf")
is_nan = _unary("isnan")
log = _unary("log")
log1p = _unary("log1p")
logical_not = _unary("logical_not")
negative = _unary("negative")
reciprocal = _unary("reciprocal")
round = _unary("round")
sign = _unary("sign")
sin = _unary("sin")
sinh = _unary("sinh")
sqrt = _unary("sqrt")
square = _unary("square")
tan = _unary("tan")
tanh = _unary("tanh")

add = _binary("add")
divide = _binary("true_divide")
equal = _comparison("equal")
floordiv = _binary("floor_divide")
floormod = _binary("mod")
greater = _binary("greater")
greater_equal = _binary("greater_equal")
less = _binary("less")
less_equal = _binary("less_equal")
logical_and = _binary("logical_and")
logical_or = _binary("logical_or")
logical_xor = _binary("logical_xor")
maximum = _binary("maximum", jax.core.max_dim)
minimum = _binary("minimum", jax.core.min_dim)
multiply = _binary("multiply")
not_equal = _comparison("not_equal")
pow = _binary("power")
subtract = _binary("subtract")

reduce_all = _reduction("all")
reduce_any = _reduction("any")
reduce_max = _reduction("max")
reduce_min = _reduction("min")
reduce_std = _reduction("std")
reduce_variance = _reduction("var")
reduce_mean = _reduction("mean", keep_dtype=True)
reduce_prod = _reduction("prod", keep_dtype=True)
reduce_sum = _reduction("sum", keep_dtype=True)

argmax = _index_of("argmax", -np.inf)
argmin = _index_of("argmin", np.inf)


@as_operation
def add_n(inputs: Iterable[ArrayLike], name: str | None = None) -> Array:
    """Add a list of arrays of the same shape."""
    total, *others = map(as_array, inputs)
    for other in others:
        total = add(total, other)
    return total


@as_operation
def accumulate_n(
    inputs: Iterable[ArrayLike], shape: Any = None, tensor_dtype: DTypeLike = None, name: str | None = None
) -> Array:
    """Add a list of arrays of the same shape; ``shape`` and ``tensor_dtype`` are unused."""
    return add_n(inputs, name)


@as_operation
def atan2(y: ArrayLike, x: ArrayLike, name: str | None = None) -> Array:
    """Return the angles of points ``(x, y)``, in radians from -pi to pi."""
    return apply("arctan2", *as_arrays(y, x))


@as_operation
def squared_difference(x: ArrayLike, y: ArrayLike, name: str | None = None) -> Array:
    """Return ``(x - y) ** 2``."""
    return square(subtract(x, y))


@as_operation
def rsqrt(x: ArrayLike, name: str | None = None) -> Array:
    """Return ``1 / sqrt(x)``."""
    return reciprocal(sqrt(x))


@as_operation
def sigmoid(x: ArrayLike, name: str | None = None) -> jax.Array:
    """Return ``1 / (1 + exp(-x))``."""
    logits = as_array(x)
    output = jax.nn.sigmoid(logits)
    note_logits(output, logits, SIGMOID)
    return output


@as_operation
def log_sigmoid(x: ArrayLike, name: str | None = None) -> jax.Array:
    """Return ``log(sigmoid(x))`` without overflow."""
    return jax.nn.log_sigmoid(as_array(x))


@as_operation
def erf(x: ArrayLike, name: str | None = None) -> jax.Array:
    """Return the error function."""
    return jax.scipy.special.erf(as_array(x))


@as_operation
def lgamma(x: ArrayLike, name: str | None = None) -> jax.Array:
    """Return the logarithm of the absolute value of the gamma function."""
    return jax.scipy.special.gammaln(as_array(x))


@as_operation
def divide_no_nan(x: ArrayLike, y: ArrayLike, name: str | None = None) -> Array:
    """Return ``x / y``, and 0 where ``y`` is 0."""
    left, right = as_arrays(x, y)
    xp = array_module(left, right)
    return xp.where(right == 0, xp.zeros_like(left), left / xp.where(right == 0, 1, right))


@as_operation
def multiply_no_nan(x: ArrayLike, y: ArrayLike, name: str | None = None) -> Array:
    """Return ``x * y``, and 0 where ``y`` is 0, even if ``x`` is infinite or not a number."""
    left, right = as_arrays(x, y)
    xp = array_module(left, right)
    return xp.where(right == 0, 0, left) * right


@as_operation
def count_nonzero(
    input: ArrayLike,
    axis: Axis = None,
    keepdims: bool | None = None,
    dtype: DTypeLike = np.int64,
    name: str | None = None,
) -> Array:
    """Count the values other than 0."""
    return cast(reduce_sum(cast(not_equal(input, 0), np.int32), axis, bool(keepdims)), dtype)


@as_operation
def where(
    condition: ArrayLike, x: ArrayLike | None = None, y: ArrayLike | None = None, name: str | None = None
) -> Array:
    """Return ``x`` where the condition holds, else ``y``; without both, the places where it holds.

    Raises:
        ValueError: One of ``x`` and ``y`` is missing.
        TraceError: Both are, and a compiled function or a step computes the condition: the result's shape
            would depend on values.
    """
    if x is None and y is None:
        if isinstance(condition, jax.core.Tracer):
            raise NeedsValuesError(
                "tf.where without x and y gives the places where a condition holds, as many as there are, "
                "but the shapes of a compiled step are fixed. Multiply by the mask instead, or use "
                "numpy.where in the input function."
            )
        return np.argwhere(np.asarray(as_array(condition)))
    if x is None or y is None:
        raise ValueError(f"tf.where needs x and y, or neither, got x={x!r}, y={y!r}.")
    return apply("where", as_array(condition), *as_arrays(x, y))


@as_operation
def reduce_logsumexp(
    input_tensor: ArrayLike, axis: Axis = None, keepdims: bool = False, name: str | None = None
) -> jax.Array:
    """Return ``log(sum(exp(x)))`` without overflow."""
    return jax.nn.logsumexp(as_array(input_tensor), axis=as_axis(axis), keepdims=keepdims)


def _cumulative(function: str, start: int) -> Callable[..., Array]:
    def operation(
        x: ArrayLike, axis: int = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
    ) -> Array:
        value = as_array(x)
        flipped = apply("flip", value, axis=axis) if reverse else value
        found = cast(apply(function, flipped, axis=axis), value.dtype)
        if exclusive:
            first = apply("full_like", apply("take", found, np.array([0]), axis=axis), fill_value=start)
            rest = apply("take", found, np.arange(value.shape[axis] - 1), axis=axis)
            found = array_module(found).concatenate([first, rest], axis=axis)
        return apply("flip", found, axis=axis) if reverse else found

    note = ", from the end if ``reverse``; if ``exclusive``, each without its own value"
    return _named(operation, function, note)


cumprod = _cumulative("cumprod", 1)
cumsum = _cumulative("cumsum", 0)


def _like(function: str) -> Callable[..., Array]:
    def operation(input: ArrayLike, dtype: DTypeLike = None, name: str | None = None) -> Array:
        text: Any = input
        if dtype is not None and getattr(getattr(text, "dtype", None), "kind", None) in ("O", "S", "T", "U"):
            input = np.zeros(text.shape, np.int8)  # of text, only the shape counts
        return apply(function, as_array(input, dtype))

    return _named(operation, function)


ones_like = _like("ones_like")
zeros_like = _like("zeros_like")


@as_operation
def norm(
    tensor: ArrayLike,
    ord: float | Literal["euclidean"] = "euclidean",
    axis: Axis = None,
    keepdims: bool | None = None,
    name: str | None = None,
) -> Array:
    """Return a norm along an axis, or of all values.

    Args:
        tensor: Values of any shape.
        ord: ``"euclidean"``, 1, 2 or infinity.
        axis: The axis; None for all values.
        keepdims: Whether the axes stay, with the size 1.
        name: Unused.
    """
    value = as_array(tensor)
    flat, along = (value.reshape(-1), 0) if axis is None else (value, as_axis(axis))
    # Of two axes 2 would be the largest singular value, and None is the root of the sum of squares.
    euclidean = 2 if isinstance(along, int) else None
    order = euclidean if ord == "euclidean" else ord
    found: Array = array_module(value).linalg.norm(flat, ord=order, axis=along, keepdims=bool(keepdims))
    return found.reshape((1,) * value.ndim) if axis is None and keepdims else found


@as_operation
def clip_by_value(
    t: ArrayLike, clip_value_min: ArrayLike, clip_value_max: ArrayLike, name: str | None = None
) -> Array:
    """Clip values to the range from ``clip_value_min`` to ``clip_value_max``."""
    return minimum(maximum(t, clip_value_min), clip_value_max)


@as_operation
def clip_by_norm(t: ArrayLike, clip_norm: float, axes: Axis = None, name: str | None = None) -> Array:
    """Scale an array so that its Euclidean norm is at most ``clip_norm``.

    Source: tensorflow/python/ops/clip_ops.py, ``clip_by_norm``.
    """
    xp, value = array_module(t), as_array(t)
    squares = xp.sum(xp.square(value), axis=as_axis(axes), keepdims=True)
    norm = xp.sqrt(xp.where(squares > 0, squares, 1)) * (squares > 0)  # with a derivative at 0
    return value * (clip_norm / xp.maximum(norm, clip_norm))


@as_operation
def global_norm(t_list: Iterable[ArrayLike | None], name: str | None = None) -> jax.Array:
    """Return the Euclidean norm of a list of arrays; None counts as zeros.

    Source: tensorflow/python/ops/clip_ops.py, ``global_norm``.
    """
    squares = [jnp.sum(jnp.square(as_array(t))) for t, _ in whole_arrays([*t_list]) if t is not None]
    return jnp.sqrt(sum(squares, jnp.zeros(())))


@as_operation
def clip_by_global_norm(
    t_list: Sequence[ArrayLike | None],
    clip_norm: float,
    use_norm: jax.Array | None = None,
    name: str | None = None,
) -> tuple[list[Array | None], jax.Array]:
    """Scale a list of arrays by one factor so that their `global_norm` is at most ``clip_norm``.

    Args:
        t_list: The arrays; None stays None.
        clip_norm: The largest norm allowed.
        use_norm: Their norm, if it is known.
        name: Unused.

    Returns:
        The scaled arrays, and the norm that they had before.

    Source: tensorflow/python/ops/clip_ops.py, ``clip_by_global_norm``.
    """
    norm = global_norm(t_list) if use_norm is None else use_norm
    # Not a number if the norm is not finite, so that a broken gradient shows.
    scale = jnp.where(jnp.isfinite(norm), clip_norm / jnp.maximum(norm, clip_norm), jnp.nan)
    scaled: list[Array | None] = [None for _ in t_list]
    for t, places in whole_arrays(t_list):
        whole = None if t is None else as_array(t) * scale
        for place, shard in places:
            scaled[place] = shard_of(whole, shard)
    return scaled, norm
