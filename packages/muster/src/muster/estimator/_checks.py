"""Check arguments: numbers, steps, and lists of hooks or listeners."""

import math
import numbers
from collections.abc import Iterable
from typing import Any, TypeVar

T = TypeVar("T")


def check_number(
    name: str,
    value: object,
    message: str,
    *,
    positive: bool,
    integer: bool = False,
) -> Any:
    """Return a number after a check that it is positive, or not negative.

    TensorFlow lets NaN and True pass, and fractions where a count is meant.

    Args:
        name: The name of the argument, for the message.
        value: The argument.
        message: The message if it is out of range.
        positive: Whether 0 is out of range too.
        integer: Whether it must be an integer; then an int is returned, for 1e6 too.

    Raises:
        TypeError: It is not a number.
        ValueError: It is out of range, NaN, or not an integer.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, given: {value!r}.")
    number = float(value)
    if not (number > 0 if positive else number >= 0):  # NaN is neither
        raise ValueError(message)
    if not integer:
        return value
    if not number.is_integer():
        raise ValueError(f"{name} must be an integer, given: {value!r}.")
    return int(value) if isinstance(value, numbers.Integral) else int(number)


def check_steps(name: str, value: object) -> int | None:
    """Return a number of steps after a check that it is positive; None stays None.

    Raises:
        TypeError: It is not a number.
        ValueError: It is not positive, or infinite.
    """
    if value is None:
        return None
    message = f"Must specify {name} > 0, given: {value}"
    return whole_steps(name, check_number(name, value, message, positive=True))


def whole_steps(name: str, steps: float) -> int:
    """Return a number of steps that may be a fraction, as ``examples / batch_size`` is, rounded up.

    TensorFlow compares steps with the fraction, and so takes the first step that is not before it.

    Raises:
        ValueError: It is infinite.
    """
    if math.isinf(steps):
        raise ValueError(f"{name} must be finite, given: {steps!r}. For no limit, give None.")
    return math.ceil(steps)


def check_instances(message: str, kind: type[T], values: Iterable[T] | None) -> tuple[T, ...]:
    """Return hooks or listeners as a tuple, after a check of their class.

    Args:
        message: The error message up to "instances".
        kind: The class that all must be instances of.
        values: Hooks or listeners; None for none.

    Raises:
        TypeError: It cannot be iterated over, or holds something else.
    """
    if not isinstance(values, Iterable | None):
        raise TypeError(f"{message} instances in a list, given: {values!r}")
    instances = () if values is None else tuple(values)
    for instance in instances:
        if not isinstance(instance, kind):
            raise TypeError(f"{message} instances, given: {instance}")
    return instances
