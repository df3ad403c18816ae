"""A parameter server in its own process, with a compiled update."""

import os
import re
import signal
import threading
import time
from pathlib import Path

import jax
import jax.export
import numpy as np
import pytest
from ps_job import SECS, Served, worker

from jobs import SOON, Job
from muster.ps import FirstValues, Pushed
from muster.ps import _messages as messages
from muster.ps._array_spec import ArraySpec
from muster.ps._flat_layout import FlatLayout
from muster.ps._plan import Plan
from muster.ps._wire import encode
from muster.ps.contents.updates import versions

pytestmark = pytest.mark.processes

CHILD = Path(__file__).with_name("ps_child.py")
SIZE = 50_000
SPECS = (ArraySpec("kernel", (SIZE,), "float32"),)


def descent(pulled, pushed):
    return [pulled - 0.5 * pushed]


def plan():
    flat = jax.ShapeDtypeStruct((SIZE,), "float32")
    update = bytes(jax.export.export(jax.jit(descent))(flat, flat).serialize())
    return Plan(pulled=SPECS, pushed=SPECS, update=update)


def flat(value):
    return FlatLayout(SPECS).pack({"kernel": np.full(SIZE, value, np.float32)})


@pytest.fixture
def job(tmp_path):
    folders = [Path(__file__).parent, Path(__file__).parents[1]]
    path = os.pathsep.join([*map(str, folders), os.environ.get("PYTHONPATH", "")])
    with Job(tmp_path, [CHILD], ps=1) as made:
        made.start("ps", environ={"PYTHONPATH": path})
        yield made


def connected(job, task, run="run"):
    server = Served(None, None, job.cluster["ps"][0])
    return worker(server, plan(), task, run=run, versions=versions())


def test_a_server_that_is_stopped_for_a_while_and_ends_with_the_job(job):
    (server,) = job.tasks
    with connected(job, "chief 0") as chief, connected(job, "worker 0") as one:
        chief.initialize([FirstValues(flat(1.0), {})], step=0)
        ticket = one.take_ticket(2).number
        server.process.stop()
        answers = []

        def push():
            answers.extend(one.push_and_pull([Pushed(flat(1.0))], ticket=ticket, wants=True, max_steps=2))

        thread = threading.Thread(target=push)
        thread.start()
        thread.join(0.5)
        assert thread.is_alive()
        server.process.send_signal(signal.SIGCONT)
        thread.join(SECS)
        assert answers[0].answer.ticket == 1
        np.testing.assert_array_equal(answers[0].pulled["float32"], 0.5)
        assert chief.statistics()[0].pushes == 1
        chief.end()
    assert server.code(SOON) == 0
    assert server.log == ""


def test_a_worker_that_was_started_again(job):
    with connected(job, "chief 0") as chief:
        chief.initialize([FirstValues(flat(1.0), {})], step=0)
        with connected(job, "worker 0") as one:
            one.push_and_pull([Pushed(flat(1.0))], ticket=one.take_ticket(None).number)
        with connected(job, "worker 0", run="another") as one:
            answer = one.push_and_pull([Pushed(flat(1.0))], ticket=one.take_ticket(None).number)[0]
            assert (answer.answer.step, float(answer.pulled["float32"][0])) == (2, 0.0)
        chief.end()
    assert job.tasks[0].code(SOON) == 0


@pytest.mark.alone
def test_memory_stays_flat_under_pushes_and_malformed_frames(job):
    (server,) = job.tasks
    with connected(job, "chief 0") as chief:
        chief.initialize([FirstValues(flat(1.0), {})], step=0)
        for _ in range(100):
            chief.push_and_pull([Pushed(flat(0.0))])
        before = memory(server.process.pid)
        rubbish = bytes(encode(messages.Push(number=1), [np.zeros(1 << 30, np.int8)])[0]) + bytes(1 << 22)
        dial = Served(None, None, job.cluster["ps"][0]).dial("worker 0")
        for _ in range(50):
            with dial(SECS) as connection:
                connection.send_all([rubbish], time.monotonic() + SECS)
                assert b"refused" in connection.wait_for_data(1 << 16, time.monotonic() + SECS)
        for _ in range(500):
            chief.push_and_pull([Pushed(flat(0.0))])
        # 50 buffers of 4 MB, or 500 of 0.2 MB, would be 100 MB and more.
        assert memory(server.process.pid) - before < 20e6
        chief.end()
    assert server.code(SOON) == 0


def memory(process):
    """The memory that a process has now, in bytes."""
    status = Path(f"/proc/{process}/status").read_text()
    return 1024 * int(re.search(r"VmRSS:\s+(\d+) kB", status)[1])
