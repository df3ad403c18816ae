"""``tf.debugging``: assertions on concrete values; traced values are not checked."""

import logging
from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np

from muster_tensorflow.library.ops._arrays import Array, ArrayLike, as_array
from muster_tensorflow.library.ops._operation import operation
from muster_tensorflow.library.ops._parameters import takes

_LOG = logging.getLogger(__name__)
_told: set[str] = set()


def _check(name: str, values: list[Any], holds: Callable[..., Any], message: str | None, what: str) -> None:
    """Raise an error if a condition does not hold for known values; say once what is not checked.

    Raises:
        ValueError: It does not hold.
    """
    if any(isinstance(value, jax.core.Tracer) for value in values):
        if name not in _told:
            _told.add(name)
            _LOG.warning(
                "tf.debugging.%s was given values that a compiled step computes, and does not check these. "
                "Check them in the input function, or use jax.experimental.checkify.",
                name,
            )
        return
    arrays = [np.asarray(value) for value in values]
    if not np.all(holds(*arrays)):
        shown = " and ".join(np.array2string(array, threshold=10) for array in arrays)
        raise ValueError(f"{_before(message)}tf.debugging.{name}: {what}, got {shown}.")


def _before(message: str | None) -> str:
    return f"{message} " if message else ""


def _of_two(name: str, holds: Callable[..., Any], what: str) -> Callable[..., None]:
    def check(
        x: ArrayLike,
        y: ArrayLike,
        message: str | None = None,
        summarize: int | None = None,
        name: str | None = None,
    ) -> None:
        _check(label, [as_array(x), as_array(y)], holds, message, f"x {what} y everywhere")

    label = check.__name__ = check.__qualname__ = name
    check.__doc__ = f"Raise an error unless ``x`` {what} ``y`` everywhere, of values that are known."
    return operation(check)


def _of_one(name: str, holds: Callable[..., Any], what: str) -> Callable[..., None]:
    def check(
        x: ArrayLike, message: str | None = None, summarize: int | None = None, name: str | None = None
    ) -> None:
        _check(label, [as_array(x)], holds, message, f"x {what} everywhere")

    label = check.__name__ = check.__qualname__ = name
    check.__doc__ = f"Raise an error unless ``x`` {what} everywhere, of values that are known."
    return operation(check)


assert_equal = _of_two("assert_equal", lambda x, y: x == y, "equals")
assert_none_equal = takes(
    _of_two("assert_none_equal", lambda x, y: x != y, "differs from"), "x y summarize message name"
)
assert_greater = _of_two("assert_greater", lambda x, y: x > y, "is greater than")
assert_greater_equal = _of_two("assert_greater_equal", lambda x, y: x >= y, "is not less than")
assert_less = _of_two("assert_less", lambda x, y: x < y, "is less than")
assert_less_equal = _of_two("assert_less_equal", lambda x, y: x <= y, "is not greater than")
assert_positive = _of_one("assert_positive", lambda x: x > 0, "is greater than 0")
assert_negative = _of_one("assert_negative", lambda x: x < 0, "is less than 0")
assert_non_negative = _of_one("assert_non_negative", lambda x: x >= 0, "is not less than 0")
assert_non_positive = _of_one("assert_non_positive", lambda x: x <= 0, "is not greater than 0")


@operation
def assert_near(
    x: ArrayLike,
    y: ArrayLike,
    rtol: float | None = None,
    atol: float | None = None,
    message: str | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> None:
    """Raise an error unless ``x`` and ``y`` are close everywhere, of values that are known."""
    values = [as_array(x), as_array(y)]
    least = 10 * np.finfo(np.dtype(values[0].dtype)).eps
    relative, absolute = least if rtol is None else rtol, least if atol is None else atol
    _check(
        "assert_near",
        values,
        lambda a, b: np.abs(a - b) <= absolute + relative * np.abs(b),
        message,
        "x is close to y everywhere",
    )


@operation
def assert_rank(x: ArrayLike, rank: int, message: str | None = None, name: str | None = None) -> None:
    """Raise an error unless an array has so many axes."""
    _check("assert_rank", [as_array(x).ndim, rank], lambda a, b: a == b, message, "x has the rank")


@operation
def assert_rank_at_least(
    x: ArrayLike, rank: int, message: str | None = None, name: str | None = None
) -> None:
    """Raise an error unless an array has so many axes or more."""
    _check(
        "assert_rank_at_least",
        [as_array(x).ndim, rank],
        lambda a, b: a >= b,
        message,
        "x has at least the rank",
    )


@operation
def assert_rank_in(
    x: ArrayLike, ranks: Iterable[int], message: str | None = None, name: str | None = None
) -> None:
    """Raise an error unless an array's number of axes is one of several."""
    _check("assert_rank_in", [as_array(x).ndim, list(ranks)], np.isin, message, "x has one of the ranks")


@operation
def assert_shapes(
    shapes: Any,
    data: None = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> None:
    """Raise an error unless arrays have the shapes given, in which a text stands for one size everywhere.

    Args:
        shapes: Pairs of an array and a shape, or a dict of them, such as ``[(x, ("N", 3)), (y, ("N",))]``.
        data: Unused.
        summarize: Unused.
        message: What to say before.
        name: Unused.

    Raises:
        ValueError: An array has another shape.
    """
    known: dict[str, int] = {}
    for value, shape in shapes.items() if isinstance(shapes, dict) else shapes:
        own = tuple(as_array(value).shape)
        wanted = tuple(shape) if isinstance(shape, list | tuple) else (shape,)
        fits = len(own) == len(wanted) and all(
            size is None or (known.setdefault(size, part) if isinstance(size, str) else size) == part
            for size, part in zip(wanted, own, strict=True)
        )
        if not fits:
            raise ValueError(
                f"{_before(message)}tf.debugging.assert_shapes: the shape is {wanted}, {known}, got {own}."
            )


@operation
def assert_type(tensor: ArrayLike, tf_type: Any, message: str | None = None, name: str | None = None) -> None:
    """Raise an error unless an array has a dtype.

    Raises:
        TypeError: It has another one.
    """
    found = getattr(tensor, "dtype", None) or as_array(tensor).dtype
    if np.dtype(found) != np.dtype(tf_type):
        raise TypeError(
            f"{_before(message)}tf.debugging.assert_type: {np.dtype(tf_type)} is needed, got {found}."
        )


@operation
def assert_integer(x: ArrayLike, message: str | None = None, name: str | None = None) -> None:
    """Raise an error unless an array is one of integers.

    Raises:
        TypeError: It has another dtype.
    """
    if as_array(x).dtype.kind not in "iu":
        raise TypeError(
            f"{_before(message)}tf.debugging.assert_integer: integers are needed, got {as_array(x).dtype}."
        )


def is_numeric_tensor(tensor: object) -> bool:
    """Return whether a value is an array or a variable of numbers, booleans not counted."""
    dtype = getattr(tensor, "dtype", None)
    return dtype is not None and jax.numpy.issubdtype(np.dtype(dtype), np.number)


@operation
def assert_scalar(tensor: ArrayLike, message: str | None = None, name: str | None = None) -> Array:
    """Return a value that has no axes; raise an error if it has some."""
    value = as_array(tensor)
    _check("assert_scalar", [value.ndim, 0], lambda a, b: a == b, message, "the tensor has no axes")
    return value


@operation
def Assert(condition: ArrayLike, data: Any, summarize: int | None = None, name: str | None = None) -> None:
    """Raise an error, with ``data``, unless a condition holds that is known."""
    _check("Assert", [as_array(condition)], lambda x: x, f"{data}:", "the condition holds")


@operation
def check_numerics(tensor: ArrayLike, message: str, name: str | None = None) -> Array:
    """Return the values; raise an error if one that is known is infinite or not a number."""
    value = as_array(tensor)
    _check("check_numerics", [value], np.isfinite, message, "x is finite everywhere")
    return value


def assert_all_finite(x: ArrayLike, message: str, name: str | None = None) -> Array:
    """Return the values, as `check_numerics` does."""
    return check_numerics(x, message)


def enable_check_numerics(stack_height_limit: int = 30, path_length_limit: int = 50) -> None:
    """Stop at the operation that makes a NaN: sets ``jax_debug_nans``."""
    jax.config.update("jax_debug_nans", True)


def disable_check_numerics() -> None:
    """Undo `enable_check_numerics`."""
    jax.config.update("jax_debug_nans", False)
