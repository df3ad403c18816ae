"""``tf.compat.v1.flags``: absl's flags, with the names that TensorFlow 1 gave their arguments."""

import functools
import importlib
from collections.abc import Callable
from typing import Any

_NEW_NAMES = {"flag_name": "name", "default_value": "default", "docstring": "help"}


def flag(name: str) -> Any:
    """Look up a name in ``absl.flags``.

    Args:
        name: Such as ``"FLAGS"`` or ``"DEFINE_string"``.

    Raises:
        AttributeError: There is no such name, or absl is not installed.
    """
    try:
        flags = importlib.import_module("absl.flags")
    except ImportError as exc:
        raise AttributeError(f"tf.flags.{name} needs absl: pip install absl-py.", name=name) from exc
    found = getattr(flags, name)
    return _renaming(found) if name.startswith("DEFINE_") else found


def _renaming(define: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(define)
    def call(*args: Any, **kwargs: Any) -> Any:
        return define(*args, **{_NEW_NAMES.get(key, key): value for key, value in kwargs.items()})

    return call
