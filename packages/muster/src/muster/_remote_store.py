"""One file system of fsspec, and the working copy of what is used of it: see `muster._remote`."""

import contextlib
import itertools
import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple, TypeVar

from muster._clocks import date_now
from muster._errors import StorageError

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

# The names of files that are written last and deleted first: with them a folder is complete.
MANIFESTS = frozenset({"manifest.json", "saved_model.json"})
# Marks a folder whose manifest is not there yet, or not any more; see `checkpoint`.
UNFINISHED = "manifest.json.tmp"
# How the names of folders begin that are being written: those of exports.
_TEMPORARY = "temp-"
# The ending of a file that is being written, and then moved to its place.
PART = ".muster-part"
# Files up to this size are copied when their folder is looked at, in bytes.
_SMALL = 1 << 18
# How long the last look at a folder counts, in seconds.
_FRESH_SECS = 0.2
# The pauses before another attempt of a call that has failed, in seconds.
_PAUSES = 0.5, 1.0, 2.0, 4.0, 8.0
# How many files are fetched at the same time, at most.
_AT_ONCE = 16
# How to write large files in parts: by default, s3fs holds 500 MB of one in memory.
_PUT_OPTIONS: Mapping[str, Mapping[str, int]] = {"s3": {"chunksize": 1 << 24, "max_concurrency": 4}}
# What file systems call that which tells versions of a file apart.
_VERSIONS = "ETag", "etag", "md5Hash", "LastModified", "last_modified", "updated", "mtime", "created"


class _SyncedFile(NamedTuple):
    """A file as it was when both sides were the same.

    Attributes:
        remote: Its size and what tells its versions apart.
        local: Its size and time; None if it was not copied.
    """

    remote: tuple[Any, ...]
    local: tuple[int, int] | None


class ObjectStore:
    """The working copy of all that is used of one kind of URL.

    Keys are paths of the file system without a leading slash: those of S3 begin with the bucket.

    Args:
        scheme: The scheme, such as ``"s3"``.
        filesystem: The file system of fsspec.
        folder: The folder of all working copies of this process.
    """

    def __init__(self, scheme: str, filesystem: Any, folder: str) -> None:
        self.scheme = scheme
        self.folder = os.path.join(folder, scheme)
        self._fs = filesystem
        self._options = _PUT_OPTIONS.get(scheme, {})
        self._lead = "/" if filesystem.root_marker == "/" else ""
        # One thread at a time compares both sides; files are fetched meanwhile.
        self._comparing = threading.RLock()
        self._fetching = [threading.Lock() for _ in range(_AT_ONCE)]
        self._known: dict[str, _SyncedFile] = {}
        self._looked: dict[str, float] = {}

    def place(self, key: str) -> str:
        return os.path.join(self.folder, *key.split("/"))

    def key(self, path: str) -> str:
        return os.path.relpath(path, self.folder).replace(os.sep, "/")

    def url(self, key: str) -> str:
        return f"{self.scheme}://{key}"

    def _path(self, key: str) -> str:
        return self._lead + key

    def _call(self, what: str, key: str, call: Callable[[], _T]) -> _T:
        """Call the file system, again after a pause if it fails.

        Raises:
            FileNotFoundError: The file is not there.
            StorageError: It has failed too often, or refuses.
        """
        pauses = iter(_PAUSES)
        while True:
            try:
                return call()
            except (FileNotFoundError, FileExistsError):
                raise
            except Exception as exc:  # each file system has its own
                pause = next(pauses, None)
                if pause is None or isinstance(exc, PermissionError | NotImplementedError | ValueError):
                    reason = f"{str(exc) or type(exc).__name__}{_by_clock(exc, date_now())}"
                    raise StorageError(f"{self.url(key)} cannot be {what}: {reason}") from exc
                _log.warning("%s cannot be %s (%s); again in %g s.", self.url(key), what, exc, pause)
                time.sleep(pause)

    def info(self, key: str) -> dict[str, Any] | None:
        """Return what the file system says of a path; None if there is nothing."""
        self._fs.invalidate_cache()
        with contextlib.suppress(FileNotFoundError):
            found: dict[str, Any] = self._call("looked at", key, lambda: self._fs.info(self._path(key)))
            return found
        return None

    def glob(self, pattern: str) -> list[str]:
        """Return the keys of what matches a pattern, sorted."""
        self._fs.invalidate_cache()
        found = self._call("listed", pattern, lambda: self._fs.glob(self._path(pattern)))
        return sorted(path.lstrip("/") for path in found)

    def refresh(self, key: str) -> None:
        """Take over what others have changed at a path and below it."""
        with self._comparing:
            now = time.monotonic()
            if now - self._looked.get(key, -_FRESH_SECS) < _FRESH_SECS:
                return
            self._looked[key] = now
            self._fs.invalidate_cache()
            try:
                listed = self._call(
                    "listed", key, lambda: self._fs.find(self._path(key), detail=True, withdirs=False)
                )
            except FileNotFoundError:
                listed = {}
            remote = {path.lstrip("/"): _tag(info) for path, info in listed.items() if not path.endswith("/")}
            for known in self._below(key):
                if known not in remote and not self._is_changed(known):
                    self._known.pop(known, None)
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(self.place(known))
                    self._prune(os.path.dirname(self.place(known)))
            small = []
            for each, tag in remote.items():
                known_now = self._known.get(each)
                if known_now is not None and (known_now.remote == tag or self._is_changed(each)):
                    continue
                os.makedirs(os.path.dirname(self.place(each)), exist_ok=True)
                if tag[0] is not None and tag[0] <= _SMALL:
                    small.append(each)
                    continue
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self.place(each))
                self._known[each] = _SyncedFile(tag, None)
            for each in small:
                # Over the one before: who reads meanwhile finds one of both.
                with contextlib.suppress(FileNotFoundError), self._fetching[hash(each) % _AT_ONCE]:
                    self._copy(each, remote[each])

    def fetch(self, key: str) -> None:
        """Copy a file, unless it is here.

        Raises:
            FileNotFoundError: There is none.
        """
        place = self.place(key)
        if os.path.exists(place):
            return
        with self._fetching[hash(key) % _AT_ONCE]:
            if os.path.exists(place):
                return
            if (known := self._known.get(key)) is not None:
                self._copy(key, known.remote)
                return
            found = self.info(key)
            if found is not None and found.get("type") != "directory":
                self._copy(key, _tag(found))

    def _copy(self, key: str, remote: tuple[Any, ...]) -> None:
        """Copy a file that is as ``remote`` says to its place, or over what is there."""
        place = self.place(key)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        part = f"{place}{PART}"
        try:
            self._call("read", key, lambda: self._fs.get_file(self._path(key), part))
            os.replace(part, place)
        except FileNotFoundError:  # deleted since it was listed
            self._known.pop(key, None)
            self._looked.clear()
            with contextlib.suppress(FileNotFoundError):
                os.unlink(place)
            raise
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(part)
        self._known[key] = _SyncedFile(remote, _stat(place))

    def fetch_all(self, key: str) -> None:
        """Copy all files at a path and below it."""
        self.refresh(key)
        for each in self._below(key):
            self.fetch(each)

    def publish(self, key: str, *, whole: bool = False) -> None:
        """Send what this process has written at a path and below it.

        Nothing is deleted because it is not here: somebody else may tidy up temporary folders.

        Args:
            key: The path.
            whole: Whether this process has written, or deleted, all that was there: what is not here is
                deleted.

        Raises:
            StorageError: It cannot be written. What is not sent is by the next call.
        """
        with self._comparing:
            written = [each for each in self._local(key) if self._is_changed(each)]
            below = self._below(key) if whole else []
            gone = [each for each in below if not os.path.exists(self.place(each))]
            marks = [f"{folder}/{UNFINISHED}" for folder in _partly(written) | _partly(gone)]
            for mark in marks:
                self.write(mark, b"")
            for each in filter(_is_manifest, gone):
                self._delete(each)
            for each in sorted(written, key=_is_manifest):
                self._send(each)
            for each in (*itertools.filterfalse(_is_manifest, gone), *marks):
                self._delete(each)

    def _send(self, key: str) -> None:
        place = self.place(key)
        try:
            local = _stat(place)
        except FileNotFoundError:
            return  # deleted since it was listed
        try:
            self._put(key, lambda: self._fs.put_file(place, self._path(key), **self._options))
        except (FileNotFoundError, StorageError):
            if os.path.exists(place):
                raise
            return  # deleted meanwhile
        found = self.info(key)
        self._known[key] = _SyncedFile(() if found is None else _tag(found), local)

    def _put(self, key: str, put: Callable[[], Any]) -> None:
        """Write a file, in a folder that is made where there are folders."""
        try:
            self._call("written", key, put)
        except FileNotFoundError as exc:
            if not self._lead:
                raise StorageError(f"{self.url(key)} cannot be written: {self._missing(key, exc)}") from exc
            self._call(
                "made", key, lambda: self._fs.makedirs(os.path.dirname(self._path(key)), exist_ok=True)
            )
            self._call("written", key, put)

    def _missing(self, key: str, error: FileNotFoundError) -> str:
        """Return what was not found when a file was to be written where there are no folders."""
        bucket = key.split("/")[0]
        with contextlib.suppress(StorageError):
            if self.info(bucket) is None:
                return f"there is no bucket {self.url(bucket)}."
        return str(error) or type(error).__name__

    def _delete(self, key: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._call("deleted", key, lambda: self._fs.rm_file(self._path(key)))
        self._known.pop(key, None)

    def _below(self, key: str) -> list[str]:
        return [each for each in list(self._known) if each == key or each.startswith(f"{key}/") or not key]

    def _local(self, key: str) -> Iterator[str]:
        place = self.place(key)
        if os.path.isfile(place):
            yield key
        for folder, folders, names in os.walk(place):
            folders[:] = [each for each in folders if not each.startswith(_TEMPORARY)]
            for name in names if UNFINISHED not in names else ():
                if not name.endswith((".lock", PART)):
                    yield self.key(os.path.join(folder, name))

    def _is_changed(self, key: str) -> bool:
        """Return whether this process has written a file since both sides were the same."""
        try:
            now = _stat(self.place(key))
        except FileNotFoundError:
            return False
        known = self._known.get(key)  # a thread that fetches may change it
        return known is None or known.local != now

    def _prune(self, folder: str) -> None:
        """Remove a folder of which others have deleted the last file, and those around it."""
        while folder.startswith(self.folder) and folder != self.folder:
            if any(each.startswith(f"{self.key(folder)}/") for each in list(self._known)):
                return
            try:
                os.rmdir(folder)
            except OSError:
                return
            folder = os.path.dirname(folder)

    def read(self, key: str) -> bytes | None:
        """Return a file's bytes as they are there now; None if there is none."""
        self._fs.invalidate_cache()
        with contextlib.suppress(FileNotFoundError):
            data: bytes = self._call("read", key, lambda: self._fs.cat_file(self._path(key)))
            return data
        return None

    def write(self, key: str, data: bytes, *, new: bool = False) -> bool:
        """Write a file; returns False if it is to be new and there is one."""
        if not new:
            self._put(key, lambda: self._fs.pipe_file(self._path(key), data))
            return True
        try:
            self._put(key, lambda: self._create(key, data))
        except FileExistsError:
            return False
        return True

    def _create(self, key: str, data: bytes) -> None:
        try:
            self._fs.pipe_file(self._path(key), data, mode="create")
        except (NotImplementedError, TypeError):  # no conditional put: who reads its token again has it
            if self.info(key) is not None:
                raise FileExistsError(key) from None
            self._fs.pipe_file(self._path(key), data)

    def delete(self, key: str) -> None:
        """Delete a file, if there is one."""
        self._delete(key)


def _by_clock(error: BaseException, now: float) -> str:
    """Return how far this machine's clock is off, if S3 refuses a request for its date; empty if it does not.

    Args:
        error: What the file system has raised, or botocore below it.
        now: The time now, by this machine's clock.
    """
    cause: BaseException | None = error
    while cause is not None:
        response: Mapping[str, Any] = getattr(cause, "response", None) or {}
        if response.get("Error", {}).get("Code") == "RequestTimeTooSkewed":
            told = response.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date", "")
            with contextlib.suppress(ValueError):
                ahead = now - parsedate_to_datetime(told).timestamp()
                how = "ahead of" if ahead > 0 else "behind"
                return (
                    f" This machine's clock is {abs(ahead):.0f} s {how} the store's: set it, such as by NTP."
                )
        cause = cause.__cause__
    return ""


def _is_manifest(key: str) -> bool:
    return os.path.basename(key) in MANIFESTS


def _partly(keys: Collection[str]) -> set[str]:
    """Return the folders whose manifest is among some files, and others of their files, too."""
    folders = {os.path.dirname(key) for key in keys if _is_manifest(key)}
    return folders & {os.path.dirname(key) for key in keys if not _is_manifest(key)}


def _stat(place: str) -> tuple[int, int]:
    found = os.stat(place)
    return found.st_size, found.st_mtime_ns


def _tag(info: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return a file's size, and what tells its versions apart, as far as its file system says that."""
    versions = (info.get(name) for name in _VERSIONS)
    return info.get("size"), str(next((each for each in versions if each is not None), None))
