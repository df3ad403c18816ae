"""Dense tables beside a dictionary of rows; what is sent for them that does not fit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from table_models import RATE, SPEC, Rows, Sums, gradients

from muster.ps.tables import Constant, DenseTable, SlotSpec, TableSpec, Uniform
from muster.ps.tables import _row_updates as row_updates

START, STOP = 10, 30
pushes = st.lists(st.lists(st.integers(START, STOP - 1), max_size=12), max_size=6)


def table(spec=SPEC, start=START, stop=STOP, update=None):
    made = DenseTable(spec, start, stop, update or Sums())
    made.initialize()
    return made


@given(pushes)
def test_rows_are_those_of_a_dictionary(pushed):
    real, model = table(), Rows()
    for seed, ids in enumerate(pushed):
        real.apply(ids and np.array(ids), gradients(ids, seed), [RATE]) if ids else None
        model.apply(ids, gradients(ids, seed))
        np.testing.assert_array_equal(real.look_up(np.array(ids, int)), model.look_up(ids))
    everything = np.arange(START, STOP)
    np.testing.assert_array_equal(real.look_up(everything), model.look_up(everything))


def test_a_push_of_nothing_changes_nothing():
    real = table()
    real.apply(np.empty(0, np.int32), gradients([]), [RATE])
    assert (real.look_up(np.arange(START, STOP)) == 1).all()


def test_what_is_looked_up_is_the_callers():
    real = table()
    real.look_up(np.array([12]))[:] = 9
    assert real.look_up(np.array([12])).tolist() == [[1, 1]]


def test_rows_are_replaced_without_their_slots():
    real = table()
    real.apply(np.array([12]), gradients([12]), [RATE])
    real.assign(np.array([12, 13]), np.full((2, 2), 7, np.float32))
    assert real.look_up(np.array([12, 13, 14])).tolist() == [[7, 7], [7, 7], [1, 1]]
    (piece,) = list(real.snapshot())
    assert piece.arrays[2].tolist()[2:4] == [1, 0]


def test_few_numbers_of_rows_are_computed(monkeypatch):
    monkeypatch.setattr(row_updates, "_LEAST", 4)
    monkeypatch.setattr(row_updates, "_MOST", 16)
    update = Sums()
    real, model = table(start=0, stop=100, update=update), Rows()
    for count in (1, 4, 5, 16, 17, 50):
        ids = np.arange(count) + 3
        real.apply(ids, gradients(ids), [RATE])
        model.apply(ids.tolist(), gradients(ids))
    assert update.sizes == {4, 8, 16}
    np.testing.assert_array_equal(real.look_up(np.arange(100)), model.look_up(range(100)))


def test_duplicates_are_added_in_the_order_in_which_they_came():
    spec = TableSpec(name="t", shape=(1,), initial=Constant(0.0))

    class Descent:
        numbers = 0

        def __call__(self, rows, gradients, numbers):
            return [rows[0] + gradients]

    given = np.array([[1e8], [1.0], [-1e8], [1.0], [3.0]], np.float32)
    real = table(spec, 0, 4, Descent())
    real.apply(np.array([2, 2, 2, 2, 1]), given)
    wanted = np.float32(1e8)
    for each in (1.0, -1e8, 1.0):
        wanted += np.float32(each)
    assert real.look_up(np.arange(4)).reshape(-1).tolist() == [0, 3, wanted, 0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_rows_are_of_other_dtypes(dtype):
    spec = TableSpec(
        name="t", shape=(2, 3), dtype=dtype, slots=(SlotSpec("sum", (2, 3), dtype), SlotSpec("n", ()))
    )
    real = table(spec, 0, 5)
    before = real.look_up(np.arange(5))
    assert (before.shape, before.dtype.name) == ((5, 2, 3), dtype)
    given = np.ones((1, 2, 3), before.dtype)
    real.apply(np.array([3]), given, [before.dtype.type(0.5)])
    after = real.look_up(np.arange(5))
    np.testing.assert_array_equal(after[3], before[3] - given[0] * before.dtype.type(0.5))
    np.testing.assert_array_equal(after[:3], before[:3])


def test_every_server_has_the_rows_that_one_would_have():
    spec = TableSpec(name="t", shape=(3,), initial=Uniform(seed=4))
    whole = table(spec, 0, 20).look_up(np.arange(20))
    parts = [table(spec, *rows).look_up(np.arange(*rows)) for rows in ((0, 7), (7, 20))]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_memory_is_that_of_the_rows():
    rows = 10_000
    for spec, most in (
        (TableSpec(name="t", shape=(32,)), 1.01),
        (TableSpec(name="t", shape=(1,), slots=(SlotSpec("n", (1,)), SlotSpec("z", (1,)))), 1.1),
        (TableSpec(name="t", shape=(1,)), 1.07),
    ):
        assert DenseTable(spec, 0, rows).nbytes <= most * rows * spec.row_nbytes


@pytest.mark.parametrize("wrong", [9, 30, -1, 2**40])
def test_an_id_without_a_row_is_named_with_the_table(wrong):
    real = table()
    ids = np.array([12, wrong, 13])
    for use in (real.look_up, lambda ids: real.apply(ids, gradients(ids), [RATE])):
        with pytest.raises(
            ValueError, match=rf"Id {wrong} is of no row of table 'users'.*at least 10 and less than 30"
        ):
            use(ids)
    assert (real.look_up(np.arange(START, STOP)) == 1).all()


@pytest.mark.parametrize("ids", [np.array([1.0]), np.array([[12]]), np.array(["a"]), np.array(12)])
def test_ids_that_are_none(ids):
    with pytest.raises(ValueError, match="Ids for table 'users' are .* must be integers"):
        table().look_up(ids)


@pytest.mark.parametrize(
    "given",
    [np.zeros((1, 2), np.float32), np.zeros((2, 3), np.float32), np.zeros((2, 2)), np.zeros(2, np.float32)],
)
def test_gradients_of_another_kind(given):
    real = table()
    with pytest.raises(ValueError, match=r"gradients for 2 ids of table 'users'.* must be float32\[2, 2\]"):
        real.apply(np.array([12, 13]), given, [RATE])
    with pytest.raises(ValueError, match=r"rows for 2 ids of table 'users'"):
        real.assign(np.array([12, 13]), given)


@pytest.mark.parametrize("numbers", [[], [1.0, 2.0], [np.ones(2)]])
def test_other_numbers_than_the_update_takes(numbers):
    real = table()
    with pytest.raises(ValueError, match="update of table 'users' takes 1 numbers"):
        real.apply(np.array([12]), gradients([12]), numbers)
    assert (real.look_up(np.arange(START, STOP)) == 1).all()


def test_a_table_without_an_update_is_not_trained():
    with pytest.raises(ValueError, match="'users' has no update"):
        DenseTable(SPEC, 0, 5).apply(np.array([1]), gradients([1]), [RATE])


def test_more_memory_than_there_is():
    with pytest.raises(
        MemoryError, match=r"rows of table 'users', of 20 bytes each .*more parameter servers"
    ):
        DenseTable(SPEC, 0, 1 << 50)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"shape": (0,)}, r"rows of table 't' have shape \(0,\)"),
        ({"shape": (2,), "dtype": "int32"}, "rows of table 't' have dtype 'int32'"),
        ({"shape": (2,), "dtype": "nothing"}, "dtype 'nothing'"),
        (
            {"shape": (2,), "slots": (SlotSpec("m", (2,), "bool"),)},
            "slots 'm' of table 't' have dtype 'bool'",
        ),
    ],
)
def test_rows_that_cannot_be(fields, text):
    with pytest.raises(ValueError, match=text):
        TableSpec(name="t", **fields)
