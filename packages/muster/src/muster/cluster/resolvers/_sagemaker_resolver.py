"""The cluster resolver for Amazon SageMaker."""

import json
import os

from muster._errors import ClusterEnvironmentError, ClusterError
from muster.cluster._cluster_spec import ClusterSpec
from muster.cluster.resolvers._task_resolver import TaskResolver, by_number


class SageMakerClusterResolver(TaskResolver):
    """The hosts of a training job of Amazon SageMaker, all of them workers.

    Follows ``tf.distribute.cluster_resolver.SageMakerClusterResolver``
    (tensorflow/python/distribute/cluster_resolver/sagemaker_cluster_resolver.py), but reads the environment
    once, when built, so that mistakes are errors there and not an empty cluster; and puts algo-2 before
    algo-10.

    Args:
        port: The port at which tasks listen.
        task_type: The job of this process; None for "worker", as all hosts are.
        task_id: The number of this process; None for that of its host.
        rpc_layer: The protocol in the address of a master.
        environment: The environment that the job runs in, as free text.

    Raises:
        ClusterEnvironmentError: The environment is not that of SageMaker.
        ClusterError: ``SM_HOSTS`` is not a list of hosts, or this host is not among them.
    """

    def __init__(
        self,
        port: int = 2223,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
        environment: str | None = None,
    ) -> None:
        for name in ("SM_HOSTS", "SM_CURRENT_HOST"):
            if name not in os.environ:
                raise ClusterEnvironmentError(f"Not a SageMaker Environment: {name} is not set.")
        hosts = sorted(_hosts(os.environ["SM_HOSTS"]), key=by_number)
        current = os.environ["SM_CURRENT_HOST"]
        if current not in hosts:
            raise ClusterError(f"SM_CURRENT_HOST is {current!r}, which is none of SM_HOSTS: {hosts}.")
        cluster = ClusterSpec({"worker": [f"{host}:{port}" for host in hosts]})
        index = hosts.index(current) if task_id is None else task_id
        super().__init__(cluster, task_type or "worker", index, rpc_layer)
        self._environment = environment

    def master(
        self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None
    ) -> str:
        """Return the address of a task, by default of this one; empty for a job of one host.

        Raises:
            ClusterError: There is no such task.
        """
        if self._cluster.num_tasks("worker") == 1:
            return ""
        return super().master(task_type, task_id, rpc_layer)


def _hosts(text: str) -> list[str]:
    """Parse and check the hosts in ``SM_HOSTS``."""
    try:
        hosts = json.loads(text)
    except json.JSONDecodeError as exc:
        raise ClusterError(f"SM_HOSTS is not JSON: {exc}. Given: {text!r}.") from exc
    if not isinstance(hosts, list) or not all(isinstance(host, str) for host in hosts):
        raise ClusterError(f"SM_HOSTS must be a list of hosts. Given: {text!r}.")
    if len(set(hosts)) < len(hosts):
        raise ClusterError(f"SM_HOSTS names a host twice. Given: {text!r}.")
    return hosts
