"""A server of S3 on this machine, of the package moto, for tests."""

import contextlib
import importlib.util
import os
import socket
import subprocess
import sys
import time

MISSING = any(importlib.util.find_spec(name) is None for name in ("moto", "s3fs"))
"""Whether a package is missing that the server or its clients need."""


@contextlib.contextmanager
def s3_server(log, path=()):
    """Yield the environment of programs that find a server with an empty bucket, ``s3://bucket``.

    Args:
        log: The file of its output.
        path: Folders with the packages, unless they are installed.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environ = {
        **os.environ,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
    }
    if path:
        environ["PYTHONPATH"] = os.pathsep.join(map(os.fspath, path))
    command = [sys.executable, "-m", "moto.server", "-p", str(port)]
    with (
        log.open("w") as output,
        subprocess.Popen(command, env=environ, stderr=output, stdout=output) as process,
    ):
        try:
            make = "import fsspec; fsspec.filesystem('s3').mkdir('bucket')"
            deadline = time.monotonic() + 60
            while subprocess.run([sys.executable, "-c", make], env=environ, capture_output=True).returncode:
                assert time.monotonic() < deadline, log.read_text()
            yield environ
        finally:
            process.kill()
