"""The cluster resolver for clusters that the program defines."""

from collections.abc import Mapping

from muster._errors import ClusterTypeError
from muster.cluster._cluster_spec import ClusterSpec
from muster.cluster.resolvers._task_resolver import TaskResolver, with_layer


class SimpleClusterResolver(TaskResolver):
    """A cluster that the program defines. Nothing in it is checked against the environment.

    Follows ``tf.distribute.cluster_resolver.SimpleClusterResolver``
    (tensorflow/python/distribute/cluster_resolver/cluster_resolver.py).

    Args:
        cluster_spec: All tasks.
        master: The address that `master` returns when it is called without a task.
        task_type: The type of this task.
        task_id: Its index among the tasks of that type.
        environment: The environment that the job runs in, as free text.
        num_accelerators: The number of accelerators of each kind, for every task.
        rpc_layer: The protocol in the address of a master.

    Raises:
        ClusterTypeError: ``cluster_spec`` is not a ClusterSpec, or ``master`` is not text.

    Example:
        ```python
        tasks = muster.cluster.ClusterSpec({"worker": ["host-a:4111", "host-b:4111"]})
        resolver = muster.cluster.SimpleClusterResolver(tasks, task_type="worker", task_id=1)
        assert resolver.master("worker", 0) == "host-a:4111"  # give the resolver to a strategy
        ```
    """

    def __init__(
        self,
        cluster_spec: ClusterSpec,
        master: str = "",
        task_type: str | None = None,
        task_id: int | None = None,
        environment: str = "",
        num_accelerators: Mapping[str, int] | int | None = None,
        rpc_layer: str | None = None,
    ) -> None:
        if not isinstance(cluster_spec, ClusterSpec):
            raise ClusterTypeError(f"cluster_spec must be a `tf.train.ClusterSpec`. Given: {cluster_spec!r}")
        if not isinstance(master, str):
            raise ClusterTypeError(f"master must be a string. Given: {master!r}")
        super().__init__(cluster_spec, task_type, task_id, rpc_layer)
        self._master = master
        self._environment = environment
        self._num_accelerators = {} if num_accelerators is None else num_accelerators

    def master(
        self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None
    ) -> str:
        """Return the address of a task if both its type and index are passed, else the configured one."""
        address = self._master
        if task_type is not None and task_id is not None:
            address = self._cluster.task_address(task_type, task_id)
        return with_layer(address, rpc_layer or self.rpc_layer)

    def num_accelerators(
        self, task_type: str | None = None, task_id: int | None = None
    ) -> Mapping[str, int] | int:
        return self._num_accelerators
