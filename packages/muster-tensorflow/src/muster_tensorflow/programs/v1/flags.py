"""``tf.compat.v1.flags``: absl's flags, with the names that TensorFlow 1 gave their arguments."""

import functools
import importlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

_NEW_NAMES = {"flag_name": "name", "default_value": "default", "docstring": "help"}


class FlagValues:
    """The values of absl's flags, which parse the command line when the first is read before.

    Args:
        flags: ``absl.flags.FLAGS``.

    Source: tensorflow/python/platform/flags.py, ``_FlagValuesWrapper``.
    """

    def __init__(self, flags: Any) -> None:
        vars(self)["_flags"] = flags

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parsed(name), name)

    def __reduce__(self) -> Any:
        """Let who unpickles it, as a worker that makes a dataset, have absl's flags."""
        return _itself, (self._parsed(),)

    def _parsed(self, name: str | None = None) -> Any:
        """Return absl's flags, parsed unless they have no flag of this name."""
        flags = vars(self)["_flags"]
        if (name is None or name in flags) and not flags.is_parsed():
            flags(sys.argv)
        return flags

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(vars(self)["_flags"], name, value)

    def __delattr__(self, name: str) -> None:
        delattr(vars(self)["_flags"], name)

    def __getitem__(self, name: str) -> Any:
        return vars(self)["_flags"][name]

    def __contains__(self, name: str) -> bool:
        return name in vars(self)["_flags"]

    def __iter__(self) -> Iterator[str]:
        return iter(vars(self)["_flags"])

    def __len__(self) -> int:
        return len(vars(self)["_flags"])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return vars(self)["_flags"](*args, **kwargs)


def _itself(flags: Any) -> Any:
    return flags


_flag_values = functools.cache(FlagValues)


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
    if name == "FLAGS":
        return _flag_values(flags.FLAGS)
    found = getattr(flags, name)
    return _renaming(found) if name.startswith("DEFINE_") else found


def _renaming(define: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(define)
    def call(*args: Any, **kwargs: Any) -> Any:
        options = {_NEW_NAMES.get(key, key): value for key, value in kwargs.items()}
        known = importlib.import_module("absl.flags").FLAGS
        name = args[0] if args else options.get("name")
        if name in known and known[name] in known.flags_by_module_dict().get("absl.logging", ()):
            # Such as `log_dir`, which programs define that are older than absl's.
            options.setdefault("allow_override", True)
        return define(*args, **options)

    return call
