"""What becomes of variables that replicas, or code for all of them, assign to, as in TensorFlow.

Of a variable, its value, its part on each replica, and what Keras says of it are compared; not the classes
and names that TensorFlow gives it, nor "AUTO", which means "ON_WRITE".
"""

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import muster
from muster import keras
from muster.distribute import PerReplica, Strategy, function, get_replica_context
from strategy_cases import MAKERS, check, error_of, expectation, made, plain, strategy_cases

# Done to many variables at once, in one program, which is compiled once: by how the names begin.
TOGETHER = (
    "create/",
    "replica_update/",
    "cross_replica_update/",
    "outside_scope_update/",
    "int_AUTO/",
    "int_ON_READ/",
)


def is_ours(case: dict[str, Any]) -> bool:
    """Leave out what TensorFlow's names alone do.

    Changes of rows are methods of ``tf.Variable``, and only there may replicas make a variable at each call.
    """
    strategy, family, *what = case["name"].split("/")
    others = what and what[0].startswith(("scatter_", "created_inside_run"))
    return strategy in MAKERS and family == "variable" and not others


CASES = strategy_cases(is_ours)


def number() -> Any:
    return get_replica_context().replica_id_in_sync_group


def as_float(value: Any) -> Any:
    return keras.ops.cast(value, "float32")


def variable(strategy: Strategy, asked: dict[str, Any], name: str) -> Any:
    dtype, synchronization = asked.get("dtype", "float32"), asked.get("synchronization", "AUTO").lower()
    with strategy.scope():
        return keras.Variable(
            np.array(asked.get("initial", 4), dtype),
            dtype=dtype,
            synchronization=synchronization,
            aggregation=asked.get("aggregation", "NONE").lower(),
            trainable=asked.get("trainable", synchronization != "on_read"),
            name=name.replace("/", "_"),
        )


def update_in_replica(family: str, one: Any, asked: dict[str, Any]) -> None:
    if family.startswith("int_"):
        one.assign_add(keras.ops.cast(number() + 1, "int32"))
        return
    values = {
        "python float 2.0 on every replica": lambda: 2.0,
        "tensor 2.0 on every replica": lambda: keras.ops.ones(()) * 2,
        "tensor 1.0 + 2*replica_id": lambda: 1.0 + 2 * as_float(number()),
    }
    getattr(one, asked["method"])(values[asked["value"]]())


@functools.cache
def outcomes(name: str, family: str) -> dict[str, Any]:
    """What becomes of each of a family's variables: by the name of its case, a result or an error."""
    strategy, _ = made(name)
    wanted = {}
    for case in (each.values[0] for each in CASES):
        prefix, _, what = case.get("name", "").partition(f"{name}/variable/{family}")
        if what and not prefix:
            wanted[what] = case["input"]["inputs"]
    errors: dict[str, BaseException] = {}
    variables: dict[str, Any] = {}

    def attempt(what: str, action: Callable[[], Any]) -> None:
        if (error := error_of(action)) is not None:
            errors[what] = error

    for what, asked in wanted.items():
        attempt(what, lambda: variables.update({what: variable(strategy, asked, what)}))  # noqa: B023

    def in_replica() -> None:
        for what, one in variables.items():
            attempt(what, lambda: update_in_replica(family, one, wanted[what]))  # noqa: B023

    if family in ("replica_update/", "int_AUTO/", "int_ON_READ/"):
        strategy.run(in_replica)
    for what, one in variables.items():
        asked = wanted[what]
        if family.endswith("_update/") and family != "replica_update/":
            with contextlib.nullcontext() if family == "outside_scope_update/" else strategy.scope():
                attempt(what, functools.partial(getattr(one, asked["method"]), asked["value"]))
    parts = strategy.experimental_local_results(
        strategy.run(lambda: {k: v.value for k, v in variables.items()})
    )
    return {
        what: described(name, one, [part[what] for part in parts]) for what, one in variables.items()
    } | errors


def described(name: str, one: Any, components: list[Any]) -> dict[str, Any]:
    """A variable as the cases have it; TensorFlow's CentralStorageStrategy keeps one copy of each."""
    return {
        "components": [one.value] if name.startswith("central") else components,
        "cross_replica_read": one.value,
        "numpy": one.value,
        "trainable": one.trainable,
        "aggregation": one.aggregation.upper(),
        "dtype": one.dtype,
        "shape": list(one.shape),
    }


def result_of(name: str, family: str, what: str) -> dict[str, Any]:
    outcome = outcomes(name, family)[what]
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def alone(strategy: Strategy, name: str, count: int, family: str, asked: dict[str, Any]) -> Any:
    """What is done to one variable by itself."""
    if family == "variable_created_outside_scope_updated_in_run":
        one = keras.Variable(asked["initial"], trainable=False)
        strategy.run(lambda: one.assign_add(1.0))
        return one
    one = variable(strategy, asked, family)

    def read() -> Any:
        return one.value + 0

    match family:
        case "read_in_replica":
            if one.synchronization == "on_read":
                strategy.run(lambda: one.assign(10 * (as_float(number()) + 1)))
            reads = strategy.run(read)
            components = list(reads.values) if isinstance(reads, PerReplica) else [reads]
            return {"replica_reads": reads} | described(name, one, components)
        case "reduce_of_ON_READ":
            strategy.run(lambda: one.assign(as_float(number() + 1)))
            return {f"reduce_{op}": strategy.reduce(op, one, axis=None) for op in ("SUM", "MEAN")}
        case "cross_replica_update_per_replica":
            value = np.array(asked["value"], np.float32)
            with strategy.scope():
                getattr(one, asked["method"])(PerReplica(value) if count > 1 else value[0])
            return described(name, one, list(strategy.experimental_local_results(one)))
        case "arithmetic_cross_replica":
            return {
                "add": one + 1,
                "mul": one * one,
                "neg": -one,
                "getitem": one[0],
                "reduce_sum": keras.ops.sum(one),
                "value": one.value,
            }
        case "arithmetic_in_replica":
            return strategy.run(lambda: {"add": one + 1, "getitem": one[0], "convert": read()})
        case "assign_add_return_value_in_replica":
            return {"read_back_per_replica": strategy.run(lambda: (one.assign_add(1.0), read())[1])}
        case "assign_wrong_shape":
            with strategy.scope():
                one.assign(np.array(asked["value"], np.float32))

    def slope(x: Any) -> Any:
        with muster.GradientTape() as tape:
            y = one * x
        return tape.gradient(y, one)

    x = np.array(asked["x"], np.float32)
    return function(lambda x: strategy.run(slope, (x,)))(PerReplica(x) if count > 1 else x[0])


@pytest.mark.parametrize("case", CASES)
def test_variables(case: dict[str, Any]) -> None:
    name, _, what = case["name"].split("/", 2)
    strategy, count = made(name)
    expect = expectation(case)
    if family := next((each for each in TOGETHER if what.startswith(each)), ""):
        check(lambda: result_of(name, family, what.removeprefix(family)), described_only(expect))
    else:
        family = what.partition("/")[0]
        check(lambda: alone(strategy, name, count, family, case["input"]["inputs"]), described_only(expect))


def described_only(expect: dict[str, Any]) -> dict[str, Any]:
    """Without what Keras does not say in these words."""
    unknown = ("type", "synchronization", "name", "is_tf_Variable", "distinct_objects")
    if "from" in expect or "departs" in expect:
        return {part: described_only(each) for part, each in expect.items()}
    return {key: value for key, value in expect.items() if key not in unknown}


def test_what_is_recorded_is_looked_at() -> None:
    """A case is compared by what TensorFlow gave, and not by nothing."""
    with pytest.raises(AssertionError):
        check(lambda: {"components": [1.0]}, {"components": [2.0]})
    assert plain(PerReplica(np.ones((2, 1)))) == {"kind": "PerReplica", "per_replica": [[1.0], [1.0]]}
