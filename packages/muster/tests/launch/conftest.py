"""What the tests of the launcher share."""

import os
import signal

import pytest
from launched import Launched, wait_until


@pytest.fixture
def launch(tmp_path):
    """Start ``muster run OPTIONS child DEEDS``; what is left at the end is a failure."""
    started = []

    def start(*deeds, options=(), **more):
        started.append(Launched(tmp_path, options, deeds, **more))
        return started[-1]

    yield start
    left = {}
    for job in started:
        if job.process.poll() is None:
            job.process.kill()
            job.end()
            wait_until(lambda job=job: not job.left())
            pytest.fail(f"the job did not end:\n{job.text}")
        left |= job.left()
        job.process.stdout.close()
    for process in left:
        os.kill(process, signal.SIGKILL)
    assert not left, f"left running: {left}"
