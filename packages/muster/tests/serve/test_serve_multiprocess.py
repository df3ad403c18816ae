"""``muster serve`` as a process: new and broken versions, many clients, wrong requests, signals, kills."""

import contextlib
import http.client
import shutil
import signal
import socket
import threading

import pytest
from artefacts import save_model
from servers import Process, Server, receive, send  # noqa: F401, Process marks tests that start some

pytestmark = pytest.mark.processes

ROW = {"instances": [[1, 2]]}


@pytest.fixture
def folder(tmp_path):
    save_model(tmp_path / "models" / "1", 1.0)
    return tmp_path / "models"


@pytest.fixture
def log(tmp_path):
    return tmp_path / "server.log"


def test_requests_are_answered(log, folder):
    with Server(log, folder) as server, contextlib.closing(server.connect()) as connection:
        assert server.ask(":predict", ROW, connection) == (200, {"predictions": [3.0]})
        assert server.ask(":predict", {"inputs": {"x": [[1, 2], [3, 4]]}}, connection) == (
            200,
            {"outputs": [3.0, 7.0]},
        )
        both = {"signature_name": "both", "instances": [{"x": [0.25, 0.5], "word": "a"}]}
        answer = {"y": 0.75, "classes": ["no", "yes"], "scores": [0.25, 0.75]}
        assert server.ask("/versions/1:predict", both, connection) == (200, {"predictions": [answer]})
        examples = {"examples": [{"x": [0.25, 0.5]}, {"x": [0.0, 0.0]}]}
        assert server.ask(":classify", examples | {"signature_name": "classification"}, connection) == (
            200,
            {"results": [[["no", 0.25], ["yes", 0.75]], [["no", 1.0], ["yes", 0.0]]]},
        )
        assert server.ask(":regress", examples | {"signature_name": "regression"}, connection) == (
            200,
            {"results": [0.75, 0.0]},
        )
        assert server.ask("", None, connection)[1]["model_version_status"][0]["state"] == "AVAILABLE"
        status, metadata = server.ask("/versions/1/metadata", None, connection)
        assert status == 200
        assert len(metadata["metadata"]["signature_def"]["signature_def"]) == 4
        for path in ("/metrics", "/monitoring/prometheus/metrics"):
            connection.request("GET", path)
            text = connection.getresponse().read().decode()
            assert 'muster_serve_requests_total{code="200",model="m",verb="predict"} 3.0' in text


@pytest.mark.slow
def test_wrong_requests_are_refused_and_the_server_lives(log, folder):
    wrong = {
        ":predict": [b"", b"{", b"\xff", {}, {"instances": []}, {"instances": [[1]]}, {"inputs": {}}]
        + [{"instances": [["a", "b"]]}, {"inputs": {"x": [[1, 2]], "z": 1}}, {"inputs": {"x": []}}]
        + [ROW | {"signature_name": "none"}, ROW | {"signature_name": 1}]
        # What only the model finds: these are no Examples, and such without a feature.
        + [{"signature_name": "regression", "instances": [{"b64": "AAAA"}]}]
        + [{"signature_name": "regression", "instances": [{"b64": ""}]}],
        ":classify": [{"examples": [{"x": [1.0, 2.0]}]}, {"signature_name": "classification"}],
        ":regress": [{"signature_name": "regression", "examples": [{"x": [1.0]}]}],
        ":explain": [ROW],
        "/labels/stable:predict": [ROW],
    }
    with Server(log, folder) as server, contextlib.closing(server.connect()) as connection:
        for path, bodies in wrong.items():
            for body in bodies:
                status, answer = server.ask(path, body, connection)
                assert (status, list(answer)) == (400, ["error"]), (path, body, answer)
                assert answer["error"]
        assert server.ask("/versions/2:predict", ROW, connection)[0] == 404
        assert server.ask("/versions/2", None, connection)[0] == 404
        connection.request("GET", "/v1/models/other")
        assert receive(connection)[0] == 404
        connection.request("GET", "/")
        assert receive(connection)[0] == 404
        assert server.ask(":predict", ROW, connection) == (200, {"predictions": [3.0]})
    assert server.log.count("\n") == 1  # what clients do wrong is no news of the server's


@pytest.mark.slow
def test_broken_connections_do_no_harm(log, folder):
    with Server(log, folder) as server:
        for sent in (
            b"\0\xff\r\n\r\n",
            b"POST /v1/models/m:predict HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{",
            b"POST /v1/models/m:predict HTTP/1.1\r\nHost: a\r\nContent-Length: 23\r\n\r\n"
            b'{"instances": [[1, 2]]}',
        ):
            with socket.create_connection(("127.0.0.1", server.port)) as gone:
                gone.sendall(sent)
        assert server.ask(":predict", ROW) == (200, {"predictions": [3.0]})
        assert "Traceback" not in server.log


@pytest.mark.slow
def test_too_long_bodies_are_refused(log, folder):
    large = b'{"instances": [' + b" " * 2_000_000 + b"]}"
    with Server(log, folder, "--max-body-mb", "0.5") as server:
        for body in (large, iter([large[:1_000_000], large[1_000_000:]])):
            with contextlib.closing(server.connect()) as connection:
                connection.request("POST", "/v1/models/m:predict", body)
                status, answer = receive(connection)
            assert status == 413
            assert "500000 bytes" in answer["error"]
        assert server.ask(":predict", ROW)[0] == 200


@pytest.mark.slow
def test_who_comes_when_too_many_wait_is_told_so(log, folder):
    with (
        Server(log, folder, "--max-waiting", "1", "--max-wait-ms", "60000") as server,
        contextlib.closing(server.connect()) as first,
    ):
        send(first, ":predict", ROW)
        # The status is answered after the request was taken up: it came later.
        assert server.ask()[0] == 200
        status, answer = server.ask(":predict", ROW)
        assert status == 503
        assert "busy" in answer["error"]


class Clients:
    """Threads that ask again and again, each over one connection, until the end of the block.

    Attributes:
        answers: statuses and answers, in the order in which they came.
    """

    def __init__(self, server, count):
        self._server, self.answers, self._ended = server, [], threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(count)]

    def _ask(self):
        with contextlib.closing(self._server.connect()) as connection:
            while not self._ended.is_set():
                try:
                    self.answers.append(self._server.ask(":predict", ROW, connection))
                except (OSError, http.client.HTTPException) as exc:
                    self.answers.append((0, exc))
                    return

    def until_more(self, count):
        wanted = len(self.answers) + count
        self._server.until(lambda: len(self.answers) >= wanted)

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error):
        self._ended.set()
        for thread in self._threads:
            thread.join()


def test_newer_versions_take_over_without_a_lost_request(log, folder):
    with Server(log, folder) as server, Clients(server, 8) as clients:
        clients.until_more(20)
        for number in (2, 3, 10):
            save_model(folder / str(number), float(number))
            server.serves(number)
            clients.until_more(20)
        states = server.states()
        server.until(lambda: "version 10 is served now" in server.log)
    assert {status for status, _ in clients.answers} == {200}
    found = [answer["predictions"] for _, answer in clients.answers]
    assert [each for i, each in enumerate(found) if each not in found[:i]] == [[3.0], [6.0], [9.0], [30.0]]
    assert states == {"10": "AVAILABLE", "3": "END", "2": "END", "1": "END"}


@pytest.mark.slow
def test_a_half_written_version_is_reported_once_and_the_old_one_goes_on(log, folder, tmp_path):
    save_model(tmp_path / "2", 2.0)
    manifest = tmp_path / "2" / "saved_model.json"
    with Server(log, folder) as server:
        assert server.ask(":predict", ROW)[0] == 200
        shutil.copytree(tmp_path / "2", tmp_path / "half", ignore=lambda *_: [manifest.name])
        (tmp_path / "half").rename(folder / "2")
        server.until(lambda: "version 2 cannot be loaded" in server.log)
        save_model(tmp_path / "3", 3.0)
        (weights,) = (tmp_path / "3").glob("*.safetensors")
        weights.write_bytes(weights.read_bytes()[:-1] + b"!")
        (tmp_path / "3").rename(folder / "3")
        server.until(lambda: "version 3 cannot be loaded" in server.log)
        assert server.states() == {"1": "AVAILABLE", "2": "END", "3": "END"}
        assert server.ask(":predict", ROW) == (200, {"predictions": [3.0]})
        manifest.rename(folder / "2" / manifest.name)
        server.serves(2)
        assert server.ask(":predict", ROW) == (200, {"predictions": [6.0]})
        assert server.log.count("version 2 cannot") == server.log.count("version 3 cannot") == 1


@pytest.mark.slow
def test_a_server_without_a_version_waits_for_one(log, folder):
    shutil.rmtree(folder / "1")
    with Server(log, folder) as server:
        assert server.ask(":predict", ROW)[0] == server.ask()[0] == 404
        assert "waiting" in server.log
        save_model(folder / "5", 5.0)
        server.serves(5)
        assert server.ask(":predict", ROW) == (200, {"predictions": [15.0]})


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_requests_under_way_are_answered_at_the_end(log, folder, number, code):
    with (
        Server(log, folder, "--max-wait-ms", "1000") as server,
        contextlib.closing(server.connect()) as connection,
    ):
        send(connection, ":predict", ROW)
        assert server.ask()[0] == 200
        server.process.send_signal(number)
        assert receive(connection) == (200, {"predictions": [3.0]})
        assert server.code() == code
        assert "Traceback" not in server.log


@pytest.mark.slow
def test_a_second_signal_ends_at_once(log, folder):
    with (
        Server(log, folder, "--max-wait-ms", "60000") as server,
        contextlib.closing(server.connect()) as connection,
        contextlib.closing(server.connect()) as idle,
    ):
        send(connection, ":predict", ROW)
        assert server.ask("", None, idle)[0] == 200
        server.process.send_signal(signal.SIGINT)
        # It has closed what waits for nothing: the first signal has come.
        assert idle.sock.recv(1) == b""
        server.process.send_signal(signal.SIGINT)
        assert server.code() == 130


@pytest.mark.slow
def test_a_server_that_was_killed_can_be_started_again_at_its_port(log, folder):
    with Server(log, folder) as first, Clients(first, 4) as clients:
        clients.until_more(20)
        port = first.port
        first.process.kill()
        assert first.code() == -signal.SIGKILL
    assert {status for status, _ in clients.answers} == {200, 0}
    with Server(log, folder, port=port) as second:
        assert second.ask(":predict", ROW) == (200, {"predictions": [3.0]})


@pytest.mark.slow
def test_a_port_that_is_taken_is_named(log, folder, tmp_path):
    with Server(log, folder) as first, Server(tmp_path / "2.log", folder, port=first.port) as second:
        assert second.code() == 1
        assert f"cannot listen at 127.0.0.1:{first.port}" in second.log
        assert "--port" in second.log


@pytest.mark.slow
def test_an_access_log_has_a_line_for_each_request(log, folder):
    with Server(log, folder, "--access-log") as server:
        server.ask(":predict", ROW)
        server.until(lambda: "POST /v1/models/m" in server.log)
