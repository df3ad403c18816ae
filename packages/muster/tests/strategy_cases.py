"""Reads the cases of strategy_api.json, and compares what muster does with them."""

import builtins
import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

from departures import NOTHING, Outcome
from muster import keras
from muster.distribute import (
    CentralStorageStrategy,
    IndexedSlices,
    MirroredStrategy,
    OneDeviceStrategy,
    PerReplica,
    Strategy,
    get_replica_context,
    get_strategy,
    has_strategy,
    in_cross_replica_context,
)
from muster.distribute.replicas._values import stacked
from recorded import cases
from strategy_departures import asked_of, rule_of

_COUNTS = {"default": 1, "one_device": 1, "central1": 1, "central2": 2} | {
    f"mirrored{n}": n for n in (1, 2, 3)
}
MAKERS: dict[str, Callable[[], Strategy]] = {
    "default": get_strategy,
    "one_device": lambda: OneDeviceStrategy("/cpu:0"),
    "central1": lambda: CentralStorageStrategy(["/cpu:0"]),
    "central2": lambda: CentralStorageStrategy(["/cpu:0", "/cpu:1"]),
    **{f"mirrored{n}": lambda n=n: MirroredStrategy([f"/cpu:{i}" for i in range(n)]) for n in (1, 2, 3)},
}
# Contexts, as far as ``strategy.extended`` shows them.
OF_EXTENDED = (["inside_update"], ["worker_devices_count"], ["parameter_devices_count"])
# Errors whose text TensorFlow's programs know.
_KNOWN_TEXTS = ("RuntimeError", "A non-DistributedValues", "positional args must be", "boom", "from merge")


@functools.cache
def made(name: str) -> tuple[Strategy, int]:
    """The strategy of some name, and how many replicas it has."""
    return MAKERS[name](), _COUNTS[name]


def variable(strategy: Strategy, value: Any, **kwargs: Any) -> Any:
    with strategy.scope():
        return keras.Variable(np.array(value, np.float32), **kwargs)


def given(value: Any, count: int, dtype: str) -> Any:
    """Values by replica as this strategy's; numbers in lists are arrays."""
    dtype = "str" if dtype == "string" else dtype
    if isinstance(value, dict) and list(value) == ["a", "b"]:
        return {"a": given(value["a"], count, dtype), "b": _in_list(value["b"], count, dtype)}
    if isinstance(value, dict):
        return {key: given(each, count, dtype) for key, each in value.items()}
    arrays = [np.array(each, dtype) for each in value]
    return stacked(arrays) if count > 1 else arrays[0]


def _in_list(value: Any, count: int, dtype: str) -> Any:
    """The second part of a structure: a list of one, or, for all_gather, values by replica."""
    one = len(value) == 1 and len(value[0]) == count and isinstance(value[0][0], list)
    return [given(value[0], count, dtype)] if one else given(value, count, dtype)


def state_of(strategy: Strategy) -> dict[str, Any]:
    """What code finds of the strategy and the replica that it runs in."""
    context = get_replica_context()
    number = None if context is None else context.replica_id_in_sync_group
    return {
        "in_cross_replica_context": in_cross_replica_context(),
        "has_strategy": has_strategy(),
        "replica_context_is_None": context is None,
        "replica_id": "tensor" if isinstance(number, jax.Array) else number,
        "num_replicas_in_sync": get_strategy().num_replicas_in_sync,
        "get_strategy_is_this": get_strategy() is strategy,
    }


# What they do, the default strategy and two devices show.
SLOW = ("mirrored1/", "mirrored3/", "central1/", "one_device/")


def strategy_cases(wanted: Callable[[dict[str, Any]], bool]) -> list[Any]:
    """Return a parameter for each wanted case, marked if it comes out otherwise than in TensorFlow."""
    params = []
    for param in cases("strategy_api", wanted):
        expected = expectation(param.values[0]) if param.values[0] else {}
        outcome = Outcome.of(expected.get("from", {}), expected.get("departs", NOTHING))
        marks = [pytest.mark.otherwise(outcome)] if "from" in expected else []
        if param.id.startswith(SLOW):
            marks.append(pytest.mark.slow)
        params.append(pytest.param(*param.values, id=param.id, marks=[*param.marks, *marks]))
    return params


def expectation(case: dict[str, Any]) -> dict[str, Any]:
    """What a case is expected to give: what it did in TensorFlow, or else what it does and what it did.

    Keys are "departs", unless muster has nothing of the kind; and "from", unless only words differ.
    """
    rule, theirs = rule_of(case), case["expect"]
    if rule is None:
        return theirs
    if rule.ours is None:
        return {"from": theirs, "reason": rule.reason}
    asked = asked_of(case)
    ours = rule.ours(theirs, asked, asked["count"])
    if ours == theirs:
        return theirs
    if "error" not in ours:
        is_same = error_of(lambda: check_same(ours.get("value", ours), theirs)) is None
        return theirs if is_same else {"departs": ours, "from": theirs}
    # A refusal in other words, of which the class may be an accident of TensorFlow's, is the same.
    refusal = getattr(builtins, ours["error"]["type"])(ours["error"]["message"])
    is_same = error_of(lambda: check_outcome(refusal, theirs)) is None
    return {"departs": ours} | ({} if is_same else {"from": theirs})


def check(compute: Callable[[], Any], expect: dict[str, Any]) -> None:
    """Compute, and compare with a result or an error; if it departs from another one, with that, too."""
    if "reason" in expect:
        pytest.skip(expect["reason"])
    try:
        outcome = plain(compute())
    except Exception as error:
        outcome = error
    if "departs" not in expect:
        check_outcome(outcome, expect)
        return
    check_outcome(outcome, expect["departs"], departs=True)
    if "from" not in expect:
        return
    as_tensorflow = error_of(lambda: check_outcome(outcome, expect["from"])) is None
    assert not as_tensorflow, "muster does here what TensorFlow did: the rule of a departure is too wide"


def check_outcome(outcome: Any, expect: dict[str, Any], departs: bool = False) -> None:
    """Compare a result, or an error, with what is expected."""
    if set(expect) != {"error"}:
        if isinstance(outcome, Exception):
            raise outcome
        check_same(outcome, expect)
        return
    kind, text = expect["error"]["type"], expect["error"]["message"]
    assert isinstance(outcome, Exception), f"nothing was raised, but {outcome} returned"
    error = outcome
    if departs:
        assert kind in {each.__name__ for each in type(error).__mro__}, repr(error)
        assert text in str(error)
        return
    # TensorFlow's kernels raise classes of their own, and accidents any: they prove that it is refused.
    own = kind in ("ValueError", "TypeError", "RuntimeError", "KeyError", "NotImplementedError")
    allowed = ("ValueError", "TypeError", "AttributeError")
    names = {each.__name__ for each in type(error).__mro__}
    assert kind in names if own and kind != "TypeError" else names & {*allowed}, repr(error)
    if kind == "RuntimeError" or text.startswith(_KNOWN_TEXTS):
        assert str(error)[:29] == text[:29]


def error_of(compute: Callable[[], Any]) -> Exception | None:
    """What a function raises, if anything."""
    try:
        compute()
    except Exception as error:
        return error
    return None


def plain(result: Any) -> Any:
    """A result as JSON."""
    if isinstance(result, PerReplica):
        return {"kind": "PerReplica", "per_replica": [plain(each) for each in result.values]}
    if isinstance(result, IndexedSlices):
        return {"kind": "IndexedSlices", **plain(result._asdict())}
    if isinstance(result, dict):
        return {key: plain(each) for key, each in result.items()}
    if isinstance(result, list | tuple):
        return [plain(each) for each in result]
    if isinstance(result, keras.Variable):
        return plain(result.value)
    return result if result is None or isinstance(result, str) else np.asarray(result).tolist()


def check_same(actual: Any, expected: Any) -> None:
    """Check that two JSON values are equal, numbers to about 1e-6."""
    if isinstance(expected, dict):
        if set(expected) == {"value"}:
            return check_same(actual, expected["value"])
        if expected.get("kind") == "Mirrored":  # one value here, which all devices have
            return check_same([actual] * len(expected["per_replica"]), expected["per_replica"])
        assert isinstance(actual, dict), (actual, expected)
        for key, each in expected.items():
            check_same(actual[key], each)
    elif isinstance(expected, list) and any(isinstance(each, dict | str | list) for each in expected):
        assert isinstance(actual, list), (actual, expected)
        for one, other in zip(actual, expected, strict=True):
            check_same(one, other)
    elif expected is None or isinstance(expected, str) and expected not in ("nan", "inf"):
        assert actual == expected
    else:
        np.testing.assert_allclose(
            np.array(actual, float), np.array(expected, float), rtol=1e-6, err_msg=str(actual)
        )
    return None
