"""Where variables do on purpose something else than strategy_api.json, and why."""

from collections.abc import Callable

from strategy_rules import ACCIDENT, Json, Rule, of_replicas, says, several, several_say, single


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
    if "components" not in expect:  # what replicas reduce of their copies
        return expect
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
    return expect | {"replica_reads": of_replicas([10.0 * (i + 1) for i in range(count)])}


_NO_DRIFT = "Copies of a variable do not drift apart: replicas must say how their values combine."


_CENTRAL = "Variables of CentralStorageStrategy do what MirroredStrategy's do, from another place."


_INITIAL = "What a variable was made with is what all replicas have together, as after a restore."


_READABLE = "A variable without aggregation is the same on all replicas, so that it can be read."


_ONE_REPLICA = "A single replica has nothing to agree on."


_ONE_COPY = "Replicas that share one copy must say how the values combine that they assign to it."
_NUMBER = "A number that every replica gives is a value of each, as an array is."


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


VARIABLES = (
    Rule(
        _variable(
            *("reduce_of_ON_READ", "read_in_replica"),
            kind="central",
            count=several,
            synchronization="ON_READ",
            aggregation="NONE",
        ),
        _ONE_COPY,
        several_say("ValueError", "You must specify an aggregation method"),
    ),
    Rule(_scatters_alone, _ONE_REPLICA, _scattered),
    Rule(
        _variable("scatter_add_ON_READ_in_replica", "scatter_add_ON_READ_cross_replica", kind="central"),
        _CENTRAL,
        several_say("NotImplementedError", "doesn't support `scatter_"),
    ),
    Rule(
        _variable("cross_replica_update_per_replica", count=several),
        _NO_DRIFT,
        says("ValueError", "It looks like you are using a PerReplica object"),
    ),
    Rule(_variable("cross_replica_update_per_replica", count=single), ACCIDENT, _simply),
    Rule(_is_number_of_each, _NUMBER, _number_of_each),
    Rule(_variable(kind="mirrored", synchronization="ON_READ", aggregation="NONE"), _READABLE, _readable),
    Rule(_variable("create", kind="mirrored", count=single, synchronization="NONE"), _ONE_REPLICA, _same),
    Rule(
        lambda asked: _int_mean(asked) and asked["kind"] == "mirrored" and asked["count"] == 1,
        _ONE_REPLICA,
        _same,
    ),
    Rule(
        _of_sum("cross_replica_update", "outside_scope_update", kind="mirrored", count=single),
        _ONE_REPLICA,
        _simply,
    ),
    Rule(
        _variable("create", kind="central", count=several, synchronization="NONE"),
        _CENTRAL,
        says("ValueError", "mode is not supported"),
    ),
    Rule(
        lambda asked: _int_mean(asked) and asked["kind"] == "central" and asked["count"] > 1,
        _CENTRAL,
        says("ValueError", "non-floating dtype"),
    ),
    Rule(
        _of_sum("cross_replica_update", kind="central", count=several),
        _CENTRAL,
        says("ValueError", "does not support `assign_"),
    ),
    Rule(
        _variable("read_in_replica", kind="central", count=several, synchronization="ON_READ"),
        _CENTRAL,
        _own_reads,
    ),
    Rule(
        _variable("reduce_of_ON_READ", kind="central", count=several),
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
            count=several,
            synchronization="ON_READ",
            aggregation="SUM",
        ),
        _INITIAL,
        _counted_once,
    ),
    Rule(
        _of_sum("outside_scope_update", kind="mirrored", count=several),
        "Outside of scopes and functions a variable is Keras' alone, which adds to what all have together.",
        _simply,
    ),
    Rule(
        _variable("created_inside_run_eager", count=several),
        "Variables are not made by each call, and their values do not differ.",
        says("RuntimeError", "the variable 'variable_inside'"),
    ),
)
