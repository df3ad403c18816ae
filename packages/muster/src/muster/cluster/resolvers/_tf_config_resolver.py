"""The cluster resolver for ``TF_CONFIG``."""

import os

from muster.cluster._cluster_resolver import ClusterResolver
from muster.cluster._cluster_spec import ClusterSpec, TaskType, check_index
from muster.cluster._tf_config import TFConfig
from muster.cluster.resolvers._task_resolver import with_layer


class TFConfigClusterResolver(ClusterResolver):
    """Reads the cluster and this task from the environment variable ``TF_CONFIG``.

    Follows ``tf.distribute.cluster_resolver.TFConfigClusterResolver``
    (tensorflow/python/distribute/cluster_resolver/tfconfig_cluster_resolver.py), but reads the variable once,
    when built, so that a wrong one is an error there.

    Args:
        task_type: Overrides the task's type.
        task_id: Overrides the task's index.
        rpc_layer: Overrides the protocol.
        environment: The environment that the job runs in, as free text. That in ``TF_CONFIG`` is not used.

    Raises:
        ClusterError: ``TF_CONFIG`` is wrong.

    Example:
        ```python
        import json, os

        cluster = {"worker": ["10.0.0.1:2222", "10.0.0.2:2222"]}
        os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 1}})
        resolver = muster.cluster.TFConfigClusterResolver()
        del os.environ["TF_CONFIG"]
        assert (resolver.task_type, resolver.task_id) == ("worker", 1)
        assert resolver.cluster_spec().num_tasks("worker") == 2
        ```
    """

    def __init__(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
        environment: str | None = None,
    ) -> None:
        self._config = TFConfig.from_environ(os.environ)
        self._task_id: int | None = None
        self._environment = environment
        self.task_type = self._config.task_type if task_type is None else task_type
        self.task_id = task_id
        self.rpc_layer = self._config.rpc_layer if rpc_layer is None else rpc_layer

    @property
    def task_id(self) -> int | None:
        """The index of this task; setting None restores the value in ``TF_CONFIG``."""
        return self._config.task_index if self._task_id is None else self._task_id

    @task_id.setter
    def task_id(self, value: int | None) -> None:
        self._task_id = None if value is None else check_index(value, "this task")

    def cluster_spec(self) -> ClusterSpec:
        return self._config.cluster

    def master(
        self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None
    ) -> str:
        """Return the address of a task, by default of this one.

        Empty for a job of one process, and for an evaluator, which is outside the cluster.

        Raises:
            ClusterError: There is no such task.
        """
        config = self._config
        if config.session_master is not None:
            return config.session_master
        if sum(map(config.cluster.num_tasks, config.cluster.jobs)) <= 1:
            return ""
        task_type = self.task_type if task_type is None else task_type
        task_id = self.task_id if task_id is None else task_id
        if task_type == TaskType.EVALUATOR and task_type not in config.cluster.jobs:
            return ""
        if task_type is None or task_id is None:
            task_type, task_id = config.task.type, config.task.index
        layer = self.rpc_layer if rpc_layer is None else rpc_layer
        return with_layer(config.cluster.task_address(task_type, task_id), layer)
