"""Write the tables of the reference page of names, from the data that ``muster port`` uses."""

import types
import typing

import muster_tensorflow as tf
from muster_tensorflow.names._hints import INSTEAD
from muster_tensorflow.names._names import Names
from muster_tensorflow.port._differences import rows


def names_by_module() -> dict[str, list[str]]:
    """Return TensorFlow's names that are there, by module, without those of Keras and of private modules."""
    found: dict[str, list[str]] = {}

    def walk(path: str, module: object) -> None:
        for name, value in vars(module).items():
            whole = f"{path}.{name}"
            ours = getattr(value, "__name__", "").startswith(f"{tf.__name__}.")
            if name.startswith("_") or value is typing.Any or whole in ("tf.keras", "tf.python", *_ROOMS):
                continue
            if isinstance(value, Names) or (isinstance(value, types.ModuleType) and ours):
                if not (path.startswith("tf.compat.v1") and value is getattr(tf, name, None)):
                    walk(whole, value)
            elif not isinstance(value, types.ModuleType):
                found.setdefault(path, []).append(name)

    walk("tf", tf)
    return {path: sorted(found[path]) for path in sorted(found)}


_ROOMS = ("tf.datasets", "tf.library", "tf.names", "tf.patches", "tf.port", "tf.programs", "tf.tensorboard")


def tables() -> dict[str, str]:
    """Return title -> table in Markdown: what became of names, which are there and which are not."""
    there = ((f"`{module}`", _as_code(names)) for module, names in names_by_module().items())
    missing = ((f"`{name}`", instead) for name, instead in INSTEAD.items())
    return {
        "What each name became": _table(("TensorFlow", "muster", "what differs"), rows()),
        "Names that are there": _table(("module", "names"), there),
        "Names that are not there": _table(("name", "instead"), missing),
    }


def _as_code(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _table(head: tuple[str, ...], body: typing.Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *body]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
