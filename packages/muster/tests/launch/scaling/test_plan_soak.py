"""Predictions from a job of two sleeping workers, beside what jobs of one to eight do: within 15 per cent."""

import pytest
from scaling_jobs import measured

from muster.launch.scaling._predictions import error_of

pytestmark = [pytest.mark.alone, pytest.mark.processes, pytest.mark.soak, pytest.mark.timeout(900)]


@pytest.mark.parametrize("servers", [0, 1], ids=["in step", "beside a server"])
def test_jobs_of_one_to_eight_workers_are_as_fast_as_was_predicted(tmp_path, servers):
    jobs = {count: measured(tmp_path, count, servers) for count in (1, 2, 4, 8)}
    assert {count: job.workers for count, job in jobs.items()} == {count: count for count in jobs}
    errors = {count: error_of(jobs[2], jobs[count]) for count in (1, 4, 8)}
    assert max(map(abs, errors.values())) < 0.15, errors
