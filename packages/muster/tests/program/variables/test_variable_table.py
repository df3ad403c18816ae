"""Each variable of a table has a description under a unique path."""

from muster._keras import keras
from muster.program.variables._origins import VariableKind
from muster.program.variables._variable_table import VariableTable


def variable(name):
    return keras.Variable([1.0, 2.0], name=name, aggregation="mean")


def test_variables_of_one_name_have_different_paths():
    table = VariableTable()
    first, second, third = variable("w"), variable("w"), variable("w")
    paths = [table.add(each, VariableKind.WEIGHT).path for each in (first, second, third)]
    assert paths == ["w", "w_1", "w_2"]
    assert table.spec(second).path == "w_1"
    assert [each for _, each in table.pairs] == [first, second, third]
    assert first in table
    assert variable("w") not in table


def test_states_of_seed_generators_are_found_by_their_name():
    table = VariableTable()
    seed = keras.random.SeedGenerator(1).state
    assert table.add(seed, VariableKind.OTHER).kind is VariableKind.SEED
    assert str(table.add(variable("w"), VariableKind.METRIC, "float32")) == "w float32[2]"
    assert [spec.local for spec in table.specs] == [False, True]
