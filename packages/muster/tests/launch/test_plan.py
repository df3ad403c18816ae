"""What each task of a local job is given."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster._errors import ClusterError
from muster.cluster import TFConfig
from muster.engines import MachineResources, Place, TaskRequest
from muster.engines._machine import _gpus, this_machine
from muster.launch._command import bytes_of
from muster.launch._plan import JobShape, check_request, plan_job, split_cores

FOUR = MachineResources(cores=((0, 4), (1, 5), (2, 6), (3, 7)))


def plan(shape, machine=FOUR, environ=()):
    places = {
        task: Place(host="", address=f"127.0.0.1:{1000 + number}", resources=machine)
        for number, task in enumerate(shape.tasks)
    }
    plans = plan_job(shape, places, job_id="j", environ=dict(environ))
    return {str(each.task): each for each in plans}


def gpus(plans):
    return {name: each.environment.get("CUDA_VISIBLE_DEVICES") for name, each in plans.items()}


def test_every_task_is_told_who_is_there_and_its_own_place():
    plans = plan(JobShape(workers=2, chief=True, evaluator=True))
    configs = {name: TFConfig.parse(each.environment["TF_CONFIG"]) for name, each in plans.items()}
    assert list(configs) == ["chief 0", "worker 0", "worker 1", "evaluator 0"]
    assert [str(config.task) for config in configs.values()] == list(configs)
    training = {"chief": ["127.0.0.1:1000"], "worker": ["127.0.0.1:1001", "127.0.0.1:1002"]}
    assert configs.pop("evaluator 0").cluster.as_dict() == training
    for config in configs.values():  # the chief leaves evaluation to an evaluator that it knows of
        assert config.cluster.as_dict() == {**training, "evaluator": ["127.0.0.1:1003"]}
    assert {each.environment["MUSTER_JOB_ID"] for each in plans.values()} == {"j"}


def test_a_chief_may_train_without_workers():
    plans = plan(JobShape(workers=0, chief=True))
    assert json.loads(plans["chief 0"].environment["TF_CONFIG"])["cluster"] == {"chief": ["127.0.0.1:1000"]}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"workers": 0}, "at least one task that trains, given: 0 workers"),
        ({"workers": -1, "chief": True}, "given: -1 workers and a chief"),
        ({"devices_per_worker": 0}, "at least 1 device, given: 0"),
        ({"ps": -1, "chief": True}, "cannot have -1 parameter servers"),
        ({"ps": 2, "workers": 3}, "needs a chief, .* given: ps 2, workers 3, no chief. Add one."),
    ],
)
def test_a_shape_that_cannot_train_is_refused(arguments, told):
    with pytest.raises(ClusterError, match=told):
        JobShape(**arguments)


def test_all_tasks_know_the_parameter_servers_and_the_evaluator_is_last():
    plans = plan(JobShape(workers=1, chief=True, ps=2, evaluator=True))
    configs = {name: TFConfig.parse(each.environment["TF_CONFIG"]) for name, each in plans.items()}
    assert list(configs) == ["chief 0", "worker 0", "ps 0", "ps 1", "evaluator 0"]
    told = {
        "chief": ["127.0.0.1:1000"],
        "worker": ["127.0.0.1:1001"],
        "ps": ["127.0.0.1:1002", "127.0.0.1:1003"],
    }
    assert configs["evaluator 0"].cluster.as_dict() == told
    for name in ("chief 0", "worker 0", "ps 0", "ps 1"):
        assert configs[name].cluster.as_dict() == {**told, "evaluator": ["127.0.0.1:1004"]}


@pytest.mark.parametrize(
    ("shape", "cores", "shares"),
    [
        # Less than a core for servers: trainers have all cores, and servers are bound to none.
        (JobShape(workers=1, chief=True, ps=1), 2, {"chief 0": 1, "worker 0": 1, "ps 0": None}),
        (JobShape(workers=0, chief=True, ps=1), 4, {"chief 0": None, "ps 0": None}),
        (JobShape(workers=0, chief=True, ps=1), 5, {"chief 0": 4, "ps 0": 1}),
        (JobShape(workers=1, chief=True, ps=1), 9, {"chief 0": 4, "worker 0": 4, "ps 0": 1}),
        (JobShape(workers=1, chief=True, ps=2), 10, {"chief 0": 4, "worker 0": 4, "ps 0": 1, "ps 1": 1}),
        (JobShape(workers=1, chief=True, ps=3), 1, {"chief 0": 1, "worker 0": 1, "ps 0": None}),
    ],
)
def test_a_parameter_server_counts_for_a_quarter_of_a_task_that_trains(shape, cores, shares):
    plans = plan(shape, MachineResources(cores=tuple((core,) for core in range(cores))))
    for name, size in shares.items():
        assert (plans[name].cores and len(plans[name].cores)) == size, name
    bound = [core for each in plans.values() for core in each.cores or ()]
    assert len(set(bound)) == min(len(bound), cores)


def test_servers_share_a_core_and_its_threads():
    plans = plan(
        JobShape(workers=0, chief=True, ps=2),
        MachineResources(cores=tuple((2 * n, 2 * n + 1) for n in range(4))),
    )
    assert plans["chief 0"].cores == (0, 1, 2, 3, 4, 5)
    assert (plans["ps 0"].cores, plans["ps 1"].cores) == ((6,), (7,))
    assert plans["ps 0"].environment["OMP_NUM_THREADS"] == "1"


@pytest.mark.parametrize("gpus", [(), ("0", "1", "2")])
def test_parameter_servers_get_no_gpu(gpus):
    shape = JobShape(workers=1, chief=True, ps=1, evaluator=True)
    plans = plan(shape, MachineResources(cores=((0,),), gpus=gpus))
    assert plans["ps 0"].environment["JAX_PLATFORMS"] == "cpu"
    assert "CUDA_VISIBLE_DEVICES" not in plans["ps 0"].environment
    for name in ("chief 0", "worker 0", "evaluator 0"):
        assert "JAX_PLATFORMS" not in plans[name].environment


def test_workers_get_whole_physical_cores_and_the_evaluator_all():
    plans = plan(JobShape(workers=2, evaluator=True))
    assert plans["worker 0"].cores == (0, 1, 4, 5)
    assert plans["worker 1"].cores == (2, 3, 6, 7)
    assert plans["evaluator 0"].cores is None
    assert plans["worker 0"].environment["OMP_NUM_THREADS"] == "4"
    assert "OMP_NUM_THREADS" not in plans["evaluator 0"].environment


def test_a_task_that_trains_alone_has_the_machine():
    alone = plan(JobShape(evaluator=True))["worker 0"]
    assert alone.cores is None
    assert "OMP_NUM_THREADS" not in alone.environment


def test_a_thread_count_that_the_user_has_set_stays():
    environment = plan(JobShape(workers=2), environ={"OMP_NUM_THREADS": "7"})["worker 0"].environment
    assert "OMP_NUM_THREADS" not in environment
    assert environment["MKL_NUM_THREADS"] == "4"


@given(
    cores=st.lists(st.integers(1, 2), min_size=1, max_size=20),
    parts=st.integers(1, 12),
)
def test_shares_of_cores_are_disjoint_and_nearly_equal(cores, parts):
    numbers = iter(range(100))
    machine = [tuple(next(numbers) for _ in range(size)) for size in cores]
    shares = split_cores(machine, parts)
    assert len(shares) == parts
    assert all(shares)
    given = [processor for share in shares for processor in share]
    everything = [processor for core in machine for processor in core]
    if parts <= len(machine):
        assert sorted(given) == everything
        for core in machine:
            assert sum(bool(set(core) & set(share)) for share in shares) == 1
        sizes = [sum(core[0] in share for core in machine) for share in shares]
        assert max(sizes) - min(sizes) <= 1
    elif parts <= len(everything):
        assert sorted(given) == everything
    else:
        used = [given.count(processor) for processor in everything]
        assert max(used) - min(used) <= 1


def test_virtual_devices_are_added_to_the_flags_of_those_that_train():
    plans = plan(
        JobShape(workers=1, evaluator=True, devices_per_worker=3), environ={"XLA_FLAGS": "--xla_a=1"}
    )
    assert plans["worker 0"].environment["XLA_FLAGS"] == (
        "--xla_a=1 --xla_force_host_platform_device_count=3"
    )
    assert "XLA_FLAGS" not in plans["evaluator 0"].environment


def test_gpus_are_shared_out_equally_and_one_that_is_left_evaluates():
    shape = JobShape(workers=2, evaluator=True)
    machine = MachineResources(cores=((0,),), gpus=("a", "b", "c", "d", "e"))
    assert gpus(plan(shape, machine)) == {"worker 0": "a,b", "worker 1": "c,d", "evaluator 0": "e"}
    assert "JAX_PLATFORMS" not in plan(shape, machine)["evaluator 0"].environment


def test_an_evaluator_without_a_gpu_uses_the_cpu():
    machine = MachineResources(cores=((0,),), gpus=("0", "1"))
    evaluator = plan(JobShape(workers=2, evaluator=True), machine)["evaluator 0"]
    assert evaluator.environment["JAX_PLATFORMS"] == "cpu"


def test_devices_per_worker_means_gpus_where_there_are_any():
    machine = MachineResources(cores=((0,),), gpus=("0", "1", "2", "3"))
    plans = plan(JobShape(workers=2, devices_per_worker=1), machine)
    assert gpus(plans) == {"worker 0": "0", "worker 1": "1"}
    assert "XLA_FLAGS" not in plans["worker 0"].environment


@pytest.mark.parametrize(
    ("shape", "told"),
    [
        (JobShape(workers=3), "3 training tasks need 3 GPUs, but there are 2"),
        (JobShape(workers=2, devices_per_worker=2), "2 training tasks need 4 GPUs, but there are 2"),
    ],
)
def test_too_few_gpus_are_an_error(shape, told):
    with pytest.raises(ClusterError, match=told):
        plan(shape, MachineResources(cores=((0,),), gpus=("0", "1")))


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({}, ("0", "1")),
        ({"CUDA_VISIBLE_DEVICES": "3, GPU-7"}, ("3", "GPU-7")),
        ({"CUDA_VISIBLE_DEVICES": ""}, ()),
        ({"CUDA_VISIBLE_DEVICES": "2,-1,0"}, ("2",)),
        ({"JAX_PLATFORMS": "cpu"}, ()),
        ({"JAX_PLATFORMS": "cuda,cpu"}, ("0", "1")),
    ],
)
def test_gpus_are_found_and_the_users_choice_is_obeyed(environ, found, tmp_path):
    for name in ("nvidia0", "nvidia5", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    assert _gpus(environ, tmp_path) == found


def test_tasks_of_hosts_share_what_their_host_has():
    shape = JobShape(workers=3, evaluator=True)
    small = MachineResources(cores=((0,), (1,)), gpus=("0",))
    places = {
        task: Place(host=host, address=f"{host}:{number}", resources=resources)
        for number, (task, (host, resources)) in enumerate(
            zip(shape.tasks, [("a", FOUR), ("a", FOUR), ("b", small), ("b", small)], strict=True), 1
        )
    }
    plans = plan_job(shape, places, job_id="j", environ={})
    assert [each.cores for each in plans] == [(0, 1, 4, 5), (2, 3, 6, 7), None, None]
    assert [each.environment.get("CUDA_VISIBLE_DEVICES") for each in plans] == [None, None, "0", None]
    assert plans[3].environment["JAX_PLATFORMS"] == "cpu"
    cluster = {"worker": ["a:1", "a:2", "b:3"]}
    assert TFConfig.parse(plans[3].environment["TF_CONFIG"]).cluster.as_dict() == cluster


def test_a_host_of_servers_alone_binds_them_to_nothing():
    shape = JobShape(workers=1, chief=True, ps=1)
    places = {task: Place(host=task.type, address=f"{task.type}:1", resources=FOUR) for task in shape.tasks}
    assert [each.cores for each in plan_job(shape, places, job_id="j", environ={})] == [None, None, None]


def test_tasks_get_as_many_cores_as_they_ask_for():
    shape = JobShape(workers=2, evaluator=True)
    places = {task: Place(host="", address="a:1", resources=FOUR) for task in shape.tasks}
    plans = plan_job(shape, places, job_id="j", environ={}, cpus=3)
    assert [each.cores for each in plans] == [(0, 1, 4), (2, 5, 6), (0, 3, 7)]
    assert plans[0].environment["OMP_NUM_THREADS"] == "3"


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        ({"cpus": 3}, "The 3 tasks on h ask for 9 cores, and it has 8. Ask for less"),
        ({"gpus": 1}, "ask for 2 GPUs, and it has 1"),
        ({"memory": 2 << 20}, "ask for 6 MiB, and 5 are available"),
        ({"cpus": 9, "memory": 4 << 20}, "27 cores, and it has 8; for 12 MiB, and 5 are"),
        ({"cpus": 2, "memory": 1 << 20}, None),
    ],
)
def test_tasks_that_ask_for_more_than_there_is_are_refused(request_, told):
    machine = MachineResources(cores=FOUR.cores, gpus=("0",), memory=5 << 20)
    tasks = JobShape(workers=2, evaluator=True).tasks
    if told is None:
        check_request(tasks, machine, TaskRequest(**request_), "h")
        return
    with pytest.raises(ClusterError, match=told):
        check_request(tasks, machine, TaskRequest(**request_), "h")


def test_amounts_of_memory_are_in_bytes():
    assert (bytes_of("3Ki"), bytes_of("2Gi")) == (3 << 10, 2 << 30)


def test_this_machine_has_the_cores_that_this_process_may_use():
    import os

    cores = this_machine({}).cores
    assert sorted(core for group in cores for core in group) == sorted(os.sched_getaffinity(0))
