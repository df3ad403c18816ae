"""Reading and writing TFRecord files."""

import os
import zlib
from typing import Self

from muster._errors import DatasetError
from muster._paths import local_path
from muster._records import RecordError, frame, read_records, skip_record
from muster.data.files._files import OpenFile, SequentialFiles, check_compression, open_to_write
from muster.data.pipeline._handles import Handles, Stream
from muster.data.pipeline._spec import TensorSpec


class TFRecordSource(SequentialFiles):
    """The records of TFRecord files, as bytes."""

    kind = "TFRecordDataset"
    element_spec = TensorSpec((), object)

    def open_file(self, path: str) -> Stream:
        return _TFRecords(path, self.compression)


class _TFRecords(OpenFile):
    def pull(self, count: int) -> Handles:
        try:
            return read_records(self.file, count)
        except (RecordError, OSError, zlib.error) as exc:
            raise self._damaged(exc) from exc

    def skip(self, count: int) -> int:
        if self.compression:
            return super().skip(count)
        size, passed = os.fstat(self.file.fileno()).st_size, 0
        try:
            while passed < count and skip_record(self.file, size):
                passed += 1
        except (RecordError, OSError) as exc:
            raise self._damaged(exc) from exc
        return passed

    def _damaged(self, exc: Exception) -> DatasetError:
        if isinstance(exc, zlib.error):
            return DatasetError(f"{self.path} cannot be uncompressed as {self.compression}: {exc}.")
        hint = "" if self.compression else " Is it compressed? Then say so by compression_type."
        return DatasetError(f"{self.path}: {exc}{hint}")


_OF_ZLIB = {
    "compression_level",
    "compression_method",
    "compression_strategy",
    "flush_mode",
    "input_buffer_size",
    "mem_level",
    "output_buffer_size",
    "window_bits",
}


class TFRecordOptions:
    """Options of a TFRecord file.

    Args:
        compression_type: ``GZIP``, ``ZLIB``, or empty or None for none.
        **unused: How TensorFlow's zlib is to work, such as ``compression_level``; files are the same to read.

    Source: tensorflow/python/lib/io/tf_record.py, ``TFRecordOptions``.
    """

    def __init__(self, compression_type: str | None = None, **unused: int | None):
        if unknown := unused.keys() - _OF_ZLIB:
            raise TypeError(f"TFRecordOptions has no {', '.join(sorted(unknown))}.")
        self.compression_type = check_compression(compression_type)


class TFRecordWriter:
    """Writes records to a new TFRecord file. Use it in a ``with`` statement, or `close` it.

    Args:
        path: The path of the file; an existing file is replaced.
        options: A `TFRecordOptions`, or a compression type.

    Raises:
        DatasetError: The file cannot be written.

    Source: tensorflow/python/lib/io/tf_record.py, ``TFRecordWriter``.

    Example:
        ```python
        with muster.data.TFRecordWriter("written.tfrecord") as out:
            out.write(b"any bytes")
        ```
    """

    def __init__(self, path: str | os.PathLike[str], options: TFRecordOptions | str | None = None):
        if not isinstance(options, TFRecordOptions):
            options = TFRecordOptions(options)
        self._path = local_path(path)
        try:
            self._file = open_to_write(self._path, options.compression_type)
        except OSError as exc:
            raise DatasetError(f"{self._path} cannot be written: {exc.strerror}.") from exc

    def write(self, record: bytes) -> None:
        """Write the bytes of one record.

        Raises:
            TypeError: `record` is not bytes.
        """
        if not isinstance(record, bytes):
            raise TypeError(f"A record is bytes, got {record!r} of type {type(record).__name__}.")
        self._file.write(frame(record))

    def flush(self) -> None:
        """Flush buffers to the operating system."""
        self._file.flush()

    def close(self) -> None:
        """Flush buffers and close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
