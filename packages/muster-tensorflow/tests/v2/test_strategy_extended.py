"""``strategy.extended``, as TensorFlow has it."""

from typing import Any

import numpy as np
import pytest

import muster_tensorflow as tf
from muster import keras
from muster.distribute import MirroredStrategy, PerReplica, Strategy, get_replica_context
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


def is_ours(case: dict[str, Any]) -> bool:
    strategy, family, *what = case["name"].split("/")
    return strategy in MAKERS and (family == "extended" or what in OF_EXTENDED)


def extended(strategy: Strategy, count: int, what: str, asked: dict[str, Any]) -> Any:
    api, one = strategy.extended, variable(strategy, asked.get("initial", 1.0), aggregation="mean")

    def components() -> dict[str, Any]:
        own = strategy.experimental_local_results(one)
        return {"components": own[: 1 if type(strategy).__name__.startswith("Central") else count]}

    states: list[dict[str, Any]] = []
    match what:
        case "inside_update":
            api.update(one, lambda _: states.append(state_of(strategy)))
            return {"state": states}
        case "worker_devices_count" | "parameter_devices_count":
            return {"n": len(getattr(api, what.removesuffix("_count")))}
        case "batch_reduce_to_MEAN" | "batch_reduce_to_SUM":
            pairs = [(given(each, count, "float32"), one) for each in asked["values"]]
            return api.batch_reduce_to(asked["reduce_op"], pairs)
        case "reduce_to_then_update":
            total = api.reduce_to("SUM", given(asked["value"], count, "float32"), one)
            api.update(one, lambda v, x: v.assign_add(x), (total,))
            return components()
        case _ if what.startswith("reduce_to"):
            destination = one if asked["destination"] == "a variable" else "/cpu:0"
            return api.reduce_to(asked["reduce_op"], given(asked["value"], count, "float32"), destination)
        case "colocate_vars_with":
            with api.colocate_vars_with(one):
                other = variable(strategy, 2.0)
            return {"same_device": other.value.devices() == one.value.devices()}
        case "colocate_vars_with_foreign_variable":
            with api.colocate_vars_with(keras.Variable(1.0)):
                return {"ok": True}
        case "experimental_require_static_shapes":
            return {"v": api.experimental_require_static_shapes}
        case "update_broadcast_arg":
            api.update(one, lambda v, x: v.assign_add(x), (api.broadcast_to(np.float32([10, 20]), one),))
            return components()
        case "update_group_False":
            results = api.update(one, lambda v: v * 2, group=False)
            return {"kind": {"type": type(results).__name__}, "value": list(results)}
        case "update_inside_run":
            api.call_for_each_replica(lambda: api.update(one, lambda v, x: v.assign_add(x), (np.float32(1),)))
            return api.read_var(one)
        case "value_container":
            containers = [api.value_container(one)] * count
            return {"container_is_v": [each is one for each in containers]}
    outside = keras.Variable(1.0)
    owned = api.variable_created_in_scope
    return {"created_in_scope": owned(one), "created_outside": owned(outside)}


@pytest.mark.parametrize("case", strategy_cases(is_ours))
def test_what_libraries_use(case: dict[str, Any]) -> None:
    name, _, what = case["name"].split("/", 2)
    strategy, count = made(name)
    check(lambda: extended(strategy, count, what, case["input"]["inputs"]), expectation(case))


def test_an_update_in_replicas_takes_what_they_have_reduced():
    strategy = MirroredStrategy(["/cpu:0", "/cpu:1"])
    with strategy.scope():
        weight = keras.Variable(1.0)

    def step(x):
        total = get_replica_context().all_reduce("SUM", x)
        strategy.extended.update(weight, lambda v, x, rate: v.assign_sub(rate * x), (total,), {"rate": 0.5})

    strategy.run(step, (PerReplica(np.array([2.0, 4.0], np.float32)),))
    assert float(weight) == 1.0 - 0.5 * 6.0


def test_extended_describes_where_things_are():
    strategy, outside = MirroredStrategy(["/cpu:0", "/cpu:1"]), get_replica_context()
    extended = strategy.extended
    assert extended.worker_devices == extended.parameter_devices == ("/device:CPU:0", "/device:CPU:1")
    assert outside.devices == ("",)
    devices = []
    strategy.run(lambda: devices.append(get_replica_context().devices))
    assert set(devices) == {("/device:CPU:0",)}
    assert extended.should_checkpoint
    assert extended.should_save_summary
    assert not extended.experimental_between_graph
    made = extended.update_non_slot(extended.non_slot_devices([]), lambda x: x + 1, (1,), group=False)
    assert made == (2, 2)
    assert isinstance(extended, tf.distribute.StrategyExtended)
