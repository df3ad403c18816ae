"""The cluster resolver for Google Compute Engine: the machines of an instance group."""

import json
import os
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from muster._errors import ClusterEnvironmentError, ClusterError
from muster.cluster._cluster_spec import ClusterSpec
from muster.cluster.resolvers._task_resolver import TaskResolver

_API = "https://compute.googleapis.com/compute/v1"
_ASK_SECS = 30.0


class GCEClusterResolver(TaskResolver):
    """The running machines of an instance group of Google Compute Engine: one task each.

    Follows ``tf.distribute.cluster_resolver.GCEClusterResolver``
    (tensorflow/python/distribute/cluster_resolver/gce_cluster_resolver.py), but asks Google's HTTP API
    without a package of Google's. Tasks are in the order of their addresses, as there. Each call of
    `cluster_spec` lists the machines anew.

    Args:
        project: The name of the project.
        zone: The zone of the instance group, such as ``us-east1-c``.
        instance_group: The name of the group.
        port: The port at which tasks listen.
        task_type: The type of the tasks, and of this one.
        task_id: The number of this task.
        rpc_layer: The protocol in the address of a master.
        credentials: ``"default"``: a token of this machine's service account. Or an access token, or an
            object with one as its attribute ``token``, such as ``google.auth`` gives. None asks without one.
        service: Only None.

    Raises:
        ClusterError: There is a service.
    """

    def __init__(
        self,
        project: str,
        zone: str,
        instance_group: str,
        port: int,
        task_type: str = "worker",
        task_id: int = 0,
        rpc_layer: str = "grpc",
        credentials: Any = "default",
        service: None = None,
    ) -> None:
        if service is not None:
            raise ClusterError(
                f"GCEClusterResolver asks Google's HTTP API itself and takes no service, got "
                f"{service!r}: leave it out, and give credentials if need be."
            )
        self._zone = f"{_API}/projects/{urllib.parse.quote(project)}/zones/{urllib.parse.quote(zone)}"
        self._group = instance_group
        self._port = port
        self._credentials = credentials
        super().__init__(ClusterSpec({}), task_type, task_id, rpc_layer)  # until the machines are listed

    def cluster_spec(self) -> ClusterSpec:
        """Ask Google for the machines, and return their internal addresses.

        Raises:
            ClusterEnvironmentError: Google refuses, cannot be reached, or knows no running machine there.
        """
        headers = {"Content-Type": "application/json"}
        if (token := self._token()) is not None:
            headers["Authorization"] = f"Bearer {token}"
        addresses = [self._address(name, headers) for name in self._names(headers)]
        if not addresses:
            raise ClusterEnvironmentError(
                f"The instance group {self._group!r} has no running machine. Start the program once they run."
            )
        return ClusterSpec({self.task_type or "worker": sorted(addresses)})

    def _names(self, headers: dict[str, str]) -> list[str]:
        """Return the names of the running machines, which Google lists in pages."""
        url = f"{self._zone}/instanceGroups/{urllib.parse.quote(self._group)}/listInstances"
        names: list[str] = []
        page = ""
        while True:
            query = f"?pageToken={urllib.parse.quote(page)}" if page else ""
            listed = _asked(url + query, headers, b'{"instanceState": "RUNNING"}')
            names += [item["instance"].rsplit("/", 1)[-1] for item in listed.get("items", [])]
            page = listed.get("nextPageToken", "")
            if not page:
                return names

    def _address(self, name: str, headers: dict[str, str]) -> str:
        machine = _asked(f"{self._zone}/instances/{urllib.parse.quote(name)}", headers)
        return f"{machine['networkInterfaces'][0]['networkIP']}:{self._port}"

    def _token(self) -> str | None:
        if self._credentials != "default":
            token: str | None = getattr(self._credentials, "token", self._credentials)
            return token
        server = os.environ.get("GCE_METADATA_IP", "metadata.google.internal")
        url = f"http://{server}/computeMetadata/v1/instance/service-accounts/default/token"
        return str(_asked(url, {"Metadata-Flavor": "Google"}, direct=True)["access_token"])


def _asked(url: str, headers: dict[str, str], body: bytes | None = None, direct: bool = False) -> Any:
    """Return the JSON that a server answers to a GET, or to a POST with a body; ``direct`` uses no proxy."""
    request = urllib.request.Request(url, data=body, headers=headers)
    handlers = [urllib.request.ProxyHandler({})] if direct else []
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=_ASK_SECS) as response:
            return json.load(response)
    except urllib.error.HTTPError as exc:
        said = exc.read().decode(errors="replace").strip()
        raise ClusterEnvironmentError(
            f"{url} answers {exc.code} {exc.reason}: {said[:500]} Check project, zone and instance group, "
            "and that the service account may read Compute Engine."
        ) from exc
    except OSError as exc:
        raise ClusterEnvironmentError(
            f"{url} cannot be reached: {exc}. Run the program on a machine of Google's, or give credentials."
        ) from exc
