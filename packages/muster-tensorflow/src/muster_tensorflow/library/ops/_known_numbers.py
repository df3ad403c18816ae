"""Let Python convert traced numbers that depend on constants alone.

Shapes and loops of programs are of such numbers, as in ``ops.ones((batch_size, 1))`` and ``range(count)``:
JAX traces operations on constants, too, and refuses to turn their results into Python's numbers.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from muster_tensorflow.library.ops._constants import known_constants
from muster_tensorflow.library.ops.control._both_ways import answer
from muster_tensorflow.patches import wrap

_CONVERSIONS = ("__index__", "__int__", "__float__", "__bool__")


def _known(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap a conversion of traced values."""

    @functools.wraps(original)
    def convert(self: Any) -> Any:
        try:
            return original(self)
        except (jax.errors.ConcretizationTypeError, jax.errors.TracerIntegerConversionError):
            if (value := known_constants(self)) is not None:
                return getattr(np.asarray(value), original.__name__)()
            if original.__name__ == "__bool__" and (truth := answer(self)) is not None:
                return truth
            raise

    return convert


def patch() -> None:
    """Give JAX's traced values the conversions."""
    for name in _CONVERSIONS:
        wrap(jax.core.Tracer, name, _known)
