"""``tf.compat``: forward compatibility dates, and Python's types of text and numbers.

Source: tensorflow/python/compat/compat.py, tensorflow/python/util/compat.py.
"""

import datetime
import numbers
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

_horizon: ContextVar[datetime.date] = ContextVar("horizon", default=datetime.date(2023, 10, 10))

bytes_or_text_types = (bytes, str)
complex_types = (numbers.Complex, np.number)
integral_types = (numbers.Integral, np.integer)
real_types = (numbers.Real, np.integer, np.floating)


def forward_compatible(year: int, month: int, day: int) -> bool:
    """Return whether TensorFlow 2.15, whose names these are, is newer than a day."""
    return _horizon.get() > datetime.date(year, month, day)


@contextmanager
def forward_compatibility_horizon(year: int, month: int, day: int) -> Iterator[None]:
    """Let `forward_compatible` compare with another day within a ``with`` block."""
    before = _horizon.set(datetime.date(year, month, day))
    try:
        yield
    finally:
        _horizon.reset(before)
