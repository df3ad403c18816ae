"""Datasets of files, one class for each of their formats."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

from muster.data._dataset import Dataset
from muster.data.files._csv import CsvColumn, CsvFormat, CsvSource
from muster.data.files._files import FileSource, Paths, check_compression, paths_of
from muster.data.files._npz import ArrayRecordSource, NpzSource
from muster.data.files._parquet import ParquetSource
from muster.data.files._record_files import FixedLengthSource, TextSource
from muster.data.files._tfrecord import TFRecordSource
from muster.data.pipeline._flat_map import Interleave
from muster.data.pipeline._node import Node

Filenames = Paths | Dataset
"""A path, a sequence of paths, or a dataset of paths."""


def _node_of(kind: str, filenames: Filenames, make: Callable[[tuple[str, ...]], FileSource]) -> Node:
    """Return a source of files, or of the files whose paths are in a dataset."""
    if isinstance(filenames, Dataset):
        return Interleave(filenames._node, lambda *names: make(paths_of(kind, names)), 1, sys.maxsize)
    return make(paths_of(kind, filenames))


class TFRecordDataset(Dataset):
    """The records of TFRecord files, as bytes.

    Files are read one after the other, from front to back. Checksums are verified, except those of records
    that are skipped.

    Args:
        filenames: A path, a sequence of paths, or a dataset of paths.
        compression_type: ``GZIP``, ``ZLIB``, or empty or None for none.
        buffer_size: Accepted and ignored.
        num_parallel_reads: Accepted and ignored; `Dataset.interleave` reads several files in turn.
        name: Ignored.

    Raises:
        DatasetError: While iterating: a file is missing or damaged.

    Source: tensorflow/python/data/ops/readers.py, ``TFRecordDatasetV2``.

    Example:
        ```python
        with muster.data.TFRecordWriter("rows.tfrecord") as out:
            out.write(b"one")
            out.write(b"two")
        assert list(muster.data.TFRecordDataset("rows.tfrecord")) == [b"one", b"two"]
        ```
    """

    def __init__(
        self,
        filenames: Filenames,
        compression_type: str | None = None,
        buffer_size: int | None = None,
        num_parallel_reads: int | None = None,
        name: str | None = None,
    ):
        compression = check_compression(compression_type)
        super().__init__(
            _node_of("TFRecordDataset", filenames, lambda paths: TFRecordSource(paths, compression))
        )


class TextLineDataset(Dataset):
    """The lines of text files in UTF-8, without line ends, as ``str``.

    Args:
        filenames: A path, a sequence of paths, or a dataset of paths.
        compression_type: ``GZIP``, ``ZLIB``, or empty or None for none.
        buffer_size: Accepted and ignored.
        num_parallel_reads: Accepted and ignored.
        name: Ignored.

    Raises:
        DatasetError: While iterating: a file is missing, or a line is not UTF-8; names the line.

    Source: tensorflow/python/data/ops/readers.py, ``TextLineDatasetV2``. There, lines are bytes.

    Example:
        ```python
        pathlib.Path("lines.txt").write_text("a\\nb\\n")
        assert list(muster.data.TextLineDataset("lines.txt")) == ["a", "b"]
        ```
    """

    def __init__(
        self,
        filenames: Filenames,
        compression_type: str | None = None,
        buffer_size: int | None = None,
        num_parallel_reads: int | None = None,
        name: str | None = None,
    ):
        compression = check_compression(compression_type)
        super().__init__(_node_of("TextLineDataset", filenames, lambda paths: TextSource(paths, compression)))


class FixedLengthRecordDataset(Dataset):
    """The records of binary files in which all have one length, as bytes; ``tf.io.decode_raw`` reads them.

    Args:
        filenames: A path, a sequence of paths, or a dataset of paths.
        record_bytes: The bytes of a record.
        header_bytes: How many bytes to skip at the start of each file.
        footer_bytes: How many bytes to leave out at the end of each file.
        buffer_size: Accepted and ignored.
        compression_type: ``GZIP``, ``ZLIB``, or empty or None for none.
        num_parallel_reads: Accepted and ignored.
        name: Ignored.

    Raises:
        ValueError: A number of bytes is negative, or a record has none.
        DatasetError: While iterating: a file is missing, or its length is none of whole records.

    Source: tensorflow/python/data/ops/readers.py, ``FixedLengthRecordDatasetV2``.
    """

    def __init__(
        self,
        filenames: Filenames,
        record_bytes: int,
        header_bytes: int | None = None,
        footer_bytes: int | None = None,
        buffer_size: int | None = None,
        compression_type: str | None = None,
        num_parallel_reads: int | None = None,
        name: str | None = None,
    ):
        compression = check_compression(compression_type)
        sizes = (int(record_bytes), int(header_bytes or 0), int(footer_bytes or 0))
        if sizes[0] < 1 or min(sizes) < 0:
            raise ValueError(
                "FixedLengthRecordDataset needs record_bytes of 1 at least, and no negative header_bytes and "
                f"footer_bytes, got {', '.join(map(str, sizes))}."
            )
        super().__init__(
            _node_of(
                "FixedLengthRecordDataset",
                filenames,
                lambda paths: FixedLengthSource(paths, sizes, compression),
            )
        )


class CsvDataset(Dataset):
    """The rows of CSV files, as tuples. Empty lines are skipped.

    Args:
        filenames: A path, a sequence of paths, or a dataset of paths.
        record_defaults: An entry for each column to read: the value of empty fields, alone or in a list, or
            a dtype, with which an empty field is an error. Types are float32, float64, int32, int64 and text.
        compression_type: ``GZIP``, ``ZLIB``, or empty or None for none.
        buffer_size: Accepted and ignored.
        header: Whether to skip the first line of each file.
        field_delim: The character between fields.
        use_quote_delim: Whether fields may be in double quotes.
        na_value: Text that stands for an empty field.
        select_cols: The numbers of the fields to read, increasing; by default all.
        exclude_cols: The numbers of the fields to skip, instead of `select_cols`.

    Raises:
        ValueError: Arguments contradict each other.
        DatasetError: While iterating: a file is missing, or a row is wrong; names the line.

    Source: tensorflow/python/data/experimental/ops/readers.py, ``CsvDatasetV2``. There, text is bytes.
    """

    def __init__(
        self,
        filenames: Filenames,
        record_defaults: Sequence[Any],
        compression_type: str | None = None,
        buffer_size: int | None = None,
        header: bool = False,
        field_delim: str = ",",
        use_quote_delim: bool = True,
        na_value: str = "",
        select_cols: Sequence[int] | None = None,
        exclude_cols: Sequence[int] | None = None,
    ):
        columns = [CsvColumn.of(default) for default in record_defaults]
        if not columns:
            raise ValueError("record_defaults needs a column at least, got none.")
        if select_cols is not None and exclude_cols is not None:
            raise ValueError("Either select_cols or exclude_cols should be specified, not both.")
        fields, selected = _selection(len(columns), select_cols, exclude_cols)
        form = CsvFormat(
            compression=check_compression(compression_type),
            header=bool(header),
            field_delim=field_delim,
            use_quote_delim=bool(use_quote_delim),
            na_value=na_value,
            fields=fields,
            selected=selected,
        )
        template = tuple(range(len(columns)))
        super().__init__(
            _node_of(
                "CsvDataset", filenames, lambda paths: CsvSource("CsvDataset", paths, form, columns, template)
            )
        )


def _selection(
    columns: int, select_cols: Sequence[int] | None, exclude_cols: Sequence[int] | None
) -> tuple[int | None, list[int] | None]:
    """Return how many fields a row has, and the numbers of those to read; None stands for any and all."""
    if exclude_cols is not None:
        excluded = set(exclude_cols)
        fields: int | None = columns + len(excluded)
        selected = [number for number in range(columns + len(excluded)) if number not in excluded]
    elif select_cols is not None:
        fields, selected = None, list(select_cols)
    else:
        return columns, None
    if len(selected) != columns or selected != sorted(set(selected)) or min(selected) < 0:
        raise ValueError(
            f"select_cols needs increasing numbers of fields, one for each of the {columns} "
            f"record_defaults, got {selected}."
        )
    return fields, selected


class NpzDataset(Dataset):
    """The rows of the arrays in npz files, as dicts from the name of an array to its row.

    Arrays from ``numpy.savez`` stay in the files, which are mapped into memory. Arrays from
    ``numpy.savez_compressed`` are read into memory at the first element.

    Args:
        filenames: A path or a sequence of paths. Arrays have the same types and row shapes in all files.
        keys: The names of the arrays to read; by default all in the first file.

    Raises:
        DatasetError: While iterating: a file is missing, or its arrays differ in length.
    """

    def __init__(self, filenames: Filenames, keys: Sequence[str] | None = None):
        names = None if keys is None else list(keys)
        super().__init__(_node_of("NpzDataset", filenames, lambda paths: NpzSource(paths, names)))


class ParquetDataset(Dataset):
    """The rows of Parquet files, as dicts from column to value.

    Needs ``pip install "muster-train[parquet]"``.

    Columns hold numbers, text, bytes, or lists of numbers of one length. Missing floating-point numbers
    become NaN.

    Args:
        filenames: A path or a sequence of paths. Columns have the same types in all files.
        columns: The columns to read; by default all.

    Raises:
        ImportError: pyarrow is not installed.
        DatasetError: A file is missing or not a Parquet file, or a column has an unsupported type.
    """

    def __init__(self, filenames: Filenames, columns: Sequence[str] | None = None):
        super().__init__(_node_of("ParquetDataset", filenames, lambda paths: ParquetSource(paths, columns)))


class ArrayRecordDataset(Dataset):
    """The records of ArrayRecord files, as bytes. Needs ``pip install "muster-train[grain]"``.

    Records are read by random access: `shuffle` reads none ahead of the reader.

    Args:
        filenames: A path or a sequence of paths.

    Raises:
        ImportError: Grain is not installed.
        DatasetError: While iterating: a file is missing or not an ArrayRecord file.
    """

    def __init__(self, filenames: Filenames):
        super().__init__(_node_of("ArrayRecordDataset", filenames, ArrayRecordSource))
