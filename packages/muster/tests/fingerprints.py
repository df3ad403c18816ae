"""What the attributes of modules and classes are, and the items of their dicts, so that changes show."""

import contextlib
import importlib
import pkgutil
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any


@dataclass(frozen=True)
class Entry:
    """A value, where it is: of an attribute, or of a dict's key."""

    owner: Any
    path: str
    name: Any
    value: Any


Fingerprint = dict[tuple[int, str, Any], Entry]


def fingerprint(*packages: str) -> Fingerprint:
    """Note the values of the loaded modules of packages, and of their classes, but for modules."""
    found: Fingerprint = {}
    for path, module in list(sys.modules.items()):
        if isinstance(module, ModuleType) and path.partition(".")[0] in packages:
            found.update(_entries(module, module.__name__))
            for value in list(vars(module).values()):
                if isinstance(value, type) and str(value.__module__).partition(".")[0] in packages:
                    found.update(_entries(value, f"{value.__module__}.{value.__qualname__}"))
    return found


def _entries(owner: Any, path: str) -> Iterator[tuple[tuple[int, str, Any], Entry]]:
    for name, value in list(vars(owner).items()):
        if isinstance(value, ModuleType):
            continue
        yield (id(owner), "attribute", name), Entry(owner, path, name, value)
        if isinstance(value, dict) and name != "__builtins__":
            for key, item in list(value.items()):
                yield (id(value), "item", key), Entry(value, f"{path}.{name}", key, item)


def differences(before: Fingerprint, after: Fingerprint) -> list[tuple[Entry | None, Entry | None]]:
    """Return what is there no more, what is new, and what is another value."""
    pairs = [(before.get(key), after.get(key)) for key in before.keys() | after.keys()]
    return [(old, new) for old, new in pairs if old is None or new is None or old.value is not new.value]


def is_registration(old: Entry | None, new: Entry | None) -> bool:
    """Whether a class of muster's, or a primitive of JAX's that it has made, was added to a registry."""
    if old is not None or new is None or not isinstance(new.owner, dict):
        return False
    kinds = [each for each in (new.name, new.value) if isinstance(each, type)]
    return any(each.__module__.startswith("muster") for each in kinds) or str(new.name).startswith("muster_")


def load(package: str) -> None:
    """Import all modules of a package, and all names that its modules import when they are first used."""
    path = importlib.import_module(package).__path__
    for each in pkgutil.walk_packages(path, f"{package}."):
        if not each.name.endswith("__main__"):
            importlib.import_module(each.name)
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == package and "__getattr__" in vars(module):
            for lazy in dir(module):
                getattr(module, lazy, None)


def load_imports(source: Path, packages: Iterable[str]) -> None:
    """Import what the modules in a folder import from packages, and nothing else."""
    statement = re.compile(rf"^\s*(?:import|from) ((?:{'|'.join(packages)})\b[\w.]*)(?: import (.*))?", re.M)
    found = {match for path in source.rglob("*.py") for match in statement.findall(path.read_text())}
    for module, names in sorted(found):
        importlib.import_module(module)
        for name in re.findall(r"\w+", names):
            with contextlib.suppress(ImportError):  # it is no module
                importlib.import_module(f"{module}.{name}")
