"""The error that code raises if it needs concrete values, and so cannot be traced."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import jax
import numpy as np

from muster import TraceError


class NeedsValuesError(TraceError):
    """Code that is being traced needs values in Python, which are not known yet."""


def known(value: Any, what: str) -> np.ndarray[Any, Any]:
    """Return an array whose values are known, as NumPy's.

    Args:
        value: The array.
        what: What needs the values, for the message.

    Raises:
        NeedsValuesError: A compiled function or a step computes it.
    """
    if isinstance(value, jax.core.Tracer):
        raise NeedsValuesError(
            f"{what} needs values that a compiled step computes, which are not known while it is traced. "
            "Return them from the step, and do it with them outside."
        )
    return np.asarray(value)


_UNCOMPILED_INSTEAD: ContextVar[bool] = ContextVar("muster_uncompiled_instead", default=False)


@contextmanager
def uncompiled_instead() -> Iterator[None]:
    """Trace code in a ``with`` block that runs uncompiled if tracing it raises a `NeedsValuesError`."""
    token = _UNCOMPILED_INSTEAD.set(True)
    try:
        yield
    finally:
        _UNCOMPILED_INSTEAD.reset(token)


def runs_uncompiled_instead() -> bool:
    """Return whether code that is being traced can run uncompiled, unlike a step of `fit` or a model_fn."""
    return _UNCOMPILED_INSTEAD.get()
