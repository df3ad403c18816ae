"""The parameters of muster's public functions, and the options of its commands, that are paths."""

import functools
import importlib
import importlib.util
import inspect
import re
import tomllib
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from repository import CORE, ROOT

_NAMES = re.compile(
    r"(^|_)(path|dir|directory|directorie|folder|file|filename|filepath|pattern|prefix)s?(_|$)|dir$"
)
_ANNOTATIONS = re.compile(r"PathLike|\bPath\b")
_METAVARS = {"DIR", "FILE", "FOLDER", "JOB", "LOG", "MODEL_DIR", "PATH", "PATH:PATH", "TF_PREFIX"}


@functools.cache
def path_parameters() -> dict[str, Callable[..., Any]]:
    """Return the functions with a parameter whose name or annotation says that it is a path.

    Public is what the pages of the reference show, and of a class its constructor and its public methods;
    those that it inherits count once, in the first class.

    Returns:
        Names such as ``"data.Dataset.save(path)"``, without ``muster.``, and the functions.
    """
    found: dict[str, Callable[..., Any]] = {}
    seen: set[Callable[..., Any]] = set()
    for name, function in _functions():
        plain = inspect.unwrap(getattr(function, "__func__", function))
        if not inspect.isfunction(plain) or plain in seen:
            continue
        seen.add(plain)
        for parameter in inspect.signature(plain).parameters.values():
            if _NAMES.search(parameter.name) or _ANNOTATIONS.search(str(parameter.annotation)):
                found[f"{name}({parameter.name})"] = plain
    return found


def _functions() -> Iterator[tuple[str, Any]]:
    classes = []
    for name in _shown():
        module, _, attribute = name.rpartition(".")
        value = getattr(importlib.import_module(module), attribute)
        name = name.removeprefix("muster.")
        if inspect.isclass(value):
            classes.append((name, value))
        elif not isinstance(value, ModuleType):
            yield name, value
    for name, each in sorted(classes, key=lambda pair: len(pair[1].__mro__)):
        for attribute in ["__init__", *(key for key in dir(each) if not key.startswith("_"))]:
            owner = next(base for base in each.__mro__ if attribute in vars(base))
            if owner.__module__.startswith("muster"):
                yield name if attribute == "__init__" else f"{name}.{attribute}", getattr(each, attribute)


def _shown() -> list[str]:
    """Return the names that the pages of the reference show, but for those of TensorFlow's names."""
    spec = importlib.util.spec_from_file_location("reference_hooks", ROOT / "docs/hooks.py")
    assert spec is not None
    assert spec.loader is not None
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    pages = (page.read_text() for page in sorted((ROOT / "docs/reference").glob("*.md")))
    texts = (hooks.on_page_markdown(page) for page in pages if "<!-- TensorFlow" not in page)
    return [name for text in texts for name in re.findall(r"^::: ([\w.]+)$", text, re.MULTILINE)]


def path_options() -> dict[str, str | None]:
    """Return the options of commands that take paths, such as ``"run --log-dir"``, and their types."""
    tables = tomllib.loads((CORE / "src/muster/commands.toml").read_text())
    return {
        f"{command} {option['name']}": option.get("type")
        for command, table in tables.items()
        for option in table.get("options", ())
        if option.get("metavar") in _METAVARS or option.get("type") in ("folder", "place")
    }
