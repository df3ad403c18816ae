"""Fetches: nested structures of names, which say what to read of a session."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from muster.program import Output

Fetches: TypeAlias = str | Output | Mapping[str, "Fetches"] | Sequence["Fetches"] | None
"""A name, an `Output`, or a dict, list or tuple of these, nested as deep as one likes."""


def map_fetches(read: Callable[[str], Any], fetches: Fetches) -> Any:
    """Call `read` with each name, and return the results in the structure of `fetches`.

    Raises:
        TypeError: A fetch is neither a name nor an `Output`.
    """
    match fetches:
        case str():
            return read(fetches)
        case Output(name=name):
            return read(name)
        case dict():
            return {key: map_fetches(read, fetch) for key, fetch in fetches.items()}
        case tuple() if hasattr(fetches, "_fields"):
            return type(fetches)(*(map_fetches(read, fetch) for fetch in fetches))
        case list() | tuple():
            return type(fetches)(map_fetches(read, fetch) for fetch in fetches)
        case None:
            return None
        case _:
            raise TypeError(
                f"A fetch must be a name, an Output, or a dict, list or tuple of these, got {fetches!r}. "
                "In model_fn, name a value with muster.program.name_output(name, value) and fetch that name."
            )
