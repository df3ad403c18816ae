"""``tf.assert_equal`` and others: assertions on concrete values and on shapes.

Values that a step computes are not known while it is traced, and a compiled step cannot stop at them: they
pass.

Source: tensorflow/python/ops/check_ops.py.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from muster.program import TrainOp
from muster_tensorflow.library.ops._arrays import Array, ArrayLike, as_array
from muster_tensorflow.library.ops.control import _asserts


def assert_(
    condition: ArrayLike, data: Sequence[Any], summarize: int | None = None, name: str | None = None
) -> TrainOp:
    """Raise an error if a condition that is known is False.

    Args:
        condition: A boolean; one that a step computes passes.
        data: What the error shows.
        summarize: Unused.
        name: Unused.

    Raises:
        ValueError: The condition is False.
    """
    if not isinstance(condition, jax.core.Tracer) and not np.all(np.asarray(as_array(condition))):
        raise ValueError(f"assertion failed: {' '.join(str(each) for each in data)}")
    return TrainOp(name or "Assert")


def _comparison(name: str, holds: Callable[[Any, Any], Any], words: str) -> Callable[..., TrainOp]:
    def check(
        x: ArrayLike,
        y: ArrayLike,
        data: Sequence[Any] | None = None,
        summarize: int | None = None,
        message: str | None = None,
        name: str | None = None,
    ) -> TrainOp:
        if not any(isinstance(value, jax.core.Tracer) for value in (x, y)):
            left, right = (np.asarray(as_array(value)) for value in (x, y))
            assert_(
                np.all(holds(left, right)),
                [message or "", f"Condition x {words} y did not hold:", left, right],
            )
        return TrainOp(name or "assert")

    check.__name__ = check.__qualname__ = name
    check.__doc__ = f"Raise ValueError unless x {words} y, where both are known."
    return check


assert_equal = _comparison("assert_equal", operator.eq, "==")
assert_none_equal = _comparison("assert_none_equal", operator.ne, "!=")
assert_less = _comparison("assert_less", operator.lt, "<")
assert_less_equal = _comparison("assert_less_equal", operator.le, "<=")
assert_greater = _comparison("assert_greater", operator.gt, ">")
assert_greater_equal = _comparison("assert_greater_equal", operator.ge, ">=")


def _sign(name: str, compare: Callable[..., TrainOp]) -> Callable[..., TrainOp]:
    def check(
        x: ArrayLike,
        data: Sequence[Any] | None = None,
        summarize: int | None = None,
        message: str | None = None,
        name: str | None = None,
    ) -> TrainOp:
        return compare(x, 0, data, summarize, message, name)

    check.__name__ = check.__qualname__ = name
    check.__doc__ = "Compare a value that is known with 0, and raise ValueError if it is otherwise."
    return check


assert_positive = _sign("assert_positive", assert_greater)
assert_non_negative = _sign("assert_non_negative", assert_greater_equal)
assert_negative = _sign("assert_negative", assert_less)
assert_non_positive = _sign("assert_non_positive", assert_less_equal)


def assert_rank(
    x: ArrayLike,
    rank: int,
    data: Sequence[Any] | None = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> TrainOp:
    """Raise ValueError unless an array has a number of axes, or one of several numbers."""
    ranks = rank if isinstance(rank, list | tuple) else [rank]
    return _ranked(x, np.ndim(as_array(x)) in ranks, f"of rank {rank}", message)


def assert_rank_at_least(
    x: ArrayLike,
    rank: int,
    data: Sequence[Any] | None = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> TrainOp:
    """Raise ValueError unless an array has at least a number of axes."""
    return _ranked(x, np.ndim(as_array(x)) >= rank, f"of rank {rank} or more", message)


def _ranked(x: ArrayLike, holds: bool, wanted: str, message: str | None) -> TrainOp:
    if not holds:
        raise ValueError(
            f"{message or ''} The array must be {wanted}, it has the shape {np.shape(as_array(x))}.".strip()
        )
    return TrainOp("assert_rank")


def assert_rank_in(
    x: ArrayLike,
    ranks: Sequence[int],
    data: Sequence[Any] | None = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> TrainOp:
    """Raise ValueError unless an array's number of axes is one of several."""
    return _ranked(x, np.ndim(as_array(x)) in ranks, f"of a rank in {list(ranks)}", message)


def assert_scalar(tensor: ArrayLike, name: str | None = None, message: str | None = None) -> TrainOp:
    """Raise ValueError unless an array has no axes."""
    return _ranked(tensor, np.ndim(as_array(tensor)) == 0, "a scalar", message)


def assert_near(
    x: ArrayLike,
    y: ArrayLike,
    rtol: float | None = None,
    atol: float | None = None,
    data: Sequence[Any] | None = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> TrainOp:
    """Raise an error unless x and y are close everywhere, where both are known."""
    _asserts.assert_near(x, y, rtol, atol, message)
    return TrainOp(name or "assert_near")


def assert_type(
    tensor: ArrayLike, tf_type: Any, message: str | None = None, name: str | None = None
) -> TrainOp:
    """Raise TypeError unless an array has a dtype."""
    found = as_array(tensor).dtype
    if found != np.dtype(tf_type):
        raise TypeError(
            f"{message or ''} The array must be of {np.dtype(tf_type)}, it is of {found}.".strip()
        )
    return TrainOp("assert_type")


def verify_tensor_all_finite(
    t: ArrayLike, msg: str = "", name: str | None = None, x: Any = None, message: str = ""
) -> Array:
    """Raise ValueError if a value that is known has infinite or NaN elements; return it."""
    value = as_array(t if x is None else x)
    if not isinstance(value, jax.core.Tracer):
        assert_(np.all(np.isfinite(np.asarray(value))), [msg or message or "The value is not finite."])
    return value


def check_numerics(tensor: ArrayLike, message: str, name: str | None = None) -> Array:
    """Do as `verify_tensor_all_finite`."""
    return verify_tensor_all_finite(tensor, message)
