"""Elements in a file: what `Dataset.save` writes, and a `cache` on disk.

The file is a TFRecord file: a record with the format and the spec of an element, then a record an element, in
MessagePack. An interrupted writer leaves no file.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterable
from functools import cached_property, partial
from typing import Any

import msgspec
import numpy as np

from muster._errors import DatasetError
from muster._remote import fetch, publish
from muster.data.files._files import check_compression
from muster.data.files._tfrecord import TFRecordSource, TFRecordWriter
from muster.data.pipeline._handles import Handles, Loaded, Stream, unstacked
from muster.data.pipeline._node import UNKNOWN, Epoch, Node, Ordering, Run
from muster.data.pipeline._spec import TensorSpec, object_array, short_dtype, spec_of
from muster.data.pipeline._structure import map_leaves

ELEMENTS = "elements.tfrecord"
"""The name of the file in a folder."""

_FORMAT = "muster elements 1"


def write_elements(path: str, elements: Iterable[Any], compression: str | None = None) -> None:
    """Write elements into a file, which appears when it is whole.

    Raises:
        DatasetError: A leaf is neither an array, text nor bytes; or the file cannot be written.
    """
    with _Writer(path, check_compression(compression)) as writer:
        for element in elements:
            writer.write(element)
        writer.finish()


class _Writer(contextlib.AbstractContextManager["_Writer"]):
    """Writes a file beside its place, and moves it there at the end."""

    def __init__(self, path: str, compression: str = "") -> None:
        self._path = path
        folder, name = os.path.split(path)
        try:
            number, self._part = tempfile.mkstemp(prefix=f"{name}.", suffix=".part", dir=folder or ".")
        except OSError as exc:
            raise DatasetError(f"{path} cannot be written: {exc.strerror}.") from exc
        os.close(number)
        self._writer = TFRecordWriter(self._part, compression)
        self._writer.write(_FORMAT.encode())

    def write(self, element: Any) -> None:
        self._writer.write(msgspec.msgpack.encode(_encoded(element)))

    def finish(self) -> None:
        self._writer.close()
        os.replace(self._part, self._path)
        publish(self._path)

    def __exit__(self, *error: object) -> None:
        self._writer.close()
        with contextlib.suppress(FileNotFoundError):
            os.remove(self._part)


class ElementFile(TFRecordSource):
    """The elements of a file. Handles are records, so that skipped elements are not decoded.

    Args:
        path: The file.
        compression: ``GZIP``, ``ZLIB``, or empty or None for none.
    """

    kind = "load"

    def __init__(self, path: str, compression: str | None = None) -> None:
        super().__init__([path], check_compression(compression))

    @cached_property
    def cardinality(self) -> int:  # type: ignore[override]
        if self.compression:
            return UNKNOWN
        stream = self.open_file(self.files[0])
        try:
            return stream.skip(1 << 62)
        finally:
            stream.close()

    @cached_property
    def element_spec(self) -> Any:  # type: ignore[override]
        """The types of the first element, of unknown shape.

        Raises:
            DatasetError: There is none.
        """
        elements = self.peek(1)
        if not elements:
            raise DatasetError(f"the element_spec of {self.files[0]} is unknown: it is empty.")
        return map_leaves(lambda leaf: TensorSpec(None, spec_of(leaf).dtype), elements[0])

    def open_file(self, path: str) -> Stream:
        stream = super().open_file(path)
        first = stream.pull(1)
        if not len(first) or first[0] != _FORMAT.encode():
            stream.close()
            raise DatasetError(f"{path} has no elements that muster wrote: remove it, or name another.")
        return stream

    def load(self, run: Run, handles: Handles) -> Loaded:
        return [_decoded(msgspec.msgpack.decode(record)) for record in handles]


class FileCache(Ordering):
    """The source's elements, which the first whole pass writes into a file, and later ones read.

    Handles are pairs: whether it is a record, and the record or the element.

    Args:
        source: The source.
        path: The file.
    """

    block = 1
    width = 0
    uniform = False
    label = "cache(file)"

    def __init__(self, source: Node, path: str) -> None:
        super().__init__(source)
        self._path = path

    @cached_property
    def _file(self) -> ElementFile:
        return ElementFile(self._path)

    def of_share(self, source: Node, num_shards: int, index: int) -> "FileCache":
        """Return a cache of what one of several workers reads, in a file of its own."""
        return FileCache(source, f"{self._path}.{index}-of-{num_shards}" if num_shards > 1 else self._path)

    def open(self, run: Run, epoch: Epoch) -> Stream:
        fetch(self._path)
        if os.path.exists(self._path):
            return _Read(self._file.open(run, epoch))
        # In the order of the first pass, also where this is a later one, whose file is gone.
        first = run.first
        return _Written(self.source.open(first, ()), partial(self.source.load, first), self._path)

    def load(self, run: Run, handles: Handles) -> Loaded:
        return [
            unstacked(self._file.load(run, [value]))[0] if is_record else value
            for is_record, value in handles
        ]


class _Read(Stream):
    def __init__(self, records: Stream) -> None:
        super().__init__(records)
        self._records = records

    def pull(self, count: int) -> Handles:
        return [(True, record) for record in self._records.pull(count)]

    def skip(self, count: int) -> int:
        return self._records.skip(count)


class _Written(Stream):
    def __init__(self, source: Stream, load: Any, path: str) -> None:
        super().__init__(source)
        self._source = source
        self._load = load
        self._writer: _Writer | None = _Writer(path)

    def pull(self, count: int) -> Handles:
        handles = self._source.pull(count)
        elements = unstacked(self._load(handles)) if len(handles) else []
        if self._writer is not None:
            for element in elements:
                self._writer.write(element)
            if len(elements) < count:
                self._writer.finish()
                self._end()
        return [(False, element) for element in elements]

    def close(self) -> None:
        self._end()
        super().close()

    def _end(self) -> None:
        if self._writer is not None:
            self._writer.__exit__()
            self._writer = None


def _encoded(value: Any) -> Any:
    """Return a value for MessagePack: a list of its kind and its parts."""
    if isinstance(value, tuple):
        return ["tuple", [_encoded(item) for item in value]]
    if isinstance(value, dict):
        return ["dict", [[key, _encoded(item)] for key, item in value.items()]]
    if value is None or isinstance(value, str | bytes) and not isinstance(value, np.generic):
        return value
    if isinstance(value, np.ndarray) and value.dtype == object:
        return ["objects", value.shape, [_encoded(item) for item in value.ravel().tolist()]]
    if isinstance(value, np.ndarray | np.generic):
        # Types beside NumPy's own, such as bfloat16, are known by their names alone.
        kind = value.dtype.name if value.dtype.kind == "V" else value.dtype.str
        return ["array", kind, value.shape, value.tobytes(), isinstance(value, np.generic)]
    raise DatasetError(
        f"A file of elements has arrays, text and bytes; an element has {value!r} of type "
        f"{type(value).__name__} ({short_dtype(spec_of(value).dtype)}). Turn it into arrays by map."
    )


def _decoded(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    kind, *parts = value
    if kind == "tuple":
        return tuple(map(_decoded, parts[0]))
    if kind == "dict":
        return {key: _decoded(item) for key, item in parts[0]}
    if kind == "objects":
        return object_array([_decoded(item) for item in parts[1]]).reshape(parts[0])
    name, shape, content, single = parts
    dtype = np.dtype(name)
    if dtype.itemsize and content:
        array = np.frombuffer(bytearray(content), dtype).reshape(shape)  # a copy, so that it can be changed
    else:
        array = np.zeros(shape, dtype)  # such as an empty text, which NumPy reads from no buffer
    return array[()] if single else array
