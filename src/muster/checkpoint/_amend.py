"""Changing a checkpoint's metadata without touching its arrays."""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from muster._errors import CheckpointError
from muster.checkpoint._manifest import read_manifest, sync_directory, write_manifest


def amend_metadata(path: str | os.PathLike[str], changes: Mapping[str, Any]) -> None:
    """Set entries of a checkpoint's metadata. A reader sees all of the changes or none.

    Args:
        path: The checkpoint's directory.
        changes: New values by key; other entries stay.

    Raises:
        CheckpointNotFoundError: There is no checkpoint at this path.
        DamagedCheckpointError: The manifest's bytes have changed since they were written.
        CheckpointError: The manifest cannot be written; it stays as it was.
        TypeError: The changes are not JSON.
    """
    path = os.fspath(path)
    manifest = read_manifest(path)
    try:
        write_manifest(path, dataclasses.replace(manifest, metadata={**manifest.metadata, **changes}))
        sync_directory(path)
    except OSError as exc:
        raise CheckpointError(f"The manifest of {path} cannot be written: {exc.strerror}.") from exc
