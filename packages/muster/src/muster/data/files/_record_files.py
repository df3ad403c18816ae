"""Lines of text files, and records of one length, one after the other in binary files."""

import zlib
from collections.abc import Iterator, Sequence
from itertools import islice

from muster._errors import DatasetError
from muster.data.files._files import OpenFile, SequentialFiles
from muster.data.pipeline._handles import Handles, Stream
from muster.data.pipeline._spec import TensorSpec


class TextSource(SequentialFiles):
    """The lines of UTF-8 files, without line ends."""

    kind = "TextLineDataset"
    element_spec = TensorSpec((), str)

    def open_file(self, path: str) -> Stream:
        return _Lines(path, self.compression)


class _Lines(OpenFile):
    number = 0

    def pull(self, count: int) -> Handles:
        return [self._decoded(line) for line in self._lines(count)]

    def skip(self, count: int) -> int:
        return sum(1 for _ in self._lines(count))

    def _lines(self, count: int) -> Iterator[bytes]:
        try:
            for line in islice(self.file, count):
                self.number += 1
                yield line
        except (OSError, zlib.error) as exc:
            raise DatasetError(f"{self.path} cannot be read as {self.compression or 'text'}: {exc}.") from exc

    def _decoded(self, line: bytes) -> str:
        try:
            return line.removesuffix(b"\n").removesuffix(b"\r").decode()
        except UnicodeDecodeError as exc:
            raise DatasetError(f"{self.path}, line {self.number}: it is no UTF-8 text: {exc}.") from exc


class FixedLengthSource(SequentialFiles):
    """The records of files that have a header, records of one length, and a footer.

    Args:
        files: Paths.
        sizes: The bytes of a record, of the header and of the footer.
        compression: ``GZIP``, ``ZLIB`` or empty.
    """

    kind = "FixedLengthRecordDataset"
    element_spec = TensorSpec((), bytes)

    def __init__(self, files: Sequence[str], sizes: tuple[int, int, int], compression: str = ""):
        super().__init__(files, compression)
        self.sizes = sizes

    def open_file(self, path: str) -> Stream:
        return _Records(path, self.sizes, self.compression)


class _Records(OpenFile):
    def __init__(self, path: str, sizes: tuple[int, int, int], compression: str):
        super().__init__(path, compression)
        self._record, self._header, self._footer = sizes
        self._number = 0
        self._ahead = b""  # the footer, once there is no further record

    def pull(self, count: int) -> Handles:
        return list(self._records(count))

    def skip(self, count: int) -> int:
        return sum(1 for _ in self._records(count))

    def _records(self, count: int) -> Iterator[bytes]:
        if len(self._read(self._header)) < self._header:
            raise DatasetError(f"{self.path} ends inside of its header of {self._header} bytes.")
        self._header = 0  # it is behind us
        wanted = self._record + self._footer
        for _ in range(count):
            self._ahead += self._read(wanted - len(self._ahead))
            if len(self._ahead) < wanted:
                if len(self._ahead) != self._footer:
                    raise DatasetError(
                        f"{self.path} ends {len(self._ahead)} bytes after record {self._number}: records "
                        f"have {self._record} bytes, and the footer {self._footer}."
                    )
                return
            record, self._ahead = self._ahead[: self._record], self._ahead[self._record :]
            self._number += 1
            yield record

    def _read(self, count: int) -> bytes:
        try:
            return self.file.read(count)
        except (OSError, zlib.error) as exc:
            raise DatasetError(
                f"{self.path} cannot be read as {self.compression or 'records'}: {exc}."
            ) from exc
