"""Assignments are counted, and values that replicas assign are reduced."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from muster._errors import TraceError
from muster._keras import keras
from muster.program._replicas import Replicas
from muster.program.variables._assignments import DivergedValues, History
from muster.program.variables._origins import VariableKind
from muster.program.variables._variable_table import VariableTable


def table_of(*names, kind=VariableKind.OTHER, aggregation="none"):
    table = VariableTable()
    for name in names:
        table.add(keras.Variable(0.0, name=name, aggregation=aggregation), kind)
    return table


def test_only_a_single_increment_makes_a_counter():
    table, history = table_of("never", "once", "twice", "set"), History()
    _, once, twice, other = (variable for _, variable in table.pairs)
    for each in (once, twice, twice):
        history.note(each, jnp.float32(0))
        history.note_increment(each)
    history.note(other, jnp.float32(0))
    assert history.counts(table.pairs) == {"once": 1, "twice": 2, "set": 1}
    assert history.only_incremented_once(table.pairs) == {"once"}


def reduced(table, assigned, kinds=()):
    """Return a variable's value on each of two replicas, after it was 1 and they assigned to it."""
    ((spec, variable),) = table.pairs

    def on_replica(index, value):
        replicas = Replicas(index=index, all_reduce=lambda a: jax.lax.psum(a, "replica"), count=2, active=2)
        diverged, values = DivergedValues(), {id(variable): value}
        diverged.note(variable, jnp.float32(1))
        diverged.reduce(replicas, [(spec, variable)], values, kinds)
        return values[id(variable)]

    return jax.vmap(on_replica, axis_name="replica")(jnp.arange(2), jnp.array(assigned, jnp.float32))


@pytest.mark.parametrize(
    ("aggregation", "kind", "expected"),
    [
        ("none", VariableKind.METRIC, 1 + (3 - 1) + (6 - 1)),
        ("sum", VariableKind.OTHER, 1 + (3 - 1) + (6 - 1)),
        ("mean", VariableKind.OTHER, 4.5),
        ("none", VariableKind.WEIGHT, 4.5),
        ("only_first_replica", VariableKind.WEIGHT, 3),
    ],
)
def test_values_are_reduced_as_the_variable_says(aggregation, kind, expected):
    table = table_of("v", kind=kind, aggregation=aggregation)
    np.testing.assert_allclose(reduced(table, [3, 6]), [expected, expected])


def test_variables_of_other_kinds_stay_different():
    table = table_of("v", aggregation="sum")
    np.testing.assert_allclose(reduced(table, [3, 6], [VariableKind.METRIC]), [3, 6])


@pytest.mark.parametrize("kind", [VariableKind.OTHER, VariableKind.WEIGHT])
def test_a_counter_without_an_aggregation_is_the_first_replicas(kind):
    table = VariableTable()
    table.add(keras.Variable(0, name="count", dtype="int32"), kind)
    np.testing.assert_array_equal(reduced(table, [3, 6]), [3, 3])


def test_integers_have_no_mean():
    table = VariableTable()
    table.add(keras.Variable(0, name="count", dtype="int32", aggregation="mean"), VariableKind.OTHER)
    with pytest.raises(TraceError, match=r"count int32\[\], whose values have no mean .*only_first_replica"):
        reduced(table, [3, 6])
