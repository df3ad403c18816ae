"""Batches of the columns of CSV files."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from muster._errors import DatasetError
from muster.data import make_csv_dataset


def test_batches_of_columns_with_inferred_types(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n,big,x,huge,t\n1,3000000000,,1e300,a\n2,4,1.5,2,b\n")
    (tmp_path / "b.csv").write_text("n,big,x,huge,t\n3,5,2,3,c\n")
    data = make_csv_dataset(str(tmp_path / "*.csv"), 2, label_name="n", num_epochs=1, shuffle=False)
    (features, labels), (last, _) = data
    assert {name: column.dtype.kind + str(column.dtype.itemsize) for name, column in features.items()} == {
        "big": "i8",
        "x": "f4",
        "huge": "f8",
        "t": "U4",
    }
    np.testing.assert_array_equal(labels, [1, 2])
    np.testing.assert_array_equal(features["x"], [0, 1.5])
    assert last["t"].tolist() == ["c"]
    shuffled = make_csv_dataset(str(tmp_path / "*.csv"), 3, select_columns=["t", "n"], shuffle_seed=1)
    assert shuffled.cardinality() in (-1, -2)
    with shuffled.iterator() as batches:
        for _ in range(3):  # for ever, in whole batches
            batch = next(batches)
            assert sorted(zip(batch["n"].tolist(), batch["t"].tolist(), strict=True)) == [
                (1, "a"),
                (2, "b"),
                (3, "c"),
            ]
            assert list(batch) == ["n", "t"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"label_name": "z"}, "`label_name` provided must be one of the columns. 'z'"),
        ({"column_names": ["a", "a"]}, "Cannot have duplicate column names"),
        ({"header": False}, "Cannot infer column names"),
        ({"select_columns": ["z"]}, "no column 'z' to select; there are a, b"),
        ({"select_columns": [2]}, "no column 2 to select"),
        ({"select_columns": [1, "b"]}, "names a column twice"),
        ({"column_defaults": [0, 0, 0]}, "column_defaults has 3 entries, for 2 columns"),
        ({"num_rows_for_inference": 0}, "num_rows_for_inference is a positive number.* got 0"),
    ],
)
def test_wrong_arguments_for_batches(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=message):
        make_csv_dataset(str(tmp_path / "a.csv"), 2, **arguments)


def test_files_with_different_names_of_columns(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    (tmp_path / "b.csv").write_text("a,c\n1,2\n")
    with pytest.raises(DatasetError, match=r"b.csv has \[\['a', 'c'\]\]"):
        make_csv_dataset(str(tmp_path / "*.csv"), 2)
    with pytest.raises(DatasetError, match="No files matched pattern: .*nothing"):
        make_csv_dataset(str(tmp_path / "nothing*.csv"), 2)


def test_rows_that_are_wrong_may_be_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n3\nx,4\n5,6\n")
    data = make_csv_dataset(
        str(tmp_path / "a.csv"), 2, column_defaults=[0, 0], num_epochs=1, shuffle=False, ignore_errors=True
    )
    assert [(batch["a"].tolist(), batch["b"].tolist()) for batch in data] == [([1, 5], [2, 6])]
    assert "leaves out an element" in caplog.text
    assert "a.csv, line 3: expected 2 fields, got 1" in caplog.text


def test_a_column_without_values_is_one_of_text(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,\n2,\n")
    data = make_csv_dataset(str(tmp_path / "a.csv"), 2, shuffle=False, num_epochs=1)
    (batch,) = data
    assert batch["b"].tolist() == ["", ""]
    assert batch["a"].tolist() == [1, 2]
