"""GCEClusterResolver: the machines of an instance group, by recorded answers of Google's HTTP API."""

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from muster._errors import ClusterError
from muster.cluster import ClusterEnvironmentError, ClusterSpec, GCEClusterResolver
from muster.cluster.resolvers import _gce_resolver

RECORDED = json.loads((Path(__file__).with_name("gce_answers.json")).read_text())


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    """What was asked of a server that answers as Google's, the metadata server's too."""
    requests: list[dict[str, Any]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self, body: bytes) -> None:
            requests.append({"path": self.path, "headers": dict(self.headers), "body": body})
            answer = RECORDED.get(f"{self.command} {self.path}")
            self.send_response(404 if answer is None else 200)
            self.end_headers()
            self.wfile.write(json.dumps(answer or RECORDED["error"]).encode())

        def do_GET(self) -> None:
            self.answer(b"")

        def do_POST(self) -> None:
            self.answer(self.rfile.read(int(self.headers["Content-Length"])))

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        address = f"127.0.0.1:{server.server_port}"
        monkeypatch.setenv("GCE_METADATA_IP", address)
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        monkeypatch.setattr(_gce_resolver, "_API", f"http://{address}/compute/v1")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield requests
        server.shutdown()
        thread.join()


def test_the_running_machines_of_all_pages_are_tasks(asked: list[dict[str, Any]]) -> None:
    resolver = GCEClusterResolver("test-project", "us-east1-d", "test-group", 8470, "worker", 1)
    spec = resolver.cluster_spec()
    assert spec == ClusterSpec({"worker": ["10.123.45.67:8470", "10.123.45.68:8470", "10.123.45.69:8470"]})
    assert resolver.master() == "grpc://10.123.45.68:8470"
    assert resolver.master("worker", 2, rpc_layer="") == "grpc://10.123.45.69:8470"
    assert (resolver.task_type, resolver.task_id, resolver.rpc_layer) == ("worker", 1, "grpc")


def test_it_asks_with_a_token_of_the_machine(asked: list[dict[str, Any]]) -> None:
    GCEClusterResolver("test-project", "us-east1-d", "test-group", 8470).cluster_spec()
    token, listing, *others = asked
    assert token["headers"]["Metadata-Flavor"] == "Google"
    assert json.loads(listing["body"]) == {"instanceState": "RUNNING"}
    assert {each["headers"]["Authorization"] for each in (listing, *others)} == {"Bearer recorded-token"}


@pytest.mark.parametrize("credentials", ["mine", SimpleNamespace(token="mine")])
def test_it_asks_with_given_credentials(asked: list[dict[str, Any]], credentials: Any) -> None:
    GCEClusterResolver(
        "test-project", "us-east1-d", "test-group", 8470, credentials=credentials
    ).cluster_spec()
    assert {each["headers"]["Authorization"] for each in asked} == {"Bearer mine"}


def test_it_says_what_google_refuses(asked: list[dict[str, Any]]) -> None:
    resolver = GCEClusterResolver("test-project", "us-east1-d", "other", 8470, credentials=None)
    with pytest.raises(ClusterEnvironmentError, match=r"answers 404 .*was not found.*Check project, zone"):
        resolver.cluster_spec()


def test_a_group_without_machines_is_an_error(asked: list[dict[str, Any]]) -> None:
    resolver = GCEClusterResolver("test-project", "us-east1-d", "empty", 8470, credentials=None)
    with pytest.raises(ClusterEnvironmentError, match="'empty' has no running machine"):
        resolver.cluster_spec()


def test_elsewhere_there_is_no_metadata_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GCE_METADATA_IP", "127.0.0.1:1")
    with pytest.raises(ClusterEnvironmentError, match="cannot be reached"):
        GCEClusterResolver("test-project", "us-east1-d", "test-group", 8470).cluster_spec()


def test_it_takes_no_service() -> None:
    with pytest.raises(ClusterError, match="takes no service"):
        GCEClusterResolver("test-project", "us-east1-d", "test-group", 8470, service=object())  # type: ignore[arg-type]
