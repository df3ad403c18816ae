"""The interface of cluster resolvers, which read the environment that started the tasks."""

import abc
from collections.abc import Mapping

from muster.cluster._cluster_spec import ClusterSpec


class ClusterResolver(abc.ABC):
    """Finds the tasks of the job, and which one this process is.

    Follows ``tf.distribute.cluster_resolver.ClusterResolver``
    (tensorflow/python/distribute/cluster_resolver/cluster_resolver.py). `num_accelerators` returns only
    what the resolver was configured with: JAX finds the devices, in the process that uses them.

    Attributes:
        task_type: The type of this task, such as ``"worker"``; None if unknown.
        task_id: Its index among the tasks of that type, from 0; None if unknown.
        rpc_layer: The protocol that `master` puts before addresses, such as ``"grpc"``; None for none.
    """

    task_type: str | None = None
    task_id: int | None = None
    rpc_layer: str | None = None
    _environment: str | None = ""

    @abc.abstractmethod
    def cluster_spec(self) -> ClusterSpec:
        """Return the addresses of all tasks."""

    @abc.abstractmethod
    def master(
        self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None
    ) -> str:
        """Return the address of a task, with its protocol.

        Args:
            task_type: The task's type; the default depends on the resolver.
            task_id: Its index among the tasks of that type.
            rpc_layer: The protocol; by default that of the resolver.
        """

    @property
    def environment(self) -> str | None:
        """The environment that the job runs in, as free text."""
        return self._environment

    def num_accelerators(
        self, task_type: str | None = None, task_id: int | None = None
    ) -> Mapping[str, int] | int:
        """Return how many accelerators a task has, by kind such as ``"GPU"``: those configured, not found."""
        return {}
