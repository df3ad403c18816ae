"""What becomes of a ``tf.Variable`` whose rows replicas, or code for all of them, change, as in TensorFlow.

Of a variable, its value, its part on each replica, and what Keras says of it are compared.
"""

import functools
from typing import Any

import numpy as np
import pytest
from program_steps import started

import muster_tensorflow as tf
from muster import keras
from muster.distribute import MirroredStrategy, Strategy, get_replica_context
from muster.program.trace import Program
from strategy_cases import MAKERS, check, error_of, expectation, made, strategy_cases

FAMILY = "scatter_"


def is_ours(case: dict[str, Any]) -> bool:
    strategy, family, *what = case["name"].split("/")
    return strategy in MAKERS and family == "variable" and what[0].startswith(FAMILY)


CASES = strategy_cases(is_ours)


def variable(strategy: Strategy, asked: dict[str, Any]) -> tf.Variable:
    with strategy.scope():
        return tf.Variable(
            asked["initial"],
            synchronization=tf.VariableSynchronization[asked["synchronization"]],
            aggregation=tf.VariableAggregation[asked["aggregation"]],
        )


def change_rows(one: tf.Variable, asked: dict[str, Any]) -> None:
    number = keras.ops.cast(get_replica_context().replica_id_in_sync_group, "float32")
    if "method" in asked:
        rows = tf.IndexedSlices(keras.ops.stack([2 + number, 4 + number]), [0, 2])
        getattr(one, asked["method"])(rows)
    else:
        one.scatter_add(tf.IndexedSlices([2.0], [0]))


@functools.cache
def outcomes(name: str) -> dict[str, Any]:
    """Return what becomes of all variables, in one program: by the case, a result or an error."""
    strategy, _ = made(name)
    wanted = {
        case["name"]: case["input"]["inputs"]
        for case in (each.values[0] for each in CASES)
        if case.get("name", "").startswith(f"{name}/")
    }
    variables = {what: variable(strategy, asked) for what, asked in wanted.items()}
    errors: dict[str, Any] = {}

    def in_replica() -> None:
        for what, one in variables.items():
            if not what.endswith("cross_replica"):
                errors[what] = error_of(lambda: change_rows(one, wanted[what]))  # noqa: B023

    strategy.run(in_replica)
    for what, one in variables.items():
        if what.endswith("cross_replica"):
            with strategy.scope():
                errors[what] = error_of(functools.partial(one.scatter_add, tf.IndexedSlices([2.0], [0])))
    parts = strategy.experimental_local_results(
        strategy.run(lambda: {k: v.value for k, v in variables.items()})
    )
    return {
        what: errors[what] or described(name, one, [part[what] for part in parts])
        for what, one in variables.items()
    }


def described(name: str, one: tf.Variable, components: list[Any]) -> dict[str, Any]:
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


def result_of(case: dict[str, Any]) -> dict[str, Any]:
    outcome = outcomes(case["name"].partition("/")[0])[case["name"]]
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def described_only(expect: dict[str, Any]) -> dict[str, Any]:
    """Without what Keras does not say in these words."""
    unknown = ("type", "synchronization", "name", "is_tf_Variable", "distinct_objects")
    if "from" in expect or "departs" in expect:
        return {part: described_only(each) for part, each in expect.items()}
    return {key: value for key, value in expect.items() if key not in unknown}


@pytest.mark.parametrize("case", CASES)
def test_rows_change_as_in_tensorflow(case: dict[str, Any]) -> None:
    check(lambda: result_of(case), described_only(expectation(case)))


def makes_variables(case: dict[str, Any]) -> bool:
    strategy, family, *what = case["name"].split("/")
    return strategy in MAKERS and family == "variable" and what[0].startswith("created_inside_run")


@pytest.mark.parametrize("case", strategy_cases(makes_variables))
def test_replicas_of_one_make_variables_at_each_call(case: dict[str, Any]) -> None:
    strategy, _ = made(case["name"].partition("/")[0])

    def reads() -> Any:
        number = get_replica_context().replica_id_in_sync_group
        return keras.Variable(10.0 + number, name="variable_inside") + 0

    check(lambda: {"replica_reads": strategy.run(reads)}, described_only(expectation(case)))


@pytest.mark.parametrize(
    "case", strategy_cases(lambda case: case["name"].startswith("construct/variable_")), ids=str
)
def test_kinds_of_synchronization_and_aggregation(case: dict[str, Any]) -> None:
    kind = tf.VariableAggregation if "aggregation" in case["name"] else tf.VariableSynchronization
    check(lambda: {each.name: each.value for each in kind}, expectation(case))


def test_values_of_replicas_are_no_tensor() -> None:
    strategy = MirroredStrategy(["/cpu:0", "/cpu:1"])
    own = strategy.run(lambda: keras.ops.cast(get_replica_context().replica_id_in_sync_group, "float32"))
    with pytest.raises((TypeError, ValueError)):
        tf.convert_to_tensor(own)


def test_rows_of_a_model_fn_are_those_of_all_replicas() -> None:
    """Also where replicas have assigned to the variable before."""

    def model_fn(batch: Any) -> Any:
        table = tf.Variable([1.0, 1.0], False, aggregation=tf.VariableAggregation.SUM)
        table.assign_add(batch[:2])
        table.scatter_mul(tf.IndexedSlices(batch[:1], [0]))
        return {"table": table.value}, None

    batch = np.array([2.0, 3.0, 5.0, 7.0], np.float32)
    state, step = started(MirroredStrategy(["/cpu:0", "/cpu:1"]), Program(model_fn, batch))
    state, _ = step(state, batch)
    np.testing.assert_array_equal(state["variable"], [(1 + 2 + 5) * 2 * 5, 1 + 3 + 7])


def test_the_operation_that_reduces_as_a_variable_is_aggregated() -> None:
    for name in ("SUM", "MEAN"):
        found = tf.distribute.ReduceOp.from_variable_aggregation(tf.VariableAggregation[name])
        assert found is tf.distribute.ReduceOp[name]
    for other in (tf.VariableAggregation.NONE, tf.VariableAggregation.ONLY_FIRST_REPLICA):
        with pytest.raises(ValueError, match="Could not convert from `tf.VariableAggregation`"):
            tf.distribute.ReduceOp.from_variable_aggregation(other)
