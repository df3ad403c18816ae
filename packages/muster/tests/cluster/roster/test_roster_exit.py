"""What a task that has lost another leaves at the end of its log."""

import subprocess
import sys

import pytest

from muster.cluster.roster._roster import EXIT_PEER_LOST

pytestmark = [pytest.mark.alone, pytest.mark.processes]

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


REPORTS = """
import sys, threading, time
from muster.cluster import Task, TaskType
from muster.cluster.roster._roster import exit_because_lost
from muster import lifecycle

def report(kind, error, trace):
    sys.stderr.write("cut ")
    sys.stderr.flush()
    threading.Thread(target=exit_because_lost, args=(Task(TaskType.WORKER, 1), "it is gone.")).start()
    time.sleep({seconds})
    sys.stderr.write("off\\n")
    sys.stderr.flush()

sys.excepthook = report
lifecycle.install()
raise ValueError
"""


def test_an_error_that_is_being_reported_comes_before_the_reason() -> None:
    program = REPORTS.format(seconds=0.5)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == EXIT_PEER_LOST, done.stderr
    assert done.stderr == "cut off\nThis task ends, because it has lost worker 1: it is gone.\n"


def test_a_report_that_does_not_end_keeps_no_task() -> None:
    program = REPORTS.format(seconds=60)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
    assert done.returncode == EXIT_PEER_LOST, done.stderr
    assert "it has lost worker 1: it is gone." in done.stderr
