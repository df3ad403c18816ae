"""Functions that a program compiles itself with `jax.jit` read the values of the step that calls them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import muster
from muster._keras import keras
from muster.distribute import MirroredStrategy, OneDeviceStrategy, get_replica_context
from muster.program.variables._trace_keys import TraceKeys


@pytest.mark.parametrize("devices", [1, 2])
def test_what_they_read_of_variables_is_the_value_of_that_moment(devices):
    strategy = MirroredStrategy(["/cpu:0", "/cpu:1"]) if devices > 1 else OneDeviceStrategy("/cpu:0")
    with strategy.scope():
        total = keras.Variable(np.float32(1), aggregation="mean")

    @jax.jit
    def doubled():
        return 2 * total.value

    @muster.function
    def step(x):
        def on_replica(x):
            before = doubled()
            total.assign(total + jnp.sum(x))
            return before, doubled()

        before, after = strategy.run(on_replica, (x,))
        return *map(strategy.experimental_local_results, (before, after)), doubled()

    expected = 1
    for rows in (1, 2, 2, 3):
        before, after, in_the_end = step(np.ones(rows, np.float32))
        assert list(before) == [2 * expected] * devices
        grown = expected + rows
        assert list(after) == [2 * grown] * devices
        expected = grown
        assert float(in_the_end) == 2 * expected == 2 * float(total.value)


def test_what_they_read_of_variables_while_a_function_runs_eagerly():
    total = keras.Variable(np.float32(1))
    doubled = jax.jit(lambda: 2 * total.value)

    @muster.function
    def step():
        total.assign(total + doubled())
        return doubled()

    muster.program.run_functions_eagerly(True)
    try:
        assert [float(step()) for _ in range(3)] == [6, 18, 54]
    finally:
        muster.program.run_functions_eagerly(False)


def test_replicas_that_they_number_are_those_of_each_step():
    strategy = MirroredStrategy(["/cpu:0", "/cpu:1"])
    numbered = jax.jit(lambda x: x + get_replica_context().replica_id_in_sync_group)
    gathered = jax.jit(lambda x: get_replica_context().all_gather(x[None], 0))

    @muster.function
    def step(x):
        number, every = strategy.run(lambda x: (numbered(x.sum()), gathered(numbered(x.sum()))), (x,))
        return strategy.experimental_local_results(number), strategy.experimental_local_results(every)

    for rows in (2, 3, 4):
        number, every = step(np.ones(rows, np.float32))
        assert list(number) == [rows, rows + 1]
        np.testing.assert_array_equal(every, [number, number])


def test_functions_that_read_nothing_are_traced_once():
    traces = []

    @jax.jit
    def doubled(x):
        traces.append(x)
        return 2 * x

    variable = keras.Variable(np.float32(1))

    @muster.function
    def step(x):
        variable.assign(doubled(variable.value))
        return doubled(variable.value) + jnp.sum(x)

    for rows in (1, 2):
        step(np.ones(rows, np.float32))
    assert len(traces) == 1


def test_code_around_takes_no_traces_of_before_a_change_within():
    keys, traces = TraceKeys(), []

    @jax.jit
    def reads():
        traces.append(None)
        keys.note_read()

    def called(count):
        for _ in range(2):
            reads()
        assert len(traces) == count

    with keys.of("outer"):
        called(1)
        with keys.of("inner"):
            called(2)
            keys.note_change()
            called(3)
        called(4)
    with keys.of("outer"):
        called(5)
