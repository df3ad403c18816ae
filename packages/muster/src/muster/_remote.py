"""Working copies of what lies on an object store, such as ``s3://``, or any other file system of fsspec.

muster works on local files. Of what a program uses elsewhere it has a *working copy* in a temporary folder of
its process: `working_path` returns the place of a URL in it, and that place is used like any other. What is
remote counts:

- `refresh` takes over what others have written or deleted below a path. Small files are copied at once.
- `fetch` copies a file when it is opened.
- `publish` sends what this process has written below a path: contents first, the files that say what is
  complete last, so that readers elsewhere find all of a checkpoint or an export, or none of it. It deletes
  only where it is told that all of a path was written anew or deleted.

So nothing depends on renaming, locking or appending, which object stores lack, and a failed or killed process
leaves no half written file. A process needs room for what it reads and writes, in ``$TMPDIR``.
"""

import fcntl
import functools
import glob
import logging
import os
import shutil
import tempfile
import threading
import time
from typing import Any

from muster._errors import PathError, StorageError
from muster._extras import working_command
from muster._remote_store import ObjectStore
from muster.lifecycle import at_block_end

_log = logging.getLogger(__name__)

# How often files that grow, such as summaries, are sent, in seconds.
_SOON_SECS = 10.0
# Folders of working copies; how they are called until they are locked.
_PREFIX, _NEW = "muster-remote-", "muster-new-remote-"

_stores: dict[str, ObjectStore] = {}
_making = threading.Lock()
_soon: set[str] = set()


def working_path(scheme: str, rest: str, *, fetch: bool = True) -> str:
    """Return the place of a URL in this process' working copy.

    Args:
        scheme: The scheme, such as ``"s3"``.
        rest: What follows the scheme's colon.
        fetch: Whether to look at what is there, and to copy it if it is a file.

    Raises:
        PathError: There is no file system for the scheme, or it has no such URL.
        StorageError: The file system cannot be asked.
    """
    key = rest.strip("/")
    if not key or ".." in key.split("/"):
        raise PathError(f"'{scheme}:{rest}' is not a path that muster can use: it names no file or folder.")
    store = _store(scheme, rest)
    place = store.place(key)
    if fetch:
        found = store.info(key)
        if found is not None and found.get("type") != "directory":
            store.fetch(key)
        else:
            store.refresh(key)
    os.makedirs(os.path.dirname(place), exist_ok=True)
    return place


def matching(pattern: str) -> list[str]:
    """Return the places of what matches a pattern in a working copy; nothing for other patterns."""
    store = _of(pattern)
    return [] if store is None else [store.place(key) for key in store.glob(store.key(pattern))]


def remote_url(path: str) -> str:
    """Return the URL of a place in a working copy, and any other path as it is."""
    store = _of(path)
    return path if store is None else store.url(store.key(path))


def in_working_copy(path: str) -> bool:
    """Return whether a place is in a working copy of this process."""
    return _of(path) is not None


def refresh(path: str) -> None:
    """Take over what others have changed at a place of a working copy; does nothing for other paths."""
    if (store := _of(path)) is not None:
        store.refresh(store.key(path))


def fetch(path: str) -> None:
    """Copy a file to its place, unless it is here or there is none; does nothing for other paths."""
    if (store := _of(path)) is not None:
        store.fetch(store.key(path))


def fetch_all(path: str) -> None:
    """Copy all files at and below a place; does nothing for other paths."""
    if (store := _of(path)) is not None:
        store.fetch_all(store.key(path))


def publish(path: str, *, whole: bool = False) -> None:
    """Send what this process has written at a place; does nothing for other paths.

    Args:
        path: The place.
        whole: Whether this process has written, or deleted, all that was there: what is not here is deleted.

    Raises:
        StorageError: It cannot be written.
    """
    if (store := _of(path)) is not None:
        store.publish(store.key(path), whole=whole)


def publish_soon(path: str) -> None:
    """Send a file that grows within some seconds, and at the end; does nothing for other paths."""
    if _of(path) is not None:
        at_block_end(_send_left)
        with _making:
            _soon.add(path)


class RemoteFile:
    """A small file of an object store that several processes read and write, without a copy.

    Args:
        path: Its place in a working copy.
    """

    def __init__(self, path: str) -> None:
        store = _of(path)
        if store is None:
            raise ValueError(f"{path} is in no working copy")
        self._store, self._key = store, store.key(path)

    @staticmethod
    def at(path: str) -> "RemoteFile | None":
        """Return the file if a path is in a working copy."""
        return None if _of(path) is None else RemoteFile(path)

    def read(self) -> bytes | None:
        """Return its bytes; None if it is not there."""
        return self._store.read(self._key)

    def write(self, data: bytes, *, new: bool = False) -> bool:
        """Write it; returns False if it is to be new and is there. A store decides that where it can."""
        return self._store.write(self._key, data, new=new)

    def delete(self) -> None:
        """Delete it, if it is there."""
        self._store.delete(self._key)


def _of(path: str) -> ObjectStore | None:
    for store in [*_stores.values()]:
        if path.startswith(store.folder) and path[len(store.folder) :][:1] in ("", "/"):
            return store
    return None


def _store(scheme: str, rest: str) -> ObjectStore:
    with _making:
        if scheme not in _stores:
            filesystem = _filesystem(scheme, rest)
            _stores[scheme] = ObjectStore(scheme, filesystem, _root())
        return _stores[scheme]


def _filesystem(scheme: str, rest: str) -> Any:
    try:
        import fsspec  # type: ignore[import-untyped]

        return fsspec.filesystem(scheme)
    except Exception as exc:  # each file system has its own
        how = "Or mount it"
        if scheme in ("s3", "s3a"):
            how = f"Run: {working_command('s3')}"
        elif scheme in ("gs", "gcs"):
            how = f"Run: {working_command('gcs')}"
        raise PathError(
            f"'{scheme}:{rest}' is not a path that muster can use: it has no file system for {scheme}:// "
            f"({str(exc).rstrip('.')}). {how}, or give a folder of this machine."
        ) from exc


@functools.cache
def _root() -> str:
    """Make the folder of this process' working copies, which goes with it; those of killed ones go now."""
    around = os.path.realpath(tempfile.gettempdir())
    for path in glob.glob(os.path.join(glob.escape(around), f"{_PREFIX}*")):
        # Its process holds a lock, also one in another container, whose number would mean nothing here.
        if (lock := _locked(path)) is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(lock)
    made = tempfile.mkdtemp(prefix=_NEW, dir=around)
    _locked(made)  # until the process ends
    folder = made.replace(_NEW, f"{_PREFIX}{os.getpid()}-")
    os.rename(made, folder)
    threading.Thread(target=_publish_often, name="muster-remote", daemon=True).start()
    # Before pools of threads are closed, which file systems use: what is registered later is called earlier.
    threading._register_atexit(_finish, os.getpid(), folder)  # type: ignore[attr-defined]
    return folder


def _locked(folder: str) -> int | None:
    """Lock a folder; returns its descriptor, or None if it is locked, or somebody else's."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _publish_often() -> None:
    while True:
        time.sleep(_SOON_SECS)
        with _making:
            paths = [*_soon]
            _soon.clear()
        for path in paths:
            try:
                publish(path)
            except StorageError as exc:
                _log.error("%s. It is tried again.", exc)
                publish_soon(path)


def _finish(pid: int, folder: str) -> None:
    """Send what is left, and remove the working copies."""
    if pid == os.getpid() and _send_left():
        shutil.rmtree(folder, ignore_errors=True)


def _send_left(error: BaseException | None = None) -> bool:
    """Send what is left of all stores; returns False, and says where it is, if that fails."""
    try:
        for store in [*_stores.values()]:
            store.publish("")
    except StorageError as exc:
        _log.error("%s. What this process has written is in %s.", exc, _root())
        return False
    return True
