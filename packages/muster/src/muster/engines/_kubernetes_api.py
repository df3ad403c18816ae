"""The API of Kubernetes, through its Python client: objects as dicts, jobs, errors that say what to do."""

import contextlib
import json
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from muster._errors import PlacementError
from muster._extras import extra_module
from muster.engines._pods import NAME_LABEL

# How long a connection and an answer may take, in seconds.
_REACH_SECS, _ANSWER_SECS = 5.0, 30.0
_OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

# What is only there for others, which is made first and deleted last.
_PARTS = ("Secret", "Service", "TrainingRuntime")

Object = Mapping[str, Any]
"""An object of Kubernetes, as its YAML has it."""


class KubernetesError(PlacementError):
    """The API has refused a request, or does not answer.

    Args:
        message: The message.
        status: The status of HTTP; 0 if nothing has answered.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class KubernetesApi:
    """Makes, reads and deletes objects of one namespace, with the rights of this pod, or of ``kubectl``.

    Needs the extra ``kubernetes``. May be used by several threads.

    Args:
        namespace: The namespace; empty: that of kubectl's context, or of this pod.

    Attributes:
        namespace: The namespace.
        host: The address of the API.

    Raises:
        ImportError: The client is not installed.
        PlacementError: Nothing says where a cluster is.
    """

    def __init__(self, namespace: str = "") -> None:
        extra_module("kubernetes", "kubernetes", "--on kubernetes")
        client: Any = extra_module("kubernetes.client", "kubernetes", "--on kubernetes")
        config: Any = extra_module("kubernetes.config", "kubernetes", "--on kubernetes")
        settings = client.Configuration()
        try:
            config.load_incluster_config(client_configuration=settings)
            known = _OWN_NAMESPACE.read_text().strip() if _OWN_NAMESPACE.exists() else ""
        except config.ConfigException:
            try:
                config.load_kube_config(client_configuration=settings)
                known = config.list_kube_config_contexts()[1]["context"].get("namespace", "")
            except config.ConfigException as exc:
                raise PlacementError(
                    f"Nothing says where a cluster of Kubernetes is: {exc} Set KUBECONFIG to the file of one "
                    "that `kubectl get pods` can use, or run this in one of its pods."
                ) from exc
        settings.retries = False
        self.namespace: str = namespace or known or "default"
        self.host: str = settings.host
        self._settings = settings
        # The client knows how to reach a cluster, and as whom; what is asked are plain objects.
        self._pool: Any = client.ApiClient(settings).rest_client.pool_manager
        urllib3: Any = extra_module("urllib3", "kubernetes", "--on kubernetes")
        self._timeout, self._unreachable = urllib3.Timeout, urllib3.exceptions.HTTPError

    def create(self, described: Object, *, dry_run: bool = False) -> None:
        """Make an object.

        Args:
            described: What its manifest says.
            dry_run: Whether only to check that it could be made, by all that the cluster would check.

        Raises:
            KubernetesError: It cannot be made; says why, and what to do.
        """
        query = {"dryRun": "All"} if dry_run else {}
        self._request("POST", self._path(described, named=False), query, described)

    def get(self, described: Object) -> Object | None:
        """Return an object as it is now; None if there is none.

        Raises:
            KubernetesError: It cannot be read.
        """
        try:
            found: Object = self._request("GET", self._path(described))
        except KubernetesError as exc:
            if exc.status == 404:
                return None
            raise
        return found

    def delete(self, described: Object, grace_secs: int | None = None) -> None:
        """Have an object deleted, with all that belongs to it; one that is gone already is no error.

        Args:
            described: Its manifest, or what is known of it.
            grace_secs: How long a pod may take to end, in seconds; None for what its spec says.

        Raises:
            KubernetesError: It cannot be deleted.
        """
        options: dict[str, Any] = {"propagationPolicy": "Foreground"}
        if grace_secs is not None:
            options["gracePeriodSeconds"] = grace_secs
        try:
            self._request("DELETE", self._path(described), body=options)
        except KubernetesError as exc:
            if exc.status != 404:
                raise

    def objects(self, kind: str, selector: str, api: str = "v1") -> tuple[list[Object], str]:
        """Return the objects of a kind with some labels, and the version of the list, for `changes`.

        Args:
            kind: The kind, such as ``"Pod"``.
            selector: The labels, such as ``"app=a"``.
            api: The version of the kind's API.

        Raises:
            KubernetesError: They cannot be listed.
        """
        path = self._path({"apiVersion": api, "kind": kind}, named=False)
        found = self._request("GET", path, {"labelSelector": selector})
        return found["items"], found["metadata"].get("resourceVersion", "")

    def changes(self, selector: str, version: str, secs: int) -> Iterator[tuple[Object, bool]]:
        """Yield pods that change, each with whether it is deleted, for some seconds at most.

        Args:
            selector: As for `objects`.
            version: From which version of the list on.
            secs: How long.

        Raises:
            KubernetesError: They cannot be watched.
        """
        query = {
            "labelSelector": selector,
            "resourceVersion": version,
            "timeoutSeconds": str(secs),
            "watch": "true",
        }
        path = self._path({"apiVersion": "v1", "kind": "Pod"}, named=False)
        for line in self._lines(path, query, secs + _ANSWER_SECS):
            event = json.loads(line)
            if event["type"] == "ERROR":
                return  # such as a version that is too old: they are listed again
            yield event["object"], event["type"] == "DELETED"

    def log(self, pod: str, since: str, *, follow: bool = True) -> Iterator[bytes]:
        """Yield the lines that a pod has written, and writes until it ends, each after its time and a space.

        Args:
            pod: The pod's name.
            since: A time before which nothing is wanted, as of such a line; empty for everything.
            follow: Whether to go on with what it writes.

        Raises:
            KubernetesError: They cannot be read, or the connection has broken.
        """
        query = {"follow": str(follow).lower(), "timestamps": "true"} | (
            {"sinceTime": f"{since[:19]}Z"} if since else {}
        )
        path = f"{self._path({'apiVersion': 'v1', 'kind': 'Pod'}, named=False)}/{pod}/log"
        return self._lines(path, query, None)

    def complaints(self, name: str) -> list[str]:
        """Return the warnings among the events of an object, the last one last.

        Raises:
            KubernetesError: They cannot be listed.
        """
        path = self._path({"apiVersion": "v1", "kind": "Event"}, named=False)
        found = self._request("GET", path, {"fieldSelector": f"involvedObject.name={name},type=Warning"})
        events = sorted(found["items"], key=lambda event: event.get("lastTimestamp") or "")
        return [str(event.get("message", "")) for event in events]

    def _path(self, described: Object, *, named: bool = True) -> str:
        version, kind = described["apiVersion"], described["kind"]
        root = "apis" if "/" in version else "api"
        path = f"/{root}/{version}/namespaces/{self.namespace}/{kind.lower()}s"
        return f"{path}/{described['metadata']['name']}" if named else path

    def _request(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: Object | None = None
    ) -> Any:
        try:
            response = self._answered(method, path, query or {}, body, _ANSWER_SECS)
            return json.loads(response.data)
        except self._unreachable as exc:
            raise self._silence(exc) from exc

    def _lines(self, path: str, query: Mapping[str, str], secs: float | None) -> Iterator[bytes]:
        try:
            response = self._answered("GET", path, query, None, secs)
            waiting = b""
            try:
                for chunk in response.stream(amt=None, decode_content=False):
                    *lines, waiting = (waiting + chunk).split(b"\n")
                    yield from lines
            finally:
                response.close()
            if waiting:
                yield waiting
        except self._unreachable as exc:
            raise self._silence(exc) from exc

    def _answered(
        self, method: str, path: str, query: Mapping[str, str], body: Object | None, secs: float | None
    ) -> Any:
        """Return an answer, of which only the head is read yet.

        Raises:
            KubernetesError: It is a refusal.
        """
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        for each in self._settings.auth_settings().values():
            if each["in"] == "header" and each["value"]:
                headers[each["key"]] = each["value"]
        response = self._pool.request(
            method,
            f"{self.host}{path}?{urllib.parse.urlencode(query)}",
            headers=headers,
            body=None if body is None else json.dumps(body).encode(),
            timeout=self._timeout(connect=_REACH_SECS, read=secs),
            retries=False,
            preload_content=False,
        )
        if response.status >= 300:
            raise self._why(response, method, path, body)
        return response

    def _silence(self, error: Exception) -> KubernetesError:
        return KubernetesError(
            f"The cluster of Kubernetes at {self.host} does not answer: {error}. Name another one in "
            "KUBECONFIG, or by `kubectl config use-context`.",
            0,
        )

    def _why(self, answer: Any, method: str, path: str, body: Object | None) -> KubernetesError:
        """Return an answer's error in words."""
        try:
            said = json.loads(answer.data)
        except ValueError:  # of a proxy, or a path that nobody knows
            said = {}
        message = said.get("message") or str(answer.reason)
        missing = (said.get("details") or {}).get("kind")
        plural = path.partition(f"/namespaces/{self.namespace}/")[2].split("/")[0]
        match answer.status:
            case 401:
                text = f"The cluster at {self.host} does not know who asks: {message}. Log in to it again."
            case 403:
                verb = {"POST": "create", "DELETE": "delete"}.get(method, "get")
                text = (
                    f"The cluster at {self.host} refuses: {message}. What you may do is said by: "
                    f"kubectl auth can-i {verb} {plural} --namespace {self.namespace}"
                )
            case 404 if missing == "namespaces":
                text = (
                    f"The cluster at {self.host} has no namespace {self.namespace!r}. Name another by "
                    f"--namespace, or make it: kubectl create namespace {self.namespace}"
                )
            case 404 if method == "POST" and body is not None:
                text = (
                    f"The cluster at {self.host} knows no {body['kind']} of {body['apiVersion']}: what runs "
                    "them is not installed there. --on kubernetes needs nothing but Kubernetes."
                )
            case 409 if body is not None and "metadata" in body:
                text = (
                    f"There is a {body['kind']} {body['metadata']['name']} in {self.namespace}: a "
                    "job has that name. Choose another by --name, or end that one by `muster stop`."
                )
            case _:
                text = f"The cluster at {self.host} answers {answer.status} to {method} {path}: {message}"
        return KubernetesError(text, answer.status)


class KubernetesJob:
    """The objects of a job in a cluster: made, listed and deleted.

    Args:
        api: The cluster.
        name: The job's name, the value of a label of all its objects.
        objects: What the manifest says.
    """

    def __init__(self, api: KubernetesApi, name: str, objects: Sequence[Object]) -> None:
        self.api, self.name, self.objects = api, name, tuple(objects)
        self.selector = f"{NAME_LABEL}={name}"

    @property
    def workloads(self) -> list[Object]:
        """The objects that create pods, such as Jobs and JobSets."""
        return [each for each in self.objects if each["kind"] not in _PARTS]

    def submit(self, *, dry_run: bool = False) -> None:
        """Make the objects; if one is refused, none is left.

        Raises:
            KubernetesError: One is refused.
        """
        made: list[Object] = []
        try:
            for each in self.objects:
                self.api.create(each, dry_run=dry_run)
                made.append(each)
        except KubernetesError:
            for each in [] if dry_run else made:
                with contextlib.suppress(KubernetesError):
                    self.api.delete(each)
            raise

    def delete(self, grace_secs: int | None = None) -> None:
        """Delete the objects, and the pods in their time, or in so many seconds.

        Raises:
            KubernetesError: One cannot be deleted.
        """
        for each in reversed(self.objects):
            self.api.delete(each)
        if grace_secs is not None:
            for pod in self.api.objects("Pod", self.selector)[0]:
                self.api.delete({"apiVersion": "v1", "kind": "Pod", **pod}, grace_secs)
