"""What a task that has lost another leaves at the end of its log."""

import subprocess
import sys

import pytest

from muster.cluster.roster._roster import EXIT_PEER_LOST

pytestmark = pytest.mark.alone

PROGRAM = """
import logging, sys, threading
from muster.cluster import Task, TaskType
from muster.cluster.roster._roster import exit_because_lost

said = threading.Event()

class Says(logging.StreamHandler):
    def emit(self, record):
        super().emit(record)
        said.set()
        threading.main_thread().join(1.0)  # time enough for its error

logging.getLogger().addHandler(Says())
threading.Thread(target=exit_because_lost, args=(Task(TaskType.WORKER, 1), "it is gone.")).start()
said.wait()
raise ConnectionError("the collective was cut off")
"""


def test_an_error_that_the_loss_causes_does_not_hide_the_reason() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60)
    assert done.returncode == EXIT_PEER_LOST, done.stderr
    assert done.stderr == "This task ends, because it has lost worker 1: it is gone.\n"
