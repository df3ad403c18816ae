"""``tf.io.gfile``: files and directories of this machine."""

import glob as _glob
import os
import shutil
from collections.abc import Iterable, Iterator
from typing import IO, Any

Path = str | os.PathLike[str]


def exists(path: Path) -> bool:
    """Whether there is such a file or directory."""
    return os.path.exists(path)


def isdir(path: Path) -> bool:
    """Whether there is such a directory."""
    return os.path.isdir(path)


def makedirs(path: Path) -> None:
    """Make a directory and those above it; it may be there already."""
    os.makedirs(path, exist_ok=True)


mkdir = os.mkdir
remove = os.remove
stat = os.stat


def rmtree(path: Path) -> None:
    """Delete a directory and all that is in it."""
    shutil.rmtree(path)


def listdir(path: Path) -> list[str]:
    """The names of what is in a directory."""
    return os.listdir(path)


def glob(pattern: Path | Iterable[Path]) -> list[str]:
    """The paths that match a pattern, or one of several, in order of their names."""
    patterns = [pattern] if isinstance(pattern, str | os.PathLike) else list(pattern)
    return [path for each in patterns for path in sorted(_glob.glob(os.fspath(each)))]


def join(path: Path, *paths: Path) -> str:
    """A path of several parts."""
    return os.path.join(os.fspath(path), *(os.fspath(each) for each in paths))


def copy(src: Path, dst: Path, overwrite: bool = False) -> None:
    """Copy a file.

    Raises:
        FileExistsError: There is one at ``dst`` already, and ``overwrite`` is False.
    """
    _keep(dst, overwrite)
    shutil.copyfile(src, dst)


def rename(src: Path, dst: Path, overwrite: bool = False) -> None:
    """Give a file or directory another path.

    Raises:
        FileExistsError: as `copy`.
    """
    _keep(dst, overwrite)
    os.replace(src, dst)


def walk(top: Path, topdown: bool = True) -> Iterator[Any]:
    """The directories below one: ``(path, directories, files)``."""
    return os.walk(top, topdown=topdown)


def GFile(name: Path, mode: str = "r") -> IO[Any]:
    """Open a file, as ``open`` does; text is UTF-8."""
    return open(name, mode, encoding=None if "b" in mode else "utf-8")


def _keep(path: Path, overwrite: bool) -> None:
    if not overwrite and os.path.exists(path):
        raise FileExistsError(f"There is {os.fspath(path)!r} already. Give overwrite=True to replace it.")
