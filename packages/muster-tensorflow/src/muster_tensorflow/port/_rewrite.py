"""Change the imports of a program from TensorFlow and Keras to muster, and nothing else in it."""

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass

from muster_tensorflow.port._lookup import module_of
from muster_tensorflow.port._program import path_of

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_FROM = re.compile(rb"from(?:[ \t\f]|\\\r?\n)+([\w.]+)")


@dataclass(frozen=True)
class _Edit:
    start: int
    end: int
    text: str


def rewrite_imports(
    source: str, imports: Iterable[ast.Import | ast.ImportFrom], one: bool
) -> tuple[str, list[int]]:
    """Return a program that imports muster's modules, and the lines of the imports that stayed.

    Args:
        source: The program.
        imports: Its statements that import TensorFlow or Keras.
        one: Whether ``tensorflow`` becomes ``tf.compat.v1``.
    """
    starts = [0]
    for line in _LINE.findall(source):
        starts.append(starts[-1] + len(line.encode()))
    data = source.encode()
    edits, stayed = [], []
    for node in imports:
        start = starts[node.lineno - 1] + node.col_offset
        if isinstance(node, ast.ImportFrom):
            found = _FROM.match(data, start)
            new = _new_name(str(node.module), one)
            if found is None or new is None:
                stayed.append(node.lineno)
            else:
                edits.append(_Edit(*found.span(1), new))
            continue
        for alias in node.names:
            if path_of(alias.name) is None or alias.name.startswith(("muster.", "muster_tensorflow")):
                continue
            place = starts[alias.lineno - 1] + alias.col_offset
            # Without "as", the statement binds the first name, of which the program uses the others.
            taken = alias.name if alias.asname else alias.name.partition(".")[0]
            new = _new_name(taken, one)
            if new is None or _new_name(alias.name, one) is None:
                stayed.append(alias.lineno)
                continue
            text = new if alias.asname else f"{new} as {taken}"
            edits.append(_Edit(place, place + len(alias.name.encode()), text))
    for edit in sorted(edits, key=lambda each: each.start, reverse=True):
        data = data[: edit.start] + edit.text.encode() + data[edit.end :]
    return data.decode(), stayed


def _new_name(module: str, one: bool) -> str | None:
    """Return the name of muster's module for one of TensorFlow; its own if it is muster's; None for none."""
    if module.startswith(("muster.", "muster_tensorflow")):
        return module
    path = path_of(module)
    return None if path is None else module_of(path, one)
