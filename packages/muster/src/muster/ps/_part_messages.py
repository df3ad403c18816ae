"""The messages of a chief that lets servers write their parts of a checkpoint. Nothing follows them."""

import msgspec

from muster.ps._messages import Refused

# What such connections are for, in their greeting: one save each.
SAVE_PURPOSE = "part of a checkpoint"


class SavePart(msgspec.Struct, tag="save_part", frozen=True, kw_only=True):
    """Ask for values in a file; the only request but `WritePart` of a connection with its own purpose.
    `PartTaken` is answered at once: the server holds the values as they are then.

    Args:
        plan: The fingerprint of the plan, all arrays of which are written; empty for a variable store.
        arrays: The names of the arrays of a variable store, and of its hashed tables.
        origin: The random id of the initial values that the chief knows of: see `Seen`.
        folder: The folder of the checkpoint.
        token: A file in it, by which the server knows the folder.
        file: The name of the file to write.
    """

    plan: str = ""
    arrays: tuple[str, ...] = ()
    origin: str
    folder: str
    token: str
    file: str


class PartTaken(msgspec.Struct, tag="part_taken", frozen=True, kw_only=True):
    """Answers `SavePart`: whether the server sees the folder."""

    found: bool


class WritePart(msgspec.Struct, tag="write_part", frozen=True, kw_only=True):
    """Write the file, since all servers see the folder. Answered by `PartWritten` or `Refused` when done."""


class EarlierFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of an earlier checkpoint, which is in the folder of this one, too.

    Args:
        name: Its name.
        bytes: Its size.
        crc32: Its checksum.
    """

    name: str
    bytes: int
    crc32: int


class PartWritten(msgspec.Struct, tag="part_written", frozen=True, kw_only=True):
    """Answers `WritePart`.

    Args:
        bytes: The size of the file.
        crc32: Its checksum.
        changed: The arrays, and the rows by id, of which it has only the rows that differ from the base.
        base: The file that has all of their rows; None if nothing is taken from there.
        counts: How many rows by id there are under each key, with those of the base.
    """

    bytes: int
    crc32: int
    changed: tuple[str, ...] = ()
    base: EarlierFile | None = None
    counts: dict[str, int] = {}


# For type checkers, and as unions for msgspec.


# For type checkers, and as unions for msgspec.
PartRequest = SavePart | WritePart
PartAnswer = PartTaken | PartWritten | Refused
