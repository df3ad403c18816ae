"""What strategies do with values of their replicas, as TensorFlow does."""

from typing import Any

import jax
import numpy as np
import pytest

import muster
from muster import keras
from muster.distribute import (
    CentralStorageStrategy,
    MirroredStrategy,
    OneDeviceStrategy,
    PerReplica,
    ReduceOp,
    Strategy,
    function,
    get_replica_context,
    get_strategy,
)
from oracles import cases

MAKERS = {
    "default": lambda: (get_strategy(), 1),
    "one_device": lambda: (OneDeviceStrategy("/cpu:0"), 1),
    "central1": lambda: (CentralStorageStrategy(["/cpu:0"]), 1),
    "central2": lambda: (CentralStorageStrategy(["/cpu:0", "/cpu:1"]), 2),
    **{f"mirrored{n}": lambda n=n: (MirroredStrategy([f"/cpu:{i}" for i in range(n)]), n) for n in (1, 2, 3)},
}
FAMILIES = ("reduce", "gather", "all_reduce", "all_gather", "local_results", "values_from_function")

# What is not here, by a part of the cases' names.
DEPARTURES = {
    "indexed_slices": "JAX has no IndexedSlices: gradients of look-ups are dense, or stay in the program",
    "string": "texts are no arrays here",
    "uneven": "values of replicas have one shape: a compiled program is the same on all of them",
    "mismatch": "likewise",
    "other_dim_mismatch": "likewise",
    "one_empty": "likewise",
    "in_tf_function_unknown_batch": "likewise",
    "in_tf_function": "likewise: its values differ in shape",
    "rank3": "likewise",
    "structure/axis=0": "TensorFlow fails on structures with an axis, by accident; here they are reduced",
    "python_zero": "TensorFlow fails by accident; the mean of a zero is zero",
    "gather/bool": "TensorFlow's kernel lacks a type; here it is gathered",
    "gather/structure": "TensorFlow returns the first replica's part, a fault; here structures are gathered",
    "all_gather/structure": "its values differ in shape",
    "dict_of_per_replica": "ours gives a tuple of the one structure: PerReplica values stay in it",
    "local_results/variable": "a variable is one object here; its value is the same on all replicas",
    "reduce/axis_missing": "the axis may be left out: None",
    "values_from_function/structure": "test_custom_loops.py has one",
    "list_is_not_mapped": "likewise",
    "SUM/mirrored_variable": "TensorFlow fails by accident; here it is refused, or on one replica its value",
    "SUM/run_result_none": "there is nothing to reduce: None",
    "SUM/plain_tensor/axis=0": "TensorFlow adds the same value once for each replica; here it is refused",
    "values_from_function/inside_run": "it makes values of all replicas anywhere",
    "str_of_context": "a context is a plain dataclass",
    "central1/values_from_function": "one replica's values are plain, under every strategy",
    "central1/reduce/SUM/structure": "TensorFlow's fails on structures, by accident; here they are reduced",
    "central2/reduce/SUM/structure": "likewise",
    "central1/reduce/MEAN/structure": "likewise",
    "central2/reduce/MEAN/structure": "likewise",
    "central2/all_gather/matrix/axis=-1": "as under MirroredStrategy, axes are counted from the front",
    "central1/all_gather/matrix/axis=-1": "likewise",
    "python_values": "values are arrays of equal type",
}


def is_ours(case: dict[str, Any]) -> bool:
    strategy, family, *_ = case["name"].split("/")
    return strategy in MAKERS and family in FAMILIES


def departure(name: str) -> str | None:
    return next((reason for part, reason in DEPARTURES.items() if part in name), None)


def given(value: Any, count: int, dtype: str) -> Any:
    """Values by replica as this strategy's; numbers in lists are arrays."""
    if isinstance(value, dict):
        return {key: given(each, count, dtype) for key, each in value.items()}
    if isinstance(value, list) and len(value) != count:  # a structure
        return [given(each, count, dtype) for each in value]
    array = np.array(value, dtype)
    return PerReplica(array) if count > 1 else array[0]


def plain(result: Any) -> Any:
    if isinstance(result, PerReplica):
        return {"kind": "PerReplica", "per_replica": [plain(each) for each in result.values]}
    if isinstance(result, dict):
        return {key: plain(each) for key, each in result.items()}
    if isinstance(result, list | tuple):
        return [plain(each) for each in result]
    return None if result is None else np.asarray(result).tolist()


def same(actual: Any, expected: Any) -> None:
    if isinstance(expected, dict):
        if set(expected) == {"value"}:
            expected = expected["value"]
        elif expected.get("type") == "tuple":
            assert isinstance(actual, list)
            expected = expected["value"]
    if isinstance(expected, dict):
        assert set(actual) == set(expected)
        for key, each in expected.items():
            same(actual[key], each)
    elif isinstance(expected, list) and any(isinstance(each, dict) for each in expected):
        for one, other in zip(actual, expected, strict=True):
            same(one, other)
    elif isinstance(expected, str):
        assert actual == expected or str(actual) == expected
    else:
        if expected is None:
            assert actual is None
            return
        np.testing.assert_allclose(
            np.array(actual, float), np.array(expected, float), rtol=1e-6, err_msg=str(actual)
        )


def compute(strategy: Strategy, count: int, family: str, what: str, asked: dict[str, Any]) -> Any:
    value, dtype = asked.get("value"), asked.get("dtype", "float32")
    op: Any = asked.get("reduce_op")
    if isinstance(op, str):
        op = op.removeprefix("str_").removeprefix("str ")
        op = ReduceOp[op.removeprefix("ReduceOp.")] if op.startswith("ReduceOp.") else op
    axis = asked.get("axis")
    axis = tuple(axis) if asked.get("axis_is_tuple") else axis
    if what == "list_is_not_mapped":
        value = [1.0, 2.0]
    elif isinstance(value, str):
        value = {
            "plain python 3.0": lambda: 3.0,
            "plain python 0": lambda: 0,
            "plain tensor [1., 2.]": lambda: np.array([1.0, 2.0], np.float32),
            "run(lambda: 2.0) python float": lambda: strategy.run(lambda: 2.0),
            "run(lambda: None)": lambda: strategy.run(lambda: None),
            "variable 4.0 created in scope": lambda: variable(strategy),
            "python 2.0 on every replica": lambda: 2.0,
            "inside strategy.run": lambda: "inside",
        }[value]()
    elif value is not None and family != "local_results":
        value = given(value, count, dtype)
    elif isinstance(value, list):
        value = given(value, count, dtype)
    match family:
        case "reduce" if what.endswith("inside_run"):
            return strategy.run(lambda: strategy.reduce(op, 1.0))
        case "reduce":
            return strategy.reduce(op, value, axis=axis)
        case "gather" if what == "inside_run":
            return strategy.run(lambda: strategy.gather(np.ones(1), 0))
        case "gather" if what == "axis_missing":
            return strategy.gather(value)  # type: ignore[call-arg]
        case "gather":
            return strategy.gather(value, axis)
        case "all_reduce" if "gradient" in what:
            return strategy.run(
                lambda x: slope(x, lambda y: get_replica_context().all_reduce(op, y)), (value,)
            )
        case "all_reduce":
            call = function(lambda v: strategy.run(lambda x: get_replica_context().all_reduce(op, x), (v,)))
            return call(value)
        case "all_gather" if "gradient" in what:
            return strategy.run(
                lambda x: slope(x, lambda y: get_replica_context().all_gather(y, 0)), (value,)
            )
        case "all_gather":
            return strategy.run(lambda x: get_replica_context().all_gather(x, axis), (value,))
        case "local_results":
            return strategy.experimental_local_results(value)
    return strategy.experimental_distribute_values_from_function(
        lambda context: np.float32(context.replica_id_in_sync_group * 10)
    )


def slope(x: jax.Array, meet: Any) -> Any:
    with muster.GradientTape() as tape:
        number = get_replica_context().replica_id_in_sync_group + 1
        y = keras.ops.sum(meet(x * x) * keras.ops.cast(number, "float32"))
    return tape.gradient(y, x)


def variable(strategy: Strategy) -> Any:
    with strategy.scope():
        return keras.Variable(4.0)


@pytest.mark.parametrize("case", cases("strategy_api", is_ours))
def test_values_of_replicas(case: dict[str, Any]) -> None:
    name, family, what = case["name"].split("/", 2)
    if (reason := departure(case["name"])) is not None:
        pytest.skip(reason)
    strategy, count = MAKERS[name]()
    asked, expect = case["input"]["inputs"], case["expect"]
    if "error" in expect and "destinations can not be empty" in expect["error"]["message"]:
        pytest.skip("TensorFlow cannot reduce a function's argument on one device, a fault")
    if "error" in expect:
        with pytest.raises((ValueError, TypeError, RuntimeError)) as raised:
            compute(strategy, count, family, what, asked)
        text = expect["error"]["message"]
        if expect["error"]["type"] == "RuntimeError" or text.startswith("A non-Dist"):
            assert str(raised.value)[:29] == text[:29]
        return
    same(plain(compute(strategy, count, family, what, asked)), expect)
