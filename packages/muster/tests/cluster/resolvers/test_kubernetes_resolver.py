"""KubernetesClusterResolver, beyond what TensorFlow's cases ask for."""

import sys
from types import SimpleNamespace

import pytest

from muster.cluster import ClusterSpec, KubernetesClusterResolver


class Pods:
    """A client of a cluster whose pods all run."""

    def __init__(self, pods: dict[tuple[str, str], str]) -> None:
        self.pods = pods  # the address of each, by its namespace and name

    def list_namespaced_pod(self, namespace: str, label_selector: str) -> SimpleNamespace:
        found = {name: address for (where, name), address in self.pods.items() if where == namespace}
        return self._listed({name: each for name, each in found.items() if name.startswith(label_selector)})

    def list_pod_for_all_namespaces(self, label_selector: str) -> SimpleNamespace:
        return self._listed({name: each for (_, name), each in self.pods.items() if label_selector in name})

    def _listed(self, pods: dict[str, str]) -> SimpleNamespace:
        return SimpleNamespace(
            items=[
                SimpleNamespace(
                    metadata=SimpleNamespace(name=name),
                    # Pods of one node share its address, and differ in their own.
                    status=SimpleNamespace(phase="Running", pod_ip=address, host_ip="10.9.9.9"),
                )
                for name, address in pods.items()
            ]
        )


PODS = Pods(
    {
        ("mine", "worker-10"): "10.0.0.10",
        ("mine", "worker-2"): "10.0.0.2",
        ("mine", "ps-0"): "fd00::7",
        ("theirs", "worker-0"): "10.0.1.0",
    }
)
JOBS = {"worker": ["worker"], "ps": ["ps"]}


def test_pods_of_one_namespace_in_the_order_of_their_numbers() -> None:
    resolver = KubernetesClusterResolver(JOBS, 2222, override_client=PODS, namespace="mine")
    assert resolver.cluster_spec() == ClusterSpec(
        {"worker": ["10.0.0.2:2222", "10.0.0.10:2222"], "ps": ["[fd00::7]:2222"]}
    )


def test_pods_of_all_namespaces() -> None:
    resolver = KubernetesClusterResolver({"worker": ["worker"]}, override_client=PODS)
    assert resolver.cluster_spec().num_tasks("worker") == 3


def test_the_pod_that_this_process_runs_in_is_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOSTNAME", "worker-10")
    resolver = KubernetesClusterResolver(JOBS, override_client=PODS, namespace="mine")
    resolver.cluster_spec()
    assert (resolver.task_type, resolver.task_id) == ("worker", 1)
    assert resolver.master() == "grpc://10.0.0.10:8470"


def test_a_task_that_was_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOSTNAME", "worker-10")
    resolver = KubernetesClusterResolver(JOBS, override_client=PODS, namespace="mine")
    resolver.task_type, resolver.task_id = "ps", 0
    assert resolver.master() == "grpc://[fd00::7]:8470"
    assert (resolver.task_type, resolver.task_id) == ("ps", 0)


class ConfigException(Exception):
    """What the client raises outside of a pod."""


@pytest.mark.parametrize("in_pod", [True, False])
def test_the_official_client_is_given_the_rights_that_there_are(
    monkeypatch: pytest.MonkeyPatch, in_pod: bool
) -> None:
    loaded = []

    def load_incluster_config() -> None:
        if not in_pod:
            raise ConfigException
        loaded.append("pod")

    package = SimpleNamespace(
        config=SimpleNamespace(
            ConfigException=ConfigException,
            load_incluster_config=load_incluster_config,
            load_kube_config=lambda: loaded.append("kubectl"),
        ),
        client=SimpleNamespace(CoreV1Api=lambda: PODS),
    )
    monkeypatch.setitem(sys.modules, "kubernetes", package)
    resolver = KubernetesClusterResolver(JOBS, namespace="mine")
    assert loaded == ["pod" if in_pod else "kubectl"]
    assert resolver.cluster_spec().num_tasks("worker") == 2
