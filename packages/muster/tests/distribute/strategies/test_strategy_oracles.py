"""What strategies do with values of their replicas, as TensorFlow does."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import muster
from muster import keras
from muster.data import Dataset
from muster.distribute import (
    IndexedSlices,
    MirroredStrategy,
    MultiWorkerMirroredStrategy,
    OneDeviceStrategy,
    PerReplica,
    ReduceOp,
    Strategy,
    ValueContext,
    experimental_set_strategy,
    function,
    get_replica_context,
)
from recorded import IN_REPOSITORY, load
from strategy_cases import (
    MAKERS,
    OF_EXTENDED,
    check,
    expectation,
    given,
    made,
    state_of,
    strategy_cases,
    variable,
)
from strategy_departures import RULES, rule_of

# Of the other families, "variable" is in test_variable_oracles.py, "extended" and OF_EXTENDED are in
# test_strategy_extended.py, and losses are in test_average_loss.py.
FAMILIES = (
    "reduce",
    "gather",
    "all_reduce",
    "all_gather",
    "local_results",
    "values_from_function",
    "context",
    "run",
    "merge_call",
    "optimizer",
    "per_replica",
    "keras_metric",
)


def is_ours(case: dict[str, Any]) -> bool:
    strategy, family, *what = case["name"].split("/")
    return strategy in MAKERS and family in FAMILIES and what not in OF_EXTENDED


def op_of(name: Any) -> Any:
    if not isinstance(name, str):
        return name
    name = name.removeprefix("str_").removeprefix("str ")
    return ReduceOp[name.removeprefix("ReduceOp.")] if name.startswith("ReduceOp.") else name


def number() -> Any:
    """The replica's, as float."""
    return keras.ops.cast(get_replica_context().replica_id_in_sync_group, "float32")


def value_of(strategy: Strategy, count: int, asked: dict[str, Any]) -> Any:
    value = asked.get("value")
    if "IndexedSlices" in str(value):
        rows = given([[[i + 1.0], [10 * (i + 1.0)]] for i in range(count)], count, "float32")
        return IndexedSlices(rows, given([[0, 2]] * count, count, "int32"), (4, 1))
    if not isinstance(value, str):
        return given(value, count, asked.get("dtype", "float32"))
    return {
        "plain python 3.0": lambda: 3.0,
        "plain python 0": lambda: 0,
        "plain tensor [1., 2.]": lambda: np.array([1.0, 2.0], np.float32),
        "run(lambda: 2.0) python float": lambda: strategy.run(lambda: 2.0),
        "run(lambda: None)": lambda: strategy.run(lambda: None),
        "variable 4.0 created in scope": lambda: variable(strategy, 4.0),
        "python 2.0 on every replica": lambda: 2.0,
        "{'a': ...}": lambda: {"a": given([[i + 1.0] for i in range(count)], count, "float32")},
    }[value]()


def slope(x: jax.Array, meet: Callable[[Any], Any]) -> Any:
    with muster.GradientTape() as tape:
        y = keras.ops.sum(meet(x * x) * (number() + 1))
    return tape.gradient(y, x)


def reduce(strategy: Strategy, count: int, what: str, asked: dict[str, Any]) -> Any:
    op, axis = op_of(asked.get("reduce_op")), asked.get("axis")
    if what.endswith("inside_run"):
        return strategy.run(lambda: strategy.reduce(op, 1.0))
    axis = tuple(axis) if asked.get("axis_is_tuple") else axis
    value = value_of(strategy, count, asked)
    if "in_tf_function" in what:
        return function(lambda v: strategy.reduce(op, v, axis=axis))(value)
    return strategy.reduce(op, value, axis=axis)


def gather(strategy: Strategy, count: int, what: str, asked: dict[str, Any]) -> Any:
    if what == "inside_run":
        return strategy.run(lambda: strategy.gather(np.ones(1), 0))
    if what == "indexed_slices":
        asked = {"axis": 0, "value": "IndexedSlices"}
    if what == "string":
        asked = {"dtype": "str", **asked}
    value = value_of(strategy, count, asked)
    if what == "axis_missing":
        return strategy.gather(value)  # type: ignore[call-arg]
    return strategy.gather(value, asked["axis"])


def all_reduce(strategy: Strategy, count: int, what: str, asked: dict[str, Any]) -> Any:
    op, value = op_of(asked["reduce_op"]), value_of(strategy, count, asked)
    if "gradient" in what:
        return strategy.run(lambda x: slope(x, lambda y: get_replica_context().all_reduce(op, y)), (value,))
    call = function(lambda v: strategy.run(lambda x: get_replica_context().all_reduce(op, x), (v,)))
    result = call(value)
    if isinstance(result, IndexedSlices) and count > 1:
        return {"kind": "PerReplica", "per_replica": strategy.experimental_local_results(result)}
    return result


def all_gather(strategy: Strategy, count: int, what: str, asked: dict[str, Any]) -> Any:
    if what == "indexed_slices":
        asked = {"axis": 0, "value": "IndexedSlices"}
    value = value_of(strategy, count, asked)
    if what == "gradient":
        return strategy.run(lambda x: slope(x, lambda y: get_replica_context().all_gather(y, 0)), (value,))
    return strategy.run(lambda x: get_replica_context().all_gather(x, asked["axis"]), (value,))


def local_results(strategy: Strategy, count: int, what: str, asked: dict[str, Any]) -> Any:
    results = strategy.experimental_local_results
    match what:
        case "variable":
            values = results(variable(strategy, asked["initial"]))
            return {"len": len(values), "values": values}
        case "list_is_not_mapped":
            values = results([1.0, 2.0])
            return {"type": type(values).__name__, "len": len(values), "value": list(values)}
        case "dict_of_per_replica":
            values = results(value_of(strategy, count, asked))
            return {"len": len(values), "first_type": type(values[0]).__name__}
        case "per_replica":
            values = results(value_of(strategy, count, asked))
        case _:
            values = results(asked["value"])
    return {"type": type(values).__name__, "value": list(values)}


def values_from_function(strategy: Strategy, count: int, what: str, asked: dict[str, Any]) -> Any:
    made_of: dict[str, Callable[[ValueContext], Any]] = {
        "ids": lambda context: context.replica_id_in_sync_group * 10,
        "str_of_context": str,
        "python_values": lambda context: context.num_replicas_in_sync,
        "structure": lambda context: {
            "a": context.replica_id_in_sync_group,
            "b": (context.replica_id_in_sync_group + 1,),
        },
    }
    make = strategy.experimental_distribute_values_from_function
    if what == "inside_run":
        return strategy.run(lambda: make(lambda context: np.float32(1.0)).data if count > 1 else 1.0)
    return make(made_of[what])


def context(strategy: Strategy, count: int, what: str, asked: dict[str, Any]) -> Any:
    states: list[dict[str, Any]] = []

    def note(*_: Any, **more: Any) -> None:
        states[:] = [state_of(strategy) | more]  # the last trace's

    match what:
        case "outside_scope":
            return state_of(strategy)
        case "inside_scope":
            with strategy.scope():
                return state_of(strategy)
        case "same_scope_nested":
            with strategy.scope(), strategy.scope():
                return state_of(strategy)
        case "other_strategy_nested":
            with strategy.scope(), OneDeviceStrategy("/cpu:0").scope():
                return state_of(strategy)
        case "scope_inside_run":

            def enter() -> None:
                with strategy.scope():
                    note()

            strategy.run(enter)
            return states[0]
        case "run_inside_run":
            return strategy.run(lambda: strategy.run(lambda: 1.0))
        case "inside_run_eager":
            strategy.run(note)
            return {"per_replica": states, "after": state_of(strategy)}
        case "inside_run_in_tf_function":
            function(lambda: strategy.run(note))()
            return {"per_replica": states}
        case "inside_merge_call":

            def merge(merged: Strategy) -> None:
                note(merge_strategy_is_this=merged is strategy)

            strategy.run(lambda: get_replica_context().merge_call(merge))
            return {"merge_calls": 1, "state": states}
        case "inside_dataset_fn":

            def dataset_fn(_: Any) -> Dataset:
                note()
                return Dataset.range(4).batch(1)

            strategy.distribute_datasets_from_function(dataset_fn)
            return {"state": states}
        case "experimental_set_strategy":
            experimental_set_strategy(strategy)
            try:
                return state_of(strategy)
            finally:
                experimental_set_strategy(None)
        case "experimental_set_strategy_inside_scope":
            with strategy.scope():
                experimental_set_strategy(strategy)
                experimental_set_strategy(None)
                return state_of(strategy)
        case "num_replicas_in_sync":
            return {"num_replicas_in_sync": strategy.num_replicas_in_sync}
        case "default_replica_context_outside":
            outside = get_replica_context()
            return {
                "is_ReplicaContext": type(outside).__name__ == "ReplicaContext",
                "replica_id": outside.replica_id_in_sync_group,
                "num": outside.num_replicas_in_sync,
                "strategy": "_" + type(outside.strategy).__name__.replace("Strategy", "DistributionStrategy"),
            }
    ids = strategy.run(lambda: get_replica_context().replica_id_in_sync_group)
    counts = strategy.run(lambda: np.int32(get_replica_context().num_replicas_in_sync))
    return {"id": ids, "n": counts}


def run(strategy: Strategy, count: int, what: str, asked: dict[str, Any]) -> Any:
    def arguments(value: Any) -> Any:
        return given(value, count, "float32") if isinstance(value, list) and len(value) == count else value

    def fail() -> None:
        raise ValueError(f"boom {get_replica_context().replica_id_in_sync_group}")

    def fail_in_last() -> None:
        if get_replica_context().replica_id_in_sync_group == count - 1:
            raise KeyError("only the last replica")

    def one_of_two() -> Any:
        return {"a": 1.0} if get_replica_context().replica_id_in_sync_group == 0 else {"b": 1.0}

    def structure() -> Any:
        own = get_replica_context().replica_id_in_sync_group
        return {"x": own, "y": (own * 2, "const")}

    def number_as_int() -> Any:
        return 0 if get_replica_context().replica_id_in_sync_group == 0 else 1

    match what:
        case "double" | "in_tf_function":
            x = given(asked["args"][0], count, "float32")
            if what == "double":
                return strategy.run(lambda x: x * 2, (x,))
            return function(lambda x: strategy.run(lambda x: x * 2, (x,)))(x)
        case "plain_arg_is_broadcast":
            return strategy.run(lambda x: x + number(), (5.0,))
        case "nested_args":
            inner = asked["args"][0]
            nested = {"a": arguments(inner["a"]), "b": [inner["b"][0], arguments(inner["b"][1])]}
            return strategy.run(lambda d: d["a"] + d["b"][0] * d["b"][1], (nested,))
        case "kwargs":
            return strategy.run(lambda x, y: x + y, kwargs={"x": arguments(asked["kwargs"]["x"]), "y": 10.0})
        case "returns_structure":
            return strategy.run(structure)
        case "result_kind_tensor":
            result = strategy.run(lambda: keras.ops.ones(()))
            return {"type": "PerReplica" if isinstance(result, PerReplica) else "Tensor"}
        case "result_kind_float" | "result_same_python_float":
            result = strategy.run(lambda: 1.5)
            kind = "Array" if isinstance(result, jax.Array) else type(result).__name__
            return {"type": kind} if what == "result_kind_float" else result
        case "result_none":
            return {"is_none": strategy.run(lambda: None) is None}
        case "result_strings":
            return strategy.run(lambda: "a")
        case "args_not_tuple":
            return strategy.run(lambda x: x, np.float32(1.0))  # type: ignore[arg-type]
        case "args_list_ok":
            return strategy.run(lambda x: x, [np.float32(2.0)])
        case "not_callable":
            return strategy.run(None)  # type: ignore[arg-type]
        case "wrong_arity":
            return strategy.run(lambda x: x)
        case "closed_over_per_replica":
            value = given(asked["closure"], count, "float32")
            return strategy.run(lambda: value * 2)
    functions: dict[str, Callable[[], Any]] = {
        "exception_in_replica": fail,
        "exception_in_last_replica": fail_in_last,
        "different_structures": one_of_two,
        "different_shapes": lambda: keras.ops.arange(get_replica_context().replica_id_in_sync_group + 1),
        "result_different_python_ints": number_as_int,
    }
    return strategy.run(functions[what])


def merge_call(strategy: Strategy, count: int, what: str, asked: dict[str, Any]) -> Any:
    def merge(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return get_replica_context().merge_call(function, args, kwargs)

    order: list[list[str]] = []

    def in_order() -> None:
        order[:] = [["a"]]
        merge(lambda s: order.append(["merge"]))
        order.append(["b"])

    def fail(_: Strategy) -> None:
        raise ValueError("from merge")

    def only_first() -> Any:
        if get_replica_context().replica_id_in_sync_group == 0:
            merge(lambda s: None)
        return 1.0

    seen: dict[str, Any] = {}

    def reduce_inside(x: Any) -> Any:
        def reduce(s: Strategy, a: Any, b: Any, c: Any) -> Any:
            for name, value in (("a", a), ("b", b), ("c", c)):
                kind = "Tensor" if isinstance(value, jax.Array) else type(value).__name__
                seen[name] = {"type": kind}
            return s.reduce("MEAN" if count > 1 else "SUM", a), b, s.experimental_local_results(c)

        mean, plain, own = merge(reduce, x, 7, c=x * 2)
        return mean, plain, own

    match what:
        case "execution_order":
            strategy.run(in_order)
            return {"order": order}
        case "exception_in_merge":
            return strategy.run(lambda: merge(fail))
        case "only_replica_0_calls":
            return strategy.run(only_first)
        case "inside_nested_tf_function":
            nested = function(lambda: merge(lambda s: keras.ops.ones(())))
            return strategy.run(lambda: nested())
        case "merge_call_inside_merge_call":
            return strategy.run(lambda: merge(lambda s: get_replica_context().merge_call(lambda s: 1.0)))
        case "run_inside_merge_call":
            return strategy.run(lambda: merge(lambda s: s.run(lambda: 3.0)))
        case "returns_python":
            return strategy.run(lambda: merge(lambda s: 5))
        case "returns_per_replica":
            value = given(asked["value"], count, "float32")
            return strategy.run(lambda x: merge(lambda s, v: v, x * 10), (value,))
    value = given(asked["args"][0], count, "float32")
    mean, plain, own = strategy.run(reduce_inside, (value,))
    doubled = PerReplica(np.stack([each.values[i] for i, each in enumerate(own)])) if count > 1 else own[0]
    total = mean.values[0] * count if count > 1 else mean
    return {"seen": seen | {"a_val": value, "b_val": plain, "c_val": doubled}, "out": total}


def optimizer(strategy: Strategy, count: int, what: str, asked: dict[str, Any]) -> Any:
    weights = variable(strategy, asked["initial"])
    with strategy.scope():
        sgd = keras.optimizers.SGD(asked["learning_rate"])

    names = ("skip_gradients_aggregation", "experimental_aggregate_gradients")
    aggregation = {name: asked[name] for name in names if name in asked}

    def step(x: Any) -> None:
        sgd.apply_gradients([(keras.ops.stack([x, 2 * x]), weights)], **aggregation)

    strategy.run(step, (given(asked["x"], count, "float32"),))
    components = list(strategy.experimental_local_results(weights))
    components = components[:1] if type(strategy).__name__.startswith("Central") else components
    return {"components": components, "iterations": sgd.iterations} | (
        {} if what.startswith("SGD") else {"iterations": None}
    )


def per_replica(strategy: Strategy, count: int, what: str, asked: dict[str, Any]) -> Any:
    value = given(asked["value"], count, "float32")
    match what:
        case "kind":
            return {"type": "PerReplica" if isinstance(value, PerReplica) else "Array"}
        case "convert_outside_run":
            return keras.ops.convert_to_tensor(value)
    return value + 1.0


def keras_metric(strategy: Strategy, count: int, what: str, asked: dict[str, Any]) -> Any:
    with strategy.scope():
        metric = keras.metrics.Mean() if what == "Mean" else keras.metrics.Sum()
    # Values of replicas have one shape: weights of zero make up for what is not there.
    longest = max(map(len, asked["values"]))
    padded = [values + [0.0] * (longest - len(values)) for values in asked["values"]]
    weights = [[1.0] * len(values) + [0.0] * (longest - len(values)) for values in asked["values"]]
    args = tuple(given(each, count, "float32") for each in (padded, weights))
    strategy.run(lambda values, weights: metric.update_state(values, weights) and None, args)
    result = {"cross_replica_result": metric.result()}
    if what == "Mean":
        metric.reset_state()
        result["after_reset"] = metric.result()
    return result


COMPUTE = {name: globals()[name] for name in FAMILIES}


@pytest.mark.parametrize("case", strategy_cases(is_ours))
def test_values_of_replicas(case: dict[str, Any]) -> None:
    name, family, what = case["name"].split("/", 2)
    strategy, count = made(name)
    expect = expectation(case)
    check(lambda: COMPUTE[family](strategy, count, what, case["input"]["inputs"]), expect)


def test_no_departure_is_out_of_use() -> None:
    found = {rule_of(case) for case in load("strategy_api", IN_REPOSITORY)}
    assert [rule.reason for rule in RULES if rule not in found] == []


def devices_of(strategy: Strategy) -> dict[str, Any]:
    devices = sorted(strategy.placement.sharding.device_set, key=lambda device: device.id)
    return {
        "num_replicas": strategy.num_replicas_in_sync,
        "worker_devices": [f"device:{device.platform.upper()}:{device.id}" for device in devices],
    }


def construct(what: str, asked: dict[str, Any]) -> Any:
    if what == "reduce_op_members":
        members = {op.name: op.value for op in ReduceOp}
        return {"members": members, "from_aggregation": members}
    if what.startswith("cross_device_ops"):
        ops = getattr(muster.distribute, asked["cross_device_ops"])()
        strategy = MirroredStrategy(["/cpu:0", "/cpu:1"], ops)
        value = PerReplica(np.array(asked["value"], np.float32))
        return {f"reduce_{op}": strategy.reduce(op, value) for op in ("SUM", "MEAN")}
    if what == "one_device_no_arg":
        return OneDeviceStrategy()  # type: ignore[call-arg]
    if what.startswith("one_device"):
        return devices_of(OneDeviceStrategy(asked["device"]))
    if what == "mwms_local":
        return devices_of(MultiWorkerMirroredStrategy())
    if "cross_device_ops" in asked:
        return MirroredStrategy(["/cpu:0", "/cpu:1"], asked["cross_device_ops"])
    return devices_of(MirroredStrategy(asked["devices"]))


def is_about_a_constructor(case: dict[str, Any]) -> bool:
    """Leave out classes that are TensorFlow's alone: how variables are synchronized and aggregated."""
    return case["name"].startswith("construct/") and not case["name"].startswith("construct/variable_")


@pytest.mark.parametrize("case", strategy_cases(is_about_a_constructor), ids=str)
def test_constructors(monkeypatch: pytest.MonkeyPatch, case: dict[str, Any]) -> None:
    expect, asked = expectation(case), case["input"]["inputs"]
    if visible := asked.get("visible") or ("3 logical CPU devices" if asked.get("devices") == [] else ""):
        devices = jax.local_devices()[: int(visible.split()[0])]
        monkeypatch.setattr(jax, "local_devices", lambda: devices)
    check(lambda: construct(case["name"].partition("/")[2], asked), expect)
