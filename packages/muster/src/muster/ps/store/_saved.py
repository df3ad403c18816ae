"""The saved state from which a restarted server restores its store."""

import msgspec


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
