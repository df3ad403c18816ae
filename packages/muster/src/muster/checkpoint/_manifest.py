"""The manifest: the list of a checkpoint's variables and data files, with checksums.

``manifest.json`` is one JSON object in two parts: the first line holds the CRC-32 of every byte
after it, and is the same in every version of the format; the rest is the contents.

While a directory is being written or deleted, it has ``manifest.json.tmp``. So one that has neither has lost
its manifest, and is not what a process left that was killed.
"""

import contextlib
import errno
import json
import math
import os
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from muster._arrays import dtype_named
from muster._errors import CheckpointError, CheckpointNotFoundError, DamagedCheckpointError
from muster.checkpoint._arrays import FileRecord, open_regular

_FIRST_LINE = b'{"crc32": "%08x",'


def with_checksum(rest: bytes) -> bytes:
    """Return a JSON object whose first line holds the CRC-32 of every byte after it.

    Args:
        rest: What follows: a JSON object without its opening brace.
    """
    return _FIRST_LINE % zlib.crc32(rest) + b"\n" + rest


def without_checksum(data: bytes) -> bytes | None:
    """Return the JSON object that `with_checksum` was given; None if the bytes have changed since."""
    first, _, rest = data.partition(b"\n")
    return b"{" + rest if first == _FIRST_LINE % zlib.crc32(rest) else None


FILE_NAME = "manifest.json"
UNFINISHED = FILE_NAME + ".tmp"
# Versions of the format that this version reads; a manifest has the first that knows all that it says.
FORMATS = FORMAT, FORMAT_WITH_CHANGES, FORMAT_WITH_IDS = 1, 2, 3


@dataclass(frozen=True)
class Changes:
    """Rows that replace some of a piece.

    Attributes:
        file: The data file that has them.
        rows: The key of their numbers there, from 0 at the start of the piece, or of their ids: int64 of
            shape (n,).
        key: The key of the rows, of shape (n, ...).
    """

    file: str
    rows: str
    key: str


@dataclass(frozen=True)
class Piece:
    """Rows ``start`` to ``stop`` (excluded) of a variable, stored as one array of a data file.

    A variable that is split along its first dimension has several pieces. Any other is one piece from 0
    to the length of that dimension; a scalar counts as one row. Rows that have changed since the data file
    was written, for an earlier checkpoint, are in ``changes``.

    Rows that are found by ids, of a hashed table, name in ``keyed`` what the keys of these begin with: see
    ``_keyed``. They have no order, and of the data file those rows are left out that have changed, or are
    gone.
    """

    file: str
    key: str
    start: int
    stop: int
    changes: Changes | None = None
    keyed: str = ""


@dataclass(frozen=True)
class VariableRecord:
    """A variable: its global shape, the name of its dtype, and the pieces that hold its rows."""

    shape: tuple[int, ...]
    dtype: str
    pieces: tuple[Piece, ...]

    @property
    def is_keyed(self) -> bool:
        """True if its rows are keyed by ids."""
        return any(piece.keyed for piece in self.pieces)

    @property
    def nbytes(self) -> int:
        """The size of its values in bytes."""
        return math.prod(self.shape) * dtype_named(self.dtype).itemsize


@dataclass(frozen=True)
class Manifest:
    """The contents of a checkpoint.

    Attributes:
        step: The global step.
        time: When it was written, in seconds since the epoch.
        started: When the first checkpoint of this directory was written: retention counts hours from
            there, also after that checkpoint is gone. It moves with a clock that is set while a run goes on.
        keep_every_n_hours: The retention it was written under: runs with the same value may delete it. None
            keeps it.
        variables: By name, in the order in which they were given.
        files: The data files by their name in the directory.
        metadata: The entries that the caller gave.
    """

    step: int
    time: float
    started: float
    variables: Mapping[str, VariableRecord]
    files: Mapping[str, FileRecord]
    metadata: Mapping[str, Any]
    keep_every_n_hours: float | None = None


def encode(manifest: Manifest) -> bytes:
    """Return the bytes of the manifest's file."""
    # Not asdict of all, which would copy the metadata.
    pieces = [piece for each in manifest.variables.values() for piece in each.pieces]
    version = FORMAT_WITH_CHANGES if any(piece.changes for piece in pieces) else FORMAT
    contents = {
        "format": FORMAT_WITH_IDS if any(piece.keyed for piece in pieces) else version,
        **vars(manifest),
        "variables": {name: _encoded(record) for name, record in manifest.variables.items()},
        "files": {name: asdict(record) for name, record in manifest.files.items()},
    }
    return with_checksum(json.dumps(contents, separators=(",", ":")).encode()[1:] + b"\n")


def decode(data: bytes, path: str) -> Manifest:
    """Parse the bytes of a manifest's file.

    Args:
        data: The bytes.
        path: The file's path, for messages.

    Raises:
        DamagedCheckpointError: The bytes have changed since they were written.
        CheckpointError: They were written in a format that this version does not know.
    """
    body = without_checksum(data)
    if body is None:
        raise DamagedCheckpointError(f"{path} does not match its checksum: its bytes have changed.")
    contents = json.loads(body)
    if (version := contents.pop("format")) not in FORMATS:
        raise CheckpointError(
            f"{path} has format {version!r}, but this version of muster reads formats {FORMATS[0]} to "
            f"{FORMATS[-1]}. Use the version that wrote it, or a newer one."
        )
    contents["variables"] = {
        name: VariableRecord(
            tuple(entry["shape"]), entry["dtype"], tuple(_decoded(piece) for piece in entry["pieces"])
        )
        for name, entry in contents["variables"].items()
    }
    contents["files"] = {name: FileRecord(**entry) for name, entry in contents["files"].items()}
    return Manifest(**contents)


def _encoded(record: VariableRecord) -> dict[str, Any]:
    entry = asdict(record)
    for piece in entry["pieces"]:
        for field in ("changes", "keyed"):
            if not piece[field]:
                del piece[field]
    return entry


def _decoded(piece: dict[str, Any]) -> Piece:
    changes = piece.pop("changes", None)
    return Piece(**piece, changes=None if changes is None else Changes(**changes))


def read_bytes(checkpoint: str) -> bytes:
    """Return the bytes of the manifest in a checkpoint's directory.

    Raises:
        CheckpointNotFoundError: There is none.
        CheckpointError: It cannot be read.
    """
    try:
        with open(os.path.join(checkpoint, FILE_NAME), "rb", opener=open_regular) as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError) as exc:
        raise CheckpointNotFoundError(
            f"There is no checkpoint at {checkpoint}: it has no {FILE_NAME}. "
            "list_checkpoints(directory) names those that there are."
        ) from exc
    except OSError as exc:
        raise CheckpointError(f"The checkpoint at {checkpoint} cannot be read: {exc}.") from exc


def read_manifest(checkpoint: str) -> Manifest:
    """Read the manifest in a checkpoint's directory; raises as `read_bytes` and `decode` do."""
    return decode(read_bytes(checkpoint), os.path.join(checkpoint, FILE_NAME))


def write_manifest(checkpoint: str, manifest: Manifest) -> None:
    """Write or replace the manifest in a checkpoint's directory, and wait until its bytes are on the disk.

    A reader sees the old manifest or the new one: the new one is written to a temporary file, which is then
    renamed.

    Raises:
        OSError: It cannot be written; the old manifest stays, and no temporary file is left.
    """
    temporary = os.path.join(checkpoint, UNFINISHED)
    data = encode(manifest)
    try:
        with open(temporary, "wb", opener=open_regular) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, os.path.join(checkpoint, FILE_NAME))
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def sync_directory(path: str) -> None:
    """Wait until the names in a directory are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as exc:
        # Mounted object stores have nothing to wait for, and say so in these ways.
        if exc.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)
