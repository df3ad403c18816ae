"""Rows of Parquet files, read in chunks by pyarrow."""

from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from muster._errors import DatasetError
from muster._extras import extra_module
from muster._remote import fetch
from muster.data.files._chunks import Chunk, ChunkedFiles, ChunkStream, Column
from muster.data.files._files import PartsStream, StreamPart, missing_file
from muster.data.pipeline._handles import Stream
from muster.data.pipeline._spec import TensorSpec, object_array

_CHUNK = 1024  # rows


class ParquetSource(ChunkedFiles):
    """The rows of Parquet files, as a dict by column.

    Args:
        files: Paths. The first is opened at once, for its columns.
        columns: The columns to read, or None for all.

    Raises:
        ImportError: pyarrow is not installed.
        DatasetError: The first file cannot be read, lacks a column, or has a column of an unsupported type.
    """

    kind = "ParquetDataset"

    def __init__(self, files: tuple[str, ...], columns: Sequence[str] | None):
        _pyarrow("pyarrow.parquet")
        super().__init__(files, {}, [])
        with self._file(files[0]) as file:
            names = list(file.schema_arrow.names)
            wanted = names if columns is None else list(columns)
            if unknown := [name for name in wanted if name not in names]:
                raise DatasetError(f"{files[0]} has no column {unknown[0]!r}. It has {', '.join(names)}.")
            self.template = dict.fromkeys(wanted, 0)
            self.specs = [_spec(files[0], file.schema_arrow.field(name)) for name in wanted]

    def open_file(self, path: str) -> Stream:
        file = self._file(path)
        names = list(self.template)
        try:
            specs = [
                _spec(path, file.schema_arrow.field(name)) if name in file.schema_arrow.names else None
                for name in names
            ]
            if specs != self.specs:
                found = ", ".join(f"{n}: {spec}" for n, spec in zip(names, specs, strict=True))
                raise DatasetError(f"The files of ParquetDataset differ: {path} has {found}.")
        except BaseException:
            file.close()
            raise
        return _ParquetFile(path, file, names)

    def _file(self, path: str) -> Any:
        errors = _pyarrow("pyarrow").ArrowException
        try:
            fetch(path)
            return _pyarrow("pyarrow.parquet").ParquetFile(path)
        except OSError as exc:
            raise missing_file(self.kind, path, self.files, exc) from exc
        except errors as exc:
            raise DatasetError(f"{path} is no Parquet file: {exc}") from exc


class _ParquetFile(PartsStream):
    def __init__(self, path: str, file: Any, names: list[str]):
        self._path = path
        self._file = file
        self._names = names
        sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        super().__init__(StreamPart(size, partial(self._group, group)) for group, size in enumerate(sizes))

    def _group(self, group: int) -> Stream:
        return ChunkStream(self._chunks(group))

    def _chunks(self, group: int) -> Iterator[Chunk]:
        first = sum(self._file.metadata.row_group(before).num_rows for before in range(group))
        try:
            for batch in self._file.iter_batches(_CHUNK, row_groups=[group], columns=self._names):
                yield _ParquetChunk(f"{self._path}, rows from {first}", batch, self._names)
                first += batch.num_rows
        except (OSError, _pyarrow("pyarrow").ArrowException) as exc:
            raise DatasetError(f"{self._path}, rows from {first}: they cannot be read: {exc}") from exc

    def close(self) -> None:
        super().close()
        self._file.close()


class _ParquetChunk(Chunk):
    def __init__(self, place: str, batch: Any, names: list[str]):
        super().__init__(batch.num_rows)
        self._place = place
        self._batch = batch
        self._names = names

    @cached_property
    def columns(self) -> list[Column]:
        columns = [
            _column(f"{self._place}: column {name!r}", self._batch.column(name)) for name in self._names
        ]
        self._batch = None  # now in the arrays
        return columns


def _pyarrow(module: str) -> Any:
    return extra_module(module, "parquet", "ParquetDataset")


def _spec(path: str, field: Any) -> TensorSpec:
    """Return the spec of a column.

    Raises:
        DatasetError: The column holds neither numbers, text or bytes, nor lists of numbers of one length.
    """
    types = _pyarrow("pyarrow").types
    kind, shape = field.type, []
    if types.is_dictionary(kind):
        kind = kind.value_type
    while types.is_fixed_size_list(kind):
        shape.append(kind.list_size)
        kind = kind.value_type
    if not shape and (types.is_string(kind) or types.is_large_string(kind)):
        return TensorSpec((), str)
    if not shape and (types.is_binary(kind) or types.is_large_binary(kind)):
        return TensorSpec((), object)
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind):
        return TensorSpec(shape, kind.to_pandas_dtype())
    raise DatasetError(
        f"{path}: column {field.name!r} is of type {field.type}, which is no array here. Choose others by "
        "columns."
    )


def _column(place: str, array: Any) -> Column:
    """Convert an Arrow array to a NumPy array; missing floating-point numbers become NaN.

    Raises:
        DatasetError: Other values are missing.
    """
    types = _pyarrow("pyarrow").types
    if types.is_dictionary(array.type):
        array = array.dictionary_decode()
    shape = [len(array)]
    while types.is_fixed_size_list(array.type):
        shape.append(array.type.list_size)
        missing, array = array.null_count, array.flatten()
        if missing:
            raise DatasetError(f"{place} has {missing} missing values.")
    if array.null_count and not types.is_floating(array.type):
        raise DatasetError(
            f"{place} has {array.null_count} missing values, which {array.type} has no number for. Fill them "
            "in, or choose other columns."
        )
    values = array.to_numpy(zero_copy_only=False)
    if values.dtype == object:
        text = types.is_string(array.type) or types.is_large_string(array.type)
        return np.array(values, dtype=str) if text else object_array(values)
    result: Column = values.reshape(shape)
    return result
