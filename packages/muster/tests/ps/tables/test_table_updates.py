"""Updates of rows in few different numbers of rows."""

import numpy as np
import pytest
from table_models import SPEC, Rows, Sums, gradients, summed, train

from muster.ps.tables import Column, Columns, PaddedRows, RowBuffers, RowStore
from muster.ps.tables import _row_updates as row_updates

ROWS = 100


def table(kind):
    """The columns of a table, side by side in a store or in one each."""
    stores = (
        [RowStore(SPEC.columns, ROWS)] if kind == "one" else [RowStore([each], ROWS) for each in SPEC.columns]
    )
    columns = Columns(stores)
    values = [
        np.full((ROWS, *column.shape), value)
        for column, value in zip(columns.columns, (1, 0.5, 0), strict=True)
    ]
    columns.write(np.arange(ROWS), values)
    return columns, stores[0]


@pytest.mark.parametrize("kind", ["one", "several"])
def test_few_numbers_of_rows_are_computed(monkeypatch, kind):
    monkeypatch.setattr(row_updates, "_LEAST", 4)
    monkeypatch.setattr(row_updates, "_MOST", 16)
    (columns, store), model, update = table(kind), Rows(), Sums()
    for count in (1, 4, 5, 16, 17, 50):
        ids = np.arange(count) + 3
        train(columns, *summed(ids, gradients(ids)), update)
        model.apply(ids.tolist(), gradients(ids))
    assert update.sizes == {4, 8, 16}
    np.testing.assert_array_equal(store.read(np.arange(ROWS))[0], model.look_up(range(ROWS)))


def test_a_number_of_rows_is_kept_until_far_fewer_come(monkeypatch):
    monkeypatch.setattr(row_updates, "_LEAST", 4)
    columns, _ = table("one")
    padded = PaddedRows(columns, [Column((2,), np.dtype(np.float32))])
    counts = (3, 9, 16, 5, 4, 7, 17)
    assert [padded.size(count) for count in counts] == [4, 16, 16, 16, 4, 8, 32]


def test_rows_of_several_tables_lie_in_one_buffer():
    columns, _ = table("one")
    padded = PaddedRows(columns, [Column((2,), np.dtype(np.float32)), Column((), np.dtype(bool))])
    rows = RowBuffers([padded, None, padded, padded], [4, 0, 0, padded.size(5)])
    first, *nothing, last = rows.tables
    assert nothing == [None, None]
    assert ([each.shape for each in first.rows], len(last.pushed[1])) == ([(4, 2), (4, 2), (4,)], 64)
    assert {name: array.size for name, array in rows.flat.items()} == {"bool": 68, "float32": 68 * 7}
    padded.take(np.arange(5), [np.full((5, 2), 3.0), np.ones(5, bool)], last)
    assert (last.rows[1] == 0.5).all()
    assert (last.pushed[0].sum(), rows.flat["bool"][4:].sum()) == (30, 5)
    made = rows.made({"float32": np.arange(68 * 5, dtype=np.float32)})
    assert [len(each) for each in made] == [3, 0, 0, 3]
    assert made[0][0].tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert made[3][2][-1] == 68 * 5 - 1


def test_columns_from_one_on():
    _, store = table("one")
    columns = Columns([store], 1)
    assert columns.columns == SPEC.columns[1:]
    columns.write(np.array([5]), [np.full((1, 2), 7.0), np.ones(1)])
    buffers = [np.empty((2, 2), np.float32), np.empty(2, np.float32)]
    columns.read_into(np.array([4, 5]), buffers)
    assert [each.tolist() for each in buffers] == [[[0.5, 0.5], [7, 7]], [0, 1]]
    assert (store.read(np.arange(ROWS))[0] == 1).all()
