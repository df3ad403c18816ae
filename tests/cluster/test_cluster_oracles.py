"""ClusterSpec and the resolvers behave as TensorFlow's did."""

from typing import Any

import pytest

import departures
import oracles
from muster.cluster import ClusterResolver, ClusterSpec, SimpleClusterResolver, TFConfigClusterResolver


class MinimalResolver(ClusterResolver):
    """Defines no more than it must."""

    def cluster_spec(self) -> ClusterSpec:
        return ClusterSpec({"worker": ["m0:1", "m1:1"]})

    def master(self, task_type: Any = None, task_id: Any = None, rpc_layer: Any = None) -> str:
        return "minimal"


CLASSES = {
    each.__name__: each
    for each in (
        ClusterSpec,
        ClusterResolver,
        MinimalResolver,
        SimpleClusterResolver,
        TFConfigClusterResolver,
    )
}
MAKERS = {"$cluster_spec": ClusterSpec}


def covered(case: dict[str, Any]) -> bool:
    return case["name"].split("/")[0] not in departures.NOT_YET


def answer(thing: Any, call: dict[str, Any]) -> Any:
    """Do what one entry of `calls` asks for."""
    call = oracles.decode(call, MAKERS)
    match call:
        case {"call": name}:
            return getattr(thing, name)(*call.get("args", []), **call.get("kwargs", {}))
        case {"get": name}:
            return getattr(thing, name)
        case {"set": name, "to": value}:
            return setattr(thing, name, value)
        case {"equals": other}:
            return thing == other
        case {"bool": _}:
            return bool(thing)
        case {"repr": _}:
            return repr(thing)
    raise AssertionError(f"unknown call {call}")


@pytest.mark.parametrize("case", oracles.cases("cluster_resolvers", covered))
def test_case(case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    asked, expect = case["input"], case["expect"]
    monkeypatch.delenv("TF_CONFIG", raising=False)
    for name, value in asked.get("env", {}).items():
        monkeypatch.setenv(name, value)
    build = CLASSES[asked["class"]]
    args = oracles.decode(asked.get("args", []), MAKERS)
    kwargs = oracles.decode(asked.get("kwargs") or {}, MAKERS)
    if "error" in expect:
        with pytest.raises((ValueError, TypeError)) as raised:
            build(*args, **kwargs)
        oracles.check_error(expect["error"], raised.value)
        return
    thing = build(*args, **kwargs)
    for call, expected in zip(asked["calls"], expect["results"], strict=True):
        if call.get("call") == "as_cluster_def":  # see departures.FAMILIES
            continue
        if call.get("get") == "rpc_layer" and isinstance(thing, MinimalResolver):
            # TensorFlow's base class forgets this attribute; here it is None.
            assert thing.rpc_layer is None
        elif "error" in expected:
            with pytest.raises((ValueError, TypeError, AttributeError)) as raised:
                answer(thing, call)
            oracles.check_error(expected["error"], raised.value)
        else:
            oracles.check_same(answer(thing, call), oracles.decode(expected["value"], MAKERS), str(call))


@pytest.mark.oracle
@pytest.mark.parametrize("file", ["run_config", "specs", "cluster_resolvers", "train_and_evaluate_local"])
def test_every_departure_is_of_a_case_that_exists(file: str) -> None:
    if not oracles.load(file):
        pytest.skip(f"{oracles.FOLDER} is not there; set MUSTER_ORACLES to the folder of the oracles")
    names = {f"{file}/{case['name']}" for case in oracles.load(file)}
    assert {name for name in departures.DEPARTURES if name.startswith(f"{file}/")} <= names
