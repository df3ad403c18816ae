"""A variable whose rows lie in several variables, as in TensorFlow and as in NumPy."""

from types import SimpleNamespace
from typing import Any

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import muster
import recorded
from departures import Departure, Json, error
from muster._keras import keras
from muster.distribute import MirroredStrategy, ShardedVariable, get_replica_context
from muster.program.passes._jaxprs import needed_equations
from muster.program.passes._row_updates import with_row_updates
from object_checkpoints import ObjectCheckpoint


def content(rows: int, tail: list[int]) -> np.ndarray[Any, Any]:
    return np.arange(rows * int(np.prod(tail)), dtype=np.float32).reshape(rows, *tail)


def made(sizes: list[int], tail: list[int], name: str = "ShardedVariable") -> ShardedVariable:
    """Return a variable of numbers from 0 on, with shards of some rows each."""
    parts = np.split(content(sum(sizes), tail), np.cumsum(sizes)[:-1])
    return ShardedVariable([keras.Variable(part) for part in parts], name)


def key_of(spec: Any) -> Any:
    """Return what a case has between brackets."""
    if isinstance(spec, list):
        return tuple(map(key_of, spec))
    if spec.startswith("bool array "):
        return np.array(eval(spec.removeprefix("bool array ")))
    return eval(spec, {"slice": slice, "newaxis": None, "tf": SimpleNamespace(constant=jnp.asarray)})


def _numpy_of(asked: Json) -> np.ndarray[Any, Any]:
    return content(sum(asked["shard_dim0"]), asked["tail_shape"])


def _as_numpy(asked: Json, expect: Json) -> Json | None:
    try:
        if asked.get("op") == "getitem":
            return {"value": _numpy_of(asked)[key_of(asked["spec"])].tolist()}
        if asked.get("op") == "sparse_read":
            return {"value": _numpy_of(asked)[np.array(asked["indices"], int)].tolist()}
    except (IndexError, ValueError):
        pass
    return None


def _given_index(asked: Json, expect: Json) -> Json | None:
    if asked.get("op") != "getitem" or expect.get("error", {}).get("type") != "IndexError":
        return None
    return error("IndexError", f"slice index {asked['spec']} of dimension 0 out of bounds")


def _refused(asked: Json, expect: Json) -> Json | None:
    if asked.get("op") != "assign" or asked.get("arg_shape") != [7, 2]:
        return None
    return error("ValueError", "ShardedVariable has shape (5, 2), got a value of shape (7, 2)")


def _plain_shapes(asked: Json, expect: Json) -> Json | None:
    message = expect.get("error", {}).get("message", "")
    return error("ValueError", "Received shapes: [(2, 2), (2, 3)]") if "TensorShape" in message else None


DEPARTURES = [
    Departure("Indices mean what they mean in NumPy, arrays among them.", _as_numpy),
    Departure("An error names the index as it was given.", _given_index),
    Departure("A value of another shape is refused, not cut.", _refused),
    Departure("Shapes are tuples.", _plain_shapes),
]


def test_all_departures_are_needed() -> None:
    assert recorded.unused("partitioners", DEPARTURES) == []


def layout(variable: ShardedVariable) -> Json:
    whole = np.asarray(variable)
    return {
        "shape": list(variable.shape),
        # The numbers count up, so that the first of a shard says where it lies.
        "offsets": [np.argwhere(whole == np.ravel(shard.value)[0])[0].tolist() for shard in variable],
        "num_shards": len(variable.variables),
        "iter_lengths": [len(shard.value) for shard in variable],
        "dtype": variable.dtype,
        "name": variable.name,
        "full_value": whole.tolist(),
    }


def outcome(asked: Json) -> Json:
    """Do what a case asks for."""
    operation = asked["op"]
    if operation == "construct":
        empty = asked["variables"] == []
        return {"made": ShardedVariable([] if empty else [keras.Variable(np.ones((2, n))) for n in (2, 3)])}
    variable = made(asked["shard_dim0"], asked["tail_shape"])
    match operation:
        case "layout":
            return layout(variable)
        case "getitem":
            return {"value": variable[key_of(asked["spec"])].tolist()}
        case "sparse_read":
            return {"value": variable.sparse_read(asked["indices"]).tolist()}
        case "assign" | "assign_add" | "assign_sub":
            value = np.zeros(asked["arg_shape"]) if asked["arg"] == "zeros" else np.array(asked["arg"])
            returned = getattr(variable, operation)(value)
            shards = [np.asarray(shard.value).tolist() for shard in variable]
            return {"shards": shards, "returns_self": returned is variable}
        case _:
            results = {"plus1": variable + 1, "square": variable * variable, "neg": -variable}
            return {name: result.tolist() for name, result in results.items()}


# Those of single rows, and look-ups by tf.nn, are tests of TensorFlow's names.
OPERATIONS = ("construct", "layout", "getitem", "sparse_read", "assign", "assign_add", "assign_sub")
OPERATIONS += ("v + 1, v * v, -v",)


def is_ours(case: dict[str, Any]) -> bool:
    return case["name"].startswith("sharded/") and case["input"]["op"] in OPERATIONS


@pytest.mark.parametrize("case", recorded.cases("partitioners", is_ours, DEPARTURES))
def test_recorded_cases(case: dict[str, Any]) -> None:
    expect = case["expect"]
    if "error" in expect:
        with pytest.raises(Exception) as raised:  # noqa: PT011  # compared below
            outcome(case["input"])
        recorded.check_error(expect["error"], raised.value)
    else:
        recorded.check_same(outcome(case["input"]), expect)


SLICES = st.slices(9)
KEYS = st.one_of(
    st.integers(-9, 8),
    SLICES,
    st.tuples(SLICES, st.integers(-2, 1)),
    st.tuples(st.integers(-9, 8), SLICES),
    st.tuples(SLICES, st.just(np.array([1, 0, 1]))),
    st.tuples(SLICES, st.none(), SLICES),
    st.lists(st.integers(-9, 8), max_size=4).map(lambda rows: np.array(rows, int)),
)
TABLES = [made(sizes, [2]) for sizes in ([9], [4, 3, 2], [1, 0, 7, 1, 0], [3, 3, 3])]


@hypothesis.given(st.sampled_from(TABLES), KEYS)
def test_indices_mean_what_they_mean_in_numpy(variable: ShardedVariable, key: Any) -> None:
    np.testing.assert_array_equal(variable[key], np.asarray(variable)[key])


OTHER_KEYS = [..., None, (), (..., 1), (None, 3), np.int8(8), np.array(3), np.arange(9) % 2 == 0, True]


@pytest.mark.parametrize("key", OTHER_KEYS, ids=str)
def test_so_do_other_indices(key: Any) -> None:
    for variable in TABLES:
        np.testing.assert_array_equal(variable[key], np.asarray(variable)[key])


def test_reading_rows_does_not_put_the_shards_together() -> None:
    """What a look-up and its gradient do to arrays as large as a shard: none is made of them all."""
    sizes, ids = [4000, 3000, 3000], np.array([3, 5000, 9999, 3])
    table = made(sizes, [8])

    def shapes_of(function: Any, *args: Any) -> set[tuple[int, ...]]:
        compiled = jax.make_jaxpr(function)(*args)
        return {tuple(each.aval.shape) for eqn in compiled.eqns for each in eqn.outvars}

    def look_up(indices: Any) -> Any:
        return table.sparse_read(indices)

    read = jax.jit(look_up)(ids)
    np.testing.assert_array_equal(read, np.asarray(table)[ids])
    for function in (look_up, lambda indices: table[10:30] + indices[0], lambda indices: table[-1]):
        assert max(np.prod(shape) for shape in shapes_of(function, ids)) <= 20 * 8


def test_training_touches_only_rows_that_were_looked_up() -> None:
    """Nothing as large as a shard is made but the shards themselves, which are updated where they are."""
    table = made([4000, 3000, 3000], [8])
    values = [jnp.asarray(shard.value) for shard in table]

    def loss(values: list[Any]) -> Any:
        with keras.StatelessScope(list(zip(table.variables, values, strict=True))):
            return jnp.sum(table.sparse_read(np.array([3, 5000, 9999, 3])) ** 2)

    def update(values: list[Any]) -> list[Any]:
        return [value - 0.1 * slope for value, slope in zip(values, jax.grad(loss)(values), strict=True)]

    closed = jax.make_jaxpr(update)(values)
    closed = jax.make_jaxpr(with_row_updates(closed))(*values)
    needed, _ = needed_equations(closed.jaxpr.eqns, closed.jaxpr.outvars)
    large = [str(eqn.primitive) for eqn in needed if max(each.aval.size for each in eqn.outvars) > 1000]
    assert large == ["scatter-add"] * 3
    results = jax.jit(jax.extend.core.jaxpr_as_fun(closed))(*values)
    for result, expected in zip(results, update(values), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_traced_indices_of_any_type_are_looked_up() -> None:
    table = made([200, 100], [2])
    for dtype in ("uint8", "int16", "uint32", "int64"):
        ids = np.array([[0, 199], [200, 255]]).astype(dtype)
        jitted = jax.jit(lambda ids: table.sparse_read(ids))(ids)
        assert jitted.shape == (2, 2, 2)
        np.testing.assert_array_equal(jitted, np.asarray(table)[ids.astype(int)])
        np.testing.assert_array_equal(table.sparse_read(ids), jitted)
    assert np.isnan(jax.jit(table.sparse_read)(np.array([300, -301]))).all()
    np.testing.assert_array_equal(jax.jit(table.sparse_read)(np.array([-1])), [[598, 599]])


def test_rows_have_integers_as_indices() -> None:
    with pytest.raises(TypeError, match="Rows have integers as indices, got float32"):
        made([2, 1], [2]).sparse_read(np.float32([1]))


def test_shards_are_trained_like_a_single_variable() -> None:
    ids = np.array([4, 0, 4, 2])

    def look_up(table: Any, ids: Any) -> Any:
        return table.sparse_read(ids) if isinstance(table, ShardedVariable) else jnp.take(table.value, ids, 0)

    def trained(table: Any, variables: list[Any]) -> np.ndarray[Any, Any]:
        optimizer = keras.optimizers.SGD(0.1)

        @muster.function
        def step(ids: Any) -> Any:
            with muster.GradientTape() as tape:
                loss = jnp.sum(look_up(table, ids) ** 2)
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
            return loss

        step(ids)
        return np.asarray(table)

    table = made([3, 1, 2], [2])
    whole = keras.Variable(np.asarray(table))
    np.testing.assert_allclose(trained(table, table.variables), trained(whole, [whole]), rtol=1e-6)


def test_shards_stay_on_their_devices() -> None:
    devices = jax.devices()[:3]
    shards = [keras.Variable(np.full((2, 2), float(i), np.float32)) for i in range(3)]
    for shard, device in zip(shards, devices, strict=True):
        shard.assign(jax.device_put(shard.value, device))
    table = ShardedVariable(shards)
    table.assign(content(6, [2]))
    table.assign_add(jax.device_put(np.ones((6, 2), np.float32), devices[1]))
    expected = content(6, [2]) + 1
    np.testing.assert_array_equal(table, expected)
    np.testing.assert_array_equal(table[4:1:-1], expected[4:1:-1])
    np.testing.assert_array_equal(table.sparse_read(jnp.array([5, 0, 3])), expected[[5, 0, 3]])
    assert [shard.value.devices() for shard in shards] == [{device} for device in devices]


def test_replicas_train_rows_of_all_shards() -> None:
    strategy = MirroredStrategy(["/cpu:0", "/cpu:1"])
    with strategy.scope():
        table = ShardedVariable([keras.Variable(np.ones((2, 2)), aggregation="sum") for _ in range(2)])
        optimizer = keras.optimizers.SGD(0.5)

    def replica() -> Any:
        mine = get_replica_context().replica_id_in_sync_group
        with muster.GradientTape() as tape:
            loss = jnp.sum(table.sparse_read(jnp.stack([mine + 1])))
        slopes = tape.gradient(loss, table.variables)
        optimizer.apply_gradients(zip(slopes, table.variables, strict=True))
        return loss

    losses = strategy.run(muster.function(replica))
    assert [float(loss) for loss in strategy.experimental_local_results(losses)] == [2, 2]
    np.testing.assert_array_equal(table, np.array([[1, 1], [0.5, 0.5], [0.5, 0.5], [1, 1]]))


def test_operations_take_it_as_an_array() -> None:
    variable = made([2, 1], [2])
    whole = content(3, [2])
    np.testing.assert_array_equal(keras.ops.matmul(variable, np.eye(2)), whole)
    np.testing.assert_array_equal(whole * variable, whole**2)
    np.testing.assert_array_equal(jnp.ones(2) + variable, whole + 1)
    assert float(keras.ops.sum(variable)) == jax.jit(lambda: keras.ops.sum(variable))() == whole.sum()
    np.testing.assert_array_equal(jax.jit(lambda: keras.ops.stack([variable, variable]))(), [whole, whole])
    np.testing.assert_array_equal(variable == whole, np.ones((3, 2), bool))
    assert np.asarray(variable, np.float64).dtype == np.float64
    assert variable.ndim == 2
    assert repr(variable) == "<ShardedVariable ShardedVariable, shape=(3, 2), dtype=float32, 2 shards>"


def test_a_checkpoint_has_one_variable_however_many_shards(tmp_path: Any) -> None:
    table = made([3, 2], [2], "table")
    path = ObjectCheckpoint(v=table).save(tmp_path)
    assert {name: each.shape for name, each in muster.checkpoint.list_variables(path).items()} == {
        "v/table": (5, 2)
    }
    for other in (made([1, 2, 2], [2], "table"), keras.Variable(np.zeros((5, 2), np.float32))):
        other.assign(np.zeros((5, 2), np.float32))
        ObjectCheckpoint(v=other).restore(path)
        np.testing.assert_array_equal(other, content(5, [2]))


def test_shards_that_do_not_fit_are_refused() -> None:
    with pytest.raises(TypeError, match="non-empty list"):
        ShardedVariable([np.ones(2)])
    with pytest.raises(ValueError, match=r"except for the first axis, which they all have. .* \[\(\)\]"):
        ShardedVariable([keras.Variable(1.0)])
    with pytest.raises(ValueError, match=r"must have one dtype. Received: \['float32', 'int32'\]"):
        ShardedVariable([keras.Variable([1.0]), keras.Variable([1], dtype="int32")])
    plain = ShardedVariable([keras.Variable(np.ones(2))])
    with pytest.raises(TypeError, match="scatter_add changes rows of tf.Variables, got a shard"):
        plain.scatter_add(muster.distribute.IndexedSlices([1.0], [0]))
