"""The saved state from which a restarted server restores its store: a snapshot and later changes."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from muster.ps._flat_layout import Array
from muster.ps._row_snapshots import Piece
from muster.ps.store import _messages as messages


class SavedStore(msgspec.Struct, frozen=True, kw_only=True):
    """Describe a snapshot of a store: what it holds beside its values.

    Args:
        origin: The random id of the coordinator's program.
        plan: The arrays and functions, encoded.
        version: How many pushes have changed the values.
        at: When it was taken, in seconds since the epoch.
        watermark: The number below which all closures have ended.
        applied: The closures from there on that the values contain.
        sequences: The last change of each client that they contain.
        changes: How many changes they contain.
        clocks: How many pushes each hashed table has seen.
    """

    origin: str
    plan: bytes
    version: int
    at: float
    watermark: int = 0
    applied: tuple[int, ...] = ()
    sequences: dict[str, int] = {}
    changes: int = 0
    clocks: dict[str, int] = {}


class Recorded(msgspec.Struct, frozen=True):
    """A change that a coordinator has made.

    Args:
        number: Its number among those of its store, from 1; 0 for the beginning of one.
        origin: The random id of the coordinator's program.
        client: The id of the client that has asked for it.
        message: What was asked; None for the beginning.
        at: When it was written, in seconds since the epoch.
    """

    number: int
    origin: str
    client: str = ""
    message: messages.Change | None = None
    at: float = 0.0


class FoundStore(NamedTuple):
    """A snapshot, its arrays, how old it is in seconds, its rows, which can be read once, and the changes
    since then, with their arrays."""

    saved: SavedStore
    arrays: list[Array]
    age_secs: float
    pieces: Iterable[Piece]
    changes: list[tuple[Recorded, list[Array]]]


FindStore = Callable[[str], FoundStore | None]
"""Returns the newest snapshot of a store by its origin; None if there is none."""
