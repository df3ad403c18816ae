"""``tf.compat.v1.gfile``: functions on local files, with the arguments that TensorFlow 1 gave them.

Source: tensorflow/python/lib/io/file_io.py.
"""

from collections.abc import Iterable, Iterator

from muster_tensorflow.programs.v2 import gfile

Path = gfile.Path


def walk(top: Path, in_order: bool = True) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield each directory below one, with the names of its directories and files, as ``os.walk`` does."""
    return gfile.walk(top, in_order)


def make_directory(dirname: Path) -> None:
    """Make a directory, unless it exists."""
    if not gfile.isdir(dirname):
        gfile.mkdir(dirname)


def make_directories(dirname: Path) -> None:
    """Make a directory and its parents, unless they exist."""
    gfile.makedirs(dirname)


def copy(oldpath: Path, newpath: Path, overwrite: bool = False) -> None:
    """Copy a file; an existing one is replaced only if ``overwrite``."""
    gfile.copy(oldpath, newpath, overwrite)


def rename(oldname: Path, newname: Path, overwrite: bool = False) -> None:
    """Move a file or directory; an existing one is replaced only if ``overwrite``."""
    gfile.rename(oldname, newname, overwrite)


def remove(filename: Path) -> None:
    """Remove a file."""
    gfile.remove(filename)


def remove_directory(dirname: Path) -> None:
    """Remove a directory and all that is in it."""
    gfile.rmtree(dirname)


def exists(filename: Path) -> bool:
    """Return whether there is a file or directory."""
    return gfile.exists(filename)


def is_directory(dirname: Path) -> bool:
    """Return whether there is a directory."""
    return gfile.isdir(dirname)


def list_directory(dirname: Path) -> list[str]:
    """Return the names in a directory."""
    return gfile.listdir(dirname)


def matching_files(filename: Path | Iterable[Path]) -> list[str]:
    """Return the paths that match a pattern, sorted."""
    return gfile.glob(filename)


def stat(filename: Path) -> gfile.FileStatistics:
    """Return what is known of a file."""
    return gfile.stat(filename)


def read_file_to_string(filename: Path, binary_mode: bool = False) -> str | bytes:
    """Return what is in a file, as bytes if ``binary_mode``."""
    with gfile.GFile(filename, "rb" if binary_mode else "r") as file:
        content: str | bytes = file.read()
    return content


def write_string_to_file(filename: Path, file_content: str) -> None:
    """Write a file anew."""
    with gfile.GFile(filename, "w") as file:
        file.write(file_content)
