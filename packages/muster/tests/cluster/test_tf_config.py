"""TF_CONFIG is read, written and checked; what is wrong with it is said."""

import json

import hypothesis
import hypothesis.strategies as st
import pytest

from muster import MusterError
from muster.cluster import ClusterSpec, Task, TFConfig
from muster.cluster._task_context import task_context

names = st.text(min_size=1, max_size=5)


@st.composite
def configs(draw: st.DrawFn) -> TFConfig:
    addresses = draw(st.lists(names, min_size=1, max_size=6, unique=True))
    jobs = draw(st.lists(names, min_size=len(addresses), max_size=len(addresses)))
    indices = draw(st.permutations(range(len(addresses))))
    cluster: dict[str, dict[int, str]] = {}
    for job, index, address in zip(jobs, indices, addresses, strict=True):
        cluster.setdefault(job, {})[index] = address
    return TFConfig(
        cluster=ClusterSpec(cluster),
        task_type=draw(st.none() | names),
        task_index=draw(st.none() | st.integers(0, 9)),
        environment=draw(st.none() | names),
        session_master=draw(st.none() | st.text(max_size=3)),
        service=draw(st.none() | st.dictionaries(names, st.integers())),
        model_dir=draw(st.none() | names),
    )


@hypothesis.given(configs())
def test_what_is_written_is_read_back(config: TFConfig) -> None:
    assert TFConfig.parse(config.to_json()) == config


def test_absent_is_empty() -> None:
    assert TFConfig.from_environ({}) == TFConfig()
    assert not TFConfig().cluster


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "TF_CONFIG is not JSON"),
        ("{'cluster': {}}", "TF_CONFIG is not JSON"),
        ("[]", "TF_CONFIG must be a JSON object"),
        ('{"cluster": {"worker": ["a:1", "b:1", "a:1"]}}', "'a:1' to worker 0 and worker 2"),
        ('{"cluster": {"chief": ["a:1"], "ps": {"3": "a:1"}}}', "'a:1' to chief 0 and ps 3"),
        (
            '{"cluster": {"worker": ["localhost:7811", "127.0.0.1:07811"]}}',
            "'localhost:7811' and '127.0.0.1:07811' to",
        ),
        (
            '{"cluster": {"worker": ["LOCALHOST:1", "[::1]:1"]}}',
            "'LOCALHOST:1' and '[::1]:1' to worker 0 and",
        ),
        ('{"cluster": {"chief": ["A.b:1"], "worker": ["a.b.:1"]}}', "to chief 0 and worker 0"),
        ('{"cluster": {}, "tasks": {"type": "worker"}}', "TF_CONFIG has no 'task', but 'tasks'. Rename"),
        ('{"Clusters": {}}', "TF_CONFIG has no 'cluster', but 'Clusters'. Rename"),
        (
            '{"task": {"type": "worker", "indx": 1}}',
            "\"task\" in TF_CONFIG has no 'index', but 'indx'. Rename",
        ),
        ('{"task": "worker"}', '"task" in TF_CONFIG must be an object'),
        ('{"task": {"index": {}}}', "must be an integer, given: {}"),
        ('{"rpc_layer": 3}', '"rpc_layer" in TF_CONFIG must be text, given: 3'),
    ],
)
def test_wrong_text_is_an_error(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=".") as raised:
        TFConfig.parse(text)
    assert isinstance(raised.value, MusterError)
    assert says in str(raised.value)


def test_a_missing_task_is_an_error() -> None:
    with pytest.raises(ValueError, match="does not say which task"):
        TFConfig(task_type="worker").task  # noqa: B018
    assert TFConfig(task_type="worker", task_index=2).task == Task("worker", 2)
    assert str(Task("worker", 2)) == "worker 2"


def test_without_a_chief_worker_0_is_the_chief_if_that_is_allowed() -> None:
    cluster = ClusterSpec({"ps": ["p:1"], "evaluator": ["e:1"], "worker": ["a:1", "b:1"]})
    contexts = [
        task_context(TFConfig(cluster=cluster, task_type=task, task_index=index), chief_required=False)
        for task, index in (("worker", 0), ("worker", 1), ("ps", 0))
    ]
    assert [context.is_chief for context in contexts] == [True, False, False]
    assert [context.global_id_in_cluster for context in contexts] == [0, 1, 3]
    assert {context.num_worker_replicas for context in contexts} == {2}


def test_the_same_cluster_has_the_same_hash() -> None:
    one, other = ClusterSpec({"a": ["x", "y"], "b": ["z"]}), ClusterSpec({"b": ["z"], "a": {1: "y", 0: "x"}})
    assert one == other
    assert len({one, other, ClusterSpec({})}) == 2
    assert json.loads(TFConfig(cluster=one).to_json()) == {
        "cluster": {"a": ["x", "y"], "b": ["z"]},
        "task": {},
    }
