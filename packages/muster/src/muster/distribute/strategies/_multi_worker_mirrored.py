"""MultiWorkerMirroredStrategy: replicas on the devices of several processes."""

import logging
import os
from collections.abc import Sequence

import jax
import numpy as np
from jax.sharding import Mesh, SingleDeviceSharding

from muster.cluster import ClusterResolver, TaskType, TFConfig, check_job, resolver_of_environment
from muster.cluster.roster import training_tasks
from muster.distribute.engine._exchange import ExchangeEngine
from muster.distribute.engine._mesh import AXIS
from muster.distribute.engine._packing import Packing
from muster.distribute.engine._placement import Placement
from muster.distribute.strategies._communication import CommunicationOptions
from muster.distribute.strategies._mirrored import on_mesh
from muster.distribute.strategies._strategy import Strategy
from muster.distribute.workers._cluster_workers import ClusterWorkers
from muster.distribute.workers._elastic_workers import ElasticWorkers
from muster.distribute.workers._jax_runtime import check_runtimes
from muster.distribute.workers._randomness import take_chiefs_randomness
from muster.distribute.workers._workers import START_SECS, SingleWorker, Workers

_log = logging.getLogger(__name__)


class MultiWorkerMirroredStrategy(Strategy):
    """Trains on the devices of several processes: each has the variables and a batch; gradients are reduced.

    Build it at the start of the program, before JAX looks for devices: it connects to the other tasks of the
    cluster, which may start in any order. From then on the tasks watch each other; when one is gone, has
    failed or stands still, the others report it and end.

    Where workers may have more than one CPU device, it also starts JAX's runtime over them, unless the
    program has called ``jax.distributed.initialize``. Otherwise JAX knows only this process' devices.

    From then on, too, the random numbers of ``np.random``, ``random`` and ``keras.random`` are the chief's on
    all workers, and so are the orders of unseeded shuffles: the same program makes the same data. A worker
    that wants its own seeds them afterwards.

    Args:
        cluster_resolver: Names the tasks of the job; None finds out: see `find_environment`. With only one
            training task, and for an evaluator, the devices are those of this process; without a cluster,
            all accelerators, else one CPU.
        communication_options: Options of the reductions, and the timeout for other workers.
        session_creation_timeout_secs: How long to wait for the other tasks to come up, in seconds.
            RunConfig's argument of this name says how long they may then take until their first step.
        virtual_replicas: Makes the job *elastic*: it has so many replicas, which those workers divide among
            them that are there, on a CPU each. Workers may be lost and come back. None reads
            ``MUSTER_VIRTUAL_REPLICAS``, which `muster run` sets; without it every worker is needed.
        min_workers: The number of workers without which an elastic job waits for more. None reads
            ``MUSTER_MIN_WORKERS``, else takes 1.
        deterministic: Whether an elastic job adds gradients replica by replica, so that its results are equal
            bit for bit, whoever computes which replicas.

    Raises:
        ClusterError: It is not known which task this is, or it is not in the cluster, or the tasks of the
            cluster cannot reach each other at the addresses given.
        RosterError: Another task does not come up, or does not match, or the address of this task is taken.
        TypeError: An argument has the wrong type.
        ValueError: The implementation is NCCL, and there are no GPUs; or the program has called
            ``jax.distributed.initialize`` with other numbers than the cluster's.

    Source: tensorflow/python/distribute/collective_all_reduce_strategy.py, ``CollectiveAllReduceStrategy``.

    Example:
        ```python
        strategy = muster.distribute.MultiWorkerMirroredStrategy()  # the workers of TF_CONFIG meet here
        print(strategy.workers.rank, strategy.workers.size, strategy.num_replicas_in_sync)
        ```
    """

    def __init__(
        self,
        cluster_resolver: ClusterResolver | None = None,
        communication_options: CommunicationOptions | None = None,
        *,
        session_creation_timeout_secs: float = START_SECS,
        virtual_replicas: int | None = None,
        min_workers: int | None = None,
        deterministic: bool = False,
    ) -> None:
        options = communication_options or CommunicationOptions()
        if not isinstance(options, CommunicationOptions):
            raise TypeError(f"communication_options must be CommunicationOptions(...), got {options!r}.")
        if not isinstance(cluster_resolver, ClusterResolver | None):
            raise TypeError(
                f"cluster_resolver must be a ClusterResolver, got {cluster_resolver!r}. None reads TF_CONFIG."
            )
        self._resolver = resolver = cluster_resolver or resolver_of_environment()
        config = TFConfig.from_resolver(resolver)
        cluster, task = config.cluster, check_job(config)
        tasks = training_tasks(cluster)
        workers: Workers = SingleWorker()
        virtual = _count("virtual_replicas", virtual_replicas, "MUSTER_VIRTUAL_REPLICAS")
        least = _count("min_workers", min_workers, "MUSTER_MIN_WORKERS") or 1
        if virtual is not None and not cluster:
            workers = SingleWorker(virtual_replicas=virtual)
        elif virtual is not None and task.type != TaskType.EVALUATOR:
            if least > min(virtual, len(tasks)):
                raise ValueError(
                    f"min_workers={least} are never there: the cluster has {len(tasks)} training tasks, and "
                    f"virtual_replicas={virtual} are for as many at most."
                )
            workers = ElasticWorkers(
                cluster,
                task,
                tasks,
                virtual,
                least,
                in_order=deterministic,
                timeout_secs=options.timeout_seconds or None,
                start_secs=session_creation_timeout_secs,
            )
        elif len(tasks) > 1 and task.type != TaskType.EVALUATOR:
            timeout_secs = options.timeout_seconds or None
            workers = ClusterWorkers(cluster, task, tasks, timeout_secs, session_creation_timeout_secs)
        if workers.share is not None:
            device = _first_of(jax.local_devices())
            placement = Placement(SingleDeviceSharding(device), workers=workers)
            engine = ExchangeEngine(None, workers, options.bytes_per_pack)
            super().__init__(placement, engine, workers)
            take_chiefs_randomness(workers)
            return
        devices = jax.devices()
        if not cluster and devices[0].platform == "cpu":
            devices = devices[:1]
        options.check_platform(devices[0].platform)
        mesh = Mesh(np.array(devices), (AXIS,))
        local = mesh.local_devices
        pack = options.bytes_per_pack
        joined = workers.size == 1 or check_runtimes(workers)
        if not joined or 1 < workers.size == mesh.size and local[0].platform == "cpu":
            placement = Placement(SingleDeviceSharding(local[0]), workers=workers)
            super().__init__(placement, ExchangeEngine(mesh if joined else None, workers, pack), workers)
        else:
            choice = on_mesh(mesh, Packing(bytes_per_pack=pack), workers)
            super().__init__(**choice, workers=workers, local_replicas=len(local))
        take_chiefs_randomness(workers)

    @property
    def cluster_resolver(self) -> ClusterResolver:
        return self._resolver


def _first_of(devices: Sequence[jax.Device]) -> jax.Device:
    """Return the device of a worker that comes and goes, which has one."""
    if len(devices) > 1 and devices[0].platform != "cpu":
        _log.warning(
            "Of %d devices %s alone is used: a worker of an elastic job has one. Start as many workers "
            "as there are devices: muster run divides them; else set CUDA_VISIBLE_DEVICES for each.",
            len(devices),
            devices[0],
        )
    return devices[0]


def _count(name: str, value: int | None, variable: str) -> int | None:
    """Return an argument, or what the environment says in its place.

    Raises:
        ValueError: It is no positive whole number.
    """
    given = os.environ.get(variable) if value is None else value
    if given is None or given == "":
        return None
    is_number = isinstance(given, int) and not isinstance(given, bool)
    count = int(given) if is_number or (isinstance(given, str) and given.strip().isdecimal()) else 0
    if count < 1:
        where = variable if value is None else name
        raise ValueError(f"{where} must be a whole number from 1, given: {given!r}.")
    return count
