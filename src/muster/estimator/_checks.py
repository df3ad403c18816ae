"""Checks of arguments that several parts of the Estimator share."""

import numbers
from collections.abc import Iterable
from typing import Any, TypeVar

T = TypeVar("T")


def check_number(
    name: str,
    value: Any,
    message: str,
    *,
    at_least: float | None = None,
    above: float | None = None,
    whole: bool = False,
) -> Any:
    """Return a number after checking it.

    TensorFlow lets NaN and True pass, and fractions where a count is meant.

    Args:
        name: What the number is, for the message.
        value: The number as it was given.
        message: What to say when it is out of range.
        at_least: The least allowed.
        above: What it must exceed.
        whole: Whether it must be whole; then an int is returned, for 1e6 too.

    Raises:
        TypeError: It is not a number.
        ValueError: It is out of range, NaN, or not whole.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, given: {value!r}.")
    number = float(value)
    inside = number >= at_least if at_least is not None else above is None or number > above
    if not inside or number != number:
        raise ValueError(message)
    if not whole:
        return value
    if not number.is_integer():
        raise ValueError(f"{name} must be a whole number, given: {value!r}.")
    return int(value) if isinstance(value, numbers.Integral) else int(number)


def check_steps(name: str, value: object) -> int | None:
    """Return a number of steps after checking that it is positive; None stays None.

    Raises:
        TypeError: It is not a number.
        ValueError: It is not a positive whole number.
    """
    if value is None:
        return None
    message = f"Must specify {name} > 0, given: {value}"
    steps: int = check_number(name, value, message, above=0, whole=True)
    return steps


def check_instances(what: str, kind: type[T], given: Iterable[T] | None) -> tuple[T, ...]:
    """Return what was given as a tuple, after checking that each is of a kind.

    Args:
        what: The text that begins the message, up to "instances".
        kind: The class that each must be an instance of.
        given: Hooks or listeners; None for none.

    Raises:
        TypeError: It cannot be iterated over, or holds something else.
    """
    instances = () if given is None else tuple(given)
    for instance in instances:
        if not isinstance(instance, kind):
            raise TypeError(f"{what} instances, given: {instance}")
    return instances
