"""Reading and writing arrays in the safetensors format.

The format is a little-endian uint64 that counts the bytes of a JSON header, the header, and the
arrays' bytes one after the other. It is written here rather than by the safetensors package because
the package loses the cause of a failed write (a full disk has no errno), writes arrays that are not
contiguous wrongly, has no name for complex128, int4 and others, and needs a second pass over the
bytes for a checksum. The package reads these files, which a test makes sure of.
"""

import errno
import itertools
import json
import mmap
import operator
import os
import stat
import struct
import zlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from muster._arrays import LazyArray, dtype_named
from muster._errors import DamagedCheckpointError
from muster._remote import fetch

# Other types are stored as flat U8; their real type and shape stand in the manifest.
_CODES = {
    "bool": "BOOL",
    "uint8": "U8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "float16": "F16",
    "float32": "F32",
    "float64": "F64",
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "complex64": "C64",
}
# Small enough that the checksum finds the bytes in the processor's cache.
_CHUNK = 1 << 20
# How many bytes of a file that is being filled stay in memory, about.
_HELD = 16 << 20
_ALIGNMENT = 64
_METADATA, _DESCRIPTION = "__metadata__", "muster"


@dataclass(frozen=True)
class FileRecord:
    """The size of a data file in bytes, and the CRC-32 of its bytes."""

    bytes: int
    crc32: int


def is_numeric(dtype: np.dtype[Any]) -> bool:
    """Return whether a dtype is one of numbers or booleans, including those of ml_dtypes."""
    return dtype.kind in "biufc" or dtype.isbuiltin == 2


def open_regular(path: str, flags: int) -> int:
    """Open a file, as the opener of `open`, but no FIFO, socket or device: opening one may block.

    One of a working copy is fetched before.

    Raises:
        FileNotFoundError: There is no file at this path, or another thing.
    """
    if not flags & os.O_CREAT:
        fetch(path)
    try:
        mode = os.stat(path).st_mode  # one look only: between two, another process may delete the file
    except FileNotFoundError:
        mode = stat.S_IFREG
    if not stat.S_ISREG(mode):
        raise FileNotFoundError(errno.ENOENT, f"{os.path.basename(path)} is not a regular file", path)
    return os.open(path, flags, 0o666)


def write_arrays(
    path: str,
    arrays: Mapping[str, np.ndarray[Any, Any] | LazyArray],
    description: str | None = None,
) -> FileRecord:
    """Write arrays into a new file, and wait until it is on the disk.

    An array is copied only if it is not contiguous or not little-endian, one array at a time. One that lies
    in other files is copied in pieces.

    Args:
        path: The path of the file, which must not exist yet.
        arrays: Arrays of any numeric dtype and shape by key. The key ``__metadata__`` is the format's own.
        description: Stored beside them.

    Returns:
        The size and the checksum of the file.

    Raises:
        OSError: The file cannot be written.
    """
    keys = _in_order(arrays)
    header = _header([(key, arrays[key]) for key in keys], description)
    size, crc = 0, 0
    with open(path, "xb", buffering=0) as file:
        contents = itertools.chain.from_iterable(_parts_of(arrays[key]) for key in keys)
        for data in itertools.chain([memoryview(header)], contents):
            for start in range(0, len(data), _CHUNK):
                chunk = data[start : start + _CHUNK]
                crc = zlib.crc32(chunk, crc)
                size += len(chunk)
                while chunk:
                    chunk = chunk[file.write(chunk) :]
        os.fsync(file.fileno())
    return FileRecord(size, crc)


def fill_arrays(
    path: str,
    arrays: Mapping[str, np.ndarray[Any, Any]],
    blank: Mapping[str, tuple[tuple[int, ...], str]],
    fill: Callable[[Mapping[str, np.ndarray[Any, Any]]], Iterable[int]],
) -> FileRecord:
    """Write arrays as `write_arrays` does, and others that need not fit the memory.

    Args:
        path: The path of the file, which must not exist yet.
        arrays: Arrays by key.
        blank: The shapes and the names of the dtypes of the others, by key.
        fill: Given the others in the file, writes their elements, and returns now and then how many bytes
            that were: what is written does not stay in this process's memory.

    Returns:
        The size and the checksum of the file.

    Raises:
        OSError: The file cannot be written.
    """
    made = {
        key: np.broadcast_to(np.zeros((), dtype_named(dtype)), shape) for key, (shape, dtype) in blank.items()
    }
    every = {**arrays, **made}
    keys = _in_order(every)
    header = _header([(key, every[key]) for key in keys], None)
    size = len(header) + sum(array.nbytes for array in every.values())
    with open(path, "x+b") as file:
        _allocate(file, size)
        held = mmap.mmap(file.fileno(), size)
        mapped = np.frombuffer(held, np.uint8)
        mapped[: len(header)] = np.frombuffer(header, np.uint8)
        start, views = len(header), {}
        for key in keys:
            stop = start + every[key].nbytes
            if key in arrays:
                mapped[start:stop] = _bytes_of(every[key])
            else:
                views[key] = mapped[start:stop].view(every[key].dtype).reshape(every[key].shape)
            start = stop
        written = 0
        for nbytes in fill(views):
            written += nbytes
            if written >= _HELD:
                held.madvise(mmap.MADV_DONTNEED)  # the system has the pages, and writes them
                written = 0
        held.madvise(mmap.MADV_DONTNEED)
        os.fsync(file.fileno())
        crc, buffer = 0, bytearray(_CHUNK)
        file.seek(0)
        while count := file.readinto(buffer):
            crc = zlib.crc32(memoryview(buffer)[:count], crc)
    return FileRecord(size, crc)


def _in_order(arrays: Mapping[str, np.ndarray[Any, Any] | LazyArray]) -> list[str]:
    """Return the keys in the order of the file.

    First come arrays of whole lines of the processor's cache, which then begin at one, so that XLA can
    compute with them where they are mapped into memory. Of the others those of wide types come first: then
    every array begins at a multiple of its item's size.
    """
    return sorted(arrays, key=lambda key: (arrays[key].nbytes % _ALIGNMENT != 0, -arrays[key].dtype.itemsize))


def _allocate(file: BinaryIO, size: int) -> None:
    """Give a file its blocks: writing to mapped memory could not say that the disk is full."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, size)
        return
    for start in range(0, size, _CHUNK):  # macOS has no call for it
        file.write(bytes(min(_CHUNK, size - start)))
    file.flush()


def read_arrays(
    file: BinaryIO, path: str, record: FileRecord, leave: Container[str] = (), *, checked: bool = False
) -> dict[str, np.ndarray[Any, Any]]:
    """Read a file that :func:`write_arrays` wrote, and check its bytes.

    Args:
        file: The file, open for unbuffered reading at its start.
        path: Its path, for messages.
        record: The size and checksum that it was written with.
        leave: The keys of arrays that are checked only.
        checked: Whether its bytes have been checked before: then those are not read, either.

    Returns:
        The bytes of each array by key: uint8, shape (bytes,), writable views of one buffer.

    Raises:
        DamagedCheckpointError: The size or the checksum differs.
        OSError: It cannot be read.
    """
    size = os.fstat(file.fileno()).st_size
    if size != record.bytes:
        raise DamagedCheckpointError(f"{path} is {size} bytes long, but {record.bytes} were written.")
    read = _ChecksummedFile(file, skips=checked)
    try:
        (length,) = struct.unpack("<Q", read.take(8))
        spans = _spans(json.loads(bytes(read.take(min(length, size)))), size - read.position)
    except (struct.error, ValueError, LookupError, TypeError, AttributeError):
        spans = []  # the checksum will tell
    buffer = np.empty(sum(stop - start for start, stop, key in spans if key not in leave), np.uint8)
    arrays, at = {}, 0
    for start, stop, key in spans:
        if key in leave:
            read.past(stop - start)
        else:
            arrays[key] = buffer[at : at + stop - start]
            read.into(arrays[key].data)
            at += stop - start
    read.past(size - read.position)
    if read.position < size or (read.crc != record.crc32 and not checked):
        raise DamagedCheckpointError(
            f"{path} has checksum {read.crc:08x}, but {record.crc32:08x} was written: its bytes have changed."
        )
    return arrays


def places_in(file: BinaryIO) -> dict[str, int]:
    """Return where in a file, which was checked, the bytes of each array begin, by key."""
    file.seek(0)
    (length,) = struct.unpack("<Q", file.read(8))
    header = json.loads(file.read(length))
    header.pop(_METADATA, None)
    return {key: 8 + length + int(entry["data_offsets"][0]) for key, entry in header.items()}


class _ChecksummedFile:
    """Reads a file, and adds up its checksum.

    Args:
        file: The file.
        skips: Whether not to read what is only to be checked.

    Attributes:
        position: How many bytes were read.
        crc: Their checksum.
    """

    def __init__(self, file: BinaryIO, *, skips: bool) -> None:
        self._file = file
        self._skips = skips
        self.position = self.crc = 0

    def take(self, count: int) -> memoryview:
        """Return the next bytes; fewer at the end of the file."""
        view = memoryview(bytearray(count))
        return view[: self.into(view)]

    def past(self, count: int) -> None:
        """Read the next bytes, and forget them."""
        if self._skips:
            self._file.seek(count, os.SEEK_CUR)
            self.position += count
            return
        scratch = memoryview(bytearray(min(count, _CHUNK)))
        while count > 0 and (done := self.into(scratch[:count])):
            count -= done

    def into(self, view: memoryview) -> int:
        """Read the next bytes into memory, and return how many that were."""
        start = 0
        while start < len(view) and (count := self._file.readinto(view[start : start + _CHUNK])):  # type: ignore[attr-defined]
            self.crc = zlib.crc32(view[start : start + count], self.crc)
            start += count
        self.position += start
        return start


def describe(path: str) -> tuple[FileRecord, str]:
    """Return the size and the checksum of a file as it is, and the description that it was written with;
    empty for none.

    Raises:
        DamagedCheckpointError: It is cut off, or is something else.
        OSError: It cannot be read.
    """
    crc = 0
    with open(path, "rb", opener=open_regular) as file:
        while chunk := file.read(_CHUNK):
            crc = zlib.crc32(chunk, crc)
        record = FileRecord(file.tell(), crc)
        file.seek(0)
        try:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length))
            description = header.pop(_METADATA, {}).get(_DESCRIPTION, "")
            end = 8 + length + max((entry["data_offsets"][1] for entry in header.values()), default=0)
        except (struct.error, ValueError, LookupError, TypeError, AttributeError, OverflowError) as exc:
            raise DamagedCheckpointError(f"{path} does not say what it holds.") from exc
    if record.bytes != end:
        raise DamagedCheckpointError(f"{path} is {record.bytes} bytes long, but {end} were written.")
    return record, description


def _header(arrays: list[tuple[str, Any]], description: str | None) -> bytes:
    """Return the length and the JSON header of a file that holds these arrays in this order."""
    entries: dict[str, Any] = {} if description is None else {_METADATA: {_DESCRIPTION: description}}
    offset = 0
    for key, array in arrays:
        code = _CODES.get(array.dtype.name)
        shape = [array.nbytes] if code is None else list(array.shape)
        entries[key] = {
            "dtype": code or "U8",
            "shape": shape,
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % _ALIGNMENT)
    return struct.pack("<Q", len(text)) + text


def _spans(header: Any, size: int) -> list[tuple[int, int, str]]:
    """Return where each array starts and stops behind a header, and its key: together, all of the bytes.

    Raises:
        ValueError, LookupError, TypeError, AttributeError: The header is none that `_header` makes.
    """
    header.pop(_METADATA, None)
    spans = sorted((*map(operator.index, entry["data_offsets"]), key) for key, entry in header.items())
    ends = [0]
    for start, stop, _ in spans:
        if not ends[-1] == start <= stop:
            raise ValueError(
                f"A span of bytes goes from {start} to {stop}; the one before ends at {ends[-1]}."
            )
        ends.append(stop)
    if ends[-1] != size:
        raise ValueError(f"The arrays end at {ends[-1]}, the bytes at {size}.")
    return spans


def _parts_of(array: np.ndarray[Any, Any] | LazyArray) -> Iterator[memoryview]:
    """Return the bytes of an array, in parts that need not be in memory together."""
    if isinstance(array, LazyArray):
        yield from map(_bytes_of, array.pieces())
    else:
        yield _bytes_of(array)


def _bytes_of(array: np.ndarray[Any, Any]) -> memoryview:
    """Return the array's bytes in C order, little-endian; a view where possible."""
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
