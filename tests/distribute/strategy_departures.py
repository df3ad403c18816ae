"""Where strategies do on purpose something else than strategy_api.json, family by family, with the reason.

A family is a pattern of names of cases; the first one that fits counts. What muster does instead is tested,
but where it has nothing of the kind.
"""

import fnmatch
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Json = dict[str, Any]


@dataclass(frozen=True)
class Family:
    """Cases that come out otherwise.

    Attributes:
        pattern: of the names of cases.
        reason: why.
        ours: from what TensorFlow gives, the case's inputs and the number of replicas to what is expected
            here; None where there is nothing of the kind.
    """

    pattern: str
    reason: str
    ours: Callable[[Json, Json, int], Json] | None = None


def family_of(name: str) -> Family | None:
    """The first family that a case belongs to, if any."""
    return next((family for family in FAMILIES if fnmatch.fnmatchcase(name, family.pattern)), None)


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


def _readable(expect: Json, asked: Json, count: int) -> Json:
    """As TensorFlow, but that the value can be read."""
    if asked.get("context"):  # an assignment for all replicas
        change = {"assign": lambda v: v, "assign_add": lambda v: 4.0 + v, "assign_sub": lambda v: 4.0 - v}
        expect = {"components": [change[asked["method"]](asked["value"])] * count}
    value = expect["components"][0]
    return expect | {"cross_replica_read": value, "numpy": value}


def _number_of_each(expect: Json, asked: Json, count: int) -> Json:
    if count == 1:
        return expect
    value = {"assign": 2.0 * count, "assign_add": 4.0 + 2 * count, "assign_sub": 4.0 - 2 * count}
    result = value[asked["method"]]
    return {"cross_replica_read": result, "numpy": result}


def _simply(expect: Json, asked: Json, count: int) -> Json:
    """What an assignment for all replicas gives without any agreement."""
    value = asked["value"][0] if isinstance(asked["value"], list) else asked["value"]
    result = {"assign": value, "assign_add": 4.0 + value, "assign_sub": 4.0 - value}[asked["method"]]
    shares = _share(result, count, asked) if asked["aggregation"] == "SUM" else [result] * count
    return {"components": shares, "cross_replica_read": result, "numpy": result}


def _same(value: float) -> Callable[[Json, Json, int], Json]:
    return lambda expect, asked, count: {
        "components": [value] * count,
        "cross_replica_read": value,
        "numpy": value,
    }


def _own_reads(expect: Json, asked: Json, count: int) -> Json:
    return expect | {"replica_reads": _of_replicas([10.0 * (i + 1) for i in range(count)])}


_ONE_SHAPE = "Values of replicas have one shape: one compiled program is theirs."
_ONE_TRACE = "The code of replicas is traced once for all of them, and not run once for each."
_ACCIDENT = "TensorFlow fails by accident, or in some strategies."
_PLAIN = "The value of a single replica is plain under every strategy."
_EXTENDED = "There is no `extended`."
_NO_DRIFT = "Copies of a variable do not drift apart: replicas must say how their values combine."
_CENTRAL = "Variables of CentralStorageStrategy do what MirroredStrategy's do, from another place."
_INITIAL = "What a variable was made with is what all replicas have together, as after a restore."
_READABLE = "A variable without aggregation is the same on all replicas, so that it can be read."
_ONE_REPLICA = "A single replica has nothing to agree on."
_NUMBER = "A number that every replica gives is a value of each, as an array is."
_DIFFER = _several_say("ValueError", "differ in shape or type")
_NO_IF = _several_say("TypeError", "Attempted boolean conversion of traced array")
_NO_AGGREGATION = _several_say("ValueError", "You must specify an aggregation method")
_NO_METHOD = "keras.Variable has no such method."

FAMILIES = (
    # What there is nothing of here.
    Family("*/extended/*", _EXTENDED),
    Family("*/context/inside_update", _EXTENDED),
    Family("*/context/worker_devices_count", _EXTENDED),
    Family("*/context/parameter_devices_count", _EXTENDED),
    Family("*/context/experimental_set_strategy*", "No strategy is for a whole program: enter its scope."),
    Family("*/variable/scatter_*", _NO_METHOD),
    Family("*/indexed_slices*", "JAX has no IndexedSlices: gradients of look-ups are dense, or row by row."),
    Family(
        "*/optimizer/legacy_SGD/aggregate=False", "Keras 3 has no such argument; copies would drift apart."
    ),
    Family("*/optimizer/SGD/skip_gradients_aggregation=True", "As for aggregate=False."),
    Family("construct/reduce_op_from_aggregation*", "A conversion that only TensorFlow's own code needs."),
    Family("*/values_from_function/str_of_context", "A context is a dataclass, and its text says so."),
    Family("*/string*", "Texts are no arrays here."),
    # Values of replicas.
    Family("*/uneven*", _ONE_SHAPE, _DIFFER),
    Family("*/*mismatch*", _ONE_SHAPE, _DIFFER),
    Family("*/one_empty*", _ONE_SHAPE, _DIFFER),
    Family("*/reduce/*/in_tf_function_unknown_batch/*", _ONE_SHAPE, _DIFFER),
    Family("*/gather/in_tf_function", _ONE_SHAPE, _DIFFER),
    Family("*/gather/rank3/*", _ONE_SHAPE, _DIFFER),
    Family("*/gather/bool", _ONE_SHAPE, _DIFFER),
    Family("*/all_gather/structure", _ONE_SHAPE, _DIFFER),
    Family("*/run/different_shapes", _ONE_SHAPE, _several_say("TypeError", "oncrete value")),
    Family("*/reduce/*/structure/*", _ACCIDENT, _structure),
    Family("*/reduce/*/python_zero/*", _ACCIDENT, _value(0)),
    Family("*[!23]/reduce/SUM/run_result_none/*", "There is nothing to add: None.", _value(None)),
    Family("*[!23]/reduce/SUM/mirrored_variable/*", _ACCIDENT, _value(4.0)),
    Family(
        "*[23]/reduce/SUM/plain_tensor/axis=0",
        "TensorFlow adds a value that is the same everywhere once for each replica.",
        _says("ValueError", "A non-DistributedValues value"),
    ),
    Family("*/reduce/axis_missing", "It is None.", lambda e, asked, count: {"value": sum(asked["value"])}),
    Family(
        "*/gather/structure",
        "TensorFlow returns the first replica's part.",
        lambda expect, asked, count: {"a": [i + 1.0 for i in range(count)]},
    ),
    Family(
        "central2/all_gather/matrix/axis=-1",
        "As under MirroredStrategy.",
        _says("ValueError", "out of range"),
    ),
    Family("*[!23]/all_reduce/*", "TensorFlow cannot reduce an argument on one device.", _itself),
    Family("*/values_from_function/inside_run", "It is for all replicas; in one's code, it is of no use."),
    Family("*/values_from_function/*", _PLAIN, _plain),
    Family(
        "*/per_replica/kind", _PLAIN, lambda e, a, count: {"type": "PerReplica" if count > 1 else "Array"}
    ),
    Family(
        "*1/per_replica/convert_outside_run",
        _PLAIN,
        lambda expect, asked, count: {"value": asked["value"][0]},
    ),
    Family("*/run/result_kind_float", "What a program gives are arrays.", lambda e, a, c: {"type": "Array"}),
    Family("central2/local_results/variable", "A value for each replica.", lambda e, a, c: {"len": 2}),
    # Contexts, run and merge_call.
    Family("*/context/inside_run*", _ONE_TRACE, _once),
    Family("*/run/different_structures", _ONE_TRACE, _NO_IF),
    Family("*/run/result_different_python_ints", _ONE_TRACE, _NO_IF),
    Family("*/run/exception_in_last_replica", _ONE_TRACE, _NO_IF),
    Family("*/run/exception_in_replica", _ONE_TRACE, _says("ValueError", "boom")),
    Family("*/merge_call/only_replica_0_calls", _ONE_TRACE, _NO_IF),
    Family("*/merge_call/execution_order", _ONE_TRACE, lambda e, a, c: {"order": [["a"], ["merge"], ["b"]]}),
    Family("*/merge_call/inside_nested_tf_function", "A function in a function is a part of it.", _each(1.0)),
    # Variables.
    Family("*[23]/variable/replica_update/*/NONE/*", _NO_DRIFT, _NO_AGGREGATION),
    Family("*[23]/variable/read_in_replica/ON_READ/NONE", _NO_DRIFT, _NO_AGGREGATION),
    Family("*[23]/variable/reduce_of_ON_READ/NONE", _NO_DRIFT, _NO_AGGREGATION),
    Family("*[23]/variable/int_*/NONE", _NO_DRIFT, _NO_AGGREGATION),
    Family("*[23]/variable/variable_created_outside_*", _NO_DRIFT, _NO_AGGREGATION),
    Family(
        "*[23]/variable/cross_replica_update_per_replica/*",
        _NO_DRIFT,
        _says("ValueError", "It looks like you are using a PerReplica object"),
    ),
    Family("*1/variable/cross_replica_update_per_replica/*", _ACCIDENT, _simply),
    Family("mirrored?/variable/replica_update/AUTO/SUM/*/same_python", _NUMBER, _number_of_each),
    Family("central2/variable/replica_update/*/SUM/*/same_python", _NUMBER, _number_of_each),
    Family("mirrored?/variable/*/ON_READ/NONE*", _READABLE, _readable),
    Family("mirrored1/variable/create/NONE/*", _ONE_REPLICA, _same(4.0)),
    Family("mirrored1/variable/create/int_*MEAN", _ONE_REPLICA, _same(4)),
    Family("mirrored1/variable/cross_replica_update/ON_READ/SUM/assign_*", _ONE_REPLICA, _simply),
    Family("mirrored1/variable/outside_scope_update/ON_READ/SUM/assign_*", _ONE_REPLICA, _simply),
    Family("central2/variable/create/NONE/*", _CENTRAL, _says("ValueError", "mode is not supported")),
    Family("central2/variable/create/int_*MEAN", _CENTRAL, _says("ValueError", "non-floating dtype")),
    Family(
        "central2/variable/cross_replica_update/ON_READ/SUM/assign_*",
        _CENTRAL,
        _says("ValueError", "does not support `assign_"),
    ),
    Family("central2/variable/read_in_replica/ON_READ/*", _CENTRAL, _own_reads),
    Family(
        "central2/variable/reduce_of_ON_READ/*",
        _CENTRAL,
        lambda expect, asked, count: {"reduce_SUM": 3.0, "reduce_MEAN": 1.5},
    ),
    Family("mirrored[23]/variable/create/ON_READ/SUM", _INITIAL, _counted_once),
    Family("mirrored[23]/variable/replica_update/ON_READ/SUM/*", _INITIAL, _counted_once),
    Family(
        "mirrored[23]/variable/outside_scope_update/ON_READ/SUM/assign_*",
        "Outside of scopes and functions a variable is Keras' alone, which adds to what all have together.",
        _simply,
    ),
    Family(
        "*/variable/created_inside_run_eager",
        "Variables are not made by each call, and their values do not differ.",
        _says("RuntimeError", "the variable 'variable_inside'"),
    ),
    # Devices.
    Family(
        "construct/mirrored_bad_cross_device_ops",
        "Something else than CrossDeviceOps is a mistake.",
        _says("TypeError", "must be one of NcclAllReduce"),
    ),
    Family(
        "construct/mirrored_empty_list",
        "A list without devices is a mistake.",
        _says("ValueError", "one device"),
    ),
    Family(
        "construct/mirrored_duplicates", "As an error of arguments.", _says("ValueError", "may be given once")
    ),
    Family(
        "construct/mirrored_default_devices",
        "Without accelerators, one CPU: JAX's other ones are virtual.",
        lambda e, a, c: {"num_replicas": 1, "worker_devices": ["device:CPU:0"]},
    ),
    Family(
        "construct/mirrored_missing_device",
        "A device that does not exist is an error at once.",
        _says("ValueError", "no device '/cpu:9'"),
    ),
    Family(
        "construct/mirrored_string",
        "As an error of arguments.",
        _says("ValueError", "must be a list of devices"),
    ),
    Family("construct/one_device_list", "As an error of arguments.", _says("ValueError", "cannot be read")),
    Family(
        "construct/one_device_none",
        "Which device it is has to be said.",
        _says("ValueError", "cannot be read"),
    ),
    Family(
        "construct/mirrored_mixed_jobs",
        "The job in the name of a device is not looked at: a process knows its own.",
        _says("ValueError", "may be given once"),
    ),
)
