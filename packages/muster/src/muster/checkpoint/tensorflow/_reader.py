"""Reading a checkpoint that TensorFlow wrote: an index, and files with the bytes of its tensors."""

import errno
import glob
import math
import os
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import FileIO
from typing import Any

import google_crc32c
import numpy as np

from muster._arrays import dtype_named
from muster._errors import CheckpointError, CheckpointNotFoundError, DamagedCheckpointError
from muster._paths import local_path
from muster._records import masked
from muster.checkpoint import _mapped_array
from muster.checkpoint._arrays import open_regular
from muster.checkpoint._mapped_array import ArrayPlace, MappedArray, MappedFile, MappedRows
from muster.checkpoint._read import VariableInfo
from muster.checkpoint.tensorflow._bundle import STRING, Entry, Index, parse_index
from muster.checkpoint.tensorflow._names import GLOBAL_STEP, is_whole, join_parts
from muster.checkpoint.tensorflow._table import FOOTER_SIZE, is_table
from muster.checkpoint.tensorflow._varints import FormatError, read_varint

_CHECKSUM = struct.Struct("<I")


def check_size(entry: Entry) -> None:
    """Check that a tensor has as many bytes as its shape needs, before any memory is taken for it.

    Raises:
        FormatError: It has not.
    """
    count = math.prod(entry.shape)
    if entry.dtype == STRING:
        if entry.size < count:
            raise FormatError(f"{entry.size} bytes cannot hold {count} strings")
        return
    width = dtype_named(entry.dtype).itemsize
    if entry.size != count * width:
        raise FormatError(f"it has {entry.size} bytes, but its shape {entry.shape} needs {count * width}")


def decode_strings(data: bytes, entry: Entry) -> np.ndarray[Any, Any]:
    """Return strings: their lengths as varints, a checksum of those, and their bytes.

    Args:
        data: The bytes of the tensor.
        entry: What the index says about it.

    Returns:
        Python's bytes, as an array of objects.

    Raises:
        FormatError: A checksum does not match, or the bytes are not such strings.
    """
    lengths, at = [], 0
    for _ in range(math.prod(entry.shape)):
        length, at = read_varint(data, at)
        lengths.append(length)
    crc = google_crc32c.value(b"".join(_length_bytes(length) for length in lengths))
    if data[at : at + 4] != _CHECKSUM.pack(masked(crc)):
        raise FormatError("the checksum of its strings' lengths is wrong")
    if masked(google_crc32c.extend(crc, data[at:])) != entry.crc32c:
        raise FormatError("its checksum is wrong")
    at += 4
    if at + sum(lengths) != len(data):
        raise FormatError(f"its strings have {sum(lengths)} bytes, and {len(data) - at} are there")
    array = np.empty(len(lengths), object)
    for index, length in enumerate(lengths):
        array[index] = data[at : at + length]
        at += length
    return array.reshape(entry.shape)


def _length_bytes(length: int) -> bytes:
    return struct.pack("<I" if length < 1 << 32 else "<Q", length)


def join_slices(
    shape: Sequence[int], parts: Sequence[tuple[tuple[slice, ...], np.ndarray[Any, Any]]]
) -> np.ndarray[Any, Any]:
    """Return a divided variable as one array.

    Args:
        shape: The shape of the whole.
        parts: Which part of the whole each array is.

    Raises:
        FormatError: They do not make up the whole, once each.
    """
    held = sum(array.size for _, array in parts)
    if held != math.prod(shape):
        raise FormatError(f"of its {math.prod(shape)} values {held} are there")
    whole = np.empty(shape, parts[0][1].dtype)
    covered = np.zeros(shape, bool)
    for index, array in parts:
        if len(index) != len(shape) or whole[index].shape != array.shape:
            raise FormatError(f"a part of shape {array.shape} does not fit {index} of {tuple(shape)}")
        whole[index] = array
        covered[index] = True
    if not covered.all():
        raise FormatError("its parts do not make up the whole")
    return whole


def rows_of_slices(entry: Entry) -> list[tuple[int, int, Entry]]:
    """Return which rows of a tensor each of its parts has, in order; none if one has no whole rows.

    A tensor that is not divided has one part.
    """
    if not entry.slices:
        return [(0, entry.shape[0], entry)] if entry.shape else []
    found = []
    for part in entry.slices:
        rows, *others = part.indices()
        bounds = [each.indices(size) for each, size in zip(others, entry.shape[1:], strict=False)]
        if bounds != [(0, size, 1) for size in entry.shape[1:]]:
            return []
        start, stop, _ = rows.indices(entry.shape[0])
        found.append((start, stop, part.entry))
    found.sort(key=lambda each: each[0])
    ends = [0, *(stop for _, stop, _ in found)]
    whole = [start for start, _, _ in found] == ends[:-1] and ends[-1] == entry.shape[0]
    fits = all(part.shape == (stop - start, *entry.shape[1:]) for start, stop, part in found)
    return found if whole and fits else []


# Small enough that the checksum finds the bytes in the processor's cache.
_CHUNK = 1 << 20
_INDEX = ".index"
_FILE = re.compile(r"(.*)(?:\.index|\.data-[0-9]{5}-of-[0-9]{5}|\.meta)")
_STEP = re.compile(r".*-([0-9]+)")


class TensorFlowCheckpoint:
    """A checkpoint that TensorFlow wrote; its tensors are read when they are asked for.

    Args:
        prefix: Its path without the endings ``.index`` and ``.data-00000-of-00001``.

    Attributes:
        prefix: That path.
        entries: Its tensors by name, as the index has them.

    Raises:
        CheckpointNotFoundError: There is none.
        DamagedCheckpointError: Its index is cut off, or its bytes have changed.
        CheckpointError: It cannot be read, or is one of version 1.
    """

    def __init__(self, prefix: str | os.PathLike[str]) -> None:
        self.prefix = local_path(prefix)
        self._index = _read_index(self.prefix)

    @property
    def entries(self) -> Mapping[str, Entry]:
        return self._index.entries

    @property
    def variables(self) -> dict[str, VariableInfo]:
        """The shapes and dtypes of its tensors, strings included, by name."""
        return {name: VariableInfo(entry.shape, entry.dtype) for name, entry in self.entries.items()}

    def read(self, name: str, entry: Entry | None = None) -> np.ndarray[Any, Any]:
        """Read a tensor, and check its bytes.

        Args:
            name: Its name.
            entry: Where it is; None for where the index says.

        Returns:
            A new array of its global shape; strings are Python's bytes in an array of objects.

        Raises:
            CheckpointError: There is no such tensor, or it cannot be read.
            DamagedCheckpointError: A file is missing or cut off, or its bytes have changed.
        """
        entry = entry or self.entries.get(name)
        if entry is None:
            raise CheckpointError(f"The checkpoint {self.prefix} has no {name!r}: `muster inspect` lists it.")
        if not entry.is_numeric and entry.dtype != STRING:
            raise CheckpointError(
                f"The tensor {name!r} of {self.prefix} holds neither numbers nor strings, but values of "
                f"{entry.dtype}, which only TensorFlow can use."
            )
        if not is_whole(entry):
            raise CheckpointError(
                f"The tensor {name!r} of {self.prefix} has the values of a part of its variable only: "
                "TensorFlow stores the slots of a divided variable so. The other parts are in other tensors."
            )
        with self._explained(name):
            if not entry.slices:
                return self._read(entry)
            return join_slices(
                entry.shape, [(part.indices(), self._read(part.entry)) for part in entry.slices]
            )

    def check(self, name: str, entry: Entry) -> None:
        """Check the bytes of a tensor, and keep none; arguments and errors as for `read`."""
        if entry.dtype == STRING:
            self.read(name, entry)
            return
        with self._explained(name):
            for part in [each.entry for each in entry.slices] or [entry]:
                self._check(part)

    def map(
        self, name: str, entry: Entry, files: dict[str, MappedFile]
    ) -> np.ndarray[Any, Any] | MappedArray:
        """Return a tensor of numbers that stays in its files if it is large, and check its bytes.

        Args:
            name: Its name.
            entry: Where it is.
            files: The files that are mapped so far, by path; is added to.

        Raises:
            CheckpointError: It cannot be read.
            DamagedCheckpointError: As for `read`.
        """
        width = dtype_named(entry.dtype).itemsize
        spans = rows_of_slices(entry)
        if not entry.shape or math.prod(entry.shape) * width < _mapped_array.LEAST_MAPPED_BYTES or not spans:
            return self.read(name, entry)
        self.check(name, entry)
        parts = []
        with self._explained(name):
            for start, stop, part in spans:
                path = self._path(part)
                if path not in files:
                    with open(path, "rb", buffering=0, opener=open_regular) as file:
                        files[path] = MappedFile(file)
                parts.append(MappedRows(start, stop, ArrayPlace(files[path], part.offset)))
        return MappedArray(entry.shape, dtype_named(entry.dtype), parts)

    @contextmanager
    def _explained(self, name: str) -> Iterator[None]:
        """Say which tensor cannot be read, and why."""
        try:
            yield
        except FormatError as exc:
            raise DamagedCheckpointError(
                f"The tensor {name!r} of {self.prefix} cannot be read: {exc}."
            ) from exc
        except FileNotFoundError as exc:
            raise DamagedCheckpointError(
                f"The tensor {name!r} of {self.prefix} is in {exc.filename}, which is missing: copy all "
                "files of a checkpoint."
            ) from exc
        except OSError as exc:
            raise CheckpointError(f"The checkpoint {self.prefix} cannot be read: {exc}.") from exc

    def read_all(self, files: dict[str, MappedFile] | None = None) -> dict[str, Any]:
        """Read all tensors of numbers, those of the parts of one variable as one; raises as `read` does.

        Args:
            files: Is given the files in which large tensors stay, by path; None if all are read.
        """
        return {
            name: self.read(name, entry) if files is None else self.map(name, entry, files)
            for name, entry in join_parts(self.entries).items()
            if entry.is_numeric and is_whole(entry)
        }

    def step(self) -> int:
        """Return the global step: of the variable, else from the end of the prefix, else 0."""
        found = self.entries.get(GLOBAL_STEP)
        if found is not None and found.shape == () and found.dtype in ("int32", "int64"):
            return int(self.read(GLOBAL_STEP))
        match = _STEP.fullmatch(self.prefix)
        return int(match[1]) if match else 0

    def _path(self, entry: Entry) -> str:
        """Return the path of the file that has a tensor."""
        return f"{self.prefix}.data-{entry.shard:05d}-of-{self._index.shards:05d}"

    def _read(self, entry: Entry) -> np.ndarray[Any, Any]:
        check_size(entry)
        with self._at(entry) as file:
            if entry.dtype == STRING:
                return decode_strings(file.read(entry.size), entry)
            buffer, start = np.empty(entry.size, np.uint8), 0
            for chunk in self._chunks(file, entry):
                buffer[start : start + len(chunk)] = np.frombuffer(chunk, np.uint8)
                start += len(chunk)
        return buffer.view(dtype_named(entry.dtype)).reshape(entry.shape)

    def _check(self, entry: Entry) -> None:
        check_size(entry)
        with self._at(entry) as file:
            for _ in self._chunks(file, entry):
                pass

    def _chunks(self, file: FileIO, entry: Entry) -> Iterator[bytes]:
        """Yield the bytes of a tensor; raise FormatError at the end if their checksum is wrong."""
        crc = start = 0
        while start < entry.size and (chunk := file.read(min(_CHUNK, entry.size - start))):
            crc = google_crc32c.extend(crc, chunk)
            start += len(chunk)
            yield chunk
        if start < entry.size or masked(crc) != entry.crc32c:
            raise FormatError(f"its bytes in {self._path(entry)} have changed: their checksum is wrong")

    @contextmanager
    def _at(self, entry: Entry) -> Iterator[FileIO]:
        """Open the file that has a tensor, where it begins."""
        path = self._path(entry)
        with open(path, "rb", buffering=0, opener=open_regular) as file:
            have = os.fstat(file.fileno()).st_size
            if entry.offset + entry.size > have:
                raise FormatError(
                    f"{path} is cut off: it has {have} bytes, and needs {entry.offset + entry.size}"
                )
            file.seek(entry.offset)
            yield file


def is_tensorflow_checkpoint(path: str | os.PathLike[str]) -> bool:
    """Return whether there is a checkpoint of TensorFlow with this prefix, of whichever version."""
    prefix = local_path(path)
    return os.path.isfile(prefix + _INDEX) or _is_version_1(prefix)


def _read_index(prefix: str) -> Index:
    path = prefix + _INDEX
    try:
        with open(path, "rb", opener=open_regular) as file:
            data = file.read()
    except FileNotFoundError as exc:
        raise _not_found(prefix) from exc
    except OSError as exc:
        raise CheckpointError(f"The checkpoint {prefix} cannot be read: {exc}.") from exc
    try:
        return parse_index(data)
    except FormatError as exc:
        raise DamagedCheckpointError(f"{path} is no index of a checkpoint: {exc}.") from exc


def _not_found(prefix: str) -> CheckpointError:
    if _is_version_1(prefix):
        return CheckpointError(
            f"{prefix} is a TensorFlow checkpoint of version 1, which muster does not read. Restore it in "
            "TensorFlow, and save it with TensorFlow 1's train.Saver(), which writes version 2."
        )
    if match := _FILE.fullmatch(prefix):
        return CheckpointNotFoundError(
            f"{prefix} is one file of a TensorFlow checkpoint, if anything: give its prefix, {match[1]}."
        )
    files = glob.glob(glob.escape(prefix) + ".data-*")
    missing = f"its index {prefix}{_INDEX} is missing" if files else f"there is no {prefix}{_INDEX}"
    return CheckpointNotFoundError(f"There is no TensorFlow checkpoint {prefix}: {missing}.")


def _is_version_1(prefix: str) -> bool:
    """Return whether a checkpoint is one table with values in it, or several, as version 1 has it."""
    for path in (prefix, *glob.glob(f"{glob.escape(prefix)}-?????-of-?????")):
        try:
            with open(path, "rb", opener=open_regular) as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - FOOTER_SIZE))
                if is_table(file.read()):
                    return True
        except OSError as exc:
            if exc.errno not in (errno.ENOENT, errno.EISDIR, errno.ENOTDIR):
                raise CheckpointError(f"{path} cannot be read: {exc}.") from exc
    return False
