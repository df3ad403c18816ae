"""Datasets of files, one class for each of their formats."""

import os
import sys
from collections.abc import Sequence
from typing import Any

from muster.data._dataset import Dataset
from muster.data.files._csv import CsvColumn, CsvFormat, CsvSource
from muster.data.files._files import FileSource, check_compression, paths_of
from muster.data.files._npz import NpzSource
from muster.data.files._parquet import ParquetSource
from muster.data.files._random_access import ArrayRecordSource
from muster.data.files._text import TextSource
from muster.data.files._tfrecord import TFRecordSource
from muster.data.pipeline._flat_map import Interleave
from muster.data.pipeline._node import Node

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Dataset
"""The path of a file, several, or a dataset of such."""


def _node_of(kind: str, filenames: Any, make: Any) -> Node:
    """The source of the files, or of those that a dataset names."""
    if isinstance(filenames, Dataset):
        return Interleave(filenames._node, lambda *names: make(paths_of(kind, names)), 1, sys.maxsize)
    source: FileSource = make(paths_of(kind, filenames))
    return source


class TFRecordDataset(Dataset):
    """The records of TFRecord files, as bytes.

    Files are read one after the other, from front to back, and every checksum is looked at. What a position
    passes over is not.

    Args:
        filenames: a path, several, or a dataset of paths.
        compression_type: ``GZIP``, ``ZLIB``, or empty or None for none.
        buffer_size, num_parallel_reads: accepted and ignored; `Dataset.interleave` reads from several files.
        name: ignored.

    Raises:
        DatasetError: While iterating: a file is missing or damaged.

    Source: tensorflow/python/data/ops/readers.py, ``TFRecordDatasetV2``.
    """

    def __init__(
        self,
        filenames: Paths,
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
    """The lines of text files in UTF-8, without their ends, as ``str``.

    Args:
        filenames, compression_type, buffer_size, num_parallel_reads, name: as of TFRecordDataset.

    Raises:
        DatasetError: While iterating: a file is missing, or no text; names the line.

    Source: tensorflow/python/data/ops/readers.py, ``TextLineDatasetV2``. There, lines are bytes.
    """

    def __init__(
        self,
        filenames: Paths,
        compression_type: str | None = None,
        buffer_size: int | None = None,
        num_parallel_reads: int | None = None,
        name: str | None = None,
    ):
        compression = check_compression(compression_type)
        super().__init__(_node_of("TextLineDataset", filenames, lambda paths: TextSource(paths, compression)))


class CsvDataset(Dataset):
    """The rows of CSV files, as tuples. Empty lines are left out.

    Args:
        filenames: as of TFRecordDataset.
        record_defaults: for each column that is read, its dtype, if there must be a value, or what stands in
            for an empty field: a value, alone or in a list. Types are float32, float64, int32, int64, text.
        compression_type: as of TFRecordDataset.
        buffer_size: ignored.
        header: whether the first line of each file is left out.
        field_delim: what is between two fields.
        use_quote_delim: whether fields may be in double quotes.
        na_value: a field that is as good as an empty one.
        select_cols: the numbers of the fields to read, increasing; by default all.
        exclude_cols: the numbers of those to leave out, instead.

    Raises:
        ValueError: The arguments do not go together.
        DatasetError: While iterating: a file is missing, or a row is wrong; names the line.

    Source: tensorflow/python/data/experimental/ops/readers.py, ``CsvDatasetV2``. There, text is bytes.
    """

    def __init__(
        self,
        filenames: Paths,
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
        selected, fields = None, len(columns)
        if exclude_cols is not None:
            fields += len(set(exclude_cols))
            selected = [number for number in range(fields) if number not in set(exclude_cols)]
        elif select_cols is not None:
            selected, fields = list(select_cols), 0
        if selected is not None and (
            len(selected) != len(columns) or selected != sorted(set(selected)) or min(selected) < 0
        ):
            raise ValueError(
                f"select_cols needs increasing numbers of fields, one for each of the {len(columns)} "
                f"record_defaults, got {selected}."
            )
        form = CsvFormat(
            compression=check_compression(compression_type),
            header=bool(header),
            field_delim=field_delim,
            use_quote_delim=bool(use_quote_delim),
            na_value=na_value,
            fields=fields or None,
            selected=selected,
        )
        template = tuple(range(len(columns)))
        super().__init__(
            _node_of(
                "CsvDataset", filenames, lambda paths: CsvSource("CsvDataset", paths, form, columns, template)
            )
        )


class NpzDataset(Dataset):
    """The rows of the arrays in npz files, as a dict by array.

    Arrays that ``numpy.savez`` wrote stay in the files, which are mapped into memory; those of
    ``numpy.savez_compressed`` are read as a whole at the first element.

    Args:
        filenames: a path, or several, whose arrays are alike.
        keys: the names of the arrays to read; by default all of the first file.

    Raises:
        DatasetError: While iterating: a file is missing, or its arrays are not as long as each other.
    """

    def __init__(self, filenames: Paths, keys: Sequence[str] | None = None):
        names = None if keys is None else list(keys)
        super().__init__(_node_of("NpzDataset", filenames, lambda paths: NpzSource(paths, names)))


class ParquetDataset(Dataset):
    """The rows of Parquet files, as a dict by column. Needs ``pip install "muster[parquet]"``.

    Columns are numbers, text, bytes, or lists of numbers of one length; missing numbers are NaN.

    Args:
        filenames: a path, or several, whose columns are alike.
        columns: those to read; by default all.

    Raises:
        ImportError: pyarrow is not installed.
        DatasetError: A file is missing or no Parquet file, or a column is no array.
    """

    def __init__(self, filenames: Paths, columns: Sequence[str] | None = None):
        super().__init__(_node_of("ParquetDataset", filenames, lambda paths: ParquetSource(paths, columns)))


class ArrayRecordDataset(Dataset):
    """The records of ArrayRecord files, as bytes. Needs ``pip install "muster[grain]"``.

    Records are read by number: to shuffle them reads none ahead.

    Args:
        filenames: a path, or several.

    Raises:
        ImportError: Grain is not installed.
        DatasetError: While iterating: a file is missing or no ArrayRecord file.
    """

    def __init__(self, filenames: Paths):
        super().__init__(_node_of("ArrayRecordDataset", filenames, ArrayRecordSource))
