"""``decode_csv``; values are those of TensorFlow 2.15."""

from typing import Any

import numpy as np
import pytest

from muster import DatasetError
from muster.data import Dataset, decode_csv


def test_a_line_gives_a_value_for_each_column() -> None:
    number, text, default, real = decode_csv("1,a,,2.5", [[0], [""], [7], np.float32])
    assert (number, text, default, real) == (1, "a", 7, 2.5)
    assert (number.dtype, real.dtype, type(text)) == (np.int32, np.float32, str)


def test_lines_give_arrays() -> None:
    numbers, texts = decode_csv(np.array([b"1,a", b"2,b"], object), [[0], [""]])
    assert (numbers.tolist(), texts.tolist()) == ([1, 2], ["a", "b"])


def test_columns_are_chosen() -> None:
    assert decode_csv('1,"a,b",3', [0, 0], select_cols=[0, 2]) == [1, 3]
    assert decode_csv('1,"a,b",3', [0, "", 0])[1] == "a,b"
    assert decode_csv("1;NA", [0, 5], field_delim=";", na_value="NA") == [1, 5]
    assert decode_csv('"a",1', ["", 0], use_quote_delim=False) == ['"a"', 1]


@pytest.mark.parametrize(
    ("line", "defaults", "message"),
    [
        ("1,a", [[0]], "Expect 1 fields but have 2 in record 0: '1,a'"),
        ("x,a", [[0], [""]], "Field 0 cannot be read as int32"),
        (",a", [np.int32, [""]], "Field 0 cannot be read as int32: it is empty"),
    ],
)
def test_wrong_lines_are_refused(line: str, defaults: Any, message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        decode_csv(line, defaults)


def test_columns_and_defaults_must_be_as_many() -> None:
    with pytest.raises(ValueError, match="2 record_defaults for 1 columns"):
        decode_csv("1,2", [0, 0], select_cols=[0])


def test_a_dataset_reads_lines() -> None:
    rows = Dataset.from_tensor_slices(["1,2", "3,4"]).map(lambda line: tuple(decode_csv(line, [0, 0.0])))
    assert [(int(a), float(b)) for a, b in rows] == [(1, 2.0), (3, 4.0)]
