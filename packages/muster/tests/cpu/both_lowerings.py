"""A function compiled with muster's lowerings, and with JAX's own."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from muster.config import use_cpu_lowerings
from muster.cpu import prepare


def lowered_both_ways(function: Callable[..., Any], *args: Any) -> tuple[Any, Any]:
    """The function lowered with muster's lowerings, and with JAX's own."""
    prepare()
    use_cpu_lowerings(True)
    ours = jax.jit(lambda *args: function(*args)).lower(*args)
    use_cpu_lowerings(False)
    try:
        theirs = jax.jit(lambda *args: function(*args)).lower(*args)
    finally:
        use_cpu_lowerings(True)
    return ours, theirs


def lowered_text(function: Callable[..., Any], *args: Any) -> tuple[str, str]:
    """Both programs as text."""
    ours, theirs = lowered_both_ways(function, *args)
    return ours.as_text(), theirs.as_text()


def both_ways(function: Callable[..., Any], *args: Any) -> tuple[np.ndarray, np.ndarray]:
    """What both programs give."""
    ours, theirs = (np.asarray(lowered.compile()(*args)) for lowered in lowered_both_ways(function, *args))
    return ours, theirs
