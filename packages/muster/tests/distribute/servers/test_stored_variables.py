"""Variables on parameter servers: where their rows go, and in how few messages they are read and assigned."""

import contextlib
import gc
import threading
from collections import Counter

import jax
import numpy as np
import pytest
from memory_store import MemoryStore, with_memory

from muster._errors import ParameterServerError
from muster._keras import keras
from muster.distribute import FixedShardsPartitioner, MaxSizePartitioner
from muster.distribute.servers import StoredVariables, _batched_access
from muster.distribute.servers import _stored_arrays as stored_arrays
from muster.distribute.servers import _stored_variables as stored_variables
from muster.program.variables import together

# Keras' own:
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


def made(strategy, shape, name="v", **options):
    """Return a variable of a strategy: what it holds counts from 0."""
    with strategy.scope():
        return keras.Variable(np.arange(np.prod(shape), dtype="float32").reshape(shape), name=name, **options)


def test_a_whole_variable_is_one_array():
    strategy, store = with_memory(2)
    variable = made(strategy, (4, 2))
    (rows,) = strategy.storage.rows_of(variable)
    assert (rows.array.name, rows.array.server, rows.array.shape) == ("v", 0, (4, 2))
    assert (rows.start, rows.stop) == (0, 4)
    np.testing.assert_array_equal(store.values[rows.array.key], variable)


def test_the_rows_of_a_split_variable_are_arrays_of_their_own():
    strategy, store = with_memory(3, FixedShardsPartitioner(3))
    variable = made(strategy, (7, 2))
    placed = strategy.storage.rows_of(variable)
    assert [(each.array.name, each.array.server) for each in placed] == [
        ("v[0:3]", 0),
        ("v[3:5]", 1),
        ("v[5:7]", 2),
    ]
    np.testing.assert_array_equal(variable.value, np.arange(14).reshape(7, 2))
    variable.assign(variable * 2)
    np.testing.assert_array_equal(store.values[placed[1].array.key], [[12, 14], [16, 18]])
    assert store.asked == ["create"] * 3 + ["read", "read", "assign"]


def test_each_way_of_reading_asks_once():
    strategy, store = with_memory(1)
    variable = made(strategy, (2,))
    for read in (lambda: variable.value, variable.numpy, lambda: np.asarray(variable), lambda: variable + 1):
        store.asked.clear()
        read()
        assert store.asked == ["read"]


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(stored_variables, "LEAST_TABLE_BYTES", 1)
    monkeypatch.setattr(stored_arrays, "_PIECE_BYTES", 70)


def test_servers_make_the_rows_of_large_tables(small_pieces):
    strategy, store = with_memory(2, FixedShardsPartitioner(2))
    with strategy.scope():
        tables = [
            keras.Variable(initializer, shape=(41, 2), name="embeddings")
            for initializer in (keras.initializers.RandomNormal(seed=3), "ones")
        ]
    assert store.asked == ["reserve", "make"] * 4
    assert store.largest == 0  # nothing was sent
    expected = keras.initializers.RandomNormal(seed=3)((41, 2))
    np.testing.assert_allclose(tables[0].value, expected, rtol=1e-6)
    np.testing.assert_array_equal(tables[1].value, np.ones((41, 2)))


def test_large_tables_go_in_pieces(small_pieces):
    strategy, store = with_memory(2, FixedShardsPartitioner(2))
    table, other = made(strategy, (40, 2), "embeddings"), made(strategy, (40, 2), "kernel")
    assert store.asked == ["reserve", *["assign_rows"] * 3] * 2 + ["create"] * 2
    store.asked.clear()
    store.largest = 0
    np.testing.assert_array_equal(table.value, np.arange(80).reshape(40, 2))
    table.assign(table * 2)
    assert store.asked == ["read_rows"] * 12 + ["assign_rows"] * 6
    assert store.largest <= 70
    np.testing.assert_array_equal(table.value, 2 * np.arange(80).reshape(40, 2))
    store.asked.clear()
    with together([table, other]):
        values = [np.asarray(each.value) for each in (other, table)]
    np.testing.assert_array_equal(values[1], 2 * values[0])


def test_a_table_that_does_not_fit_this_process(small_pieces, monkeypatch):
    strategy, store = with_memory(2)
    table = made(strategy, (40, 2), "embeddings")
    monkeypatch.setattr(stored_arrays, "memory_bytes", lambda: 300)
    store.asked.clear()
    with pytest.raises(
        ParameterServerError, match="variable embeddings takes .* Read the rows that you need"
    ):
        np.asarray(table.value)
    assert not store.asked


def test_scalars_lie_on_one_server():
    strategy, store = with_memory(2, FixedShardsPartitioner(2))
    step = made(strategy, ())
    assert [(each.start, each.stop) for each in strategy.storage.rows_of(step)] == [(0, 1)]
    step.assign_add(2.0)
    assert float(step) == 2


def test_servers_hold_about_as_many_bytes():
    strategy, store = with_memory(2)
    sizes = (100, 60, 30, 20, 8, 2)
    variables = [made(strategy, (size,), f"v{size}") for size in sizes]
    servers = [strategy.storage.rows_of(each)[0].array.server for each in variables]
    assert servers == [0, 1, 1, 1, 0, 0]  # of 220 numbers, one has 110


def test_slots_lie_with_their_weight():
    strategy, _ = with_memory(3, FixedShardsPartitioner(2))
    made(strategy, (50,), "other")
    kernel = made(strategy, (9, 2), "kernel")
    with strategy.scope():
        optimizer = keras.optimizers.Adam()
        optimizer.build([kernel])
    where = [(each.start, each.stop, each.array.server) for each in strategy.storage.rows_of(kernel)]
    assert len(where) == 2
    _, _, *slots = optimizer.variables
    for slot in slots:
        placed = strategy.storage.rows_of(slot)
        assert [(each.start, each.stop, each.array.server) for each in placed] == where
    assert len(slots) == 2


def test_servers_are_told_of_tables_and_their_slots():
    strategy, _ = with_memory(partitioner=FixedShardsPartitioner(2))
    with strategy.scope():
        large, small = keras.layers.Embedding(1 << 17, 4), keras.layers.Embedding(8, 4, name="small")
        large.build()
        small.build()
        dense = keras.layers.Dense(1 << 17)
        dense.build((None, 4))
        optimizer = keras.optimizers.Adam()
        optimizer.build([large.embeddings, small.embeddings, dense.kernel])
    variables = [large.embeddings, small.embeddings, dense.kernel, *optimizer.variables]
    told = {
        variable.path
        for variable in variables
        for rows in strategy.storage.rows_of(variable)
        if rows.array.by_rows
    }
    slots = {v.path for v in optimizer.variables if tuple(v.shape) == (1 << 17, 4)}
    assert told == {large.embeddings.path, *slots}
    assert len(slots) == 2


def test_nothing_is_read_to_find_out_shapes():
    class Scaled(keras.Layer):
        def build(self, shape):
            self.scale = self.add_weight(shape=(1,))

        def call(self, x):
            return x * self.scale

    strategy, store = with_memory()
    with strategy.scope():
        assert Scaled()(keras.Input((3,))).shape == (None, 3)
    assert "read" not in store.asked


def test_what_is_read_together_comes_in_one_message():
    strategy, store = with_memory(2, FixedShardsPartitioner(2))
    variables = [made(strategy, (4,), f"v{i}") for i in range(5)]
    store.asked.clear()
    with together(variables):
        for variable in variables:
            np.testing.assert_array_equal(variable, [0, 1, 2, 3])
    assert store.asked == ["read"]
    float(variables[0][1])  # nothing is kept
    assert store.asked == ["read"] * 2


def test_what_is_assigned_together_goes_in_one_message():
    strategy, store = with_memory(2)
    variables = [made(strategy, (4,), f"v{i}") for i in range(3)]
    store.asked.clear()
    with together(variables):
        for number, variable in enumerate(variables):
            variable.assign(np.full(4, number))
        assert float(variables[2][0]) == 2  # what was assigned is what is read
        variables[2].assign_add(np.ones(4))
    assert store.asked == ["assign"]
    assert [float(variable[0]) for variable in variables] == [0, 1, 3]


def test_a_block_in_another_sees_what_that_has_assigned():
    strategy, store = with_memory(1)
    first, second = made(strategy, (2,), "a"), made(strategy, (2,), "b")
    with together([first]):
        first.assign([5, 6])
        with together([first, second]):
            assert float(first[0]) == 5
            second.assign([7, 8])
        assert float(second[0]) == 7
    assert [float(each[0]) for each in (first, second)] == [5, 7]


def test_an_error_in_a_block_keeps_what_was_assigned_before():
    strategy, _ = with_memory(1)
    variable = made(strategy, (2,))
    with contextlib.suppress(KeyError), together([variable]):
        variable.assign([5, 6])
        raise KeyError
    assert float(variable[0]) == 5


def test_other_threads_read_for_themselves():
    strategy, store = with_memory(1)
    variable, found = made(strategy, (2,)), []
    with together([variable]):
        variable.assign([5, 6])
        thread = threading.Thread(target=lambda: found.append(float(variable[0])))
        thread.start()
        thread.join(10)
    assert found == [0]


def test_large_variables_come_some_at_a_time(monkeypatch):
    monkeypatch.setattr(_batched_access, "_TOGETHER_BYTES", 1000)
    strategy, store = with_memory(1)
    variables = [made(strategy, (100,), f"v{i}") for i in range(6)]  # 400 bytes
    large = made(strategy, (1000,), "large")
    store.asked.clear()
    with together([*variables, large]):
        for variable in [*variables, large]:
            assert float(variable.value[-1]) == variable.shape[0] - 1
    assert store.asked == ["read"] * 4
    store.asked.clear()
    with together(variables):
        for variable in variables:
            variable.assign(np.ones(100))
    assert store.asked == ["assign"] * 2
    assert all(float(variable[0]) == 1 for variable in variables)


def test_a_table_is_created_without_all_of_it_in_memory():
    strategy, store = with_memory(2, MaxSizePartitioner(1 << 20))
    with strategy.scope():
        table = keras.layers.Embedding(100_000, 32, embeddings_initializer="uniform")  # 12.8 MB
        table.build()
    assert store.asked == ["create"] * 13
    assert store.largest <= 1 << 20
    rows = table.embeddings.value
    assert len(np.unique(np.asarray(rows))) > 1_000_000
    initial = keras.initializers.RandomUniform(seed=table.embeddings_initializer.seed)
    np.testing.assert_allclose(rows[60_000:60_010], initial((100_000, 32))[60_000:60_010], rtol=1e-6)


def test_servers_forget_variables_that_are_gone():
    strategy, store = with_memory(2)
    variable = made(strategy, (100,), "gone")
    kept = made(strategy, (10,), "kept")
    del variable
    gc.collect()
    again = made(strategy, (100,), "gone")
    assert {key.name for key in store.values} == {"kept", "gone_1"}
    assert strategy.storage.rows_of(again)[0].array.server == 0  # the bytes of the first count no more
    assert float(kept[1]) == 1


def test_variables_of_one_path_have_names_of_their_own():
    strategy, store = with_memory(1)
    first, second = made(strategy, (2,)), made(strategy, (2,))
    first.assign([7, 8])
    assert second.numpy().tolist() == [0, 1]
    assert {key.name for key in store.values} == {"v", "v_1"}


def test_assignments_are_counted():
    strategy, _ = with_memory(1)
    variable, before = made(strategy, (2,)), strategy.storage.assigned
    variable.numpy()
    assert strategy.storage.assigned == before
    variable.assign([1, 2])
    assert strategy.storage.assigned == before + 1


def test_servers_are_connected_to_when_they_are_needed():
    calls = []
    stored = StoredVariables(lambda: calls.append(1) or MemoryStore(), 1)
    assert calls == []
    with stored.store() as first, stored.store() as again:
        assert first is again
    assert calls == [1]


def test_values_can_be_read_while_something_is_traced():
    strategy, _ = with_memory(1)
    variable = made(strategy, (2,))
    found = []
    jax.make_jaxpr(lambda x: found.append(np.asarray(variable.value)) or x)(1.0)
    assert found[0].tolist() == [0, 1]


@pytest.mark.parametrize("dtype", ["bool", "int32", "uint8", "bfloat16", "float16"])
def test_every_dtype_comes_back(dtype):
    strategy, _ = with_memory(2, FixedShardsPartitioner(2))
    with strategy.scope():
        variable = keras.Variable(np.array([0, 1, 1]), dtype=dtype)
    assert variable.value.dtype == dtype
    variable.assign([1, 0, 1])
    assert variable.numpy().tolist() == [1, 0, 1]


def test_a_model_of_many_variables_is_balanced():
    strategy, store = with_memory(3)
    with strategy.scope():
        model = keras.Sequential([keras.Input((64,)), *[keras.layers.Dense(64) for _ in range(12)]])
        optimizer = keras.optimizers.Adam()
        optimizer.build(model.trainable_variables)
    held = Counter()
    for key, value in store.values.items():
        held[key.server] += value.nbytes
    assert max(held.values()) < 1.05 * min(held.values())
