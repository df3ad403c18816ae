"""The page of a job over HTTP: what it answers, to whom, and that it ends with the job."""

import http.client
import json
import time
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from muster.__main__ import main
from muster.cluster.roster import Progress, TaskState
from muster.launch._job_record import Recorder
from muster.launch._job_state import TaskRecord
from muster.launch.page import PageServer
from muster.launch.page._access import page_key
from muster.launch.page._application import read_log

DEADLINE = 10.0


@pytest.fixture(autouse=True)
def jobs_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


@pytest.fixture
def job(tmp_path):
    """The recorder of a job with one task."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "worker-0.log").write_text("one\ntwo \x1b[31mthree\x1b[0m\nunfinished")
    made = Recorder("3f0a", ("train.py",), tmp_path / "logs")
    made.look([task(tmp_path, 1)])
    return made


def task(tmp_path, step):
    return TaskRecord(
        type="worker",
        index=0,
        state="running",
        pid=1,
        address="h:1",
        log=str(tmp_path / "logs" / "worker-0.log"),
        starts=1,
        answers=True,
        progress=Progress(state=TaskState.TRAINING, step=step, loss=0.5),
    )


@pytest.fixture
def page(job, tmp_path):
    with PageServer(tmp_path / "logs", "127.0.0.1", 0) as server:
        yield server


def ask(url, path="", method="GET", **headers):
    """Return the status, the headers and the text of an answer."""
    parts = urlsplit(url)
    with closing(http.client.HTTPConnection("127.0.0.1", parts.port, timeout=DEADLINE)) as connection:
        connection.request(method, path or f"{parts.path}?{parts.query}", headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()


def test_the_page_and_what_it_loads_come_from_here(page):
    status, headers, html = ask(page.url, "/")
    assert status == 200
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'self'" in headers["content-security-policy"]
    for name in ("page.css", "page.js"):
        assert name in html
        assert ask(page.url, f"/{name}")[0] == 200
    assert json.loads(ask(page.url, "/grafana.json")[2])["title"] == "muster: a job"
    assert "://" not in html
    assert ask(page.url, "/nothing")[0] == 404


def test_the_state_the_curves_and_the_log(page, job, tmp_path):
    state = json.loads(ask(page.url, "/state")[2])
    assert (state["name"], state["runs"], state["stacks"]) == ("3f0a", True, [])
    assert state["tasks"][0]["progress"]["step"] == 1
    job.end([task(tmp_path, 2)], 0)
    (tmp_path / "logs" / "stacks-1.txt").write_text("here")
    state = json.loads(ask(page.url, "/state")[2])
    assert (state["runs"], state["code"], state["stacks"]) == (False, 0, ["stacks-1.txt"])
    assert [each["step"] for each in json.loads(ask(page.url, "/curves")[2])["worker-0"]] == [1]
    assert ask(page.url, "/stacks/stacks-1.txt")[2] == "here"
    assert ask(page.url, "/stacks/job.json")[0] == 404
    assert ask(page.url, "/stacks/..%2Fjob.json")[0] == 404
    assert json.loads(ask(page.url, "/logs/worker-0")[2]) == {"lines": ["one", "two three"], "next": 23}
    assert ask(page.url, "/logs/worker-9")[::2] == (404, "There is no such task. There are: worker-0\n")
    assert ask(page.url, "/logs/worker-0?from=x")[0] == 400
    assert "muster_task_step" in ask(page.url, "/metrics")[2]
    (tmp_path / "logs" / "job.json").unlink()
    assert ask(page.url, "/state")[0] == 404


def test_a_log_is_read_on_in_whole_lines(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"".join(b"%07d\n" % n for n in range(20_000)))
    first = read_log(path, -1)
    assert first["lines"][-1] == "0019999"
    assert len(first["lines"]) == (1 << 16) // 8 - 1  # the first may be a part of one
    assert read_log(path, first["next"]) == {"lines": [], "next": first["next"]}
    with path.open("ab") as file:
        file.write(b"more\nand")
    assert read_log(path, first["next"]) == {"lines": ["more"], "next": first["next"] + 5}
    path.write_bytes(b"anew\n")  # it was begun again
    assert read_log(path, first["next"])["lines"] == ["anew"]
    path.write_bytes(b"x" * 100_000)
    assert [len(line) for line in read_log(path, 0)["lines"]] == [1 << 16]


def test_changes_are_sent_as_they_happen_and_the_end_too(page, job, tmp_path):
    parts = urlsplit(page.url)
    with closing(http.client.HTTPConnection("127.0.0.1", parts.port, timeout=DEADLINE)) as connection:
        connection.request("GET", "/events")
        answer = connection.getresponse()
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"

        def following():
            kind = ""
            for line in iter(answer.readline, b""):
                if line.startswith(b"event: "):
                    kind = line[7:].strip().decode()
                elif line.startswith(b"data: "):
                    return kind, json.loads(line[6:])
            return None

        assert following()[1]["tasks"][0]["progress"]["step"] == 1
        job.event("news")
        job.look([task(tmp_path, 2)])
        kind, state = following()
        assert (kind, state["events"][-1]["text"]) == ("", "news")
        assert state["tasks"][0]["progress"]["step"] == 2
        job.end([task(tmp_path, 3)], 0)
        assert following()[1]["code"] == 0
        assert following() == ("ended", {})
        assert following() is None


def test_a_stream_that_is_open_does_not_hold_up_the_end(job, tmp_path):
    with PageServer(tmp_path / "logs", "127.0.0.1", 0) as server:
        connection = http.client.HTTPConnection("127.0.0.1", urlsplit(server.url).port, timeout=DEADLINE)
        connection.request("GET", "/events")
        assert connection.getresponse().readline().startswith(b"data: ")
        began = time.monotonic()
    assert time.monotonic() - began < DEADLINE / 2
    connection.close()


def test_on_loopback_another_name_is_refused(page):
    """Somebody else's page, whose name is made to lead here, would read this one."""
    assert ask(page.url, "/state", Host="evil.example")[0] == 403
    for host in ("localhost:1", "127.0.0.1", "[::1]:80"):
        assert ask(page.url, "/state", Host=host)[0] == 200, host


@pytest.mark.parametrize("path", ["/", "/state", "/events", "/logs/worker-0", "/metrics", "/page.js"])
def test_elsewhere_nothing_is_shown_without_the_key(job, tmp_path, path):
    secret = b"a secret of this job alone"
    with PageServer(tmp_path / "logs", "0.0.0.0", 0, secret) as server:
        key = page_key(secret)
        assert server.url.endswith(f"?key={key}")
        assert secret.decode() not in server.url
        for wrong in (
            {},
            {"Cookie": "muster_page=wrong"},
            {"Authorization": "Bearer é"},
            {"Cookie": "=;;muster_page"},
        ):
            status, _, text = ask(server.url, path, **wrong)
            assert (status, "train.py" in text) == (401, False)
        assert ask(server.url, f"{path}?key=wrong")[0] == 401
        if path == "/events":
            return
        assert ask(server.url, path, Authorization=f"Bearer {key}")[0] == 200
        status, headers, _ = ask(server.url, f"{path}?key={key}&from=0")
        assert (status, headers["location"]) == (303, f"{path}?from=0")
        cookie = headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert ask(server.url, path, Cookie=cookie.partition(";")[0])[0] == 200


def test_a_key_leads_nowhere_else(job, tmp_path):
    with PageServer(tmp_path / "logs", "0.0.0.0", 0, None) as server:
        key = server.url.partition("?key=")[2]
        assert ask(server.url, f"//evil.example/?key={key}")[1]["location"] == "/evil.example/"


def test_the_key_follows_from_the_secret():
    assert page_key(b"one" * 8) == page_key(b"one" * 8) != page_key(b"two" * 8)
    assert page_key(None) != page_key(None)


def test_a_port_that_is_taken_is_named(page, job, tmp_path, capsys):
    port = str(urlsplit(page.url).port)
    assert main(["page", str(tmp_path / "logs"), "--port", port]) == 1
    assert f"the page cannot listen at 127.0.0.1:{port}: Address already in use" in capsys.readouterr().err


def test_of_a_job_that_there_is_not_there_is_no_page(capsys):
    assert main(["page", "nobody's"]) == 1
    assert "no job has that name" in capsys.readouterr().err
