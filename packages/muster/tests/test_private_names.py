"""Private names of Keras and JAX that the sources use, also in functions that seldom run, are there."""

import ast
import functools
import importlib

import pytest

from muster._keras import keras
from repository import SOURCES


def test_private_names_are_there() -> None:
    paths = (path for source in SOURCES for path in source.rglob("*.py"))
    found = {name: path for path in paths for name in private_names(path)}
    assert len(found) > 50
    missing = [f"{path}: {name}" for name, path in found.items() if not is_there(name)]
    assert missing == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("keras.src.backend.rnn", True),
        ("keras.src.backend.no_such_function", False),
        ("jax._src.array.ArrayImpl", True),
        ("jax._src.array.NoSuchClass", False),
        ("jax._src.no_such_module.ArrayImpl", False),
    ],
)
def test_what_is_missing_is_found(name: str, expected: bool) -> None:
    assert is_there(name) == expected


def private_names(path):
    """The private names of a file: attributes below ``keras.src``, and what it imports from ``jax._src``."""
    text = path.read_text("utf-8")
    if "keras.src" not in text and "jax._src" not in text:
        return
    tree = ast.parse(text)
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        match node:
            case ast.Attribute() if id(node) not in inner:
                name = dotted(node)
                if ".".join(name[:2]) == "keras.src":
                    yield ".".join(name)
            case ast.ImportFrom(module=str(module)) if module.startswith(("jax._src", "keras.src")):
                yield from (f"{module}.{each.name}" for each in node.names)


def dotted(node):
    """The parts of a name such as ``a.b.c``; what follows a call or an index is left out."""
    match node:
        case ast.Attribute(value, attr):
            before = dotted(value)
            return [*before, attr] if before else []
        case ast.Name(name):
            return [name]
    return []


def is_there(name):
    """Whether there are a module and its attributes of that name."""
    top, *rest = name.split(".")
    try:
        functools.reduce(member, rest, keras if top == "keras" else importlib.import_module(top))
    except (AttributeError, ImportError):
        return False
    return True


def member(owner, name):
    """An attribute, or a module that nobody has imported yet."""
    if not hasattr(owner, name):
        return importlib.import_module(f"{owner.__name__}.{name}")
    return getattr(owner, name)
