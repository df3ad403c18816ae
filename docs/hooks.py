"""Fills in what pages take from the code: a package's public names, and the tables of TensorFlow's names."""

import ast
import functools
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parent.parent / "packages" / "muster" / "src"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace ``<!-- names of PACKAGE -->`` by what the package's ``__init__.py`` or ``.pyi`` imports.

    ``<!-- names of PACKAGE without NAME NAME -->`` leaves out what it imports for muster's other packages.
    ``<!-- TensorFlow: TITLE -->`` becomes a table of ``muster_tensorflow.port``.
    """
    names = r"<!-- names of ([\w.]+)(?: without\s([^>]*?))? -->"
    markdown = re.sub(names, lambda found: _references(found[1], (found[2] or "").split()), markdown)
    return re.sub(r"<!-- TensorFlow: (.*?) -->", lambda found: _tables()[found[1]], markdown)


def _references(package: str, without: list[str]) -> str:
    folder = SOURCE / package.replace(".", "/")
    stub = folder / "__init__.pyi"  # of a package whose names are imported when they are first used
    files = (stub, folder / "__init__.py", folder.with_suffix(".py"))
    tree = ast.parse(next(file for file in files if file.exists()).read_text())
    names = [alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    if unknown := set(without) - set(names):
        raise ValueError(f"{package} has no {', '.join(sorted(unknown))}, which its page leaves out.")
    shown = (name for name in names if not name.startswith("_") and name not in without)
    return "\n\n".join(f"::: {package}.{name}" for name in shown)


@functools.cache
def _tables() -> dict[str, str]:
    # A process of its own: the package changes JAX and Keras where it is imported.
    code = "import json; from muster_tensorflow.port import tables; print(json.dumps(tables()))"
    done = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True)
    # Links in the tables start at the folder of the documentation.
    found: dict[str, str] = json.loads(done.stdout)
    return {title: table.replace("](guides/", "](../guides/") for title, table in found.items()}
