"""The base class of resolvers that know the cluster once they are built, and helpers of resolvers."""

import re

from muster.cluster._cluster_resolver import ClusterResolver
from muster.cluster._cluster_spec import ClusterSpec


class TaskResolver(ClusterResolver):
    """A resolver of a known cluster. Its methods take this task by default.

    Args:
        cluster_spec: All tasks.
        task_type: The type of this task, None if unknown.
        task_id: Its index among the tasks of that type.
        rpc_layer: The protocol in the address of a master.
    """

    def __init__(
        self, cluster_spec: ClusterSpec, task_type: str | None, task_id: int | None, rpc_layer: str | None
    ) -> None:
        self._cluster = cluster_spec
        self.task_type = task_type
        self.task_id = task_id
        self.rpc_layer = rpc_layer

    def cluster_spec(self) -> ClusterSpec:
        return self._cluster

    def master(
        self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None
    ) -> str:
        """Return the address of a task, by default of this one; empty if this one is unknown.

        Raises:
            ClusterError: There is no such task.
        """
        task_type = self.task_type if task_type is None else task_type
        task_id = self.task_id if task_id is None else task_id
        if task_type is None or task_id is None:
            return ""
        address = self.cluster_spec().task_address(task_type, task_id)
        return with_layer(address, rpc_layer or self.rpc_layer)


def with_layer(address: str, rpc_layer: str | None) -> str:
    """Return an address with its protocol in front, if there is one."""
    return f"{rpc_layer}://{address}" if rpc_layer else address


def by_number(name: str) -> list[str | int]:
    """Return a key that sorts names by the numbers in them: ``algo-2`` before ``algo-10``."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"([0-9]+)", name)]
