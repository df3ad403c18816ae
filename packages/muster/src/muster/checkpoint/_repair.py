"""Restoring checkpoints that have lost their manifest, their name, or the names of their files."""

import os
from contextlib import closing
from dataclasses import replace

from muster._errors import CheckpointError, CheckpointNotFoundError, DamagedCheckpointError
from muster._paths import local_path
from muster._remote import remote_url
from muster.checkpoint._arrays import FileRecord, describe
from muster.checkpoint._layout import (
    checkpoint_path,
    holds_data,
    is_complete,
    is_named,
    scan,
    stray_checkpoints,
)
from muster.checkpoint._lease import Lease
from muster.checkpoint._manifest import FILE_NAME, decode, read_manifest, write_manifest
from muster.checkpoint._read import check_checkpoint


def repair(directory: str | os.PathLike[str]) -> list[str]:
    """Restore what can be restored of the checkpoints in a directory, and delete no data.

    A data file says what it holds, so that a manifest can be rebuilt from it; what was added to the manifest
    later is lost, and whether bytes have changed cannot be told. Checkpoints and data files that have other
    names get their own. Bytes that have changed stay so.

    Args:
        directory: The directory of the checkpoints, or a ckpt-N in it.

    Returns:
        A line for each checkpoint that was not intact: what was done, or why nothing could be.

    Raises:
        DirectoryInUseError: A process writes into the directory.
        CheckpointError: The directory cannot be listed, or is on an object store.
    """
    directory = os.path.abspath(local_path(directory, remote=True, fetch=False))
    if (url := remote_url(directory)) != directory:
        raise CheckpointError(
            f"{url} is on an object store, where nothing is repaired in place: copy it into a local folder, "
            "repair that, and copy it back."
        )
    if is_named(directory) and holds_data(directory):
        directory = os.path.dirname(directory)
    with closing(Lease(directory)):
        paths = {*filter(is_complete, scan(directory)), *stray_checkpoints(directory)}
        return [line for path in sorted(paths) for line in _repair(directory, path)]


def _repair(directory: str, path: str) -> list[str]:
    """Repair a checkpoint, and return what to say of it: nothing if it is intact."""
    done = []
    try:
        try:
            step = check_checkpoint(path)
        except (CheckpointNotFoundError, DamagedCheckpointError):
            done += _restore_files(path)
            step = check_checkpoint(path)
        if path != (own := checkpoint_path(directory, step)):
            _move(directory, path, own)
            done.append(f"moved to {own}")
    except (CheckpointError, OSError) as exc:
        done.append(f"not restored: {exc}")
    return [f"{path}: {', '.join(done)}"] if done else []


def _restore_files(path: str) -> list[str]:
    """Restore the manifest, or the names of the files that are in it, and return what was done."""
    names = [name for name in sorted(os.listdir(path)) if name.endswith(".safetensors")]
    found = {name: describe(os.path.join(path, name)) for name in names}
    try:
        manifest = read_manifest(path)
    except (CheckpointNotFoundError, DamagedCheckpointError) as exc:
        telling = [name for name in names if found[name][1]]
        if len(telling) != 1:
            raise DamagedCheckpointError(
                "a manifest can be rebuilt from one data file that says what the checkpoint holds, but there "
                f"are {len(telling)}"
            ) from exc
        _rebuild_manifest(path, telling[0], *found[telling[0]])
        return [f"{FILE_NAME} rebuilt from {telling[0]} (whether bytes of it have changed cannot be told)"]
    renamed = []
    for wanted in manifest.files.keys() - found.keys():
        for name, (record, _) in found.items():
            if record == manifest.files[wanted] and name not in manifest.files:
                os.rename(os.path.join(path, name), os.path.join(path, wanted))
                renamed.append(f"{name} renamed to {wanted}")
                break
    return renamed


def _rebuild_manifest(path: str, name: str, record: FileRecord, description: str) -> None:
    manifest = decode(description.encode(), os.path.join(path, name))
    others = manifest.files  # parts that other processes wrote
    variables = {
        key: replace(
            variable,
            pieces=tuple(
                piece if piece.file in others else replace(piece, file=name) for piece in variable.pieces
            ),
        )
        for key, variable in manifest.variables.items()
    }
    write_manifest(path, replace(manifest, variables=variables, files={**others, name: record}))


def _move(directory: str, path: str, own: str) -> None:
    """Move a checkpoint, or its files if the directory itself is the checkpoint."""
    if os.path.lexists(own):
        raise CheckpointError(f"it is of the same step as {own}; move one of the two elsewhere")
    if path != directory:
        os.rename(path, own)
        return
    os.mkdir(own)
    for name in (*read_manifest(path).files, FILE_NAME):
        os.rename(os.path.join(path, name), os.path.join(own, name))
