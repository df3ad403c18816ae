"""The interface of cluster resolvers."""

import abc
from collections.abc import Mapping

from muster.cluster._cluster_spec import ClusterSpec


class ClusterResolver(abc.ABC):
    """Finds out who is in the job, and which task this process is.

    Follows ``tf.distribute.cluster_resolver.ClusterResolver``
    (tensorflow/python/distribute/cluster_resolver/cluster_resolver.py). `num_accelerators` reports only what
    the resolver was told: which devices there are is asked of JAX, in the process that owns them.

    Attributes:
        task_type: The job of this process, None if unknown.
        task_id: Its number in that job, None if unknown.
        rpc_layer: The protocol in the address of a master, None for none.
    """

    task_type: str | None = None
    task_id: int | None = None
    rpc_layer: str | None = None

    @abc.abstractmethod
    def cluster_spec(self) -> ClusterSpec:
        """Return the addresses of all tasks."""

    @abc.abstractmethod
    def master(
        self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None
    ) -> str:
        """Return the address of a task, with its protocol.

        Args:
            task_type: The task's job; by default as the resolver sees fit.
            task_id: Its number in that job.
            rpc_layer: The protocol; by default that of the resolver.
        """

    @property
    def environment(self) -> str | None:
        """Where the job runs: free text."""
        return ""

    def num_accelerators(
        self, task_type: str | None = None, task_id: int | None = None
    ) -> Mapping[str, int] | int:
        """Return how many accelerators of each kind a task has, as far as the resolver was told."""
        return {}
