"""Lists a package's public names on its reference page, so that no page can forget one."""

import ast
import re
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parent.parent / "packages" / "muster" / "src"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace ``<!-- names of PACKAGE -->`` by what the package's ``__init__.py`` or ``.pyi`` imports."""
    return re.sub(r"<!-- names of ([\w.]+) -->", lambda found: _references(found[1]), markdown)


def _references(package: str) -> str:
    folder = SOURCE / package.replace(".", "/")
    stub = folder / "__init__.pyi"  # of a package whose names are imported when they are first used
    tree = ast.parse((stub if stub.exists() else folder / "__init__.py").read_text())
    names = [alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    return "\n\n".join(f"::: {package}.{name}" for name in names if not name.startswith("_"))
