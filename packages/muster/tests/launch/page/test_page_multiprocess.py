"""The page of a real job, and a job whose tasks stand still."""

import http.client
import json
import re
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from launched import DEADLINE, clean_environment, wait_until

from muster.__main__ import _commands_of, _parser
from muster.launch import spell_out_page

pytestmark = [pytest.mark.alone, pytest.mark.processes]

TRAIN = ["worker0=train:5", "worker1=train:5"]


def ask(url, path, **headers):
    with closing(http.client.HTTPConnection("127.0.0.1", urlsplit(url).port, timeout=DEADLINE)) as connection:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def test_a_job_is_shown_while_it_runs_and_its_tasks_that_stand_still_are_named(tmp_path, launch):
    """One job for both, since it takes some seconds to start."""
    options = ["--workers", "2", "--page", "--page-host", "0.0.0.0", "--stall-secs", "1"]
    job = launch(*TRAIN, options=options)
    job.read_until("Page: http://", "has made no step")
    (url,) = re.findall(r"Page: (http://\S+)", job.text)
    key = url.partition("?key=")[2]
    assert ask(url, "/state")[0] == 401
    status, text = ask(url, "/state", Authorization=f"Bearer {key}")
    state = json.loads(text)
    assert (status, state["page"]) == (200, url.partition("?")[0])
    assert [each["progress"]["step"] for each in state["tasks"]] == [5, 5]
    assert 'muster_task_step{job="' in ask(url, "/metrics", Authorization=f"Bearer {key}")[1]
    stacks = job.log_dir / "stacks-1.txt"
    wait_until(stacks.exists)
    wait_until(lambda: "=== worker 1" in stacks.read_text())
    assert "has made no step after 5 for" in stacks.read_text().splitlines()[0]
    assert "signal.sigwait" in stacks.read_text()
    job.process.send_signal(signal.SIGTERM)
    assert job.end() == 128 + signal.SIGTERM
    with pytest.raises(ConnectionRefusedError):
        ask(url, "/state")
    page = subprocess.Popen(
        [sys.executable, "-m", "muster", "page", job.log_dir],
        env=clean_environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    with page, page.stdout as output:
        (url,) = re.findall(r"is shown at (http://\S+)", output.readline())
        state = json.loads(ask(url, "/state")[1])
        assert (state["code"], state["runs"], state["stacks"]) == (143, False, ["stacks-1.txt"])
        page.send_signal(signal.SIGINT)
        assert page.wait(DEADLINE) == 130


def test_a_port_of_the_page_that_is_taken_starts_nothing(tmp_path, launch):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        job = launch(*TRAIN, options=["--workers", "2", f"--page={taken.getsockname()[1]}"])
        assert job.end() == 1
    assert re.search(
        r"muster run: the page cannot listen at 127\.0\.0\.1:\d+: Address already in use", job.text
    )
    assert job.of_tasks == [line for line in job.of_tasks if line.startswith("muster run:")]


@pytest.mark.parametrize(
    ("words", "spelled"),
    [
        (["--page", "train.py"], ["--page=0", "train.py"]),
        (["--page", "8800", "train.py"], ["--page", "8800", "train.py"]),
        (["--page=8800", "train.py"], ["--page=8800", "train.py"]),
        (["--workers", "2", "--page", "-m", "train"], ["--workers", "2", "--page=0", "-m", "train"]),
        (["--page", "--workers", "2", "train.py"], ["--page=0", "--workers", "2", "train.py"]),
        (["--chief", "--page", "train.py"], ["--chief", "--page=0", "train.py"]),
        (["train.py", "--page", "home"], ["train.py", "--page", "home"]),
        (["-m", "train", "--page", "home"], ["-m", "train", "--page", "home"]),
        (["--log-dir", "--page", "train.py"], ["--log-dir", "--page", "train.py"]),
        (["--page"], ["--page=0"]),
        ([], []),
    ],
)
def test_the_program_is_not_taken_for_the_port(words, spelled):
    assert spell_out_page(_commands_of(_parser())["run"], words) == spelled


BROWSERS = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"]


SOON = 20_000.0  # milliseconds


@pytest.fixture
def browser():
    """Chromium without a window."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = next((path for path in BROWSERS if Path(path).exists()), None)
    with playwright.sync_playwright() as started:
        if found is None and not Path(started.chromium.executable_path).exists():
            pytest.skip("There is no Chromium: install it, or run `playwright install chromium`.")
        made = started.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield made
        made.close()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_in_a_browser(tmp_path, launch, browser, scheme):
    job = launch(*TRAIN, options=["--workers", "2", "--page"])
    job.read_until("Page: http://")
    (url,) = re.findall(r"Page: (http://\S+)", job.text)
    context = browser.new_context(viewport={"width": 390, "height": 800}, color_scheme=scheme)
    page = context.new_page()
    wrong = []
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("requestfailed", lambda request: wrong.append(request.url))
    page.goto(url)
    from playwright.sync_api import expect

    expect(page.locator(".task")).to_have_count(2)
    expect(page.locator("#summary")).to_contain_text("12.3", timeout=SOON)
    expect(page.locator("h1")).to_contain_text("worker1=train:5")
    expect(page.locator(".chart")).to_have_count(2, timeout=SOON)
    expect(page.locator("#log")).to_contain_text("=== ")
    page.select_option("#which", "worker-1")
    expect(page.locator("#log")).to_contain_text("worker 1 of job")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(22, 24, 26)") is (scheme == "dark")
    assert page.title().startswith("▶")
    assert page.evaluate(
        "[...document.querySelectorAll('script, link, img')].every((each) => "
        "(each.src || each.href).startsWith(location.origin) || each.href === 'data:,')"
    )
    assert wrong == []
    job.process.send_signal(signal.SIGTERM)
    assert job.end() == 128 + signal.SIGTERM
    context.close()
