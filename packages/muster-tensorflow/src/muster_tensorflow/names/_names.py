"""Look up names in the modules of `muster_tensorflow`, with hints for missing ones."""

import functools
import importlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any, NoReturn

from muster_tensorflow.names._hints import advice_for

PACKAGE = "muster_tensorflow"
"""The package that programs import as ``tf``."""

# Packages and modules in it that hold no names of TensorFlow.
_ROOMS = ("datasets", "library", "names", "patches", "port", "programs", "tensorboard")


def modules_of_names() -> Iterator[tuple[str, ModuleType]]:
    """Yield the loaded modules that programs see: ``tf`` itself, ``tf.nn`` and so on, each with its path."""
    for path, module in list(sys.modules.items()):
        package, _, rest = path.partition(".")
        if package == PACKAGE and rest.partition(".")[0] not in _ROOMS:
            yield path, module


def missing(module: str, name: str) -> AttributeError:
    """Make the error for a TensorFlow name that muster does not have.

    Args:
        module: The module's name in programs, such as ``tf.compat.v1``.
        name: The name that was looked up.
    """
    path = f"{module}.{name}"
    return AttributeError(f"muster has no {path}. {what_instead(path)}", name=name)


def what_instead(path: str) -> str:
    """Return what to use instead of a name that muster does not have.

    Args:
        path: The whole name, such as ``tf.layers.dense``.
    """
    if path.startswith("tf.") and not path.startswith("tf.compat.v1.") and is_of_tensorflow_1(path):
        first = path.removeprefix("tf.")
        return (
            f"It is a name of TensorFlow 1: write tf.compat.v1.{first}, or import "
            "muster_tensorflow.compat.v1 as tf."
        )
    return advice_for(path)


def is_of_tensorflow_1(path: str) -> bool:
    """Return whether the modules of ``tf.compat.v1`` have a name, which need not be in those of TensorFlow 2.

    Args:
        path: The whole name as TensorFlow 1 has it, such as ``tf.layers.dense``.
    """
    value: Any = sys.modules.get(f"{PACKAGE}.compat.v1")
    for part in path.split(".")[1:]:
        # A module passes other names on, but for one, which asks absl.
        passes = isinstance(value, ModuleType) and value.__name__ != f"{PACKAGE}.compat.v1.flags"
        if not (part in vars(value) if passes else hasattr(value, part)):
            return False
        value = getattr(value, part)
    return True


def report_missing() -> None:
    """Let the modules that programs see raise the error of `missing` for names that they lack.

    Each module that is loaded gets a ``__getattr__``, unless it has one. Type checkers do not see it, and so
    report missing names, too.
    """
    for path, module in modules_of_names():
        if not isinstance(module, Names):
            name = f"tf{path.removeprefix(PACKAGE)}"
            vars(module).setdefault("__getattr__", functools.partial(_raise_missing, name))


def _raise_missing(module: str, name: str) -> NoReturn:
    raise missing(module, name)


class Names(ModuleType):
    """A small TensorFlow module that needs no file of its own; unknown names raise the error of `missing`.

    It can be imported, too, as in ``from muster_tensorflow.io.gfile import exists``.

    Args:
        module: The module's name in programs, such as ``tf.data.experimental``.
        **names: The names in it.
    """

    def __init__(self, module: str, **names: object) -> None:
        super().__init__(PACKAGE + module.removeprefix("tf"), f"``{module}``.")
        vars(self).update(names)
        sys.modules[self.__name__] = self

    def __reduce__(self) -> Any:
        return importlib.import_module, (self.__name__,)

    def __getattr__(self, name: str) -> Any:
        raise missing(f"tf{self.__name__.removeprefix(PACKAGE)}", name)


def passed_on(module: ModuleType, package: str, name: str, *extra: str) -> Any:
    """Look up a name in a module that another one extends, for the ``__getattr__`` of that other one.

    Args:
        module: The module that is extended.
        package: The extending module's name, its ``__name__``.
        name: The name that was looked up, or ``__all__``, which ``import *`` asks for.
        *extra: The public names that the extending module adds.

    Raises:
        AttributeError: There is no such name.
    """
    if name == "__all__":
        names = getattr(module, "__all__", dir(module))
        return sorted({*extra, *(each for each in names if not each.startswith("_"))})
    try:
        return getattr(module, name)
    except AttributeError:
        raise missing(f"tf{package.removeprefix(PACKAGE)}", name) from None


def importable_as(package: str, module: ModuleType) -> None:
    """Let the modules below one that are loaded be imported below another, which passes its names on.

    So ``from muster_tensorflow.keras.models import Sequential`` finds Keras' module.

    Args:
        package: The name of the module that passes names on; modules that it has of its own stay.
        module: The module that has the names.
    """
    below = f"{module.__name__}."
    for path, each in list(sys.modules.items()):
        rest = path.removeprefix(below)
        hidden = rest.startswith(("src", "_", "compat")) or rest.partition(".")[0] in _ROOMS
        if path.startswith(below) and not hidden:
            sys.modules.setdefault(f"{package}.{rest}", each)
