"""Packages that only some sources need."""

import importlib
from types import ModuleType


def extra_module(module: str, extra: str, who: str) -> ModuleType:
    """Import a module of a package that muster does not depend on.

    Args:
        module: its name.
        extra: the extra of muster that brings it.
        who: what needs it, for the message.

    Raises:
        ImportError: It is not installed; says what to install.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as exc:
        raise ImportError(
            f'{who} needs the package {module.partition(".")[0]}: pip install "muster[{extra}]".'
        ) from exc
