"""Variables whose values are elsewhere: all of Keras reads and assigns them there."""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from muster._keras import keras
from muster.distribute import function
from muster.program import run_functions_eagerly
from muster.program.variables import (
    initial_rows,
    kept_whole,
    like_value_of,
    may_be_split,
    reference_of_new,
    storage_of,
    together,
    variables_owned_by,
)

# Keras' own:
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


class Elsewhere:
    """A storage in memory that is the owner of variables, too.

    Attributes:
        values: Path -> value.
        reads: The paths that were read, in order.
        created: Path -> what the storage found out about a new variable.
    """

    num_replicas_in_sync = 1

    def __init__(self):
        self.values, self.reads, self.created, self.groups, self.added = {}, [], {}, [], []

    @property
    def placement(self):
        return self

    storage = placement

    def check_variable(self, variable):
        if variable.name == "refused":
            raise ValueError("refused")

    def create(self, variable, initial):
        like = like_value_of(variable)
        self.created[variable.path] = like, may_be_split(), reference_of_new()
        rows = initial_rows(initial, like.shape, like.dtype.name)
        self.values[variable.path] = rows(0, like.shape[0] if like.shape else 1)

    def read(self, variable):
        self.reads.append(variable.path)
        return jnp.asarray(self.values[variable.path])

    def write(self, variable, value):
        assert value is not None
        self.values[variable.path] = np.array(value)

    def add(self, variable, value):
        before = self.values[variable.path]
        assert (value.shape, value.dtype) == (before.shape, before.dtype)
        self.added.append(variable.path)
        self.values[variable.path] = before + value

    @contextlib.contextmanager
    def together(self, variables):
        self.groups.append([variable.path for variable in variables])
        yield


@pytest.fixture
def there():
    storage = Elsewhere()
    with variables_owned_by(storage):
        yield storage


def test_a_variable_has_no_value_of_its_own(there):
    variable = keras.Variable([1.0, 2.0], name="v")
    assert isinstance(variable, keras.Variable)
    assert type(variable).__name__ == keras.Variable.__name__
    assert storage_of(variable) is there
    assert "_value" not in vars(variable)
    assert not any(isinstance(each, jax.Array) for each in vars(variable).values())
    assert there.reads == []  # it was created without reading it back


def test_every_way_of_reading_reads_there(there):
    variable = keras.Variable([1.0, 2.0], name="v")
    there.values["v"] = np.float32([3.0, 4.0])
    found = {
        "value": variable.value,
        "numpy": variable.numpy(),
        "array": np.asarray(variable),
        "jax": jnp.asarray(variable),
        "plus": variable + 0,
        "convert": keras.ops.convert_to_tensor(variable),
        "index": variable[:],
    }
    for name, value in found.items():
        np.testing.assert_array_equal(value, [3.0, 4.0], err_msg=name)
    assert "[3. 4.]" in repr(variable)


def test_every_way_of_assigning_assigns_there(there):
    variable = keras.Variable([1.0, 2.0], name="v")
    variable.assign([5.0, 6.0])
    np.testing.assert_array_equal(there.values["v"], [5.0, 6.0])
    variable.assign_add([1.0, 1.0])
    variable.assign_sub([0.0, 2.0])
    np.testing.assert_array_equal(there.values["v"], [6.0, 5.0])
    with pytest.raises(ValueError, match="must match"):
        variable.assign([1.0])
    variable._value = None  # as Keras' trainer does while it has the values
    np.testing.assert_array_equal(variable.value, [6.0, 5.0])


@pytest.mark.parametrize(
    ("initial", "dtype", "value"),
    [
        ([1.0, 2.0], "float32", np.float32([3, 4])),
        ([1.0, 2.0], "float32", jnp.float32(3)),
        ([1.0, 2.0], "float32", [3, 4]),
        ([1.0, 2.0], "bfloat16", 0.5),
        ([1, 2], "int32", 3),
        (1, "int32", np.int32(3)),
        ([1.0, 2.0], "float32", keras.Variable([3.0, 4.0])),
    ],
)
def test_what_is_added_is_added_there(there, initial, dtype, value):
    variable = keras.Variable(np.array(initial), dtype=dtype, name="v")
    alike = jnp.asarray(initial, dtype)
    value = value.value if isinstance(value, keras.Variable) else value
    added = variable.assign_add(value)
    assert (there.reads, there.added) == ([], ["v"])
    np.testing.assert_array_equal(added, alike + np.asarray(value))
    variable.assign_sub(value)
    np.testing.assert_array_equal(variable.value, alike)
    assert there.added == ["v", "v"]


@pytest.mark.parametrize(
    ("initial", "dtype", "value"), [([3, 4], "int32", -0.5), ([False, True], "bool", [True, True])]
)
def test_what_keras_computes_in_another_dtype_is_assigned(there, initial, dtype, value):
    variable = keras.Variable(np.array(initial), dtype=dtype, name="v")
    variable.assign_add(np.array(value))
    assert there.added == []
    np.testing.assert_array_equal(variable.value, (np.array(initial) + np.array(value)).astype(dtype))


def test_what_is_added_fits(there):
    variable = keras.Variable([1.0, 2.0], name="v")
    for wrong in (np.ones(3), np.ones((1, 2)), np.ones((2, 1))):
        with pytest.raises((ValueError, TypeError)):
            variable.assign_add(wrong)
    np.testing.assert_array_equal(there.values["v"], [1.0, 2.0])


def test_the_shape_and_the_dtype_are_known_without_reading(there):
    variable = keras.Variable(np.ones((2, 3)), dtype="bfloat16", name="v")
    like = like_value_of(variable)
    assert (like.shape, like.dtype) == ((2, 3), "bfloat16")
    assert (variable.shape, variable.dtype, variable.ndim) == ((2, 3), "bfloat16", 2)
    assert there.reads == []
    local = like_value_of(keras.Variable(1.0, name="seed_generator_state"))
    assert isinstance(local, jax.Array)


def test_the_variables_of_layers_are_created_when_layers_are_built(there):
    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(2)

        def call(self, x):
            return self.dense(x)

    model = Model()
    model(keras.Input((3,)))  # Keras infers shapes in a scope, and gives variables their values afterwards
    kernel, bias = (there.values[variable.path] for variable in model.variables)
    assert kernel.shape == (3, 2)
    assert np.ptp(kernel) > 0
    np.testing.assert_array_equal(bias, [0, 0])


def test_seeds_stay_here(there):
    dropout = keras.layers.Dropout(0.5)
    assert storage_of(dropout.seed_generator.state) is None
    assert there.values == {}


def test_variables_of_others_stay_as_they_are():
    with variables_owned_by(Elsewhere()):
        inside = keras.Variable(1.0)
    outside = keras.Variable(1.0)
    assert type(outside) is keras.Variable
    assert storage_of(outside) is None
    assert storage_of(inside) is not None


def test_a_refused_variable_is_not_created(there):
    with pytest.raises(ValueError, match="refused"):
        keras.Variable(1.0, name="refused")
    assert there.values == {}


def test_slots_are_created_for_their_weight(there):
    kernel = keras.Variable([1.0], name="kernel")
    optimizer = keras.optimizers.Adam()
    optimizer.build([kernel])
    of_kernel = {path for path, (_, _, reference) in there.created.items() if reference is kernel}
    assert {path.partition("/")[2] for path in of_kernel} == {"kernel_momentum", "kernel_velocity"}
    assert {reference for path, (*_, reference) in there.created.items() if path not in of_kernel} == {None}


def test_an_optimizers_other_variables_are_not_split(there):
    keras.optimizers.Adafactor().build([keras.Variable(np.ones((128, 128)), name="kernel")])
    assert {split for like, split, _ in there.created.values() if like.shape == (128,)} == {False}


def test_metrics_and_what_is_kept_whole_are_not_split(there):
    metric = keras.metrics.AUC(num_thresholds=3)
    with kept_whole():
        keras.Variable([1.0, 2.0], name="v")
    assert {split for _, split, _ in there.created.values()} == {False}
    assert len(there.created) == len(metric.variables) + 1


def test_functions_read_and_assign_together(there):
    scale, total = keras.Variable(2.0, name="scale"), keras.Variable(1.0, name="total")

    @function
    def add(x):
        total.assign_add(scale * x)
        return total.value

    assert float(add(jnp.float32(3))) == 7
    assert float(there.values["total"]) == 7
    together = [group for group in there.groups if len(group) > 1]
    assert together == [["total", "scale"]] * 2  # to take values, and to give some back
    assert there.reads == ["total", "scale"]  # tracing read nothing


@pytest.mark.parametrize("eagerly", [False, True])
def test_functions_create_variables_there(there, eagerly):
    run_functions_eagerly(eagerly)
    made = []

    @function
    def count(x):
        if not made:
            made.append(keras.Variable(keras.initializers.Constant(5), shape=(), name="n"))
        made[0].assign_add(x)
        return made[0].value

    try:
        assert [float(count(jnp.float32(1))) for _ in range(2)] == [6, 7]
    finally:
        run_functions_eagerly(False)
    assert float(there.values["n"]) == 7


def test_variables_of_several_places_are_grouped():
    first, second = Elsewhere(), Elsewhere()
    made = []
    for place, names in ((first, "ab"), (second, "c")):
        with variables_owned_by(place):
            made += [keras.Variable(1.0, name=name) for name in names]
    with together([made[2], keras.Variable(1.0), *made[:2]]):
        pass
    assert (first.groups, second.groups) == ([["a", "b"]], [["c"]])
