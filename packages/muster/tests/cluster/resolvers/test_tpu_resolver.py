"""TPUClusterResolver: the hosts of a TPU, from the environment or the metadata server."""

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.cluster import ClusterEnvironmentError, ClusterSpec, TPUClusterResolver
from muster.cluster.resolvers import _tpu_resolver


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine without a TPU."""
    for name in ("TPU_NAME", "TPU_WORKER_HOSTNAMES", "TPU_WORKER_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(_tpu_resolver, "_PCI", tmp_path)
    return monkeypatch


@pytest.fixture
def metadata(machine: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[dict[str, str]]:
    """What the metadata server of a machine with a TPU says; empty at first."""
    attributes: dict[str, str] = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            value = attributes.get(self.path.removeprefix("/computeMetadata/v1/instance/attributes/"))
            asked_as_it_wants = self.headers["Metadata-Flavor"] == "Google"
            self.send_response(404 if value is None else 200 if asked_as_it_wants else 403)
            self.end_headers()
            self.wfile.write((value or "").encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    (tmp_path / "0000:00:04.0").mkdir()
    (tmp_path / "0000:00:04.0" / "vendor").write_text("0x1ae0\n")
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        machine.setenv("GCE_METADATA_IP", f"127.0.0.1:{server.server_port}")
        machine.setenv("http_proxy", "http://127.0.0.1:1")  # which is not for metadata
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield attributes
        server.shutdown()
        thread.join()


def test_hosts_from_the_environment(machine: pytest.MonkeyPatch) -> None:
    machine.setenv("TPU_WORKER_HOSTNAMES", "t-0.svc, t-1.svc")
    machine.setenv("TPU_WORKER_ID", "1")
    resolver = TPUClusterResolver.connect("local")
    assert resolver.cluster_spec() == ClusterSpec({"worker": ["t-0.svc:8888", "t-1.svc:8888"]})
    assert (resolver.task_type, resolver.task_id) == ("worker", 1)
    assert resolver.master() == "grpc://t-1.svc:8888"
    assert TPUClusterResolver(job_name="tpu", port=9).master("tpu", 0) == "grpc://t-0.svc:9"


def test_one_host_needs_no_number(machine: pytest.MonkeyPatch) -> None:
    machine.setenv("TPU_WORKER_HOSTNAMES", "localhost")
    assert TPUClusterResolver().task_id == 0


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (None, "TPU_WORKER_HOSTNAMES has 2 hosts, and TPU_WORKER_ID is not set"),
        ("2", "host 2 of a TPU that has 2"),
        ("-1", "host -1 of a TPU that has 2"),
        ("x", "must be an integer, given: 'x'"),
    ],
)
def test_a_number_that_does_not_fit_is_refused(
    machine: pytest.MonkeyPatch, number: str | None, says: str
) -> None:
    machine.setenv("TPU_WORKER_HOSTNAMES", "a,b")
    if number is not None:
        machine.setenv("TPU_WORKER_ID", number)
    with pytest.raises(ValueError, match=says):
        TPUClusterResolver()


def test_the_name_of_another_tpu_is_refused(machine: pytest.MonkeyPatch) -> None:
    machine.setenv("TPU_WORKER_HOSTNAMES", "a")
    machine.setenv("TPU_NAME", "mine")
    assert TPUClusterResolver("mine").master() == "grpc://a:8888"
    with pytest.raises(ClusterEnvironmentError, match="a host of the TPU 'mine', and not of 'yours'"):
        TPUClusterResolver("yours")
    with pytest.raises(ValueError, match="reaches none over the network"):
        TPUClusterResolver("grpc://10.0.0.1:8470")


def test_without_a_tpu_that_is_said(machine: pytest.MonkeyPatch) -> None:
    with pytest.raises(ClusterEnvironmentError, match="There is no TPU here"):
        TPUClusterResolver()


def test_hosts_from_the_metadata_server(metadata: dict[str, str]) -> None:
    metadata["worker-network-endpoints"] = "unknown:unknown:10.0.0.5,unknown:unknown:10.0.0.6"
    metadata["agent-worker-number"] = "1"
    resolver = TPUClusterResolver()
    assert resolver.cluster_spec() == ClusterSpec({"worker": ["10.0.0.5:8888", "10.0.0.6:8888"]})
    assert resolver.task_id == 1


def test_metadata_without_what_is_needed_are_named(metadata: dict[str, str]) -> None:
    with pytest.raises(ClusterEnvironmentError, match="does not say worker-network-endpoints.*404"):
        TPUClusterResolver()
    metadata["worker-network-endpoints"] = "10.0.0.5"
    with pytest.raises(ValueError, match="no addresses in `worker-network-endpoints`: '10.0.0.5'"):
        TPUClusterResolver()


def test_without_a_tpu_local_is_an_empty_cluster(machine: pytest.MonkeyPatch) -> None:
    resolver = TPUClusterResolver("local")
    assert (resolver.cluster_spec(), resolver.master()) == (ClusterSpec({}), "")
    assert (resolver.task_type, resolver.task_id) == ("worker", 0)
    with pytest.raises(ClusterEnvironmentError, match="There is no TPU here"):
        TPUClusterResolver("")
