"""Rows of CSV files."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dataset_model import read

from large_data import large_data
from muster._errors import DatasetError
from muster.data import CsvDataset, make_csv_dataset

COLUMNS = "age workclass fnlwgt education years married work relation race sex gain loss hours country income"


TYPES = [int, str, int, str, int, str, str, str, str, str, int, int, int, str, str]


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


@pytest.fixture
def simple(tmp_path: Path) -> str:
    return write(tmp_path / "a.csv", 'id,x,name\n1,0.5,one\n2,,"two, ""too"""\n\n3,NA,\n')


def test_rows_are_tuples_with_defaults(simple: str) -> None:
    dataset = CsvDataset(simple, [np.int32, [9.0], ["nobody"]], header=True, na_value="NA")
    assert read(dataset) == [(1, 0.5, "one"), (2, 9.0, 'two, "too"'), (3, 9.0, "nobody")]
    assert [spec.dtype for spec in dataset.element_spec] == [np.int32, np.float32, np.dtype(str)]
    batch = next(iter(dataset.batch(3)))
    assert batch[0].dtype == np.int32
    np.testing.assert_array_equal(batch[1], np.array([0.5, 9, 9], np.float32))


def test_columns_are_chosen(simple: str) -> None:
    chosen = CsvDataset(simple, [np.int64, ""], header=True, select_cols=[0, 2])
    assert read(chosen) == [(1, "one"), (2, 'two, "too"'), (3, "")]
    assert read(CsvDataset(simple, [np.int64, ""], header=True, exclude_cols=[1])) == read(chosen)


def test_other_delimiters_and_no_quotes(tmp_path: Path) -> None:
    path = write(tmp_path / "a", '1;"a"\n2;b\n')
    assert read(CsvDataset(path, [0, ""], field_delim=";", use_quote_delim=False)) == [(1, '"a"'), (2, "b")]
    (tmp_path / "z").write_bytes(gzip.compress(b"\xef\xbb\xbf5,5\n"))  # with the mark that Excel writes
    assert read(CsvDataset(tmp_path / "z", [0, 0], "GZIP")) == [(5, 5)]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("1,x,one", r"line 1502: field 1, 'x', cannot be read as float32"),
        (
            ",1.0,one",
            r"line 1502: field 0, '', cannot be read as int32: it is empty, and the column has no default",
        ),
        ("1,1.0", r"line 1502: expected 3 fields, got 2: \['1', '1.0'\]"),
        ("1,1.0,a,b", r"line 1502: expected 3 fields, got 4"),
        ("3000000000,1.0,a", r"line 1502: field 0, '3000000000', cannot be read as int32"),
    ],
)
def test_a_wrong_row_is_named_and_the_others_are_read(tmp_path: Path, row: str, message: str) -> None:
    rows = [f"{i},0.5,n" for i in range(2000)]
    rows[1500] = row
    path = write(tmp_path / "a", "\n".join(["id,x,name", *rows]))
    dataset = CsvDataset(path, [np.int32, 0.0, ""], header=True)
    with dataset.iterator() as iterator:
        assert [next(iterator)[0] for _ in range(1500)] == list(range(1500))
        with pytest.raises(DatasetError, match=f"{path}, {message}"):
            next(iterator)
    assert len(read(dataset.skip(1501))) == 499
    batches = dataset.batch(100).iterator()
    assert [len(next(batches)[0]) for _ in range(15)] == [100] * 15
    with pytest.raises(DatasetError, match=message):
        next(batches)


def test_lines_count_where_fields_go_over_several(tmp_path: Path) -> None:
    rows = ["0,0.5,n", '1,0.5,"two\nlines"', "", '2,0.5,"three\r\n\r\nlines"', "3,wrong,n", "4,0.5,n"]
    path = tmp_path / "a"
    path.write_bytes("\n".join(rows).encode())
    dataset = CsvDataset(str(path), [np.int32, 0.0, ""])
    with pytest.raises(DatasetError, match=f"{path}, line 8: field 1, 'wrong'"):
        read(dataset)
    assert [row[2] for row in read(dataset.skip(4))] == ["n"]
    assert [row[2] for row in read(dataset.take(3))] == ["n", "two\nlines", "three\r\n\r\nlines"]


def test_text_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1,a\n2,\xff\n")
    with pytest.raises(DatasetError, match=f"{tmp_path / 'a'}, after line .*cannot be read: 'utf-8'"):
        read(CsvDataset(tmp_path / "a", [0, ""]))
    path = write(tmp_path / "b", '1,"a\n')
    with pytest.raises(DatasetError, match="cannot be read: unexpected end of data"):
        read(CsvDataset(path, [0, ""]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"record_defaults": []}, "needs a column at least"),
        ({"record_defaults": [np.uint8]}, "types float32, float64, int32, int64, str, got uint8"),
        ({"record_defaults": [[1, 2]]}, "A default is one value"),
        ({"record_defaults": [0], "field_delim": "::"}, "field_delim is one character, got '::'"),
        ({"record_defaults": [0], "select_cols": [0, 1]}, "one for each of the 1"),
        ({"record_defaults": [0, 0], "select_cols": [1, 0]}, "increasing numbers"),
        ({"record_defaults": [0], "select_cols": [0], "exclude_cols": [1]}, "not both"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CsvDataset("a", **arguments)


def test_the_census() -> None:
    adult = large_data("adult/adult.data")
    expected = [line.split(", ") for line in adult.read_text().splitlines() if line]
    data = CsvDataset(str(adult), [np.int32 if kind is int else str for kind in TYPES])
    columns = [np.concatenate(parts) for parts in zip(*data.batch(1000), strict=True)]
    assert len(columns[0]) == 32_561
    for number, kind in enumerate(TYPES):
        got = [text.strip() for text in columns[number].tolist()] if kind is str else columns[number].tolist()
        assert got == [kind(row[number]) for row in expected]
    batches = make_csv_dataset(
        str(adult), 500, column_names=COLUMNS.split(), label_name="income", header=False, num_epochs=1
    )
    rich = sum(int((labels == " >50K").sum()) for _, labels in batches)
    assert rich == sum(row[-1] == ">50K" for row in expected)
