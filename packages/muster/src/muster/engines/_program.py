"""Check a program before it is started."""

import os
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path


def what_is_wrong_with(program: tuple[str, ...]) -> str:
    """Return why Python could not run a program, whose modules are not imported for that; empty if it can."""
    if program[0] != "-m":
        path = Path(program[0])
        if not path.exists():
            return f"there is no {path} in {Path.cwd()}"
        if path.is_dir() and not (path / "__main__.py").exists():
            return f"{path} is a folder without a __main__.py: name a Python file"
        return ""
    name = program[1]
    sys.path.insert(0, os.getcwd())  # where `python -m` looks first, too
    try:
        # One name after the other: to find a module in a package would import the package.
        places: Sequence[str] | None = None
        spec = None
        parts = name.split(".")
        for count, part in enumerate(parts, 1):
            if count == 1:  # any finder may know it, such as that of a package in development
                found = (finder.find_spec(part, None) for finder in sys.meta_path)
                spec = next((each for each in found if each is not None), None)
            else:
                spec = PathFinder.find_spec(part, places)
            whole = ".".join(parts[:count])
            if spec is None:
                return f"there is no module {whole}, in {Path.cwd()} or where Python has installed some"
            places = None if (here := spec.submodule_search_locations) is None else [*here]
            if places is None and count < len(parts):
                return f"{whole} is a module, and no package: there is no {name}"
        if spec is not None and places is not None and PathFinder.find_spec("__main__", places) is None:
            return f"{name} is a package without a __main__.py: name a module of it, such as {name}.train"
    finally:
        sys.path.pop(0)
    return ""
