"""ClusterSpec and the resolvers behave as TensorFlow's did."""

import os
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from cluster_departures import DEPARTURES, NO_API_OF_OURS

import recorded
from muster.cluster import (
    ClusterResolver,
    ClusterSpec,
    KubernetesClusterResolver,
    SageMakerClusterResolver,
    SimpleClusterResolver,
    SlurmClusterResolver,
    TFConfigClusterResolver,
    UnionResolver,
    validate_cluster_spec,
)
from muster.cluster.resolvers._slurm_lists import expand_hostlist, expand_tasks_per_node


class MinimalResolver(ClusterResolver):
    """Defines no more than it must."""

    def cluster_spec(self) -> ClusterSpec:
        return ClusterSpec({"worker": ["m0:1", "m1:1"]})

    def master(self, task_type: Any = None, task_id: Any = None, rpc_layer: Any = None) -> str:
        return "minimal"


CLASSES: dict[str, Any] = {
    each.__name__: each
    for each in (
        ClusterSpec,
        ClusterResolver,
        MinimalResolver,
        SimpleClusterResolver,
        TFConfigClusterResolver,
        SlurmClusterResolver,
        SageMakerClusterResolver,
        KubernetesClusterResolver,
    )
} | {"UnionClusterResolver": UnionResolver}
FUNCTIONS: dict[str, Any] = {
    "slurm_cluster_resolver.expand_hostlist": expand_hostlist,
    "slurm_cluster_resolver.expand_tasks_per_node": expand_tasks_per_node,
    "multi_worker_util._validate_cluster_spec": validate_cluster_spec,
}


def make_resolver(asked: dict[str, Any]) -> Any:
    return CLASSES[asked["class"]](*asked.get("args", []), **asked.get("kwargs", {}))


def fake_kubernetes(pods: dict[str, list[list[str]]]) -> SimpleNamespace:
    """A client that knows the pods of each selector: name, phase, address."""

    def list_pods(label_selector: str) -> SimpleNamespace:
        items = [
            SimpleNamespace(
                metadata=SimpleNamespace(name=name), status=SimpleNamespace(phase=phase, pod_ip=address)
            )
            for name, phase, address in pods.get(label_selector, [])
        ]
        return SimpleNamespace(items=items)

    return SimpleNamespace(list_pod_for_all_namespaces=list_pods)


MAKERS = {
    "$cluster_spec": ClusterSpec,
    "$cluster_def": ClusterSpec,
    "$resolver": make_resolver,
    "$fake_kubernetes": fake_kubernetes,
}


def family(case: dict[str, Any]) -> str:
    return str(case["name"].split("/")[0])


def covered(case: dict[str, Any]) -> bool:
    return family(case) not in NO_API_OF_OURS


def answer(thing: Any, call: dict[str, Any]) -> Any:
    """Do what one entry of `calls` asks for."""
    call = recorded.decode(call, MAKERS)
    match call:
        case {"call": name}:
            return getattr(thing, name)(*call.get("args", []), **call.get("kwargs", {}))
        case {"get": name}:
            return getattr(thing, name)
        case {"env_after": name}:
            return os.environ.get(name)
        case {"set": name, "to": value}:
            return setattr(thing, name, value)
        case {"equals": other}:
            return thing == other
        case {"bool": _}:
            return bool(thing)
        case {"repr": _}:
            return repr(thing)
    raise AssertionError(f"unknown call {call}")


@pytest.mark.parametrize("case", recorded.cases("cluster_resolvers", covered, DEPARTURES))
def test_case(case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    asked, expect = case["input"], case["expect"]
    for name in list(os.environ):
        if name.startswith(("TF_CONFIG", "SLURM", "SM_", "CUDA_VISIBLE_DEVICES", "HOSTNAME")):
            monkeypatch.delenv(name)
    for name, value in asked.get("env", {}).items():
        if value is not None:
            monkeypatch.setenv(name, value)
    monkeypatch.setitem(sys.modules, "kubernetes", None)  # as if it were not installed
    build = FUNCTIONS[asked["function"]] if "function" in asked else CLASSES[asked["class"]]
    args = recorded.decode(asked.get("args", []), MAKERS)
    kwargs = recorded.decode(asked.get("kwargs") or {}, MAKERS)
    if "error" in expect:
        with pytest.raises((ValueError, TypeError, ImportError)) as raised:
            build(*args, **kwargs)
        recorded.check_error(expect["error"], raised.value)
        return
    thing = build(*args, **kwargs)
    if "function" in asked:
        recorded.check_same(thing, expect["value"])
        return
    for call, expected in zip(asked["calls"], expect["results"], strict=True):
        if call.get("call") == "as_cluster_def":  # a protocol buffer, which muster does without
            continue
        if call.get("get") == "rpc_layer" and isinstance(thing, MinimalResolver):
            # TensorFlow's base class forgets this attribute; here it is None.
            assert thing.rpc_layer is None
        elif "error" in expected:
            with pytest.raises((ValueError, TypeError, AttributeError)) as raised:
                answer(thing, call)
            recorded.check_error(expected["error"], raised.value)
        else:
            recorded.check_same(answer(thing, call), recorded.decode(expected["value"], MAKERS), str(call))


@pytest.mark.oracle
def test_every_departure_is_of_use() -> None:
    assert recorded.unused("cluster_resolvers", DEPARTURES) == []


@pytest.mark.oracle
def test_every_family_left_out_exists() -> None:
    cases = recorded.load("cluster_resolvers", recorded.IN_REPOSITORY)
    assert set(NO_API_OF_OURS) <= {family(case) for case in cases}
