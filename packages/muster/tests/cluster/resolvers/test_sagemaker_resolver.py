"""SageMakerClusterResolver, beyond what TensorFlow's cases ask for."""

import pytest

from muster.cluster import ClusterSpec, SageMakerClusterResolver


def test_hosts_are_in_the_order_of_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SM_HOSTS", '["algo-10", "algo-2", "algo-1"]')
    monkeypatch.setenv("SM_CURRENT_HOST", "algo-10")
    resolver = SageMakerClusterResolver()
    assert resolver.cluster_spec() == ClusterSpec({"worker": ["algo-1:2223", "algo-2:2223", "algo-10:2223"]})
    assert resolver.task_id == 2
    assert resolver.master("worker", 1, "grpc") == "grpc://algo-2:2223"


@pytest.mark.parametrize("hosts", ['{"a": 1}', "[1]", '"a"'])
def test_what_is_no_list_of_hosts_is_refused(monkeypatch: pytest.MonkeyPatch, hosts: str) -> None:
    monkeypatch.setenv("SM_HOSTS", hosts)
    monkeypatch.setenv("SM_CURRENT_HOST", "a")
    with pytest.raises(ValueError, match="SM_HOSTS must be a list of hosts"):
        SageMakerClusterResolver()


def test_the_task_can_be_given_by_position(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SM_HOSTS", '["algo-1", "algo-2"]')
    monkeypatch.setenv("SM_CURRENT_HOST", "algo-2")
    resolver = SageMakerClusterResolver(2000, "worker", 0, "grpc", "test")
    assert (resolver.task_type, resolver.task_id) == ("worker", 0)
    assert (resolver.rpc_layer, resolver.environment) == ("grpc", "test")
    assert resolver.master() == "grpc://algo-1:2000"
    resolver = SageMakerClusterResolver(2000)
    assert (resolver.task_type, resolver.task_id) == ("worker", 1)
