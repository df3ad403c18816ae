"""Events and replies of a server's machine, and the error with which it refuses a request."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from muster._text import printable
from muster.ps import _messages as messages
from muster.ps._flat_layout import Array
from muster.ps._messages import Caller


class Asked(NamedTuple):
    """A request, and the flat arrays that follow it, which are not used after the event."""

    caller: Caller
    message: messages.Request
    arrays: Sequence[Array]


class Lost(NamedTuple):
    """A caller is gone."""

    caller: Caller


Event = Asked | Lost


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
