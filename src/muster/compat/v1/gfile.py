"""``tf.compat.v1.gfile``: functions on files whose arguments differ from those of ``os``."""

import os
from collections.abc import Iterator

Path = str | os.PathLike[str]


def walk(top: Path, in_order: bool = True) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield each directory below one, with the names of its directories and files, as ``os.walk`` does."""
    return os.walk(os.fspath(top), topdown=in_order)


def make_directory(dirname: Path) -> None:
    """Make a directory, unless it exists."""
    if not os.path.isdir(dirname):
        os.mkdir(dirname)
