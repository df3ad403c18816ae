"""Read the manifest of patches, ``manifest.toml``: its parts, their reasons, and the tests that need them.

``tests/test_patches.py`` compares it with what the parts change.
"""

import functools
import importlib
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from muster_tensorflow.patches._changes import applied, applying

_PACKAGE = __name__.partition(".")[0]


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of the manifest.

    Attributes:
        name: The module in this package that makes the changes, as in ``library.keras2._adapt``; with a
            colon and the name of its function, unless this is ``patch``.
        why: What for, in one line.
        tried: The versions of others' packages that it was tried on.
        tests: The modules, within ``tests``, of which each fails without the part.
        adds: The classes and modules that get attributes, or mappings that get keys, and these: without the
            part they are not there. ``*`` in the name of a class stands for any text.
        changes: Those whose attributes or keys get other values, or are removed, and these.
    """

    name: str
    why: str
    tried: Sequence[str]
    tests: Sequence[str]
    adds: Mapping[str, Sequence[str]] = field(default_factory=dict)
    changes: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def apply(self) -> None:
        """Make the changes."""
        module, _, function = self.name.partition(":")
        with applying(self.name):
            getattr(importlib.import_module(f"{_PACKAGE}.{module}"), function or "patch")()


@functools.cache
def manifest() -> tuple[Part, ...]:
    """Return the parts, in the order in which they are applied: some wrap what others have set."""
    parts = tomllib.loads(Path(__file__).with_name("manifest.toml").read_text())["part"]
    return tuple(Part(**part) for part in parts)


def apply(*, without: Collection[str] = ()) -> None:
    """Make the changes of all parts, unless they are made.

    Args:
        without: Names of parts to leave out, as a test does that asks whether they are needed.

    Raises:
        ValueError: There is no part of such a name.
    """
    if unknown := set(without) - {part.name for part in manifest()}:
        raise ValueError(f"The manifest has no part {', '.join(sorted(unknown))}.")
    if applied():
        return
    for part in manifest():
        if part.name not in without:
            part.apply()
