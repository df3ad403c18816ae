"""Where strategies do on purpose something else than strategy_api.json, and why.

A rule looks at the strategy, the operation and the inputs of a case; the first one that is about it counts.
What muster does instead is tested, but where it has nothing of the kind.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from strategy_rules import ACCIDENT, Json, Rule, error, of_replicas, says, several, several_say, single
from variable_departures import VARIABLES


def asked_of(case: Json) -> Json:
    """Return the inputs of a case with its strategy (`kind`), number of replicas (`count`), and operation.

    The operation is in two parts, as `op` and `what`; of variables, `what` is the kind of update alone.
    """
    strategy, op, what = (*case["name"].split("/", 2), "")[:3]
    if strategy == "construct":
        strategy, op, what = "", strategy, op
    count = case["input"]["replicas"] or 1
    what = what.partition("/")[0] if op == "variable" else what
    kind = strategy.removesuffix(str(count)) if strategy.startswith(("mirrored", "central")) else strategy
    return case["input"]["inputs"] | {"kind": kind, "count": count, "op": op, "what": what}


def rule_of(case: Json) -> Rule | None:
    """Return the first rule that is about a case, if any."""
    asked = asked_of(case)
    return next((rule for rule in RULES if rule.about(asked)), None)


def _value(value: Any) -> Callable[[Json, Json, int], Json]:
    return lambda expect, asked, count: {"value": value}


def _each(value: Any) -> Callable[[Json, Json, int], Json]:
    """The same value on each replica."""
    return lambda expect, asked, count: of_replicas([value] * count)


def _structure(expect: Json, asked: Json, count: int) -> Json:
    """Each part of a structure reduced by itself; along axis 0, replicas have parts of several lengths."""
    reduce = np.sum if asked["reduce_op"].endswith("SUM") else np.mean

    def part(values: Any) -> Any:
        if asked["axis"] == 0:
            return reduce(np.concatenate(values), axis=0).tolist()
        return reduce(np.array(values), axis=0).tolist()

    return {"a": part(asked["value"]["a"]), "b": [part(asked["value"]["b"][0])]}


def _plain(expect: Json, asked: Json, count: int) -> Json:
    """One replica's values without a wrapper."""

    def unwrapped(value: Any) -> Any:
        if isinstance(value, list):
            return [unwrapped(each) for each in value]
        if not isinstance(value, dict):
            return value
        if value.get("kind") == "PerReplica" and count == 1:
            return unwrapped(value["per_replica"][0])
        return {key: unwrapped(each) for key, each in value.items()}

    result = unwrapped(expect)
    return result if isinstance(result, dict) else {"value": result}


def _itself(expect: Json, asked: Json, count: int) -> Json:
    """A single replica's value, which needs no reduction."""
    if "destinations can not be empty" not in expect.get("error", {}).get("message", ""):
        return expect
    if isinstance(asked["value"], dict):
        return {"a": asked["value"]["a"][0], "b": [asked["value"]["b"][0][0]]}
    return {"value": asked["value"][0] if isinstance(asked["value"], list) else 2.0}


def _once(expect: Json, asked: Json, count: int) -> Json:
    """What the code of the replicas sees of its context, once for all of them."""
    state = expect["per_replica"][0] | {"replica_id": "tensor" if count > 1 else 0}
    return expect | {"per_replica": [state]}


_ONE_SHAPE = "Values of replicas have one shape: one compiled program is theirs."
_ONE_TRACE = "The code of replicas is traced once for all of them, and not run once for each."
_PLAIN = "The value of a single replica is plain under every strategy."
_DIFFER = several_say("ValueError", "differ")
_NO_IF = several_say("TypeError", "Attempted boolean conversion of traced array")


def _parts_differ(value: Any, count: int) -> bool:
    """Whether values by replica differ in shape, in any part of a structure."""
    if isinstance(value, dict):
        return any(_parts_differ(each, count) for each in value.values())
    if not isinstance(value, list):
        return False
    if len(value) != count:
        return len(value) == 1 and _parts_differ(value[0], count)
    return len({np.array(each).shape for each in value}) > 1


def _of(op: str, *whats: str) -> Callable[[Json], bool]:
    return lambda asked: asked["op"] == op and asked["what"] in whats


def _reduces(value: str, count: Callable[[int], bool] = lambda count: True) -> Callable[[Json], bool]:
    """Say whether a case sums, over so many replicas, a value that is told in words."""
    return lambda asked: (
        asked["op"] == "reduce"
        and str(asked.get("value")).startswith(value)
        and asked["reduce_op"].endswith("SUM")
        and count(asked["count"])
    )


def _constructs(name: str, devices: Callable[[Any], bool]) -> Callable[[Json], bool]:
    """Say whether a case constructs a strategy from such devices."""
    return lambda asked: asked["op"] == "construct" and name in asked and devices(asked[name])


def _has_duplicates(devices: Any) -> bool:
    names = [name.rpartition("/")[2] for name in devices] if isinstance(devices, list) else []
    return len(set(names)) < len(names)


def _missing(devices: Any) -> list[str]:
    """Return the names of devices beyond the eight that tests have."""
    return [name for name in devices if int(name.rpartition(":")[2]) > 7] if isinstance(devices, list) else []


RULES = (
    *VARIABLES,
    # What there is nothing of here.
    Rule(
        lambda asked: (
            _of("context", "experimental_set_strategy_inside_scope")(asked) and asked["kind"] == "default"
        ),
        "The scope of the default strategy changes nothing.",
        lambda expect, asked, count: {"in_cross_replica_context": False, "has_strategy": False},
    ),
    Rule(
        lambda asked: _of("gather", "indexed_slices")(asked) and asked["count"] > 1,
        "TensorFlow makes arrays of them, against its documentation.",
        says("NotImplementedError", "gather does not support IndexedSlices"),
    ),
    Rule(
        lambda asked: (
            asked["count"] > 1
            and (
                asked.get("experimental_aggregate_gradients") is False
                or asked.get("skip_gradients_aggregation") is True
            )
        ),
        "The replicas' gradients have to be the same: copies must not drift apart.",
    ),
    Rule(
        lambda asked: asked["op"] == "construct" and asked["what"].startswith("reduce_op_from_aggregation"),
        "A conversion that only TensorFlow's own code needs.",
    ),
    Rule(
        lambda asked: (
            (asked.get("dtype") == "string" or asked["what"] == "string")
            and (asked["count"] == 1 or asked["kind"] == "central" and asked["op"] == "gather")
        ),
        "Texts are no arrays here.",
    ),
    # Values of replicas.
    Rule(
        lambda asked: asked["op"] == "reduce" and isinstance(asked.get("value"), dict), ACCIDENT, _structure
    ),
    Rule(
        lambda asked: (
            asked["op"] in ("reduce", "gather", "all_gather")
            and _parts_differ(asked.get("value"), asked["count"])
            and (asked.get("axis") is None or "mismatch" in asked["what"])
        ),
        "The values cannot be joined: TensorFlow says so in another way.",
        _DIFFER,
    ),
    Rule(
        lambda asked: asked["op"] == "all_reduce" and _parts_differ(asked.get("value"), asked["count"]),
        "The values cannot be joined: TensorFlow says so in another way.",
        several_say("RuntimeError", "reduce values of other shapes than others do"),
    ),
    Rule(
        lambda asked: _of("gather", "bool")(asked) and asked["kind"] == "mirrored" and asked["count"] > 1,
        "Truth values are joined as numbers are.",
        lambda expect, asked, count: {"value": [float(each) for part in asked["value"] for each in part]},
    ),
    Rule(_of("run", "different_shapes"), _ONE_SHAPE, several_say("TypeError", "oncrete value")),
    Rule(
        lambda asked: asked["op"] == "reduce" and asked.get("value") == "plain python 0", ACCIDENT, _value(0)
    ),
    Rule(_reduces("run(lambda: None)", single), "There is nothing to add: None.", _value(None)),
    Rule(_reduces("variable 4.0", single), ACCIDENT, _value(4.0)),
    Rule(
        lambda asked: _reduces("plain tensor", several)(asked) and asked["axis"] is not None,
        "TensorFlow adds a value that is the same everywhere once for each replica.",
        says("ValueError", "A non-DistributedValues value"),
    ),
    Rule(
        _of("reduce", "axis_missing"), "It is None.", lambda e, asked, count: {"value": sum(asked["value"])}
    ),
    Rule(
        _of("gather", "structure"),
        "TensorFlow returns the first replica's part.",
        lambda expect, asked, count: {"a": [i + 1.0 for i in range(count)]},
    ),
    Rule(
        lambda asked: (
            asked["kind"] == "central"
            and asked["count"] > 1
            and asked["op"] == "all_gather"
            and asked.get("axis", 0) < 0
        ),
        "As under MirroredStrategy.",
        says("ValueError", "out of range"),
    ),
    Rule(
        lambda asked: asked["op"] == "all_reduce" and asked["count"] == 1,
        "TensorFlow cannot reduce an argument on one device.",
        _itself,
    ),
    Rule(
        lambda asked: _of("values_from_function", "inside_run")(asked) and asked["count"] > 1,
        "It is for all replicas; in one's code, it is of no use.",
    ),
    Rule(lambda asked: asked["op"] == "values_from_function", _PLAIN, _plain),
    Rule(
        _of("per_replica", "kind"),
        _PLAIN,
        lambda e, a, count: {"type": "PerReplica" if count > 1 else "Array"},
    ),
    Rule(
        lambda asked: _of("per_replica", "convert_outside_run")(asked) and asked["count"] == 1,
        _PLAIN,
        lambda expect, asked, count: {"value": asked["value"][0]},
    ),
    Rule(
        _of("run", "result_kind_float"), "What a program gives are arrays.", lambda e, a, c: {"type": "Array"}
    ),
    Rule(
        lambda asked: (
            _of("local_results", "variable")(asked) and asked["kind"] == "central" and asked["count"] > 1
        ),
        "A value for each replica.",
        lambda expect, asked, count: {"len": count},
    ),
    # Contexts, run and merge_call.
    Rule(
        lambda asked: asked["op"] == "context" and asked["what"].startswith("inside_run"), _ONE_TRACE, _once
    ),
    Rule(
        _of("context", "inside_update"),
        "A variable has one value, which is updated once, and not once for each device.",
        lambda expect, asked, count: expect | {"state": expect["state"][:1]},
    ),
    Rule(
        _of("run", "different_structures", "result_different_python_ints", "exception_in_last_replica"),
        _ONE_TRACE,
        _NO_IF,
    ),
    Rule(_of("run", "exception_in_replica"), _ONE_TRACE, several_say("ValueError", "boom")),
    Rule(_of("merge_call", "only_replica_0_calls"), _ONE_TRACE, _NO_IF),
    Rule(
        _of("merge_call", "execution_order"),
        _ONE_TRACE,
        lambda expect, asked, count: {"order": [["a"], ["merge"], ["b"]]},
    ),
    Rule(
        _of("merge_call", "inside_nested_tf_function"),
        "A function in a function is a part of it.",
        _each(1.0),
    ),
    # Devices.
    Rule(
        _constructs("cross_device_ops", lambda ops: ops == "a str"),
        "Something else than CrossDeviceOps is a mistake.",
        says("TypeError", "must be one of NcclAllReduce"),
    ),
    Rule(
        _constructs("devices", _has_duplicates),
        "A device given twice is an error of arguments, whatever job its name has: a process knows its own.",
        says("ValueError", "may be given once"),
    ),
    Rule(
        _constructs("devices", _missing),
        "A device that does not exist is an error at once.",
        lambda expect, asked, count: error("ValueError", f"no device {_missing(asked['devices'])[0]!r}"),
    ),
    Rule(
        _constructs("devices", lambda devices: isinstance(devices, str)),
        "As an error of arguments.",
        says("ValueError", "must be a list of devices"),
    ),
    Rule(
        _constructs("device", lambda device: not isinstance(device, str)),
        "Which device it is has to be said, as one text.",
        says("ValueError", "cannot be read"),
    ),
)
