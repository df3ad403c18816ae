"""``make_csv_dataset``: batches of CSV columns, by name."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from muster._errors import DatasetError
from muster.data._dataset import Dataset
from muster.data.files._csv import CsvColumn, CsvFormat, CsvSource
from muster.data.files._files import FileNames, Paths, check_compression, missing_file

_KIND = "make_csv_dataset"
_CHUNK = 1024  # rows


def make_csv_dataset(
    file_pattern: Paths,
    batch_size: int,
    column_names: Sequence[str] | None = None,
    column_defaults: Sequence[Any] | None = None,
    label_name: str | None = None,
    select_columns: Sequence[str | int] | None = None,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    header: bool = True,
    num_epochs: int | None = None,
    shuffle: bool = True,
    shuffle_buffer_size: int = 10000,
    shuffle_seed: int | None = None,
    prefetch_buffer_size: int | None = None,
    num_parallel_reads: int | None = None,
    sloppy: bool = False,
    num_rows_for_inference: int | None = 100,
    compression_type: str | None = None,
    ignore_errors: bool = False,
) -> Dataset:
    """Make a dataset of batches of CSV rows.

    An element is a dict from the name of a column to an array of shape (batch,); with `label_name`, a tuple
    of such a dict and the array of labels.

    Args:
        file_pattern: A glob pattern such as ``data/*.csv``, or a list of them.
        batch_size: The number of rows in a batch.
        column_names: The names of all columns; by default those in the first line of the first file.
        column_defaults: As ``record_defaults`` of `CsvDataset`; by default the types are inferred, and the
            value of an empty field is 0 or empty text.
        label_name: The name of the column of labels.
        select_columns: The names or numbers of the columns to read; by default all.
        field_delim: The character between fields.
        use_quote_delim: Whether fields may be in double quotes.
        na_value: Text that stands for an empty field.
        header: Whether the first line of each file holds names.
        num_epochs: The number of passes; None repeats without end, in batches of `batch_size`.
        shuffle: Whether to shuffle the rows.
        shuffle_buffer_size: `buffer_size` of the shuffle.
        shuffle_seed: Seed of the shuffle.
        prefetch_buffer_size: The number of batches to read ahead; by default 4.
        num_parallel_reads: Accepted and ignored.
        sloppy: Accepted and ignored.
        num_rows_for_inference: The number of rows from which types are inferred; None for all.
        compression_type: ``GZIP``, ``ZLIB``, or empty or None for none.
        ignore_errors: Whether to leave out rows that are wrong; the first one is logged.

    Raises:
        ValueError: Arguments contradict each other.
        DatasetError: No file matches, or a file is wrong; also while iterating.

    Source: tensorflow/python/data/experimental/ops/readers.py, ``make_csv_dataset_v2``. Here files are read
    one after the other, in the order of their names.

    Example:
        ```python
        pathlib.Path("people.csv").write_text("age,pay\\n39,0\\n50,1\\n")
        batches = muster.data.make_csv_dataset("*.csv", 2, label_name="pay", num_epochs=1, shuffle=False)
        columns, labels = next(iter(batches))
        assert columns["age"].tolist() == [39, 50]
        ```
    """
    if num_rows_for_inference is not None and num_rows_for_inference < 1:
        raise ValueError(
            "num_rows_for_inference is a positive number, or None for all rows, got "
            f"{num_rows_for_inference}."
        )
    files = tuple(FileNames.matching(file_pattern).names.tolist())
    form = CsvFormat(
        compression=check_compression(compression_type),
        field_delim=field_delim,
        use_quote_delim=bool(use_quote_delim),
        na_value=na_value,
    )
    names = _names(files, form, column_names, header)
    selected = _selected(names, select_columns)
    if label_name is not None and label_name not in [names[number] for number in selected]:
        raise ValueError(
            f"`label_name` provided must be one of the columns. {label_name!r} is none of {names}."
        )
    form = replace(form, header=header, fields=len(names), selected=selected)
    if column_defaults is None:
        columns = _inferred_columns(files, form, selected, num_rows_for_inference)
    else:
        columns = _columns(column_defaults, selected, len(names))
    template, order = _structure([names[number] for number in selected], label_name)
    form = replace(form, selected=[selected[i] for i in order])
    data = Dataset(CsvSource(_KIND, files, form, [columns[i] for i in order], template))
    if ignore_errors:
        data = data.ignore_errors()
    if shuffle:
        data = data.shuffle(shuffle_buffer_size, shuffle_seed)
    if num_epochs != 1:
        data = data.repeat(num_epochs)
    data = data.batch(batch_size, drop_remainder=num_epochs is None)
    return data.prefetch(-1 if prefetch_buffer_size is None else prefetch_buffer_size)


def _rows(files: tuple[str, ...], path: str, form: CsvFormat, count: int | None) -> list[list[str]]:
    try:
        chunks = form.chunks(path, count or _CHUNK)
    except OSError as exc:
        raise missing_file(_KIND, path, files, exc) from exc
    try:
        every = (rows.row(number) for rows in chunks for number in range(len(rows.sizes)))
        return list(islice(every, count))
    finally:
        chunks.close()


def _names(
    files: tuple[str, ...], form: CsvFormat, column_names: Sequence[str] | None, header: bool
) -> list[str]:
    """Return the names of all columns, which are the same in all files."""
    firsts = [_rows(files, path, form, 1) for path in files] if header or column_names is None else []
    if column_names is None:
        if not header:
            raise ValueError("Cannot infer column names: give column_names for files without a header.")
        if not firsts[0]:
            raise DatasetError(f"{files[0]} is empty, and has no names of columns.")
        names = firsts[0][0]
    else:
        names = list(column_names)
    for path, first in zip(files, firsts, strict=False):
        if header and column_names is None and first != [names]:
            raise DatasetError(
                f"Files do not have the same header row: {path} has {first}, {files[0]} {names}."
            )
    if len(set(names)) < len(names):
        raise ValueError(f"Cannot have duplicate column names, got {names}.")
    return names


def _selected(names: list[str], wanted: Sequence[str | int] | None) -> list[int]:
    """Return the numbers of the columns to read, increasing."""
    if wanted is None:
        return list(range(len(names)))
    numbers = []
    for column in wanted:
        if isinstance(column, str) and column not in names:
            raise ValueError(f"There is no column {column!r} to select; there are {', '.join(names)}.")
        number = names.index(column) if isinstance(column, str) else column
        if not 0 <= number < len(names):
            raise ValueError(
                f"There is no column {column} to select; they are numbered from 0 to {len(names) - 1}."
            )
        numbers.append(number)
    if len(set(numbers)) < len(numbers):
        raise ValueError(f"select_columns names a column twice: {list(wanted)}.")
    return sorted(numbers)


def _columns(column_defaults: Sequence[Any], selected: list[int], total: int) -> list[CsvColumn]:
    """Return the selected columns of defaults for all columns, or for the selected ones."""
    columns = [CsvColumn.of(default) for default in column_defaults]
    if len(columns) == total:
        return [columns[number] for number in selected]
    if len(columns) != len(selected):
        raise ValueError(
            f"column_defaults has {len(columns)} entries, for {len(selected)} columns that are read of "
            f"{total}."
        )
    return columns


def _structure(names: list[str], label_name: str | None) -> tuple[Any, list[int]]:
    """Return the structure of an element, and the columns in the order of its leaves."""
    template = {name: i for i, name in enumerate(names)}
    if label_name is None:
        return template, list(range(len(names)))
    label = template.pop(label_name)
    return (template, label), [*template.values(), label]


def _inferred_columns(
    files: tuple[str, ...], form: CsvFormat, selected: list[int], count: int | None
) -> list[CsvColumn]:
    """Return columns of the first type that fits `count` rows: int32, int64, float32, float64 or text.

    A column that is empty in all of them is one of text.
    """
    found = [-1] * len(selected)
    left = count
    for path in files:
        rows = _rows(files, path, form, left)
        for row in rows:
            for place, number in enumerate(selected):
                if number < len(row) and row[number] not in ("", form.na_value):
                    found[place] = max(found[place], _kind(row[number]))
        if left is not None:
            left -= len(rows)
            if left <= 0:
                break
    return [CsvColumn(dtype, dtype.type()) for dtype in (_KINDS[kind] for kind in found)]


_KINDS = [np.dtype(kind) for kind in (np.int32, np.int64, np.float32, np.float64, str)]


def _kind(text: str) -> int:
    """Return the number of the first type in `_KINDS` that a field fits."""
    try:
        value = int(text)
    except ValueError:
        pass
    else:
        if abs(value) < 2**31:
            return 0
        return 1 if abs(value) < 2**63 else 2
    try:
        return 2 if abs(float(text)) <= float(np.finfo(np.float32).max) else 3
    except ValueError:
        return 4
