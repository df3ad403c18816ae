"""UnionResolver, beyond what TensorFlow's cases ask for."""

from collections.abc import Mapping

from muster.cluster import ClusterSpec, SimpleClusterResolver, UnionResolver


def of(cluster: Mapping[str, list[str] | dict[int, str]]) -> SimpleClusterResolver:
    return SimpleClusterResolver(ClusterSpec(cluster))


def test_lists_that_overlap_are_joined_without_what_is_there_already() -> None:
    union = UnionResolver(of({"worker": ["a:1", "b:1"]}), of({"worker": ["b:1", "c:1"], "ps": ["p:1"]}))
    assert union.cluster_spec() == ClusterSpec({"worker": ["a:1", "b:1", "c:1"], "ps": ["p:1"]})


def test_a_job_without_tasks_leaves_lists_lists() -> None:
    union = UnionResolver(of({"worker": []}), of({"worker": ["a:1"]}), of({"worker": ["b:1"]}))
    assert union.cluster_spec() == ClusterSpec({"worker": ["a:1", "b:1"]})


def test_none_brings_back_what_the_first_resolver_says() -> None:
    first = SimpleClusterResolver(ClusterSpec({}), task_type="worker", task_id=1, rpc_layer="grpc")
    union = UnionResolver(first, task_type="ps", task_id=0, rpc_layer="verbs")
    assert (union.task_type, union.task_id, union.rpc_layer) == ("ps", 0, "verbs")
    union.task_type = union.task_id = union.rpc_layer = None
    assert (union.task_type, union.task_id, union.rpc_layer) == ("worker", 1, "grpc")
