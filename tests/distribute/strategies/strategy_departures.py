"""Where strategies do on purpose something else than strategy_api.json, and why.

A rule looks at the strategy, the operation and the inputs of a case; the first one that is about it counts.
What muster does instead is tested, but where it has nothing of the kind.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Json = dict[str, Any]


@dataclass(frozen=True)
class Rule:
    """Cases that come out otherwise.

    Attributes:
        about: Says whether a case is one of them, by what it asks for: see `asked_of`.
        reason: Why they come out otherwise.
        ours: Returns what is expected here, from what TensorFlow gives, what the case asks for and the number
            of replicas; None where there is nothing of the kind.
    """

    about: Callable[[Json], Any]
    reason: str
    ours: Callable[[Json, Json, int], Json] | None = None


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


def _error(kind: str, message: str) -> Json:
    return {"error": {"type": kind, "message": message}}


def _says(kind: str, message: str) -> Callable[[Json, Json, int], Json]:
    return lambda expect, asked, count: _error(kind, message)


def _several_say(kind: str, message: str) -> Callable[[Json, Json, int], Json]:
    """An error where there are several replicas; as TensorFlow where there is one."""
    return lambda expect, asked, count: _error(kind, message) if count > 1 else expect


def _value(value: Any) -> Callable[[Json, Json, int], Json]:
    return lambda expect, asked, count: {"value": value}


def _each(value: Any) -> Callable[[Json, Json, int], Json]:
    """The same value on each replica."""
    return lambda expect, asked, count: _of_replicas([value] * count)


def _of_replicas(values: list[Any]) -> Json:
    return {"kind": "PerReplica", "per_replica": values} if len(values) > 1 else {"value": values[0]}


def _structure(expect: Json, asked: Json, count: int) -> Json:
    """Each part of a structure reduced by itself; along axis 0, replicas have parts of several lengths."""
    if asked["axis"] == 0 and count > 1:
        return _error("ValueError", "differ in shape or type")
    reduce = np.sum if asked["reduce_op"].endswith("SUM") else np.mean

    def part(values: Any) -> Any:
        return reduce(np.array(values) if asked["axis"] is None else np.array(values)[0], axis=0).tolist()

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


def _share(total: float, count: int, asked: Json) -> list[float]:
    """What each replica has of a sum."""
    if asked.get("dtype") == "int32":
        return [total // count + (i == 0) * (total % count) for i in range(count)]
    return [total / count] * count


def _counted_once(expect: Json, asked: Json, count: int) -> Json:
    """As TensorFlow, with what the variable was made with shared out, and not given to each replica."""
    if "error" in expect or count == 1 or asked.get("method") == "assign":
        return expect
    initial = asked.get("initial", 4.0)
    shares = _share(initial, count, asked)
    own = [each - initial + share for each, share in zip(expect["components"], shares, strict=True)]
    return expect | {"components": own, "cross_replica_read": sum(own), "numpy": sum(own)}


def _changed(asked: Json, value: float) -> float:
    """Return what a variable holds after an assignment."""
    initial = asked.get("initial", 4.0)
    after: dict[str, float] = {"assign": value, "assign_add": initial + value, "assign_sub": initial - value}
    return after[asked["method"]]


def _readable(expect: Json, asked: Json, count: int) -> Json:
    """As TensorFlow, but that the value can be read."""
    if asked.get("context"):  # an assignment for all replicas
        expect = {"components": [_changed(asked, asked["value"])] * count}
    value = expect["components"][0]
    return expect | {"cross_replica_read": value, "numpy": value}


def _number_of_each(expect: Json, asked: Json, count: int) -> Json:
    if count == 1:
        return expect
    result = _changed(asked, 2.0 * count)
    return {"cross_replica_read": result, "numpy": result}


def _simply(expect: Json, asked: Json, count: int) -> Json:
    """What an assignment for all replicas gives without any agreement."""
    value = asked["value"][0] if isinstance(asked["value"], list) else asked["value"]
    result = _changed(asked, value)
    shares = _share(result, count, asked) if asked["aggregation"] == "SUM" else [result] * count
    return {"components": shares, "cross_replica_read": result, "numpy": result}


def _same(expect: Json, asked: Json, count: int) -> Json:
    """Return the initial value, on every replica."""
    value = asked.get("initial", 4)
    return {"components": [value] * count, "cross_replica_read": value, "numpy": value}


def _own_reads(expect: Json, asked: Json, count: int) -> Json:
    return expect | {"replica_reads": _of_replicas([10.0 * (i + 1) for i in range(count)])}


_ONE_SHAPE = "Values of replicas have one shape: one compiled program is theirs."
_ONE_TRACE = "The code of replicas is traced once for all of them, and not run once for each."
_ACCIDENT = "TensorFlow fails by accident, or in some strategies."
_PLAIN = "The value of a single replica is plain under every strategy."
_NO_DRIFT = "Copies of a variable do not drift apart: replicas must say how their values combine."
_CENTRAL = "Variables of CentralStorageStrategy do what MirroredStrategy's do, from another place."
_INITIAL = "What a variable was made with is what all replicas have together, as after a restore."
_READABLE = "A variable without aggregation is the same on all replicas, so that it can be read."
_ONE_REPLICA = "A single replica has nothing to agree on."
_NUMBER = "A number that every replica gives is a value of each, as an array is."
_DIFFER = _several_say("ValueError", "differ in shape or type")
_NO_IF = _several_say("TypeError", "Attempted boolean conversion of traced array")
_NO_AGGREGATION = _several_say("ValueError", "You must specify an aggregation method")


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


def _several(count: int) -> bool:
    return count > 1


def _single(count: int) -> bool:
    return count == 1


def _variable(
    *whats: str,
    kind: str | None = None,
    count: Callable[[int], bool] = lambda count: True,
    **inputs: str,
) -> Callable[[Json], bool]:
    """Say whether a case is about variables of a kind of strategy that are updated so, made with `inputs`."""

    def about(asked: Json) -> bool:
        known = asked["op"] == "variable" and kind in (None, asked["kind"]) and count(asked["count"])
        updated = not whats or asked["what"] in whats
        return known and updated and all(asked.get(name) == each for name, each in inputs.items())

    return about


_IN_REPLICAS = ("replica_update", "reduce_of_ON_READ", "int_AUTO", "int_ON_READ", "int_ON_WRITE", "int_NONE")


def _drifts(asked: Json) -> bool:
    """Whether replicas assign values that do not combine."""
    reads = asked["what"] == "read_in_replica" and asked.get("synchronization") == "ON_READ"
    scatters = asked["what"].startswith("scatter_") and asked["kind"] == "mirrored"
    in_replicas = asked["what"].startswith(_IN_REPLICAS) or scatters and asked["what"].endswith("in_replica")
    assigns = in_replicas and asked.get("aggregation") == "NONE"
    outside = asked["what"].startswith("variable_created_outside_")
    none = asked.get("aggregation") == "NONE"
    return asked["op"] == "variable" and asked["count"] > 1 and (assigns or outside or reads and none)


def _is_number_of_each(asked: Json) -> bool:
    known = (
        asked["kind"] == "central"
        or asked["kind"] == "mirrored"
        and asked.get("synchronization") != "ON_READ"
    )
    told = str(asked.get("value")).startswith("python float")
    return known and told and _variable("replica_update", aggregation="SUM")(asked)


def _of_sum(*whats: str, kind: str, count: Callable[[int], bool]) -> Callable[[Json], bool]:
    """Say whether a case adds to, or subtracts from, what replicas have together."""
    about = _variable(*whats, kind=kind, count=count, synchronization="ON_READ", aggregation="SUM")
    return lambda asked: about(asked) and asked["method"] in ("assign_add", "assign_sub")


def _scatters_alone(asked: Json) -> bool:
    """Whether a single replica scatters what several could not."""
    sums = asked.get("aggregation") in ("SUM", "MEAN") and asked.get("synchronization") != "ON_READ"
    known = asked["what"].startswith(("scatter_max", "scatter_min", "scatter_update")) and sums
    return (
        asked["kind"] == "mirrored"
        and asked["count"] == 1
        and (known or "scatter_add_ON_READ" in asked["what"])
    )


def _scattered(expect: Json, asked: Json, count: int) -> Json:
    """What one replica's scatter gives."""
    value = [1.0, 2.0, 3.0] if asked.get("method") == "scatter_min" else [2.0, 2.0, 4.0]
    value = value if "method" in asked else [3.0, 2.0, 3.0]
    return {"components": [value], "cross_replica_read": value, "numpy": value}


def _int_mean(asked: Json) -> bool:
    return asked["what"] == "create" and asked.get("dtype") == "int32" and asked.get("aggregation") == "MEAN"


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
        _says("NotImplementedError", "gather does not support IndexedSlices"),
    ),
    Rule(
        lambda asked: (
            asked.get("experimental_aggregate_gradients") is False
            or asked.get("skip_gradients_aggregation") is True
        ),
        "Copies would drift apart, and Keras 3 has no such argument.",
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
        lambda asked: asked["op"] == "reduce" and isinstance(asked.get("value"), dict), _ACCIDENT, _structure
    ),
    Rule(
        lambda asked: (
            asked["op"] in ("reduce", "gather", "all_reduce", "all_gather")
            and _parts_differ(asked.get("value"), asked["count"])
        ),
        _ONE_SHAPE,
        _DIFFER,
    ),
    Rule(_of("run", "different_shapes"), _ONE_SHAPE, _several_say("TypeError", "oncrete value")),
    Rule(
        lambda asked: asked["op"] == "reduce" and asked.get("value") == "plain python 0", _ACCIDENT, _value(0)
    ),
    Rule(_reduces("run(lambda: None)", _single), "There is nothing to add: None.", _value(None)),
    Rule(_reduces("variable 4.0", _single), _ACCIDENT, _value(4.0)),
    Rule(
        lambda asked: _reduces("plain tensor", _several)(asked) and asked["axis"] is not None,
        "TensorFlow adds a value that is the same everywhere once for each replica.",
        _says("ValueError", "A non-DistributedValues value"),
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
        _says("ValueError", "out of range"),
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
    Rule(_of("run", "exception_in_replica"), _ONE_TRACE, _several_say("ValueError", "boom")),
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
    # Variables.
    Rule(_drifts, _NO_DRIFT, _NO_AGGREGATION),
    Rule(_scatters_alone, _ONE_REPLICA, _scattered),
    Rule(
        _variable("scatter_add_ON_READ_in_replica", "scatter_add_ON_READ_cross_replica", kind="central"),
        _CENTRAL,
        _several_say("NotImplementedError", "doesn't support `scatter_"),
    ),
    Rule(
        _variable("cross_replica_update_per_replica", count=_several),
        _NO_DRIFT,
        _says("ValueError", "It looks like you are using a PerReplica object"),
    ),
    Rule(_variable("cross_replica_update_per_replica", count=_single), _ACCIDENT, _simply),
    Rule(_is_number_of_each, _NUMBER, _number_of_each),
    Rule(_variable(kind="mirrored", synchronization="ON_READ", aggregation="NONE"), _READABLE, _readable),
    Rule(_variable("create", kind="mirrored", count=_single, synchronization="NONE"), _ONE_REPLICA, _same),
    Rule(
        lambda asked: _int_mean(asked) and asked["kind"] == "mirrored" and asked["count"] == 1,
        _ONE_REPLICA,
        _same,
    ),
    Rule(
        _of_sum("cross_replica_update", "outside_scope_update", kind="mirrored", count=_single),
        _ONE_REPLICA,
        _simply,
    ),
    Rule(
        _variable("create", kind="central", count=_several, synchronization="NONE"),
        _CENTRAL,
        _says("ValueError", "mode is not supported"),
    ),
    Rule(
        lambda asked: _int_mean(asked) and asked["kind"] == "central" and asked["count"] > 1,
        _CENTRAL,
        _says("ValueError", "non-floating dtype"),
    ),
    Rule(
        _of_sum("cross_replica_update", kind="central", count=_several),
        _CENTRAL,
        _says("ValueError", "does not support `assign_"),
    ),
    Rule(
        _variable("read_in_replica", kind="central", count=_several, synchronization="ON_READ"),
        _CENTRAL,
        _own_reads,
    ),
    Rule(
        _variable("reduce_of_ON_READ", kind="central", count=_several),
        _CENTRAL,
        lambda expect, asked, count: {
            "reduce_SUM": count * (count + 1) / 2,
            "reduce_MEAN": (count + 1) / 2,
        },
    ),
    Rule(
        _variable(
            "create",
            "replica_update",
            kind="mirrored",
            count=_several,
            synchronization="ON_READ",
            aggregation="SUM",
        ),
        _INITIAL,
        _counted_once,
    ),
    Rule(
        _of_sum("outside_scope_update", kind="mirrored", count=_several),
        "Outside of scopes and functions a variable is Keras' alone, which adds to what all have together.",
        _simply,
    ),
    Rule(
        _variable("created_inside_run_eager"),
        "Variables are not made by each call, and their values do not differ.",
        _says("RuntimeError", "the variable 'variable_inside'"),
    ),
    # Devices.
    Rule(
        _constructs("cross_device_ops", lambda ops: ops == "a str"),
        "Something else than CrossDeviceOps is a mistake.",
        _says("TypeError", "must be one of NcclAllReduce"),
    ),
    Rule(
        _constructs("devices", lambda devices: devices == []),
        "A list without devices is a mistake.",
        _says("ValueError", "one device"),
    ),
    Rule(
        _constructs("devices", _has_duplicates),
        "A device given twice is an error of arguments, whatever job its name has: a process knows its own.",
        _says("ValueError", "may be given once"),
    ),
    Rule(
        _constructs("devices", _missing),
        "A device that does not exist is an error at once.",
        lambda expect, asked, count: _error("ValueError", f"no device {_missing(asked['devices'])[0]!r}"),
    ),
    Rule(
        _constructs("devices", lambda devices: isinstance(devices, str)),
        "As an error of arguments.",
        _says("ValueError", "must be a list of devices"),
    ),
    Rule(
        _constructs("device", lambda device: not isinstance(device, str)),
        "Which device it is has to be said, as one text.",
        _says("ValueError", "cannot be read"),
    ),
)
