"""Checks how the modules of a package import each other; ``make check`` runs it, and so does a test.

1. No circles. Imports for type checkers alone count, and so do those inside of functions: what is imported
   late because it is slow to load must not import back, either.
2. A module ``_x.py`` is imported only from its own package, ``muster.data`` for example; others import from
   the ``__init__.py`` above it, which names what they need.
"""

import ast
import sys
from pathlib import Path

Graph = dict[str, set[str]]


def modules_of(*sources: Path) -> dict[str, Path]:
    """Return the modules of all packages in folders, by name; a package's is that of its ``__init__.py``."""
    found = {}
    for source in sources:
        for path in sorted(source.rglob("*.py")):
            parts = path.relative_to(source).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports_of(path: Path, modules: dict[str, Path]) -> set[str]:
    """Return the modules that a module imports anywhere, for type checkers and in functions, too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            named = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= named & modules.keys()
            if not named <= modules.keys():
                found.add(str(node.module))
    return found & modules.keys()


def graph_of(modules: dict[str, Path]) -> Graph:
    """Return what each module imports, without itself."""
    return {name: imports_of(path, modules) - {name} for name, path in modules.items()}


def circles(graph: Graph) -> list[list[str]]:
    """Return the groups of modules that import each other, by Tarjan's algorithm."""
    found: list[list[str]] = []
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []

    def visit(name: str) -> None:
        order[name] = lowest[name] = len(order)
        stack.append(name)
        for other in sorted(graph[name]):
            if other not in order:
                visit(other)
            if other in stack:
                lowest[name] = min(lowest[name], lowest[other])
        if lowest[name] == order[name]:
            group = [stack.pop()]
            while group[-1] != name:
                group.append(stack.pop())
            if len(group) > 1:
                found.append(sorted(group))

    for name in sorted(graph):
        if name not in order:
            visit(name)
    return found


def package_of(module: str) -> str:
    """Return the package that a module belongs to: the folder below the root, or the root.

    What is private in a front end is private to all of it: its folders have the layout of another library.
    """
    parts = module.split(".")[:-1]
    return parts[0] if parts[0] == "muster_tensorflow" else ".".join(parts[:2])


def intrusions(graph: Graph) -> list[str]:
    """Return the imports of modules ``_x`` from outside of the package that they belong to."""
    return [
        f"{name} imports {imported}"
        for name, imports in graph.items()
        for imported in sorted(imports)
        if imported.rpartition(".")[2].startswith("_")
        and not f"{name}.".startswith(f"{package_of(imported)}.")
    ]


def problems(*sources: Path) -> list[str]:
    """Return what is wrong with the imports of all packages in folders, a line for each."""
    modules = modules_of(*sources)
    graph = graph_of(modules)
    lines = [f"These modules import each other: {', '.join(group)}." for group in circles(graph)]
    return lines + [f"{line}, which is for its own package alone." for line in intrusions(graph)]


if __name__ == "__main__":
    wrong = problems(*map(Path, sys.argv[1:]))
    print(*wrong, sep="\n", end="\n" if wrong else "")
    sys.exit(bool(wrong))
