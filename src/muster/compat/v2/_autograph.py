"""``tf.autograph``: accepted, with no effect."""

from collections.abc import Callable
from typing import Any


def do_not_convert(func: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Return the function: none is converted."""
    return func if func is not None else lambda function: function


def to_graph(
    entity: Callable[..., Any], recursive: bool = True, experimental_optional_features: object = None
) -> Callable[..., Any]:
    """Return the function: none is converted."""
    return entity


def set_verbosity(level: int, alsologtostdout: bool = False) -> None:
    """Do nothing: there is nothing to log."""
