"""Checks of arguments that several operations take."""

import operator
from typing import Any

import numpy as np


def integer(name: str, value: Any, minimum: int | None = None) -> int:
    """Return `value` as an ``int``; the whole part of a floating-point number of NumPy, as TensorFlow does.

    Raises:
        TypeError: `value` is not an integer.
        ValueError: `value` is less than `minimum`.
    """
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be an integer, got {value!r}.")
    if isinstance(value, np.floating):
        value = int(value)
    try:
        number = operator.index(value)
    except TypeError as exc:
        raise TypeError(f"{name} must be an integer, got {value!r} of type {type(value).__name__}.") from exc
    if minimum is not None and number < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {number}.")
    return number
