"""The cluster resolver for Cloud TPUs."""

import os
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from muster._errors import ClusterEnvironmentError, ClusterError
from muster.cluster._cluster_spec import ClusterSpec, check_index
from muster.cluster.resolvers._task_resolver import TaskResolver

_PCI = Path("/sys/bus/pci/devices")
_GOOGLE = "0x1ae0"
_METADATA_SECS = 5.0


class TPUClusterResolver(TaskResolver):
    """The hosts of the Cloud TPU that this process runs on, one task each.

    A program runs on every host of a TPU; nothing is reached over the network, and JAX initialises the TPU
    itself. The hosts come from ``TPU_WORKER_HOSTNAMES`` and ``TPU_WORKER_ID``, which Kubernetes sets, or else
    from the metadata server that every TPU VM has.

    Takes the place of ``tf.distribute.cluster_resolver.TPUClusterResolver``
    (tensorflow/python/distribute/cluster_resolver/tpu/tpu_cluster_resolver.py), whose other arguments are for
    TPUs that are reached over the network: they are accepted without effect.

    Args:
        tpu: The name of the TPU. Empty, ``"local"`` or None: the one that this host belongs to. On a machine
            without a TPU ``"local"`` is an empty cluster, whose master is empty text, as in TensorFlow.
        zone: Unused.
        project: Unused.
        job_name: The type of the tasks.
        coordinator_name: Unused.
        coordinator_address: Unused.
        credentials: Unused.
        service: Unused.
        discovery_url: Unused.
        port: The port at which tasks listen.

    Raises:
        ClusterEnvironmentError: This is no host of a TPU, or a host of another one.
        ClusterError: ``tpu`` is an address, or the environment contradicts itself.
    """

    def __init__(
        self,
        tpu: str | None = None,
        zone: str | None = None,
        project: str | None = None,
        job_name: str = "worker",
        coordinator_name: str | None = None,
        coordinator_address: str | None = None,
        credentials: object = "default",
        service: object = None,
        discovery_url: str | None = None,
        *,
        port: int = 8888,
    ) -> None:
        if tpu and "://" in tpu:
            raise ClusterError(
                f"muster runs on the hosts of a TPU, and reaches none over the network. Given: {tpu!r}. "
                "Start the program on every host, with TPUClusterResolver()."
            )
        name = os.environ.get("TPU_NAME", tpu)
        if tpu and tpu not in ("local", name):
            raise ClusterEnvironmentError(f"This is a host of the TPU {name!r}, and not of {tpu!r}.")
        try:
            hosts, number = _from_environ(os.environ) or _from_metadata(os.environ)
        except ClusterEnvironmentError:
            if tpu != "local":
                raise
            super().__init__(ClusterSpec({}), job_name, 0, "grpc")
            return
        if number not in range(len(hosts)):
            raise ClusterError(
                f"This is host {number} of a TPU that has {len(hosts)}: {hosts}. Count from 0."
            )
        cluster = ClusterSpec({job_name: [f"{host}:{port}" for host in hosts]})
        super().__init__(cluster, job_name, number, "grpc")

    def master(
        self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None
    ) -> str:
        return super().master(task_type, task_id, rpc_layer) if self.cluster_spec().jobs else ""

    @classmethod
    def connect(
        cls, tpu: str | None = None, zone: str | None = None, project: str | None = None
    ) -> "TPUClusterResolver":
        """Return a resolver for a TPU. JAX has nothing else to initialise.

        Args:
            tpu: The name of the TPU, as for the class.
            zone: Unused.
            project: Unused.

        Raises:
            ClusterEnvironmentError: This is no host of that TPU.
        """
        return cls(tpu)


def _from_environ(environ: Mapping[str, str]) -> tuple[list[str], int] | None:
    """Return the hosts and the number of this one from the environment, None if it does not have them."""
    hosts = [host.strip() for host in environ.get("TPU_WORKER_HOSTNAMES", "").split(",") if host.strip()]
    if not hosts:
        return None
    number = environ.get("TPU_WORKER_ID")
    if number is None and len(hosts) > 1:
        raise ClusterError(f"TPU_WORKER_HOSTNAMES has {len(hosts)} hosts, and TPU_WORKER_ID is not set.")
    return hosts, check_index(number or 0, "this host in TPU_WORKER_ID")


def _from_metadata(environ: Mapping[str, str]) -> tuple[list[str], int]:
    """Return the hosts and the number of this one from the metadata server."""
    # A machine elsewhere must not wait for a server that it does not have.
    if not any(vendor.read_text().strip() == _GOOGLE for vendor in _PCI.glob("*/vendor")):
        raise ClusterEnvironmentError(
            "There is no TPU here: TPU_WORKER_HOSTNAMES is not set, and no device of Google's is on the PCI "
            "bus. Run the program on the hosts of a TPU."
        )
    endpoints = _metadata(environ, "worker-network-endpoints")
    try:
        hosts = [endpoint.split(":")[2] for endpoint in endpoints.split(",")]  # name:id:address
    except IndexError:
        raise ClusterError(
            f"The TPU's metadata have no addresses in `worker-network-endpoints`: {endpoints!r}."
        ) from None
    return hosts, check_index(_metadata(environ, "agent-worker-number"), "this host of the TPU")


def _metadata(environ: Mapping[str, str], key: str) -> str:
    """Return an attribute of this machine from the metadata server."""
    server = environ.get("GCE_METADATA_IP", "metadata.google.internal")
    request = urllib.request.Request(
        f"http://{server}/computeMetadata/v1/instance/attributes/{key}", headers={"Metadata-Flavor": "Google"}
    )
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(request, timeout=_METADATA_SECS) as response:
            return str(response.read().decode())
    except OSError as exc:
        raise ClusterEnvironmentError(
            f"The metadata server {server} does not say {key}: {exc}. Set TPU_WORKER_HOSTNAMES and "
            "TPU_WORKER_ID instead."
        ) from exc
