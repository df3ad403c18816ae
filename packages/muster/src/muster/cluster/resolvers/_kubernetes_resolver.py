"""The cluster resolver for Kubernetes: pods by their labels."""

import importlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

from muster._errors import ClusterEnvironmentError
from muster._extras import install_command
from muster.cluster._cluster_spec import ClusterSpec
from muster.cluster.resolvers._task_resolver import TaskResolver, by_number


class KubernetesClusterResolver(TaskResolver):
    """Finds the pods that have certain labels: one task each. All of them must be running.

    Follows ``tf.distribute.cluster_resolver.KubernetesClusterResolver``
    (tensorflow/python/distribute/cluster_resolver/kubernetes_cluster_resolver.py), but takes the address of
    a pod and not of its node, which pods may share, and puts pod-2 before pod-10. If this process runs in one
    of the pods, the first call of `cluster_spec` sets `task_type` and `task_id`, unless one of them is set
    already.

    Args:
        job_to_label_mapping: The label selectors of each job; the pods of a selector in the order of their
            names. None: the pods with ``job-name=tensorflow`` are the workers.
        tf_server_port: The port at which tasks listen.
        rpc_layer: The protocol in the address of a master.
        override_client: An object with the methods ``list_pod_for_all_namespaces`` and
            ``list_namespaced_pod`` of ``kubernetes.client.CoreV1Api``. None: such a client, with the rights
            of this pod, or of ``kubectl`` outside of a cluster.
        namespace: The namespace of the pods. None: all namespaces, which needs the right to list them all.

    Raises:
        ImportError: The package ``kubernetes`` is not installed.
    """

    def __init__(
        self,
        job_to_label_mapping: Mapping[str, Sequence[str]] | None = None,
        tf_server_port: int = 8470,
        rpc_layer: str | None = "grpc",
        override_client: Any = None,
        *,
        namespace: str | None = None,
    ) -> None:
        self._selectors = job_to_label_mapping or {"worker": ["job-name=tensorflow"]}
        self._port = tf_server_port
        self._client = _connect() if override_client is None else override_client
        self._namespace = namespace
        self._own_name = os.environ.get("HOSTNAME")  # Kubernetes gives a pod's name to its containers
        super().__init__(ClusterSpec({}), None, None, rpc_layer)  # until the pods are listed

    def cluster_spec(self) -> ClusterSpec:
        """Ask Kubernetes for the pods, and return their addresses.

        Raises:
            ClusterEnvironmentError: A pod is not running.
        """
        pods = {job: self._pods(selectors) for job, selectors in self._selectors.items()}
        if self.task_type is None and self.task_id is None:
            for job, names in pods.items():
                if self._own_name in names:
                    self.task_type, self.task_id = job, list(names).index(self._own_name)
        return ClusterSpec({job: list(names.values()) for job, names in pods.items()})

    def _pods(self, selectors: Sequence[str]) -> dict[str, str]:
        """Return the addresses of a job's pods by pod name, in the order of task indices."""
        found = {}
        for selector in selectors:
            if self._namespace is None:
                pods = self._client.list_pod_for_all_namespaces(label_selector=selector)
            else:
                pods = self._client.list_namespaced_pod(self._namespace, label_selector=selector)
            for pod in sorted(pods.items, key=lambda pod: by_number(pod.metadata.name)):
                if pod.status.phase != "Running":
                    raise ClusterEnvironmentError(
                        f'Pod "{pod.metadata.name}" is not running; phase: "{pod.status.phase}". '
                        "Start the program once all pods are."
                    )
                found[pod.metadata.name] = _address(pod.status.pod_ip, self._port)
        return found


def _address(ip: str, port: int) -> str:
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


def _connect() -> Any:
    """Return a client with the rights of this pod, or of ``kubectl`` outside of a cluster."""
    try:
        kubernetes = importlib.import_module("kubernetes")
    except ImportError as exc:
        raise ImportError(
            "The Kubernetes Python client must be installed before using the Kubernetes Cluster Resolver. To "
            "install the Kubernetes Python client, run `pip install kubernetes` on your command line. "
            f"`{install_command('kubernetes')}` takes a version that fits."
        ) from exc
    try:
        kubernetes.config.load_incluster_config()
    except kubernetes.config.ConfigException:
        kubernetes.config.load_kube_config()
    return kubernetes.client.CoreV1Api()
