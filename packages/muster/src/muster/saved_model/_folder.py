"""The folder of a saved model: written beside its place, then moved there; read with checksums."""

import errno
import os
import secrets
import shutil
import zlib
from collections.abc import Callable, Mapping

from muster._errors import DamagedSavedModelError, SavedModelError, SavedModelNotFoundError
from muster._paths import local_path
from muster._remote import publish
from muster.checkpoint import FileRecord, open_regular, replace_folder, sync_directory
from muster.saved_model._manifest import MANIFEST, SavedModelManifest, decode, encode

TEMPORARY = "temp-"
# What Keras writes for `model.save(folder, zipped=False)`.
_OF_KERAS = {"config.json", "metadata.json", "model.weights.h5", "assets"}


def contains_saved_model(export_dir: str | bytes | os.PathLike[str]) -> bool:
    """Return whether a folder has a saved model that was written to its end.

    Source: ``contains_saved_model`` (tensorflow/python/saved_model/loader_impl.py).
    """
    return os.path.isfile(os.path.join(local_path(export_dir, remote=True), MANIFEST))


def write_folder(path: str, fill: Callable[[str], SavedModelManifest]) -> None:
    """Write a saved model at a path: readers see all of it, or none.

    Args:
        path: The folder, which an earlier saved model may have, or a model that Keras has saved in a folder;
            its parents are made.
        fill: Writes the files into the folder that it is given, and returns the manifest.

    Raises:
        FileExistsError: There is something else at the path.
        OSError: A file cannot be written; nothing is left of the saved model.
    """
    path = os.path.realpath(path)  # of a link the target is replaced
    parent, name = os.path.split(path)
    if os.path.lexists(path) and not (contains_saved_model(path) or _is_empty(path) or _is_of_keras(path)):
        raise FileExistsError(errno.EEXIST, "There is something that is no saved model", path)
    temporary = os.path.join(parent, f"{TEMPORARY}{name}-{secrets.token_hex(4)}")
    os.makedirs(temporary)
    try:
        manifest = fill(temporary)
        write_file(os.path.join(temporary, MANIFEST), encode(manifest))
        for folder, _, _ in os.walk(temporary):
            sync_directory(folder)
        replace_folder(path, temporary, f"{temporary}.old")
        sync_directory(parent)
        publish(path, whole=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(f"{temporary}.old", ignore_errors=True)


def write_file(path: str, data: bytes) -> FileRecord:
    """Write a new file, wait until it is on the disk, and return its size and checksum."""
    with open(path, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return FileRecord(len(data), zlib.crc32(data))


def read_manifest(path: str) -> SavedModelManifest:
    """Read the manifest of a saved model.

    Raises:
        SavedModelNotFoundError: There is none at the path, or a half written one.
        DamagedSavedModelError: The manifest's bytes have changed.
        SavedModelError: It cannot be read, or has an unknown format.
    """
    file = os.path.join(path, MANIFEST)
    try:
        with open(file, "rb", opener=open_regular) as opened:
            data = opened.read()
    except (FileNotFoundError, NotADirectoryError) as exc:
        raise SavedModelNotFoundError(_what_is_there(path)) from exc
    except OSError as exc:
        raise SavedModelError(f"The saved model at {path} cannot be read: {exc}.") from exc
    return decode(data, file)


def read_file(path: str, name: str, files: Mapping[str, FileRecord]) -> bytes:
    """Read a file of a saved model, and check its bytes.

    Raises:
        DamagedSavedModelError: It is missing, or its bytes have changed.
        SavedModelError: It cannot be read.
    """
    file, record = os.path.join(path, name), files[name]
    try:
        with open(file, "rb", opener=open_regular) as opened:
            data = opened.read()
    except FileNotFoundError as exc:
        raise missing(path, name) from exc
    except OSError as exc:
        raise SavedModelError(f"{file} cannot be read: {exc}.") from exc
    if FileRecord(len(data), zlib.crc32(data)) != record:
        raise DamagedSavedModelError(
            f"{file} has {len(data)} bytes and checksum {zlib.crc32(data):08x}, but {record.bytes} and "
            f"{record.crc32:08x} were written: its bytes have changed. Export the model again."
        )
    return data


def missing(path: str, name: str) -> DamagedSavedModelError:
    """Make the error for a file that a saved model lacks."""
    return DamagedSavedModelError(
        f"The saved model at {path} lacks its file {name}. Copy the whole folder, or export the model again."
    )


def _is_of_keras(path: str) -> bool:
    """Return whether there is a folder with a model of Keras, and nothing else."""
    names = set(os.listdir(path)) if os.path.isdir(path) else set()
    return _OF_KERAS - {"assets"} <= names <= _OF_KERAS


def _is_empty(path: str) -> bool:
    return os.path.isdir(path) and not os.listdir(path)


def _what_is_there(path: str) -> str:
    if not os.path.isdir(path):
        return f"There is no saved model at {path}: there is no such folder."
    if os.path.basename(os.path.abspath(path)).startswith(TEMPORARY):
        return (
            f"{path} is half written: its export has not ended, or was interrupted. Export the model again."
        )
    if os.path.isfile(os.path.join(path, "saved_model.pb")):
        return (
            f"{path} has a saved model of TensorFlow's, which cannot be loaded. `muster convert` makes "
            "a checkpoint of its weights."
        )
    versions = [name for name in sorted(os.listdir(path)) if contains_saved_model(os.path.join(path, name))]
    there = f" Its folder {versions[-1]} has one." if versions else ""
    return f"There is no saved model in {path}: it has no {MANIFEST}.{there}"
