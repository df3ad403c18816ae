"""``tf.io.gfile``: its functions on files that differ from those of ``os`` and ``shutil``."""

import glob as _glob
import io
import os
import shutil
from collections.abc import Iterable
from stat import S_ISDIR
from typing import IO, Any

Path = str | os.PathLike[str]


def makedirs(path: Path) -> None:
    """Make a directory and its parents, unless they exist."""
    os.makedirs(path, exist_ok=True)


def glob(pattern: Path | Iterable[Path]) -> list[str]:
    """Return the paths that match a pattern, sorted for each pattern."""
    patterns = [pattern] if isinstance(pattern, str | os.PathLike) else list(pattern)
    return [path for each in patterns for path in sorted(_glob.glob(os.fspath(each)))]


def copy(src: Path, dst: Path, overwrite: bool = False) -> None:
    """Copy a file.

    Raises:
        FileExistsError: ``dst`` exists, and ``overwrite`` is False.
    """
    _refuse_existing(dst, overwrite)
    shutil.copyfile(src, dst)


def rename(src: Path, dst: Path, overwrite: bool = False) -> None:
    """Move a file or directory.

    Raises:
        FileExistsError: ``dst`` exists, and ``overwrite`` is False.
    """
    _refuse_existing(dst, overwrite)
    os.replace(src, dst)


class FileStatistics:
    """What is known of a file; what ``os.stat`` says, too.

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
    return FileStatistics(os.stat(path))


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
    plain = mode.replace("b", "")
    if "b" not in mode:
        return _Text(open(name, f"{plain}b"), encoding="utf-8", newline="\n")
    return _Bytes(io.FileIO(name, plain)) if plain in ("w", "a") else open(name, mode)


def _refuse_existing(path: Path, overwrite: bool) -> None:
    if not overwrite and os.path.exists(path):
        raise FileExistsError(f"{os.fspath(path)!r} exists already. Give overwrite=True to replace it.")
