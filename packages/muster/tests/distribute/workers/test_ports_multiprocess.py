"""Where the tasks of a job listen, for anyone to connect."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jobs import DEADLINE, Job

pytestmark = [pytest.mark.alone, pytest.mark.processes]

CHILDREN = {
    "estimator": (Path(__file__).with_name("bad_job_child.py"), {"steps": 10**6}),
    "custom loop": (Path(__file__).parents[1] / "wrong_label_child.py", {"steps": 10**6, "step": -1}),
}
# A stranger who takes the address for that of JAX's coordination service.
STRANGER = """
import sys, jax
jax.distributed.initialize(sys.argv[1], 2, 1, initialization_timeout=2, cluster_detection_method="deactivate")
"""


def listening(process):
    """Where a process listens: pairs of an address, in hexadecimal digits of the kernel's, and a port."""
    held = {os.readlink(descriptor) for descriptor in Path(f"/proc/{process}/fd").iterdir()}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{process}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in held:
                address, port = fields[1].split(":")
                found.add((address, int(port, 16)))
    return found


def wait_for_step(task, after=0):
    """Wait until a task has taken more than so many steps; returns how many it has taken."""
    deadline = time.monotonic() + DEADLINE
    while (steps := task.log.count("step ")) <= after:
        assert task.process.poll() is None, task.log
        assert time.monotonic() < deadline, task.log
        time.sleep(0.05)
    return steps


@pytest.fixture
def job(request, tmp_path):
    """Two workers that train; given is the name of their program, and what else it is told."""
    name, more = request.param
    child, options = CHILDREN[name]
    with Job(tmp_path, [child], worker=2) as job:
        for index in (0, 1):
            job.start("worker", index, {"model_dir": str(tmp_path / "model"), **options, **more})
        for task in job.tasks:
            wait_for_step(task)
        yield job


@pytest.mark.slow
@pytest.mark.parametrize("job", [(name, {}) for name in CHILDREN], ids=CHILDREN, indirect=True)
def test_workers_with_a_cpu_device_listen_at_their_addresses_alone(job):
    for task, address in zip(job.tasks, job.cluster["worker"], strict=True):
        assert listening(task.process.pid) == {("0100007F", int(address.rpartition(":")[2]))}
    command = [sys.executable, "-c", STRANGER, job.cluster["worker"][0]]
    assert subprocess.run(command, capture_output=True, timeout=DEADLINE).returncode != 0
    for task in job.tasks:
        wait_for_step(task, after=wait_for_step(task))


@pytest.mark.parametrize("job", [("estimator", {"devices": 2})], indirect=True)
def test_jax_joins_workers_with_several_devices_at_no_other_interface(job):
    found = [{address for address, _ in listening(task.process.pid)} for task in job.tasks]
    assert len(listening(job.tasks[0].process.pid)) > 1  # JAX's coordination, too
    for addresses in found:
        assert not addresses & {"0" * 8, "0" * 32}  # all interfaces
