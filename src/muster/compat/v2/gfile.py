"""``tf.io.gfile``: its functions on files that differ from those of ``os`` and ``shutil``."""

import glob as _glob
import os
import shutil
from collections.abc import Iterable
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


def GFile(name: Path, mode: str = "r") -> IO[Any]:
    """Open a file, as ``open`` does; text is UTF-8."""
    return open(name, mode, encoding=None if "b" in mode else "utf-8")


def _refuse_existing(path: Path, overwrite: bool) -> None:
    if not overwrite and os.path.exists(path):
        raise FileExistsError(f"{os.fspath(path)!r} exists already. Give overwrite=True to replace it.")
