"""A function of text that is called once for many elements."""

import operator
import threading

import numpy as np
import pytest

from muster import DatasetError
from muster.data import Dataset, decode_csv
from muster.data.pipeline._rows import ElementRows, NoRowsError, RowsValue, rows_of
from muster.data.pipeline._rows_function import RowsFunction

LINES = [f'{i},w{i},"a,{i}"' if i % 5 == 0 else f"{i},w{i},{i}" for i in range(32)]


def csv(line):
    return tuple(decode_csv(line, [[0], [""], [""]]))


def batches(lines, function=csv, size=8):
    return list(Dataset.from_generator(lambda: iter(lines), output_types=str).map(function).batch(size))


def test_lines_of_csv_are_read_as_each_by_itself(monkeypatch):
    found = batches(LINES)
    monkeypatch.setattr(RowsFunction, "apply", lambda self, loaded, each: None)
    wanted = batches(LINES)
    for one, other in zip(found, wanted, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)
            assert a.dtype == b.dtype
    assert wanted[0][2].tolist()[:2] == ["a,0", "1"]


def test_the_function_is_called_once_for_a_batch_after_the_first():
    calls = []

    def counted(line):
        calls.append(line)
        return csv(line)

    batches(LINES, counted)
    assert len(calls) == 8 + 1 + 3  # each of the first batch, a sample of it, and each further batch


def test_a_line_that_is_wrong_is_an_error_and_the_others_go_on():
    lines = [*LINES[:20], "no", *LINES[21:]]
    with pytest.raises(DatasetError, match="Expect 3 fields but have 1 in record 0: 'no'"):
        batches(lines)
    data = Dataset.from_generator(lambda: iter(lines), output_types=str).map(csv).ignore_errors()
    assert [int(number) for number, *_ in data] == [i for i in range(32) if i != 20]


def test_threads_that_begin_together_get_the_same():
    data = Dataset.from_generator(lambda: iter(LINES), output_types=str).map(csv).batch(8)
    found = {}

    def read(number):
        found[number] = [batch[0].tolist() for batch in data]

    threads = [threading.Thread(target=read, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(each == [list(range(i, i + 8)) for i in range(0, 32, 8)] for each in found.values())


def value(values):
    return RowsValue(ElementRows(len(values)), rows_of(values))


@pytest.mark.parametrize(
    "use", [bool, int, float, str, len, list, np.asarray, operator.index, "a".__contains__]
)
def test_python_cannot_take_it_for_one_value(use):
    with pytest.raises(TypeError):
        use(value(["1", "2"]))


def test_equality_is_that_of_each():
    assert (value(["a", "b"]) == "a").rows.tolist() == [True, False]
    assert (value([np.int64(1), np.int64(2)]) != np.int64(1)).rows.tolist() == [False, True]
    assert len({value(["a"]), value(["a"])}) == 2  # as what it is in sets and dicts


def test_results_that_differ_are_kept_for_each():
    source = ElementRows(2)
    of_two = RowsValue(source, rows_of(["a", "bc"]))
    lengths = source.compute(lambda text: np.zeros(len(text)), (of_two,), {})
    assert [each.shape for each in lengths.rows] == [(1,), (2,)]
    assert source.compute(np.sum, (lengths,), {}).rows.tolist() == [0, 0]
    with pytest.raises(NoRowsError):
        source.compute(lambda text: {text: 1}, (of_two,), {})
