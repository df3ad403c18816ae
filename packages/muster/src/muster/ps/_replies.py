"""Replies of machines, and the error with which they refuse a request."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from muster._text import printable
from muster.ps._flat_layout import Array
from muster.ps._messages import Caller


class Reply(NamedTuple):
    """An answer to a caller, and the flat arrays that follow it."""

    caller: Caller
    message: Any
    arrays: tuple[Array, ...] = ()


class RefusedError(Exception):
    """A request is refused; the text is a clause about it."""


def require_versions(ours: Mapping[str, str], theirs: Mapping[str, str]) -> None:
    """Raise RefusedError if a caller lacks a version of software that this server has."""
    for name, version in ours.items():
        if (there := theirs.get(name, "no version")) != version:
            raise RefusedError(
                f"it has {printable(there)} of {printable(name)}, and this server has {version}. Install the "
                "same on all machines of the job"
            )
