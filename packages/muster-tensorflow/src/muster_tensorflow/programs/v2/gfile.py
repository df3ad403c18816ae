"""``tf.io.gfile``: functions on local files, whose paths may be ``file:///x``."""

import glob as _glob
import io
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from stat import S_ISDIR
from typing import IO, Any

from muster.extend import local_path

Path = str | bytes | os.PathLike[str]


def exists(path: Path) -> bool:
    """Return whether there is a file or directory."""
    return os.path.exists(local_path(path))


def isdir(path: Path) -> bool:
    """Return whether there is a directory."""
    return os.path.isdir(local_path(path))


def listdir(path: Path) -> list[str]:
    """Return the names in a directory."""
    return os.listdir(local_path(path))


def mkdir(path: Path) -> None:
    """Make a directory, whose parent is there."""
    os.mkdir(local_path(path))


def remove(path: Path) -> None:
    """Remove a file."""
    os.remove(local_path(path))


def rmtree(path: Path) -> None:
    """Remove a directory and all that is in it."""
    shutil.rmtree(local_path(path))


def walk(
    top: Path, topdown: bool = True, onerror: Callable[[OSError], object] | None = None
) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield each directory below one, with the names of its directories and files, as ``os.walk`` does."""
    return os.walk(local_path(top), topdown, onerror)


def makedirs(path: Path) -> None:
    """Make a directory and its parents, unless they exist."""
    os.makedirs(local_path(path), exist_ok=True)


def glob(pattern: Path | Iterable[Path]) -> list[str]:
    """Return the paths that match a pattern, sorted for each pattern."""
    patterns = [pattern] if isinstance(pattern, str | bytes | os.PathLike) else list(pattern)
    return [path for each in patterns for path in sorted(_glob.glob(local_path(each)))]


def copy(src: Path, dst: Path, overwrite: bool = False) -> None:
    """Copy a file.

    Raises:
        FileExistsError: ``dst`` exists, and ``overwrite`` is False.
    """
    source, target = local_path(src), local_path(dst)
    _refuse_existing(target, overwrite)
    shutil.copyfile(source, target)


def rename(src: Path, dst: Path, overwrite: bool = False) -> None:
    """Move a file or directory.

    Raises:
        FileExistsError: ``dst`` exists, and ``overwrite`` is False.
    """
    source, target = local_path(src), local_path(dst)
    _refuse_existing(target, overwrite)
    os.replace(source, target)


class FileStatistics:
    """The status of a file, with all attributes of ``os.stat``'s result.

    Attributes:
        length: The number of bytes.
        mtime_nsec: When it was changed, in nanoseconds since the epoch.
        is_directory: Whether it is a directory.

    Source: tensorflow/python/lib/io/file_io.py, ``stat_v2``.
    """

    def __init__(self, found: os.stat_result) -> None:
        self._found = found
        self.length = found.st_size
        self.mtime_nsec = found.st_mtime_ns
        self.is_directory = S_ISDIR(found.st_mode)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._found, name)


def stat(path: Path) -> FileStatistics:
    """Return what is known of a file."""
    return FileStatistics(os.stat(local_path(path)))


class _Text(io.TextIOWrapper):
    """A file of text, which takes bytes as well."""

    def write(self, text: Any) -> int:
        if not isinstance(text, bytes):
            return super().write(text)
        self.flush()
        self.buffer.write(text)
        return len(text)


class _Bytes(io.BufferedWriter):
    """A file of bytes, which takes text as well."""

    def write(self, content: Any) -> int:
        return super().write(content.encode() if isinstance(content, str) else content)


def GFile(name: Path, mode: str = "r") -> IO[Any]:
    """Open a file; text is UTF-8, its lines end with a newline alone, and files to write take text and bytes.

    Source: ``FileIO`` (tensorflow/python/lib/io/file_io.py).
    """
    name, plain = local_path(name), mode.replace("b", "")
    if "b" not in mode:
        return _Text(open(name, f"{plain}b"), encoding="utf-8", newline="\n")
    return _Bytes(io.FileIO(name, plain)) if plain in ("w", "a") else open(name, mode)


def _refuse_existing(path: str, overwrite: bool) -> None:
    if not overwrite and os.path.exists(path):
        raise FileExistsError(f"{path!r} exists already. Give overwrite=True to replace it.")
