"""A job whose checkpoints and logs are on a server of S3, of the package moto."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest
from launched import clean_environment, process_of

from s3_server import MISSING, s3_server

pytestmark = [
    pytest.mark.alone,
    pytest.mark.processes,
    pytest.mark.slow,
    pytest.mark.skipif(MISSING, reason="needs moto and s3fs: make test-engines"),
]

DEADLINE = 150.0
URL = "s3://bucket/logs"
PROGRAM = f"""
import sys, time
sys.path.insert(0, {str(Path(__file__).parents[1] / "estimator")!r})
from linear import FEATURES, LABELS, estimator
from muster.data import Dataset
from muster.distribute import MultiWorkerMirroredStrategy

def slowly():
    def rows():
        while True:
            time.sleep(0.01)
            yield FEATURES[:8], LABELS[:8]
    return Dataset.from_generator(rows, output_types=("float32",) * 2, output_shapes=((8, 2), (8, 1)))

made = estimator("s3://bucket/run", save_checkpoints_steps=50, train_distribute=MultiWorkerMirroredStrategy())
print("goes on at", made.latest_checkpoint(), flush=True)
made.train(slowly, max_steps=300)
print("ended", flush=True)
"""


@pytest.fixture(scope="module")
def environ(tmp_path_factory):
    with s3_server(tmp_path_factory.mktemp("server") / "log") as found:
        yield {name: value for name, value in found.items() if name.startswith("AWS_")}


@pytest.fixture
def muster(environ, tmp_path):
    """Start a command on what counts as another machine: it knows none of the jobs of this one."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    started = []

    def start(*words):
        process = subprocess.Popen(
            [sys.executable, "-m", "muster", *words],
            env={**clean_environment(), **environ, "TMPDIR": os.fspath(elsewhere)},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate(timeout=DEADLINE)


def test_two_workers_train_on_and_their_logs_are_followed_elsewhere(launch, environ, muster, tmp_path):
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    options = ["--log-dir", URL, "--workers", "2", "--restarts", "1"]
    job = launch(options=options, program=program, environ={**environ, "JAX_PLATFORMS": "cpu"})
    job.read_until("Starts worker 0, worker 1. Logs: s3://bucket/logs")
    followed = muster("logs", "-f", "--job", URL)
    page = muster("page", URL)
    address = re.search(r"http://\S+", page.stdout.readline())[0]
    job.read_until("goes on at None")
    while muster("inspect", "s3://bucket/run").wait(DEADLINE):
        assert job.process.poll() is None, job.end()
    os.kill(process_of(job, "worker1"), signal.SIGKILL)
    assert job.end(DEADLINE) == 0, job.text
    for index in (0, 1):
        assert len(re.findall(rf"worker {index} . goes on at \S+ckpt-\d+", job.text)) == 1, job.text
    assert "is not the chief's folder" not in job.text
    lines = followed.communicate(timeout=DEADLINE)[0].splitlines()
    assert followed.returncode == 0
    for index in (0, 1):
        said = [line for line in lines if line.startswith(f"worker {index} | ")]
        assert f"worker {index} | ended" in said, lines
        assert sum("=== " in line for line in said) == 2, lines
    state, log = (json.load(urlopen(f"{address}{path}")) for path in ("state", "logs/worker-0"))
    assert [each["starts"] for each in state["tasks"]] == [2, 2]
    assert "goes on at None" in log["lines"][1]
    page.send_signal(signal.SIGINT)
    assert page.wait(DEADLINE) == 130
    shown = muster("inspect", "s3://bucket/run").communicate(timeout=DEADLINE)[0]
    assert re.search(r"^ *300 .* intact$", shown, re.MULTILINE), shown


def test_a_bucket_that_is_not_there_starts_nothing(launch, environ):
    job = launch(options=["--log-dir", "s3://nowhere/logs"], environ=environ)
    assert job.end(DEADLINE) == 1
    assert re.search(
        "muster run: s3://nowhere/logs/.* cannot be written: there is no bucket s3://nowhere", job.text
    )
    assert len(job.lines) == 1, job.text
    assert "Starts" not in job.text


def test_a_training_in_a_bucket_that_is_not_there_ends_at_once(environ, tmp_path):
    program = tmp_path / "train.py"
    program.write_text(PROGRAM.replace("s3://bucket/run", "s3://nowhere/run"))
    done = subprocess.run(
        [sys.executable, program],
        env={**clean_environment(), **environ, "JAX_PLATFORMS": "cpu"},
        capture_output=True, text=True, timeout=DEADLINE, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    told = "Checkpoints cannot be written to s3://nowhere/run: .* cannot be written: there is no bucket s3://nowhere"
    assert re.search(told, done.stderr.splitlines()[-1]), done.stderr
