"""Servers as processes, and requests to them."""

import contextlib
import http.client
import json
import os
import re
import time
from pathlib import Path

import pytest

from jobs import DEADLINE, Process

CHILD = Path(__file__).with_name("serve_child.py")


class Server:
    """A running ``muster serve``, killed at the end of the block.

    Args:
        log: where its output goes.
        folder: the folder that it serves.
        options: its further arguments.
    """

    def __init__(self, log, folder, *options, port=0):
        self._log = log
        arguments = [CHILD, folder, "--name", "m", "--port", port, "--poll-secs", "0.02", *options]
        self.process = Process(arguments, os.environ | {"XLA_FLAGS": ""}, log)

    @property
    def log(self):
        return self._log.read_text()

    def until(self, condition):
        """Wait until a function of no arguments returns something that is true, and return that."""
        deadline = time.monotonic() + DEADLINE
        while not (found := condition()):
            if time.monotonic() > deadline or self.process.poll() is not None:
                pytest.fail(f"The server never came there, code {self.process.poll()}:\n{self.log}")
            time.sleep(0.01)
        return found

    @property
    def port(self):
        """Its port, once it listens."""
        return int(self.until(lambda: re.search(r"at http://127\.0\.0\.1:(\d+)/v1/models/m\n", self.log))[1])

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE)

    def ask(self, path="", body=None, connection=None):
        """Return the status and the JSON of an answer."""
        with (
            contextlib.nullcontext(connection) if connection else contextlib.closing(self.connect()) as asked
        ):
            send(asked, path, body)
            return receive(asked)

    def serves(self, version):
        """Wait until a version is served."""
        self.until(lambda: self.states().get(str(version)) == "AVAILABLE")

    def states(self):
        told = self.ask()[1].get("model_version_status", ())
        return {each["version"]: each["state"] for each in told}

    def code(self):
        return self.process.wait(DEADLINE)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.kill()
        self.code()


def send(connection, path="", body=None):
    data = body if body is None or isinstance(body, bytes) else json.dumps(body)
    connection.request("GET" if body is None else "POST", f"/v1/models/m{path}", data)


def receive(connection):
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())
