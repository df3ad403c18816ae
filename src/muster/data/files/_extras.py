"""Imports of optional packages."""

import importlib
from types import ModuleType


def extra_module(module: str, extra: str, who: str) -> ModuleType:
    """Import a module of an optional package.

    Args:
        module: The name of the module.
        extra: The extra of muster that installs the package.
        who: The class that needs the package, for the message.

    Raises:
        ImportError: The package is not installed; says how to install it.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as exc:
        raise ImportError(
            f'{who} needs the package {module.partition(".")[0]}: pip install "muster[{extra}]".'
        ) from exc
