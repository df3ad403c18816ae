"""Changing what a checkpoint says of itself, without touching its arrays."""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from muster._errors import CheckpointError
from muster.checkpoint._manifest import FILE_NAME, encode, read_manifest


def amend_metadata(path: str | os.PathLike[str], changes: Mapping[str, Any]) -> None:
    """Sets entries of a checkpoint's metadata. A reader sees all of the changes or none.

    Args:
        path: The checkpoint's directory.
        changes: JSON, by name; other entries stay.

    Raises:
        CheckpointNotFoundError: There is no checkpoint at this path.
        DamagedCheckpointError: Its manifest is not what was written.
        CheckpointError: It cannot be written; it stays as it was.
        TypeError: The changes are not JSON.
    """
    manifest = read_manifest(os.fspath(path))
    amended = dataclasses.replace(manifest, metadata={**manifest.metadata, **changes})
    target = os.path.join(path, FILE_NAME)
    try:
        with open(target + ".tmp", "wb") as file:
            file.write(encode(amended))
            file.flush()
            os.fsync(file.fileno())
        os.replace(target + ".tmp", target)
    except OSError as exc:
        raise CheckpointError(f"The manifest {target} cannot be written: {exc.strerror}.") from exc
