"""The plan of a job: what tasks share; their addresses, environments, cores and GPUs."""

import dataclasses
import secrets
from collections.abc import Callable, Mapping, Sequence

from muster._errors import ClusterError
from muster.cluster import ClusterSpec, Task, TaskType, TFConfig
from muster.engines import MachineResources, Place, TaskRequest
from muster.net import SECRET, SECRET_FILE, Credentials, make_secret

# How `MultiWorkerMirroredStrategy` learns of an elastic job.
VIRTUAL_REPLICAS, MIN_WORKERS = "MUSTER_VIRTUAL_REPLICAS", "MUSTER_MIN_WORKERS"
# And a task of it that is started again while the others go on.
STARTED_ALONE = "MUSTER_STARTED_ALONE"
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
# For a task that must not take a GPU.
CPU_ONLY = {"JAX_PLATFORMS": "cpu"}
# So many parameter servers get as many cores as one task that trains.
_SERVERS_A_TRAINER = 4


@dataclasses.dataclass(frozen=True, kw_only=True)
class JobShape:
    """The tasks of a job.

    Args:
        workers: The number of tasks of type ``worker``.
        chief: Whether there is a ``chief``, which trains as the workers do, or is their coordinator.
        ps: The number of parameter servers, tasks of type ``ps``.
        evaluator: Whether there is an ``evaluator``, outside the cluster.
        devices_per_worker: The number of devices of each training task: GPUs, or virtual devices of the CPU.
            None: all GPUs in equal parts, or one device of the CPU.
        least: The number of training tasks without which an *elastic* job waits for more; None for a job
            that needs all of them.
        virtual_replicas: The number of replicas that the training tasks of an elastic job divide among them;
            None for as many as there are tasks.

    Raises:
        ClusterError: A number is too small, or no task trains, or there are parameter servers but no chief,
            or beside an elastic job.
    """

    workers: int = 1
    chief: bool = False
    ps: int = 0
    evaluator: bool = False
    devices_per_worker: int | None = None
    least: int | None = None
    virtual_replicas: int | None = None

    def __post_init__(self) -> None:
        if self.workers < 0 or (self.workers == 0 and not self.chief):
            raise ClusterError(
                f"A job needs at least one task that trains, given: {self.workers} workers"
                f"{' and a chief' if self.chief else ''}. Ask for 1 worker or more, or for a chief."
            )
        if self.ps < 0:
            raise ClusterError(f"A job cannot have {self.ps} parameter servers. Ask for 0 or more.")
        if self.ps and not self.chief:
            raise ClusterError(
                "A job with parameter servers needs a chief, which saves and ends the job, given: "
                f"ps {self.ps}, workers {self.workers}, no chief. Add one."
            )
        if self.devices_per_worker is not None and self.devices_per_worker < 1:
            raise ClusterError(
                f"Each worker needs at least 1 device, given: {self.devices_per_worker} devices per worker."
            )
        if self.is_elastic:
            self._check_elastic()

    def _check_elastic(self) -> None:
        count = len(self.training)
        if self.ps:
            raise ClusterError(
                "Beside parameter servers workers come and go by themselves: ask for a number of workers, "
                "not for a range, and for no virtual replicas."
            )
        if self.least is not None and not 1 <= self.least <= count:
            raise ClusterError(
                f"At least {self.least} of {count} training tasks make no job. Ask for 1 or more, and not "
                "for more than there are."
            )
        if self.virtual_replicas is not None and self.virtual_replicas < (self.least or 1):
            raise ClusterError(
                f"{self.virtual_replicas} virtual replicas are too few for {self.least or 1} workers, each "
                "of which takes one or more. Ask for as many as there may be workers, or a multiple."
            )

    @property
    def is_elastic(self) -> bool:
        """True if training goes on while training tasks come and go."""
        return self.least is not None or self.virtual_replicas is not None

    @property
    def elastic_environment(self) -> dict[str, str]:
        """The variables that tell the training tasks of an elastic job how many they are."""
        if not self.is_elastic:
            return {}
        return {
            VIRTUAL_REPLICAS: str(self.virtual_replicas or len(self.training)),
            MIN_WORKERS: str(self.least or 1),
        }

    @property
    def training(self) -> tuple[Task, ...]:
        """The tasks that train, the chief first."""
        chief = (Task(TaskType.CHIEF, 0),) if self.chief else ()
        return chief + tuple(Task(TaskType.WORKER, index) for index in range(self.workers))

    @property
    def servers(self) -> tuple[Task, ...]:
        """The parameter servers."""
        return tuple(Task(TaskType.PS, index) for index in range(self.ps))

    @property
    def tasks(self) -> tuple[Task, ...]:
        """All tasks: those that train, the servers, the evaluator."""
        return self.training + self.servers + ((Task(TaskType.EVALUATOR, 0),) if self.evaluator else ())

    def cluster_for(self, role: str, address_of: Callable[[Task], str]) -> dict[str, list[str]]:
        """Return the cluster in the ``TF_CONFIG`` of a task: the addresses of each type.

        An evaluator is outside the cluster, but the other tasks know of it, so that the chief does not
        evaluate, too.

        Args:
            role: The type of the task.
            address_of: Returns the address of a task.
        """
        cluster: dict[str, list[str]] = {}
        for task in self.tasks:
            if role == task.type == TaskType.EVALUATOR:
                continue
            cluster.setdefault(task.type, []).append(address_of(task))
        return cluster


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskPlan:
    """The environment and cores that one task is started with.

    Args:
        task: The task.
        environment: The variables that are set for it, beside those that it is handed or finds.
        cores: The logical processors that it may use; None for all.
    """

    task: Task
    environment: Mapping[str, str]
    cores: tuple[int, ...] | None


def plan_job(
    shape: JobShape,
    places: Mapping[Task, Place],
    *,
    job_id: str,
    environ: Mapping[str, str],
    cpus: int | None = None,
) -> tuple[TaskPlan, ...]:
    """Plan the tasks of a job.

    Training tasks on a host get disjoint cores and GPUs, as near to equal parts as there are cores, and equal
    parts of the GPUs. A parameter server counts for a quarter of a training task; if that is less than a
    core for all servers together, they may use all cores. They never get a GPU. The evaluator may use all
    cores, and a GPU only where one is left over: two processes on one GPU would fight for its memory.

    Args:
        shape: The tasks.
        places: The place of each task, including the evaluator.
        job_id: The id of the job, by which tasks recognise tasks of other jobs.
        cpus: The number of cores of each task; None divides those of a host, as above.
        environ: What tasks are handed. Its thread counts are kept, its ``XLA_FLAGS`` are added to.

    Returns:
        A plan for each of ``shape.tasks``, in their order.

    Raises:
        ClusterError: A host has fewer GPUs than its tasks need.
    """
    cores: dict[Task, tuple[int, ...]] = {}
    devices: dict[Task, dict[str, str]] = {}
    for tasks, machine in tasks_of_hosts(places):
        cores |= _cores(tasks, machine) if cpus is None else _cores_of_size(tasks, machine, cpus)
        devices |= _devices(tasks, machine, shape.devices_per_worker, environ)
    clusters = {
        role: ClusterSpec(shape.cluster_for(role, lambda task: places[task].address))
        for role in dict.fromkeys(task.type for task in shape.tasks)
    }
    plans = []
    for task in shape.tasks:
        mine = cores.get(task)
        config = TFConfig(cluster=clusters[task.type], task_type=task.type, task_index=task.index)
        environment = {"TF_CONFIG": config.to_json(), "MUSTER_JOB_ID": job_id, "PYTHONUNBUFFERED": "1"}
        if mine is not None:
            environment |= {name: str(len(mine)) for name in _THREAD_VARIABLES if name not in environ}
        environment |= devices.get(task, {})
        if task in shape.training:
            environment |= shape.elastic_environment
        plans.append(TaskPlan(task=task, environment=environment, cores=mine))
    return tuple(plans)


def with_secret(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which a job has a secret: the one that is named there, or a new one.

    Args:
        environ: The launcher's environment.

    Raises:
        CredentialsError: It names a secret or certificates that tasks could not use.
    """
    Credentials.from_environ(environ)
    if SECRET in environ or SECRET_FILE in environ:
        return dict(environ)
    return {**environ, SECRET: make_secret()}


# What tasks on other hosts are handed of the launcher's environment, by how the names begin.
_HANDED = ("MUSTER_", "JAX_", "XLA_", "KERAS_", "PYTHONHASHSEED")


def handed_over(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what tasks on other hosts are handed of an environment, beside what they find there.

    These are the variables of muster, JAX, XLA and Keras. A file of a secret becomes the secret itself.

    Args:
        environ: The launcher's environment.

    Raises:
        CredentialsError: The secret cannot be read.
    """
    handed = {name: value for name, value in environ.items() if name.startswith(_HANDED)}
    if handed.pop(SECRET_FILE, None) is not None:
        secret = Credentials.from_environ(environ).secret or b""
        handed[SECRET] = secret.decode(errors="surrogateescape")
    return handed


def with_hash_seed(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which Python's sets of text have one order in all tasks, and after restarts.

    Without it, columns or a vocabulary that a program takes from a set would differ between workers.

    Args:
        environ: The launcher's environment; a ``PYTHONHASHSEED`` in it is kept.
    """
    return {"PYTHONHASHSEED": str(secrets.randbelow(2**32)), **environ}


def split_cores(cores: Sequence[Sequence[int]], parts: int) -> tuple[tuple[int, ...], ...]:
    """Divide cores as equally as they can be.

    Physical cores are not split while there are enough. If there are more parts than logical processors,
    parts share a processor.

    Args:
        cores: Logical processors, grouped by physical core.
        parts: The number of parts.

    Returns:
        The logical processors of each part, at least one.
    """
    if parts > len(cores):
        logical = [processor for core in cores for processor in core]
        if parts > len(logical):
            return tuple((logical[part % len(logical)],) for part in range(parts))
        cores = [[processor] for processor in logical]
    ends = [part * len(cores) // parts for part in range(parts + 1)]
    return tuple(
        tuple(sorted(processor for core in cores[start:end] for processor in core))
        for start, end in zip(ends, ends[1:], strict=False)
    )


def tasks_of_hosts(places: Mapping[Task, Place]) -> list[tuple[tuple[Task, ...], MachineResources]]:
    """Return the tasks of each host, and what they share there."""
    hosts = {place.host: place.resources for place in places.values()}
    return [(tuple(task for task in places if places[task].host == host), hosts[host]) for host in hosts]


def _trainers(tasks: Sequence[Task]) -> tuple[Task, ...]:
    return tuple(task for task in tasks if task.type not in (TaskType.PS, TaskType.EVALUATOR))


def _cores(tasks: Sequence[Task], machine: MachineResources) -> dict[Task, tuple[int, ...]]:
    """Return the cores of the tasks of a host that are bound to some."""
    train, serve = _trainers(tasks), tuple(task for task in tasks if task.type == TaskType.PS)
    shares = _SERVERS_A_TRAINER * len(train) + len(serve)
    count = len(machine.cores) * len(serve) // shares if train else 0
    if not count:
        return dict(zip(train, split_cores(machine.cores, len(train)), strict=True)) if train[1:] else {}
    parts = split_cores(machine.cores[:-count], len(train)) + split_cores(machine.cores[-count:], len(serve))
    return dict(zip(train + serve, parts, strict=True))


def _cores_of_size(
    tasks: Sequence[Task], machine: MachineResources, cpus: int
) -> dict[Task, tuple[int, ...]]:
    """Return so many cores for each task of a host: different ones, while there are enough."""
    logical = [processor for core in machine.cores for processor in core]
    return {
        task: tuple(sorted({logical[(number * cpus + each) % len(logical)] for each in range(cpus)}))
        for number, task in enumerate(tasks)
    }


def _devices(
    tasks: Sequence[Task], machine: MachineResources, devices: int | None, environ: Mapping[str, str]
) -> dict[Task, dict[str, str]]:
    """Return the environment variables that assign devices to the tasks of a host."""
    train = _trainers(tasks)
    variables: dict[Task, dict[str, str]] = {task: CPU_ONLY for task in tasks if task.type == TaskType.PS}
    if not machine.gpus:
        flags = {}
        if devices is not None:
            # XLA takes the last of several equal flags.
            flag = f"--xla_force_host_platform_device_count={devices}"
            flags = {"XLA_FLAGS": f"{environ.get('XLA_FLAGS', '')} {flag}".strip()}
        return variables | dict.fromkeys(train, flags)
    count = len(machine.gpus)
    each = devices or (count // len(train) if train else 0)
    if train and (each * len(train) > count or each == 0):
        raise ClusterError(
            f"{len(train)} training tasks need {max(each, 1) * len(train)} GPUs, but there are {count} "
            f"({', '.join(machine.gpus)}). Ask for fewer, or set JAX_PLATFORMS=cpu to train on the CPU."
        )
    shares = {task: machine.gpus[number * each : (number + 1) * each] for number, task in enumerate(train)}
    variables |= {task: {"CUDA_VISIBLE_DEVICES": ",".join(gpus)} for task, gpus in shares.items()}
    left = machine.gpus[each * len(train) :][:1]
    evaluate = {"CUDA_VISIBLE_DEVICES": left[0]} if left else CPU_ONLY
    return variables | {task: evaluate for task in tasks if task.type == TaskType.EVALUATOR}


# More tasks than that on a logical processor only wait for each other, and for the machine.
TASKS_A_CORE = 4
# A small Estimator that trains on the CPU has 250 MiB of its own, and shares 200 MiB of libraries.
TASK_MIB = 300

_MIB = 1 << 20


def check_room(count: int, machine: MachineResources, name: str = "") -> None:
    """Refuse more tasks than a machine holds, before anything is started.

    Args:
        count: The number of tasks.
        machine: The resources that they share.
        name: What the machine is called; empty for this one.

    Raises:
        ClusterError: There are more than `TASKS_A_CORE` tasks for each logical processor, or tasks of
            `TASK_MIB` each need more memory than is available.
    """
    cores = sum(map(len, machine.cores))
    reasons = []
    if count > TASKS_A_CORE * cores:
        reasons.append(f"{cores} cores hold {TASKS_A_CORE * cores} tasks, {TASKS_A_CORE} each")
    if machine.memory is not None and count * TASK_MIB > machine.memory // _MIB:
        needed, left = count * TASK_MIB, machine.memory // _MIB
        reasons.append(f"{needed} MiB of memory are needed, {TASK_MIB} each, and {left} MiB are available")
    if reasons:
        raise ClusterError(
            f"{name or 'This machine'} is too small for {count} tasks: {'; '.join(reasons)}. Ask for "
            "fewer tasks, or spread the job over several machines, by --on or `muster manifest`. To start "
            "them all the same, give --oversubscribe, or oversubscribe=True to notebook_launcher."
        )


def check_request(
    tasks: Sequence[Task], machine: MachineResources, request: TaskRequest, name: str = ""
) -> None:
    """Refuse tasks that ask for more than their machine has.

    Args:
        tasks: The tasks of the machine.
        machine: The resources that they share.
        request: What each asks for.
        name: What the machine is called; empty for this one.

    Raises:
        ClusterError: It has too little; says what is there, and what was asked for.
    """
    count, cores = len(tasks), sum(map(len, machine.cores))
    trainers = len(_trainers(tasks))
    lacks = []
    if request.cpus is not None and count * request.cpus > cores:
        lacks.append(f"{count * request.cpus} cores, and it has {cores}")
    if request.gpus is not None and trainers * request.gpus > len(machine.gpus):
        lacks.append(f"{trainers * request.gpus} GPUs, and it has {len(machine.gpus)}")
    if request.memory is not None and machine.memory is not None:
        if count * request.memory > machine.memory:
            lacks.append(f"{count * request.memory // _MIB} MiB, and {machine.memory // _MIB} are available")
    if lacks:
        raise ClusterError(
            f"The {count} tasks on {name or 'this machine'} ask for {'; for '.join(lacks)}. Ask for less, by "
            "--cpus, --gpus, --memory or fewer tasks, or for more hosts."
        )
