"""Let code traced again draw the same random numbers from Python and NumPy as in the first trace.

A layer that decides by ``random.uniform`` what it adds to a program would decide otherwise each time.
TensorFlow traces a function once.
"""

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import numpy as np


def draws_to_come() -> tuple[Any, Any]:
    """Return where the generators are that ``random`` and ``numpy.random`` draw from."""
    return random.getstate(), np.random.get_state()


@contextlib.contextmanager
def drawing_again(from_here: tuple[Any, Any]) -> Iterator[None]:
    """Draw what was drawn from a place on, in a ``with`` block; after it, go on as if there had been none."""
    now = draws_to_come()
    _go_to(from_here)
    try:
        yield
    finally:
        _go_to(now)


def _go_to(place: tuple[Any, Any]) -> None:
    of_python, of_numpy = place
    random.setstate(of_python)
    np.random.set_state(of_numpy)
