"""Training on an S3 server, of the package moto, by processes that are killed; about three minutes."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from s3_server import s3_server

pytestmark = [pytest.mark.soak, pytest.mark.processes]

PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from linear import dataset, estimator, train_input

made = estimator("s3://bucket/run", save_checkpoints_steps=50)
print(made.latest_checkpoint(), flush=True)
if sys.argv[2] == "evaluate":
    metrics = made.evaluate(dataset)
    print(int(metrics["global_step"]), float(metrics["loss"]))
else:
    made.train(train_input, max_steps=int(sys.argv[2]))
"""


@pytest.fixture(scope="module")
def environ(tmp_path_factory):
    """Return the environment of programs that find a server with an empty bucket."""
    packages, logs = tmp_path_factory.mktemp("packages"), tmp_path_factory.mktemp("logs")
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--target",
        packages,
        "moto[server]",
        "s3fs",
    ]
    subprocess.run(install, check=True, timeout=600)
    with s3_server(logs / "server", [packages]) as found:
        yield found


def program(environ, what):
    command = [sys.executable, "-c", PROGRAM, os.fspath(Path(__file__).parent / "estimator"), what]
    return subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True)


def end(process):
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    return output.splitlines()


def test_training_that_is_killed_again_and_again_goes_on(environ):
    steps = 0
    for secs in (2.0, 3.0, 2.5, 3.5):
        process = program(environ, "1000000")
        with contextlib.closing(process.stdout):
            found = process.stdout.readline().strip()
            assert found.endswith(f"ckpt-{steps}") or not steps or int(found.rpartition("-")[2]) > steps
            steps = int(found.rpartition("-")[2]) if found != "None" else 0
            time.sleep(secs)  # whatever it does then
            process.send_signal(signal.SIGKILL)
            process.wait()
    found = end(program(environ, "evaluate"))[0]
    assert int(found.rpartition("-")[2]) > steps
    end(program(environ, str(last := int(found.rpartition("-")[2]) + 100)))
    step, loss = end(program(environ, "evaluate"))[-1].split()
    assert int(step) == last
    assert float(loss) < 1e-3
