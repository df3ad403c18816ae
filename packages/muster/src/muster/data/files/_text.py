"""Lines of text files."""

import zlib
from collections.abc import Iterator
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
