"""Base classes of sources that read files, and compression."""

import glob
import gzip
import io
import os
import zlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np

from muster._errors import DatasetError
from muster._paths import local_path
from muster._remote import fetch, matching, remote_url
from muster.data.pipeline._handles import Chain, Handles, Loaded, Stacked, Stream
from muster.data.pipeline._node import UNKNOWN, Epoch, Node, Run, TableSource, without_cached
from muster.data.pipeline._spec import TensorSpec
from muster.data.pipeline._structure import flatten

_SHOWN = 5
_BUFFER = 1 << 18  # bytes
_INFLATED = 1 << 16  # bytes

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""A path, or a sequence of paths."""


class FileSource(Node):
    """The elements of files, one file after the other.

    Args:
        files: Paths.

    Attributes:
        kind: The name of the dataset, for messages.
    """

    kind: str

    def __init__(self, files: Sequence[str]):
        super().__init__()
        self.files = tuple(files)

    @property
    def label(self) -> str:
        return files_label(self.kind, self.files)

    def with_files(self, files: Sequence[str]) -> Self:
        """Return the same source with other files."""
        other = without_cached(self)
        other.files = tuple(files)
        return other


def files_label(kind: str, files: Sequence[str]) -> str:
    """Return the label of a source of files, without folders: a position is valid for a copy elsewhere."""
    names = zlib.crc32("\n".join(map(os.path.basename, files)).encode())
    return f"{kind}({len(files)} files, names {names:08x})"


def paths_of(kind: str, filenames: Any) -> tuple[str, ...]:
    """Return the paths in an argument of the user: a path, or a list or array of paths.

    Raises:
        TypeError: It holds something else.
        ValueError: It holds nothing.
    """
    if isinstance(filenames, str | bytes | os.PathLike):
        filenames = [filenames]
    elif isinstance(filenames, np.ndarray):
        filenames = filenames.reshape(-1).tolist()
    elif not isinstance(filenames, list | tuple):
        raise TypeError(f"{kind} needs a path or a list of paths, got {filenames!r}.")
    leaves = flatten(tuple(filenames))
    for leaf in leaves:
        if not isinstance(leaf, str | bytes | os.PathLike):
            raise TypeError(f"{kind} needs paths, got {leaf!r} of type {type(leaf).__name__}.")
    if not leaves:
        raise ValueError(f"{kind} needs at least one file, got {filenames!r}.")
    return tuple(local_path(leaf, remote=True, fetch=False) for leaf in leaves)


def missing_file(kind: str, path: str, files: Iterable[str], exc: OSError) -> DatasetError:
    """Return the error for a file that cannot be opened, which lists the files beside it."""
    if not isinstance(exc, FileNotFoundError):
        return DatasetError(f"{kind} cannot open {remote_url(path)}: {exc.strerror}.")
    folder = os.path.dirname(path) or "."
    try:
        there = sorted(os.listdir(folder))
    except OSError:
        found = f"The folder {remote_url(folder)} is not there either"
    else:
        found = f"In {remote_url(folder)} there is {_some(there) if there else 'nothing'}"
    looked = f"It looked for {_some(map(remote_url, files))}"
    return DatasetError(f"{kind} has found no file {remote_url(path)}. {looked}. {found}.")


def _some(names: Iterable[str]) -> str:
    names = list(names)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def check_compression(compression_type: str | None) -> str:
    """Return ``GZIP``, ``ZLIB``, or an empty string for no compression.

    Raises:
        ValueError: `compression_type` is something else.
    """
    compression = compression_type or ""
    if compression not in ("", "GZIP", "ZLIB"):
        raise ValueError(f"compression_type is 'GZIP', 'ZLIB', '' or None, got {compression_type!r}.")
    return compression


def open_binary(path: str, compression: str) -> io.BufferedReader:
    """Open a file to read its uncompressed content.

    Raises:
        OSError: The file cannot be opened.
    """
    fetch(path)
    file: io.BufferedReader = io.BufferedReader(io.FileIO(path), _BUFFER)
    if not compression:
        return file
    wbits = zlib.MAX_WBITS + (16 if compression == "GZIP" else 0)
    return io.BufferedReader(_Inflated(file, wbits), _BUFFER)


def open_to_write(path: str, compression: str) -> BinaryIO:
    """Open a new file whose content is compressed as it is written.

    Raises:
        OSError: The file cannot be opened.
    """
    if compression == "GZIP":
        return gzip.open(path, "wb")  # type: ignore[return-value]
    file = open(path, "wb")
    return io.BufferedWriter(_Deflated(file)) if compression == "ZLIB" else file


class _Inflated(io.RawIOBase):
    """The uncompressed content of a file, which it closes."""

    def __init__(self, file: BinaryIO, wbits: int):
        self._file = file
        self._wbits = wbits
        self._inflate = zlib.decompressobj(wbits)
        self._read_bytes = 0

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._read_bytes

    def readinto(self, buffer: Any) -> int:
        while True:
            taken = self._inflate.unconsumed_tail or self._inflate.unused_data or self._file.read(_INFLATED)
            if self._inflate.eof and taken:
                self._inflate = zlib.decompressobj(self._wbits)  # the next member of the file
            data = self._inflate.decompress(taken, len(buffer))
            if data or not taken:
                break
        if not data and not self._inflate.eof:
            raise zlib.error("the compressed data is cut off")
        buffer[: len(data)] = data
        self._read_bytes += len(data)
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


class _Deflated(io.RawIOBase):
    """Compresses into a file, which it closes."""

    def __init__(self, file: BinaryIO):
        self._file = file
        self._deflate = zlib.compressobj()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._file.write(self._deflate.compress(data))
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._file.write(self._deflate.flush())
            self._file.close()
        super().close()


class StreamPart(NamedTuple):
    """A part of a stream.

    Attributes:
        size: The number of its elements, or None if only reading shows it.
        open: Returns a stream of its elements.
    """

    size: int | None
    open: Callable[[], Stream]


class PartsStream(Chain):
    """A stream of parts, one after the other. One is open at a time; skipped parts are not opened."""

    def __init__(self, parts: Iterable[StreamPart]):
        super().__init__()
        self._parts = iter(parts)
        self._next = next(self._parts, None)

    def open_next(self) -> Stream | None:
        stream = None if self._next is None else self._next.open()
        self._next = next(self._parts, None)
        return stream

    def skip_unopened(self, count: int) -> int:
        done = 0
        while self._next is not None and self._next.size is not None and self._next.size <= count - done:
            done += self._next.size
            self._next = next(self._parts, None)
        return done


class OpenFile(Stream):
    """A stream of what one file holds."""

    def __init__(self, path: str, compression: str):
        super().__init__()
        self.path = path
        self.compression = compression
        self.file = open_binary(path, compression)

    def close(self) -> None:
        self.file.close()


class SequentialFiles(FileSource):
    """Files that are read from front to back. Handles are those of the files' streams.

    Args:
        files: Paths.
        compression: ``GZIP``, ``ZLIB`` or empty.
    """

    cardinality = UNKNOWN

    def __init__(self, files: Sequence[str], compression: str = ""):
        super().__init__(files)
        self.compression = compression

    @abstractmethod
    def open_file(self, path: str) -> Stream:
        """Return a stream of the handles of a file.

        Raises:
            OSError: The file cannot be opened.
        """

    def open(self, run: Run, epoch: Epoch) -> Stream:
        return PartsStream(StreamPart(None, partial(self._opened, path)) for path in self.files)

    def _opened(self, path: str) -> Stream:
        try:
            return self.open_file(path)
        except OSError as exc:
            raise missing_file(self.kind, path, self.files, exc) from exc


class FileNames(TableSource):
    """The names of files, as text.

    Args:
        names: Paths.
    """

    element_spec = TensorSpec((), str)

    def __init__(self, names: list[str]):
        super().__init__()
        self.names = np.array(names, dtype=str)

    @classmethod
    def matching(cls, patterns: Paths) -> "FileNames":
        """Find the files that match a pattern, or one of several, sorted by name.

        Raises:
            DatasetError: No file matches.
        """
        globs = paths_of("list_files", patterns)
        names = sorted({name for pattern in globs for name in matching(pattern) or glob.glob(pattern)})
        if not names:
            folders = {
                os.path.dirname(pattern) or "."
                for pattern in globs
                if not glob.has_magic(os.path.dirname(pattern))
            }
            absent = sorted(folder for folder in folders if not os.path.isdir(folder))
            why = f" There is no folder {', '.join(map(remote_url, absent))}." if absent else ""
            raise DatasetError(f"No files matched pattern: {', '.join(map(remote_url, globs))}.{why}")
        return cls(names)

    @property
    def label(self) -> str:
        return files_label("list_files", self.names.tolist())

    @property
    def cardinality(self) -> int:
        return len(self.names)

    def load(self, run: Run, handles: Handles) -> Loaded:
        return Stacked(self.names.take(handles, axis=0), len(handles))
