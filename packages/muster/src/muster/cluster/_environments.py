"""Find out by which launcher this process was started, as one of which tasks.

The first environment counts that is there. What a launcher of programs has set comes before what a scheduler
of machines has, below which it may run: `torchrun` or `mpirun` in a step of Slurm, say.
"""

import contextlib
import dataclasses
import functools
import json
import logging
import os
import re
import socket
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

from muster._errors import ClusterError
from muster.cluster._cluster_resolver import ClusterResolver
from muster.cluster._cluster_spec import ClusterSpec, TaskType, check_index
from muster.cluster._rendezvous import meet
from muster.cluster._tf_config import TFConfig
from muster.cluster.resolvers._sagemaker_resolver import SageMakerClusterResolver
from muster.cluster.resolvers._simple_resolver import SimpleClusterResolver
from muster.cluster.resolvers._slurm_resolver import SlurmClusterResolver
from muster.cluster.resolvers._tf_config_resolver import TFConfigClusterResolver
from muster.cluster.resolvers._tpu_resolver import TPUClusterResolver
from muster.net import Credentials, split_address

_log = logging.getLogger(__name__)

# How long processes that were started together may take to meet, in seconds.
MEET_SECS = 300.0
# Where tasks listen of whom only the hosts are known.
_PORT = 8888
# What Vertex AI calls the types of tasks.
_POOLS: dict[str, str] = {
    "workerpool0": TaskType.CHIEF.value,
    "workerpool1": TaskType.WORKER.value,
    "workerpool2": TaskType.PS.value,
    "workerpool3": TaskType.EVALUATOR.value,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rendezvous:
    """Describes the processes of a job before they have met.

    Args:
        address: Where rank 0 listens, ``host:port``.
        rank: The rank of this process.
        size: The number of processes.
    """

    address: str
    rank: int
    size: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Ranks:
    """The variables of processes that know their ranks: their names.

    Args:
        address: That of where the first process listens: ``host:port``, or its host.
        port: That of the port, if it is apart.
        rank: That of the rank of this process.
        size: That of the number of processes.
    """

    address: str
    port: str | None = None
    rank: str
    size: str

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(each for each in (self.address, self.port, self.rank, self.size) if each is not None)

    def missing(self, environ: Mapping[str, str]) -> list[str]:
        """Return the names that are not set."""
        return [each for each in self.names if not environ.get(each)]

    def address_of(self, environ: Mapping[str, str]) -> str:
        """Return where the first process listens, ``host:port``.

        Raises:
            ClusterError: It is not that.
        """
        address = environ[self.address]
        if self.port is not None:
            host = f"[{address}]" if ":" in address and not address.startswith("[") else address
            address = f"{host}:{environ[self.port]}"
        try:
            split_address(address)
        except ClusterError as exc:
            names = " and ".join(each for each in (self.address, self.port) if each is not None)
            raise ClusterError(f"{names} must say where rank 0 listens. {exc}") from exc
        return address


# Those of jax.distributed.initialize, which Kubeflow Trainer sets for JAX, too.
_OF_JAX = _Ranks(address="JAX_COORDINATOR_ADDRESS", rank="JAX_PROCESS_ID", size="JAX_NUM_PROCESSES")
_OF_TORCH = _Ranks(address="MASTER_ADDR", port="MASTER_PORT", rank="RANK", size="WORLD_SIZE")


@dataclasses.dataclass(frozen=True, kw_only=True)
class FoundEnvironment:
    """By which launcher this process was started.

    Args:
        name: Who has started it.
        variables: What says so, by name.
        config: All tasks, and this one; None if they have to meet first.
        rendezvous: How they meet; None if all are known.
    """

    name: str
    variables: Mapping[str, str]
    config: TFConfig | None = None
    rendezvous: Rendezvous | None = None


Finder = Callable[[Mapping[str, str]], FoundEnvironment | None]


def find_environment() -> FoundEnvironment:
    """Return the first environment of this process that is there; one process alone if there is none.

    Raises:
        ClusterError: It contradicts itself, or lacks an address.
    """
    for find in FINDERS.values():
        if (found := find(os.environ)) is not None:
            return found
    _check_ranks(os.environ)
    return FoundEnvironment(name="one process", variables={}, config=TFConfig())


def _of_tf_config(environ: Mapping[str, str]) -> FoundEnvironment | None:
    if "TF_CONFIG" not in environ:
        return None
    return FoundEnvironment(
        name="TF_CONFIG",
        variables={"TF_CONFIG": environ["TF_CONFIG"]},
        config=TFConfig.from_environ(environ),
    )


def _of_vertex(environ: Mapping[str, str]) -> FoundEnvironment | None:
    """Vertex AI: cloud.google.com/vertex-ai/docs/training/distributed-training, ``CLUSTER_SPEC``."""
    text = environ.get("CLUSTER_SPEC")
    if not text:
        return None
    try:
        spec = json.loads(text)
        cluster = {_POOLS[pool]: addresses for pool, addresses in spec["cluster"].items() if addresses}
        task_type, index = _POOLS[spec["task"]["type"]], check_index(spec["task"]["index"], "this task")
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise ClusterError(
            f"CLUSTER_SPEC is not what Vertex AI sets: {exc!r}. Given: {text!r}. Unset it, or set TF_CONFIG."
        ) from exc
    config = TFConfig(cluster=ClusterSpec(cluster), task_type=task_type, task_index=index)
    return FoundEnvironment(name="Vertex AI", variables={"CLUSTER_SPEC": text}, config=config)


def _of_ranks(environ: Mapping[str, str], name: str, variables: _Ranks) -> FoundEnvironment | None:
    """Find processes that know their ranks, and the address of the first."""
    found = _ranks_of(environ, variables.rank, variables.size)
    if found is None or variables.missing(environ):
        return None
    return FoundEnvironment(
        name=name,
        variables={each: environ[each] for each in variables.names},
        rendezvous=Rendezvous(address=variables.address_of(environ), rank=found[0], size=found[1]),
    )


def _ranks_of(environ: Mapping[str, str], rank: str, size: str) -> tuple[int, int] | None:
    """Return the rank of this process and the number of all, by their names; None if it is the only one."""
    if any(not environ.get(each) for each in (rank, size)):
        return None
    number = check_index(environ[rank], f"this process in {rank}")
    count = check_index(environ[size], size)
    if count < 2:
        return None
    if not 0 <= number < count:
        raise ClusterError(f"{rank} is {number}, and {size} is {count}. Count ranks from 0.")
    return number, count


def _check_ranks(environ: Mapping[str, str]) -> None:
    """Refuse a rank among several processes that nothing tells where the first one is.

    Raises:
        ClusterError: It is so: each of them would train a model of its own.
    """
    for each in (_OF_JAX, _OF_TORCH):
        if _ranks_of(environ, each.rank, each.size) is not None:
            raise ClusterError(
                f"{each.rank} is {environ[each.rank]} and {each.size} is {environ[each.size]}, but these "
                f"processes cannot find each other without {' and '.join(each.missing(environ))}. Set what "
                f"says where rank 0 runs; or unset {each.rank}, if this process trains alone."
            )


def _of_jax(environ: Mapping[str, str]) -> FoundEnvironment | None:
    return _of_ranks(environ, "JAX", _OF_JAX)


def _of_torchrun(environ: Mapping[str, str]) -> FoundEnvironment | None:
    return _of_ranks(environ, "torchrun", _OF_TORCH) if "TORCHELASTIC_RUN_ID" in environ else None


def _of_torch(environ: Mapping[str, str]) -> FoundEnvironment | None:
    return _of_ranks(environ, "MASTER_ADDR and RANK", _OF_TORCH)


def _of_open_mpi(environ: Mapping[str, str]) -> FoundEnvironment | None:
    return _of_mpi(
        environ, "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"
    )


def _of_pmi(environ: Mapping[str, str]) -> FoundEnvironment | None:
    return _of_mpi(environ, "MPI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS")


def _of_mpi(
    environ: Mapping[str, str], name: str, rank: str, size: str, local_size: str
) -> FoundEnvironment | None:
    """Find processes of MPI, which know no address unless it is given, or all are on one host."""
    if (found := _ranks_of(environ, rank, size)) is None:
        return None
    variables = {each: environ[each] for each in (rank, size, local_size) if each in environ}
    given = ("MASTER_ADDR", "MASTER_PORT")
    if all(environ.get(each) for each in given):
        variables |= {each: environ[each] for each in given}
        address = _OF_TORCH.address_of(environ)
    else:
        host = _host_of_mpirun(environ)
        if environ.get(local_size) == environ[size]:
            host = "127.0.0.1"
        if not host:
            raise ClusterError(
                f"{name} has started {environ[size]} processes on several hosts, and no variable says where "
                "the first one is. Say it: mpirun -x MASTER_ADDR=HOST -x MASTER_PORT=PORT, where rank 0 runs "
                "on HOST; or mpiexec -genv MASTER_ADDR HOST -genv MASTER_PORT PORT."
            )
        address = f"{host}:{_port_of_mpirun(environ)}"
    return FoundEnvironment(
        name=name,
        variables=variables,
        rendezvous=Rendezvous(address=address, rank=found[0], size=found[1]),
    )


# Where Open MPI 4 says how its daemons reach mpirun, which is on the host of rank 0 unless told otherwise:
# "1531576320.0;tcp://10.96.0.1,10.148.0.1:34911;tcp6://[fd00::2]:42013".
_HNP = "OMPI_MCA_orte_hnp_uri"
# What tells a job of Open MPI, version 4 and 5, and of Intel MPI from others.
_MPI_JOBS = _HNP, "PMIX_NAMESPACE", "I_MPI_HYDRA_UUID"
# The process of MPICH that starts those of a job on its host.
_HYDRA = "hydra_pmi_proxy"


def _host_of_mpirun(environ: Mapping[str, str]) -> str:
    found = re.search(r";tcp://([^,:;]+)", environ.get(_HNP, ""))
    return found[1] if found else ""


def _port_of_mpirun(environ: Mapping[str, str]) -> int:
    """Return a port that all processes of one mpirun compute alike, and those of another otherwise."""
    job = next((environ[name] for name in _MPI_JOBS if environ.get(name)), "") or _number_of_hydra()
    return 20_000 + zlib.crc32(job.encode()) % 10_000


def _number_of_hydra() -> str:
    """Return the number of the process that has started those of this job here for MPICH, which names no job.

    Returns:
        Empty if there is none, or no ``/proc``: then jobs that start on this host together must not be two.
    """
    pid = os.getpid()
    with contextlib.suppress(OSError):
        while pid:
            name, _, fields = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(")")
            if name == _HYDRA:
                return str(pid)
            pid = int(fields.split()[1])
    return ""


def _of_slurm(environ: Mapping[str, str]) -> FoundEnvironment | None:
    names = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE")
    if any(not environ.get(name) for name in names) or environ["SLURM_STEP_NUM_TASKS"] == "1":
        return None
    job = check_index(environ.get("SLURM_JOB_ID", "0"), "this job in SLURM_JOB_ID")
    resolver = SlurmClusterResolver(port_base=20_000 + job % 625 * 16)
    return FoundEnvironment(
        name="Slurm",
        variables={name: environ[name] for name in names},
        config=TFConfig.from_resolver(resolver),
    )


def _of_sagemaker(environ: Mapping[str, str]) -> FoundEnvironment | None:
    names = ("SM_HOSTS", "SM_CURRENT_HOST")
    if any(not environ.get(name) for name in names):
        return None
    config = TFConfig.from_resolver(SageMakerClusterResolver())
    if config.cluster.num_tasks(TaskType.WORKER) < 2:
        return None
    return FoundEnvironment(
        name="Amazon SageMaker", variables={name: environ[name] for name in names}, config=config
    )


def _of_skypilot(environ: Mapping[str, str]) -> FoundEnvironment | None:
    names = ("SKYPILOT_NODE_IPS", "SKYPILOT_NODE_RANK")
    hosts = environ.get(names[0], "").split()
    if len(hosts) < 2 or not environ.get(names[1]):
        return None
    rank = check_index(environ[names[1]], f"this node in {names[1]}")
    cluster = ClusterSpec({"worker": [f"{host}:{_PORT}" for host in hosts]})
    return FoundEnvironment(
        name="SkyPilot",
        variables={name: environ[name] for name in names},
        config=TFConfig(cluster=cluster, task_type="worker", task_index=rank),
    )


def _of_tpu(environ: Mapping[str, str]) -> FoundEnvironment | None:
    names = ("TPU_WORKER_HOSTNAMES", "TPU_WORKER_ID")
    if len(environ.get(names[0], "").split(",")) < 2 or names[1] not in environ:
        return None
    return FoundEnvironment(
        name="a Cloud TPU",
        variables={name: environ[name] for name in names},
        config=TFConfig.from_resolver(TPUClusterResolver()),
    )


# In their order, with what each looks for.
FINDERS: Mapping[str, Finder] = {
    "TF_CONFIG": _of_tf_config,
    "CLUSTER_SPEC, of Vertex AI": _of_vertex,
    "JAX_COORDINATOR_ADDRESS, JAX_PROCESS_ID and JAX_NUM_PROCESSES": _of_jax,
    "TORCHELASTIC_RUN_ID, of torchrun": _of_torchrun,
    "OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE, of Open MPI": _of_open_mpi,
    "SLURM_PROCID and SLURM_STEP_…, of a step of several tasks": _of_slurm,
    "PMI_RANK and PMI_SIZE, of MPICH and Intel MPI": _of_pmi,
    "SM_HOSTS and SM_CURRENT_HOST, of several hosts of Amazon SageMaker": _of_sagemaker,
    "SKYPILOT_NODE_IPS and SKYPILOT_NODE_RANK": _of_skypilot,
    "TPU_WORKER_HOSTNAMES and TPU_WORKER_ID, of several hosts of a TPU": _of_tpu,
    "MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE": _of_torch,
}


def config_of_environment() -> TFConfig:
    """Return all tasks of this process' job, and which it is; meets the others first, once, where it must.

    Raises:
        ClusterError: The environment contradicts itself.
        RosterError: The others have not come to a rendezvous, or somebody else has.
    """
    found = find_environment()
    if found.config is not None:
        return found.config
    if found.rendezvous is None:
        raise ClusterError(f"{found.name} names neither tasks nor a rendezvous.")
    config, _ = _meet(found.name, found.rendezvous)
    return config


@functools.cache  # whoever asks in this process: strategies, RunConfig
def _meet(name: str, rendezvous: Rendezvous) -> tuple[TFConfig, socket.socket]:
    """Return the tasks of a rendezvous, and the socket that keeps this one's port."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # or else this process could not listen
    holder.bind(("", 0))
    addresses = meet(
        rendezvous.address,
        rendezvous.rank,
        rendezvous.size,
        holder.getsockname()[1],
        Credentials.from_environ(os.environ),
        MEET_SECS,
    )
    _log.info("%s: this is worker %d of %d.", name, rendezvous.rank, rendezvous.size)
    cluster = ClusterSpec({"worker": addresses})
    return TFConfig(cluster=cluster, task_type="worker", task_index=rendezvous.rank), holder


def resolver_of_environment() -> ClusterResolver:
    """Return what tells a strategy its tasks that was given no resolver.

    Raises as `config_of_environment` does.
    """
    config = config_of_environment()
    if "TF_CONFIG" in os.environ or not config.cluster:
        return TFConfigClusterResolver()
    return SimpleClusterResolver(
        config.cluster,
        task_type=config.task_type,
        task_id=config.task_index,
        rpc_layer=config.rpc_layer or "grpc",
    )
