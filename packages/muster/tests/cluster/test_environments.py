"""By which launcher a process was started: environments as these launchers set them."""

import json
import re
import threading

import pytest

from muster.__main__ import main
from muster._errors import AuthenticationError, ClusterError, MissingPeerError, RosterError
from muster.cluster import (
    FINDERS,
    Rendezvous,
    TFConfig,
    _environments,
    config_of_environment,
    find_environment,
    resolver_of_environment,
)
from muster.cluster._rendezvous import RendezvousListener, call_rendezvous, is_own_host, meet
from muster.net import NO_CREDENTIALS, Credentials

TF_CONFIG = '{"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 1}}'
JAX = {"JAX_COORDINATOR_ADDRESS": "a:9", "JAX_PROCESS_ID": "1", "JAX_NUM_PROCESSES": "3"}
TORCH = {"MASTER_ADDR": "a", "MASTER_PORT": "9", "RANK": "1", "WORLD_SIZE": "2"}
# As recorded under Open MPI 4.1.4, without what does not matter.
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_MCA_orte_hnp_uri": "1783234560.0;tcp://10.0.0.7,172.17.0.2:46197",
    "PMIX_RANK": "1",
    "PMIX_NAMESPACE": "1783234561",
}
# On a host with addresses of both kinds.
OTHER_HOSTS = {
    "OMPI_COMM_WORLD_LOCAL_SIZE": "1",
    "OMPI_MCA_orte_hnp_uri": "1922301952.0;tcp://192.0.2.2:40535;tcp6://[fd00::2]:42013",
}
# As recorded under Open MPI 5.0.11.
OPEN_MPI_5 = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "PMIX_RANK": "1",
    "PMIX_NAMESPACE": "prterun-vm-7779@1",
}
SLURM = {
    "SLURM_PROCID": "1",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_STEP_NODELIST": "n[1-2]",
    "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
    "SLURM_JOB_ID": "7",
    "SLURMD_NODENAME": "n2",
}
MPICH = {"PMI_RANK": "0", "PMI_SIZE": "2", "MPI_LOCALNRANKS": "2"}
# As recorded under Intel MPI 2021.18.
INTEL_MPI = {**MPICH, "I_MPI_HYDRA_UUID": "2f1d0000-6702-457f-8161-06008f5a6b1d"}
SAGEMAKER = {"SM_HOSTS": '["algo-1", "algo-2"]', "SM_CURRENT_HOST": "algo-2"}
SKYPILOT = {"SKYPILOT_NODE_IPS": "10.0.0.1\n10.0.0.2", "SKYPILOT_NODE_RANK": "1", "SKYPILOT_NUM_NODES": "2"}
TPU = {"TPU_WORKER_HOSTNAMES": "t0,t1", "TPU_WORKER_ID": "1"}
VERTEX = {
    "CLUSTER_SPEC": json.dumps(
        {
            "cluster": {"workerpool0": ["cmle-0:2222"], "workerpool1": ["cmle-1:2222", "cmle-2:2222"]},
            "environment": "cloud",
            "task": {"type": "workerpool1", "index": 1},
        }
    )
}
VARIABLES = {
    name
    for each in (JAX, TORCH, OPEN_MPI, SLURM, INTEL_MPI, SAGEMAKER, SKYPILOT, TPU, VERTEX)
    for name in (*each, "TF_CONFIG", "TORCHELASTIC_RUN_ID")
}


@pytest.fixture
def set_environ(monkeypatch):
    def set_environ(environ):
        for name in VARIABLES:
            monkeypatch.delenv(name, raising=False)
        for name, value in environ.items():
            monkeypatch.setenv(name, value)

    return set_environ


WORKERS = {"worker": ["a:1", "b:2"]}


@pytest.mark.parametrize(
    ("environ", "name", "cluster", "task"),
    [
        ({}, "one process", {}, None),
        ({"TF_CONFIG": TF_CONFIG}, "TF_CONFIG", WORKERS, "worker 1"),
        ({"TF_CONFIG": TF_CONFIG, **SLURM, **JAX}, "TF_CONFIG", WORKERS, "worker 1"),
        ({"TF_CONFIG": "{}", **OPEN_MPI}, "TF_CONFIG", {}, None),
        (
            VERTEX,
            "Vertex AI",
            {"chief": ["cmle-0:2222"], "worker": ["cmle-1:2222", "cmle-2:2222"]},
            "worker 1",
        ),
        (SLURM, "Slurm", {"worker": ["n1:20112", "n2:20112"]}, "worker 1"),
        ({**SLURM, "SLURM_STEP_NUM_TASKS": "1"}, "one process", {}, None),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}, "one process", {}, None),  # a batch script
        (SAGEMAKER, "Amazon SageMaker", {"worker": ["algo-1:2223", "algo-2:2223"]}, "worker 1"),
        ({"SM_HOSTS": '["algo-1"]', "SM_CURRENT_HOST": "algo-1"}, "one process", {}, None),
        (SKYPILOT, "SkyPilot", {"worker": ["10.0.0.1:8888", "10.0.0.2:8888"]}, "worker 1"),
        (TPU, "a Cloud TPU", {"worker": ["t0:8888", "t1:8888"]}, "worker 1"),
    ],
)
def test_what_names_all_tasks(environ, name, cluster, task, set_environ):
    set_environ(environ)
    found = find_environment()
    assert (found.name, found.rendezvous) == (name, None)
    assert found.config.cluster.as_dict() == cluster
    assert (str(found.config.task) if cluster else None) == task
    assert config_of_environment() == found.config
    resolver = resolver_of_environment()
    assert TFConfig.from_resolver(resolver).cluster.as_dict() == cluster


@pytest.mark.parametrize(
    ("environ", "name", "rendezvous"),
    [
        (JAX, "JAX", ("a:9", 1, 3)),
        ({**JAX, "JAX_NUM_PROCESSES": "1", "JAX_PROCESS_ID": "0"}, "one process", None),
        (TORCH, "MASTER_ADDR and RANK", ("a:9", 1, 2)),
        ({**TORCH, "MASTER_ADDR": "fd00::2"}, "MASTER_ADDR and RANK", ("[fd00::2]:9", 1, 2)),
        ({"RANK": "0", "WORLD_SIZE": "1"}, "one process", None),
        ({**TORCH, "TORCHELASTIC_RUN_ID": "x", **OPEN_MPI}, "torchrun", ("a:9", 1, 2)),
        (OPEN_MPI, "Open MPI", ("127.0.0.1:23982", 1, 2)),
        ({**OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "1"}, "Open MPI", ("10.0.0.7:23982", 1, 2)),
        ({**OPEN_MPI, "MASTER_ADDR": "h", "MASTER_PORT": "7"}, "Open MPI", ("h:7", 1, 2)),
        ({**OPEN_MPI, **SLURM}, "Open MPI", ("127.0.0.1:23982", 1, 2)),
        ({**OPEN_MPI, **OTHER_HOSTS}, "Open MPI", ("192.0.2.2:29006", 1, 2)),
        (OPEN_MPI_5, "Open MPI", ("127.0.0.1:25624", 1, 2)),
        (MPICH, "MPI", ("127.0.0.1:20000", 0, 2)),
        (INTEL_MPI, "MPI", ("127.0.0.1:22986", 0, 2)),
    ],
)
def test_what_names_a_rendezvous(environ, name, rendezvous, set_environ):
    set_environ(environ)
    found = find_environment()
    assert found.name == name
    meeting = found.rendezvous
    assert (meeting and (meeting.address, meeting.rank, meeting.size)) == rendezvous


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        (
            {**JAX, "JAX_PROCESS_ID": "3"},
            "JAX_PROCESS_ID is 3, and JAX_NUM_PROCESSES is 3. Count",
        ),
        ({**TORCH, "RANK": "one"}, "The index of this process in RANK must be an integer"),
        ({"CLUSTER_SPEC": "{"}, "CLUSTER_SPEC is not what Vertex AI sets"),
        (
            {**TORCH, "MASTER_PORT": "x"},
            "MASTER_ADDR and MASTER_PORT must say where rank 0 listens.",
        ),
        ({**JAX, "JAX_COORDINATOR_ADDRESS": "a"}, "JAX_COORDINATOR_ADDRESS must say where rank 0 listens."),
        (
            {"RANK": "0", "WORLD_SIZE": "2"},
            "RANK is 0 and WORLD_SIZE is 2, but .* each other without MASTER_ADDR and MASTER_PORT. Set",
        ),
        (
            {"JAX_PROCESS_ID": "1", "JAX_NUM_PROCESSES": "2"},
            "these processes cannot find each other without JAX_COORDINATOR_ADDRESS. Set",
        ),
        ({**MPICH, "MPI_LOCALNRANKS": "1"}, "no variable says where the first one is. Say it: mpirun -x"),
    ],
)
def test_what_contradicts_itself_is_an_error(environ, told, set_environ, capsys):
    set_environ(environ)
    with pytest.raises(ClusterError, match=told):
        find_environment()
    with pytest.raises(SystemExit, match="2"):
        main(["where"])
    assert re.search(told, " ".join(capsys.readouterr().err.split()))


def test_where_says_what_was_found_and_why(set_environ, capsys):
    set_environ(VERTEX)
    assert main(["where"]) == 0
    told = capsys.readouterr().out
    spec = VERTEX["CLUSTER_SPEC"]
    assert told.startswith(f"Started by: Vertex AI\n  CLUSTER_SPEC={spec}\nThis task: worker 1\n")
    assert "  chief: ['cmle-0:2222']\n" in told
    assert "CLUSTER_SPEC, of Vertex AI: found\n" in told
    assert told.count("not there") == len(FINDERS) - 1
    set_environ(JAX)
    assert main(["where"]) == 0
    assert "This task: worker 1 of 3\nThey meet at a:9," in capsys.readouterr().out
    set_environ({"TF_CONFIG": TF_CONFIG, **TORCH, "RANK": "one"})
    assert main(["where"]) == 0
    told = capsys.readouterr().out
    assert "\n  TF_CONFIG: found\n" in told
    assert "RANK and WORLD_SIZE: not used, and wrong: The index of this process in RANK must be an" in told


@pytest.fixture
def address():
    """Return an address of the loopback at which nothing listens."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"127.0.0.1:{free.getsockname()[1]}"


def together(*calls):
    """Return what functions return or raise, each in a thread."""
    results = {}

    def run(number, call):
        try:
            results[number] = call()
        except (RosterError, ClusterError) as exc:
            results[number] = exc

    threads = [threading.Thread(target=run, args=each) for each in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [results[number] for number in range(len(calls))]


SECRET = Credentials(secret=b"correct horse battery staple")


@pytest.mark.parametrize("credentials", [NO_CREDENTIALS, SECRET])
def test_processes_meet_that_know_one_address(address, credentials):
    found = together(
        *(lambda rank=rank: meet(address, rank, 3, 7000 + rank, credentials, 20.0) for rank in (2, 0, 1))
    )
    assert found == [["127.0.0.1:7000", "127.0.0.1:7001", "127.0.0.1:7002"]] * 3


def test_who_does_not_come_is_named(address):
    with pytest.raises(MissingPeerError, match=r"Ranks 1, 2 of 3 have not come to the rendezvous at 127"):
        meet(address, 0, 3, 7000, NO_CREDENTIALS, 0.1)
    with pytest.raises(MissingPeerError, match=r"Nobody has answered at the rendezvous 127.*0\.1 s"):
        meet(address, 1, 3, 7000, NO_CREDENTIALS, 0.1)


def test_two_of_one_rank_are_refused(address):
    found = together(
        lambda: meet(address, 0, 3, 7000, NO_CREDENTIALS, 20.0),
        lambda: meet(address, 1, 3, 7001, NO_CREDENTIALS, 20.0),
        lambda: meet(address, 1, 3, 7002, NO_CREDENTIALS, 20.0),
    )
    assert "Give each process a rank of its own" in str(found[0])
    assert all("has ended without an answer" in str(each) for each in found[1:])


def test_a_stranger_is_refused(address):
    found = together(
        lambda: meet(address, 0, 2, 7000, SECRET, 2.0),
        lambda: meet(address, 1, 2, 7001, Credentials(secret=b"another secret of some length"), 2.0),
    )
    assert isinstance(found[0], MissingPeerError)
    assert isinstance(found[1], AuthenticationError)


def test_a_rendezvous_is_at_an_address_of_this_host():
    assert is_own_host("127.0.0.3")
    assert not is_own_host("192.0.2.1")
    with pytest.raises(OSError, match=r"192\.0\.2\.1 is another host"):
        RendezvousListener("192.0.2.1:7000", NO_CREDENTIALS)


def test_a_listener_hands_out_its_callers_in_turn(address):
    listener = RendezvousListener(address, NO_CREDENTIALS)
    found = together(
        lambda: listener.await_callers(1, 20.0), lambda: call_rendezvous(address, NO_CREDENTIALS, 20.0, "x")
    )
    ((connection, hello),) = found[0]
    assert hello.name == "x"
    for each in (connection, found[1], listener):
        each.close()


def test_whoever_asks_meets_once(address, set_environ, monkeypatch):
    host, port = address.split(":")
    set_environ({"MASTER_ADDR": host, "MASTER_PORT": port, "RANK": "0", "WORLD_SIZE": "2"})
    meeting = Rendezvous(address=address, rank=1, size=2)
    mine, _ = together(config_of_environment, lambda: _environments._meet("test", meeting))
    try:
        assert config_of_environment() is mine
        assert str(mine.task) == "worker 0"
        resolver = resolver_of_environment()
        assert resolver.cluster_spec() == mine.cluster
        assert (resolver.task_type, resolver.task_id) == ("worker", 0)
    finally:
        for name, rank in (("MASTER_ADDR and RANK", 0), ("test", 1)):
            _, holder = _environments._meet(name, Rendezvous(address=address, rank=rank, size=2))
            holder.close()
        _environments._meet.cache_clear()
