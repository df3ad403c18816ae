"""SlurmClusterResolver and Slurm's lists, beyond what TensorFlow's cases ask for."""

import os

import hypothesis
import hypothesis.strategies as st
import pytest

from muster.cluster import ClusterEnvironmentError, ClusterSpec, SlurmClusterResolver, TFConfig
from muster.cluster._task_context import task_context
from muster.cluster.resolvers._slurm_lists import expand_hostlist, expand_tasks_per_node
from muster.cluster.resolvers._slurm_resolver import find_gpus


@pytest.fixture
def step(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The environment of rank 3 of a step of two hosts with two tasks each."""
    for name in ("CUDA_VISIBLE_DEVICES", "SLURM_STEP_GPUS", "SLURMD_NODENAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SLURM_PROCID", "3")
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "4")
    monkeypatch.setenv("SLURM_STEP_NODELIST", "n[9-10]")
    monkeypatch.setenv("SLURM_STEP_TASKS_PER_NODE", "2(x2)")
    return monkeypatch


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("n[08-10]", ["n08", "n09", "n10"]),
        ("n[098-100]", ["n098", "n099", "n100"]),
        ("r[1-2]n[3,5]", ["r1n3", "r1n5", "r2n3", "r2n5"]),
        ("n[1-2]-ib,login", ["n1-ib", "n2-ib", "login"]),
    ],
)
def test_hosts_as_slurm_writes_them(text: str, hosts: list[str]) -> None:
    assert expand_hostlist(text) == hosts


@pytest.mark.parametrize("text", ["", "n[3-1]", "n[1-2]]", "n 1", "n[1 -2]"])
def test_what_is_no_list_of_hosts_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="Invalid hostlist format"):
        expand_hostlist(text)


@hypothesis.given(st.lists(st.integers(0, 99), min_size=1, max_size=6), st.integers(1, 3))
def test_ranges_are_numbers_in_their_order(numbers: list[int], width: int) -> None:
    names = [str(number).zfill(width) for number in numbers]
    assert expand_hostlist(f"n[{','.join(names)}]") == [f"n{name}" for name in names]


@hypothesis.given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 4)), min_size=1, max_size=5))
def test_counts_are_repeated(groups: list[tuple[int, int]]) -> None:
    text = ",".join(f"{tasks}(x{hosts})" if hosts > 1 else str(tasks) for tasks, hosts in groups)
    assert expand_tasks_per_node(text) == [tasks for tasks, hosts in groups for _ in range(hosts)]


@pytest.mark.parametrize("text", ["", "2(x3),", "2(x)", "2(x-1)", "2x3", "-1", "1.5"])
def test_what_is_no_list_of_counts_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="Invalid tasks-per-node list format"):
        expand_tasks_per_node(text)


def test_tasks_of_hosts_in_slurms_notation(step: pytest.MonkeyPatch) -> None:
    step.setenv("SLURM_STEP_NODELIST", "n[08-09,10]")
    hosts = ["n08:8888", "n08:8889", "n09:8888", "n10:8888"]
    assert SlurmClusterResolver(tasks_per_node="2,1(x2)").cluster_spec() == ClusterSpec({"worker": hosts})
    with pytest.raises(ValueError, match="Invalid tasks-per-node"):
        SlurmClusterResolver(tasks_per_node="2;1")
    with pytest.raises(ClusterEnvironmentError, match="Requested 4 tasks but only 6 were assigned"):
        SlurmClusterResolver(tasks_per_node="2(x3)", jobs={"worker": 4})


def test_hosts_keep_slurms_order(step: pytest.MonkeyPatch) -> None:
    resolver = SlurmClusterResolver(jobs={"worker": 3, "chief": 1})
    cluster = {"chief": ["n9:8888"], "worker": ["n9:8889", "n10:8888", "n10:8889"]}
    assert resolver.cluster_spec() == ClusterSpec(cluster)
    assert resolver.get_task_info() == ("worker", 2)


def test_what_a_resolver_knows_is_the_context_of_the_task(step: pytest.MonkeyPatch) -> None:
    config = TFConfig.from_resolver(SlurmClusterResolver(jobs={"worker": 3, "chief": 1}))
    context = task_context(TFConfig.parse(config.to_json()))
    assert (context.task_type, context.task_id, context.is_chief) == ("worker", 2, False)
    assert (context.num_worker_replicas, context.global_id_in_cluster) == (4, 3)
    assert context.master == "grpc://n10:8889"


def test_a_task_that_slurm_has_placed_otherwise_is_told_so(step: pytest.MonkeyPatch) -> None:
    step.setenv("SLURMD_NODENAME", "n10")
    assert SlurmClusterResolver().master() == "grpc://n10:8889"
    step.setenv("SLURMD_NODENAME", "n9")
    with pytest.raises(ValueError, match="runs on 'n9'.*would run on 'n10'.*--distribution=block"):
        SlurmClusterResolver()


@pytest.mark.parametrize("name", ["SLURM_PROCID", "SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE"])
def test_outside_of_a_step_that_is_said(step: pytest.MonkeyPatch, name: str) -> None:
    step.delenv(name)
    with pytest.raises(ClusterEnvironmentError, match=f"{name} not found in environment"):
        SlurmClusterResolver()


def test_the_environment_is_left_alone_until_the_cluster_is_asked_for(step: pytest.MonkeyPatch) -> None:
    step.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    resolver = SlurmClusterResolver()
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "4,5,6,7"
    resolver.cluster_spec()
    resolver.cluster_spec()
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "6,7"


@pytest.mark.parametrize(
    ("environ", "per_node", "per_task", "each", "visible"),
    [
        ({"CUDA_VISIBLE_DEVICES": "4,5,6,7"}, None, None, 2, "6,7"),
        ({"CUDA_VISIBLE_DEVICES": "4,5,6,7"}, None, 1, 1, "5"),
        ({"CUDA_VISIBLE_DEVICES": "4,5,6,7"}, 2, None, 1, "5"),
        ({}, 4, None, 2, "2,3"),
        ({"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, None, None, 0, None),
        ({}, None, None, 0, None),
        # Slurm has shared them out.
        ({"CUDA_VISIBLE_DEVICES": "0"}, None, None, 1, None),
        ({"CUDA_VISIBLE_DEVICES": "0,1", "SLURM_STEP_GPUS": "0,1,2,3"}, None, None, 2, None),
        ({"CUDA_VISIBLE_DEVICES": "0,1", "SLURM_STEP_GPUS": "0,1,2,3"}, 4, None, 2, None),
        ({"CUDA_VISIBLE_DEVICES": "0,1", "SLURM_STEP_GPUS": "0,1,2,3"}, 4, 2, 2, None),
        ({"CUDA_VISIBLE_DEVICES": "0,1", "SLURM_STEP_GPUS": "2,3"}, None, None, 1, "1"),
    ],
)
def test_gpus_of_the_second_of_two_tasks(
    environ: dict[str, str], per_node: int | None, per_task: int | None, each: int, visible: str | None
) -> None:
    gpus = find_gpus(environ, 2, per_node, per_task)
    assert (gpus.per_task, gpus.of_task(1)) == (each, visible)


def test_gpus_that_a_task_does_not_see_cannot_be_asked_for() -> None:
    with pytest.raises(ClusterEnvironmentError, match="Requested more GPUs per node than available"):
        find_gpus({"CUDA_VISIBLE_DEVICES": "0"}, 2, None, 2)
