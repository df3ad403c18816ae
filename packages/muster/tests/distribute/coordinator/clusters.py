"""A cluster whose workers are threads of this process, and what a coordinator needs of a strategy."""

import contextlib
import functools
import os
import uuid

from jobs import free_addresses
from muster.cluster import ClusterSpec, TaskType
from muster.cluster.roster import derive_job_id, query_status
from muster.distribute import DistributedDataset, OneDeviceStrategy, Server
from muster.distribute.coordinator import ClusterCoordinator
from muster.net import NO_CREDENTIALS, Hello, dial

DEADLINE_SECS = 60.0


class Links:
    """Reaches the tasks of a cluster that does not list the coordinator."""

    def __init__(self, cluster):
        self.run = uuid.uuid4().hex
        self._cluster = cluster

    def dial_to(self, task, purpose):
        address = self._cluster.task_address(task.type, task.index)
        job = os.environ.get("MUSTER_JOB_ID") or derive_job_id(self._cluster)
        hello = Hello(purpose=purpose, name="chief 0", callee=str(task), job=job, run=self.run)
        return functools.partial(dial, address, hello, NO_CREDENTIALS)

    def ask(self, task, timeout_secs):
        query_status(self._cluster.task_address(task.type, task.index), timeout_secs)

    def report_from(self, sample):
        """Nobody listens."""

    def on_close(self, call):
        """Tests close coordinators themselves."""

    def name_of(self, task):
        return f"{task} at {self._cluster.task_address(task.type, task.index)}"


class ForWorkers(DistributedDataset):
    """A dataset that only workers read."""

    def __iter__(self):
        raise ValueError(
            "To use this dataset, you need to pass this dataset to "
            "ClusterCoordinator.create_per_worker_dataset."
        )


class Strategy(OneDeviceStrategy):
    """A strategy whose functions workers run.

    Args:
        cluster: The tasks.
        storage: Where its variables are; None if there are none.
    """

    def __init__(self, cluster, storage=None, max_staleness=None):
        super().__init__("/cpu:0")
        self.cluster, self.placement.storage, self.max_staleness = cluster, storage, max_staleness
        self.links = Links(cluster)

    @property
    def storage(self):
        return self.placement.storage

    def experimental_distribute_dataset(self, dataset, options=None):
        made = super().experimental_distribute_dataset(dataset, options)
        return ForWorkers(made._batches, endless=made.endless)


def cluster_of(workers=2, servers=0):
    """Return a cluster; its parameter servers are not there."""
    jobs = {"worker": free_addresses(workers)}
    if servers:
        jobs["ps"] = [f"127.0.0.1:{index + 1}" for index in range(servers)]
    return ClusterSpec(jobs)


def start_worker(cluster, index, storage=None):
    """Serve a worker in a thread."""
    server = Server(cluster, "worker", index)
    if storage is not None:
        server._closures.connect = storage.connect
    return server


@contextlib.contextmanager
def coordinated(workers=2, storage=None):
    """Yield a coordinator whose workers are threads of this process."""
    cluster = cluster_of(workers, 0 if storage is None else storage.servers)
    with contextlib.ExitStack() as stack:
        for index in cluster.task_indices(TaskType.WORKER):
            stack.enter_context(start_worker(cluster, index, storage))
        yield stack.enter_context(coordinator_of(Strategy(cluster, storage)))


@contextlib.contextmanager
def coordinator_of(strategy):
    """Yield the coordinator of a strategy; its threads end with the block."""
    coordinator = ClusterCoordinator(strategy)
    try:
        yield coordinator
    finally:
        coordinator.close()
