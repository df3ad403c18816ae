"""``make_csv_dataset``: batches of the rows of CSV files, by the names of their columns."""

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np

from muster._errors import DatasetError
from muster.data._dataset import Dataset
from muster.data.files._csv import CsvColumn, CsvFormat, CsvSource
from muster.data.files._files import check_compression, missing_file
from muster.data.files._list_files import FileNames

_KIND = "make_csv_dataset"


def make_csv_dataset(
    file_pattern: Any,
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
    """Batches of the rows of CSV files: a dict of columns, or such a dict and the labels.

    Args:
        file_pattern: a pattern, or several, of paths.
        batch_size: rows in a batch.
        column_names: of all columns; by default those in the first line of the first file.
        column_defaults: as ``record_defaults`` of CsvDataset; by default the types of the first rows, with 0
            or empty text for an empty field.
        label_name: the column that is the label.
        select_columns: the names, or the numbers, of the columns to read; by default all.
        field_delim, use_quote_delim, na_value, compression_type: as of CsvDataset.
        header: whether the first line of each file holds names.
        num_epochs: how often the data is gone through; None for ever, in whole batches.
        shuffle, shuffle_buffer_size, shuffle_seed: whether and how rows are shuffled.
        prefetch_buffer_size: batches that are read ahead; by default a few.
        num_parallel_reads, sloppy: accepted and ignored.
        num_rows_for_inference: how many rows are looked at for the types of the columns; None for all.
        ignore_errors: must be False.

    Raises:
        ValueError: The arguments do not go together.
        DatasetError: No file matches, or a file is wrong; also while iterating.

    Source: tensorflow/python/data/experimental/ops/readers.py, ``make_csv_dataset_v2``. Here files are read
    one after the other, in the order of their names.
    """
    if ignore_errors:
        raise ValueError(
            "ignore_errors=True would leave out wrong rows without a word; repair the file instead."
        )
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
    read = CsvFormat(**{**vars(form), "header": header, "fields": len(names), "selected": selected})
    if column_defaults is not None:
        columns = [CsvColumn.of(default) for default in column_defaults]
        if len(columns) == len(names):
            columns = [columns[number] for number in selected]
        elif len(columns) != len(selected):
            raise ValueError(
                f"column_defaults has {len(columns)} entries, for {len(selected)} columns that are read of "
                f"{len(names)}."
            )
    else:
        columns = _inferred(files, read, selected, num_rows_for_inference)
    template: Any = {names[number]: place for place, number in enumerate(selected)}
    if label_name is not None:
        # The label is read last, where the template has it.
        place = template.pop(label_name)
        order = [*template.values(), place]
        columns = [columns[each] for each in order]
        read = CsvFormat(**{**vars(read), "selected": [selected[each] for each in order]})
        template = (template, place)
    data = Dataset(CsvSource(_KIND, files, read, columns, template))
    if shuffle:
        data = data.shuffle(shuffle_buffer_size, shuffle_seed)
    if num_epochs != 1:
        data = data.repeat(num_epochs)
    data = data.batch(batch_size, drop_remainder=num_epochs is None)
    return data.prefetch(-1 if prefetch_buffer_size is None else prefetch_buffer_size)


def _rows(files: tuple[str, ...], path: str, form: CsvFormat, count: int | None) -> list[list[str]]:
    try:
        rows = form.rows(path)
    except OSError as exc:
        raise missing_file(_KIND, path, files, exc) from exc
    try:
        return [row for _, row in islice(rows, count)]
    finally:
        rows.close()


def _names(files: tuple[str, ...], form: CsvFormat, given: Sequence[str] | None, header: bool) -> list[str]:
    """The names of all columns, which the files agree on."""
    firsts = [_rows(files, path, form, 1) for path in files] if header or given is None else []
    if given is None:
        if not header:
            raise ValueError("Cannot infer column names: give column_names for files without a header.")
        if not firsts[0]:
            raise DatasetError(f"{files[0]} is empty, and has no names of columns.")
        names = firsts[0][0]
    else:
        names = list(given)
    for path, first in zip(files, firsts, strict=False):
        if header and given is None and first != [names]:
            raise DatasetError(
                f"Files do not have the same header row: {path} has {first}, {files[0]} {names}."
            )
    if len(set(names)) < len(names):
        raise ValueError(f"Cannot have duplicate column names, got {names}.")
    return names


def _selected(names: list[str], wanted: Sequence[str | int] | None) -> list[int]:
    """The numbers of the columns to read, increasing."""
    if wanted is None:
        return list(range(len(names)))
    numbers = []
    for each in wanted:
        if isinstance(each, str) and each not in names:
            raise ValueError(f"There is no column {each!r} to select; there are {', '.join(names)}.")
        number = names.index(each) if isinstance(each, str) else each
        if not 0 <= number < len(names):
            raise ValueError(
                f"There is no column {each} to select; they are numbered from 0 to {len(names) - 1}."
            )
        numbers.append(number)
    if len(set(numbers)) < len(numbers):
        raise ValueError(f"select_columns names a column twice: {list(wanted)}.")
    return sorted(numbers)


def _inferred(
    files: tuple[str, ...], form: CsvFormat, selected: list[int], count: int | None
) -> list[CsvColumn]:
    """What the first rows can be read as: int32, int64, float32, float64, or text."""
    found = [0] * len(selected)
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
    """The number of the first type in `_KINDS` that a field can be read as."""
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
