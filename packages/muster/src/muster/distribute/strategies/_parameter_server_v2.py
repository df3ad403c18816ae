"""`ParameterServerStrategy`: a coordinator's workers train variables on parameter servers."""

import atexit
from collections.abc import Callable

from muster._errors import ClusterError
from muster.cluster import (
    ClusterResolver,
    ClusterSpec,
    Task,
    TaskType,
    resolver_of_environment,
    validate_cluster_spec,
)
from muster.distribute.engine._device import DeviceEngine
from muster.distribute.engine._placement import Placement
from muster.distribute.input._distributed_dataset import DistributedDataset, DistributedIterator
from muster.distribute.servers._coordinator_links import CoordinatorLinks
from muster.distribute.servers._stored_variables import StoredVariables
from muster.distribute.strategies._parameter_server import Partitioner, check_settings
from muster.distribute.strategies._strategy import Strategy
from muster.distribute.workers._workers import SingleWorker
from muster.lifecycle import PROGRAM_END, at_block_end
from muster.ps import PURPOSE, SAVE_PURPOSE, Dialer, PartSavers, Servers
from muster.ps.contents.updates import versions


class DatasetOfWorkers(DistributedDataset):
    """A dataset for workers, each of which reads all of it."""

    def __iter__(self) -> DistributedIterator:
        raise ValueError(
            "To use this dataset, you need to pass this dataset to "
            "ClusterCoordinator.create_per_worker_dataset. Iterators of what that returns are arguments of "
            "scheduled functions."
        )


class ParameterServerStrategy(Strategy):
    """Keeps variables on parameter servers, for closures that a ``ClusterCoordinator`` has workers compute.

    Variables that are created in the scope live on the servers at once. To read one in this program, the
    coordinator, brings its value from there, and to assign to it sends one. In a closure a worker has one
    replica.

    Args:
        cluster_resolver: Names the tasks of the job; None finds out: see `find_environment`.
        variable_partitioner: Says, from a variable's shape and dtype, how many shards its rows are divided
            into, such as ``FixedShardsPartitioner(2)``; None leaves all variables whole. Metrics, scalars,
            and an optimizer's variables other than the slots of weights stay whole.
        max_staleness: How many closures' changes the values that a closure computes with may lack; None for
            any number.

    Attributes:
        cluster: The tasks of the job.
        links: Connects this program to the other tasks.
        storage: What the servers hold of this program's variables, and where.

    Raises:
        ClusterError: The cluster has no parameter server, no worker, or more than one chief; or this is one
            of the servers or workers.
        TypeError: An argument has the wrong type.
        ValueError: ``max_staleness`` is negative.

    Source: tensorflow/python/distribute/parameter_server_strategy_v2.py, ``ParameterServerStrategyV2``. There
        variables go to the servers in turn, whatever their size.

    Example:
        ```python
        def train(resolver):  # in the chief; workers and servers call Server(…).join()
            halves = muster.distribute.FixedShardsPartitioner(2)
            strategy = muster.distribute.ParameterServerStrategy(resolver, halves)
            with strategy.scope():
                model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
                model.compile("sgd", "mse")
            model.fit(np.ones((64, 4)), np.ones((64, 1)), batch_size=8)
        ```
    """

    def __init__(
        self,
        cluster_resolver: ClusterResolver | None = None,
        variable_partitioner: Partitioner | None = None,
        max_staleness: int | None = None,
    ) -> None:
        check_settings(cluster_resolver, variable_partitioner, max_staleness)
        self._resolver = cluster_resolver or resolver_of_environment()
        self.cluster = _checked(self._resolver)
        self.links = CoordinatorLinks(self.cluster)
        if not at_block_end(lambda error: self.links.close(ends=error is None)):
            PROGRAM_END.watch()
            atexit.register(_end_job, self.links)
        self.max_staleness = max_staleness
        savers = PartSavers(self._servers(SAVE_PURPOSE))
        count = self.cluster.num_tasks(TaskType.PS)
        storage = StoredVariables(self._connect, count, variable_partitioner, savers, self.links.run)
        super().__init__(
            Placement(None, storage=storage),
            DeviceEngine(),
            _Coordinator(self.links),
            datasets=DatasetOfWorkers,
        )

    @property
    def storage(self) -> StoredVariables:
        """The variables on the servers."""
        return self.placement.storage  # type: ignore[return-value]

    @property
    def cluster_resolver(self) -> ClusterResolver:
        return self._resolver

    def close(self, *, ends: bool = True) -> None:
        """Leave the tasks of the job. A program need not call this: it happens when it ends.

        Args:
            ends: Whether to tell the servers and workers that the job has ended.
        """
        try:
            self.storage.close()
        finally:
            self.links.close(ends=ends)

    def _connect(self) -> Servers:
        client = Servers.of_program(self._servers(PURPOSE), self.links.run, versions(), starts=True)
        client.connect()  # workers ask all servers, also those that hold nothing yet
        return client

    def _servers(self, purpose: str) -> list[tuple[str, Dialer]]:
        """Return the name of each parameter server, and what connects to it."""
        tasks = [Task(TaskType.PS, index) for index in self.cluster.task_indices(TaskType.PS)]
        return [(self.links.name_of(task), self.links.dial_to(task, purpose)) for task in tasks]


class _Coordinator(SingleWorker):
    """Tells others how far the training is that it has its workers do.

    Args:
        links: Its links to the tasks of the job.
    """

    def __init__(self, links: CoordinatorLinks) -> None:
        super().__init__()
        self._links = links

    @property
    def reporter(self) -> Callable[..., None] | None:
        return self._links.report


def _end_job(links: CoordinatorLinks) -> None:
    """Tell servers and workers that the job has ended if the program ends well; else they wait for the next
    one."""
    links.close(ends=PROGRAM_END.is_good())


def _checked(resolver: ClusterResolver) -> ClusterSpec:
    """Return the cluster of a resolver, if it can train through a coordinator, which is this task.

    Raises:
        ClusterError: It cannot.
    """
    cluster = resolver.cluster_spec()
    if not cluster:
        raise ClusterError(
            "Cluster spec must be non-empty in `tf.distribute.cluster_resolver.ClusterResolver`. Name the "
            "parameter servers and workers in TF_CONFIG, or give SimpleClusterResolver(ClusterSpec({...}))."
        )
    validate_cluster_spec(cluster, resolver.task_type, resolver.task_id)
    for job, needs in ((TaskType.PS, "hold variables"), (TaskType.WORKER, "compute")):
        if job not in cluster.jobs or not cluster.num_tasks(job):
            raise ClusterError(
                f"There must be at least one {job}. Given: {cluster}. Add the addresses of tasks that "
                f"{needs} as the job '{job}'."
            )
    if resolver.task_type in (TaskType.PS, TaskType.WORKER):
        raise ClusterError(
            f"This is {resolver.task_type} {resolver.task_id} of the cluster, and ParameterServerStrategy is "
            "for its coordinator, the chief. Run Server(...).join() in tasks of the jobs 'ps' and 'worker'."
        )
    return cluster
