"""`fit`, `evaluate` and `predict` in several processes."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from fit_cases import BATCH, ROWS
from fit_child import dataset_creator, mixed_rows

from jobs import SOON, Job, free_addresses
from muster.cluster.roster._roster import EXIT_PEER_LOST
from muster.distribute import get_strategy

pytestmark = [pytest.mark.alone, pytest.mark.processes]

CHILD = Path(__file__).with_name("fit_child.py")

STEPS = -(-ROWS // BATCH)  # of an epoch


def start(folder, scenario, **options):
    """A job whose two workers are about to run a scenario, and where they report."""
    folder.mkdir(exist_ok=True)
    reports = [folder / f"report-{index}" for index in (0, 1)]
    job = Job(folder / "job", [CHILD], worker=2)
    for index, report in enumerate(reports):
        job.start("worker", index, {"scenario": scenario, "report": str(report), **options})
    return job, reports


def run(folder, scenario, **options):
    """What each worker reports of a scenario that ends well."""
    job, reports = start(folder, scenario, **options)
    with job:
        job.all_end_well()
        assert all("WARNING" not in task.log for task in job.tasks), job.tasks[0].log
    return [json.loads(report.read_text()) for report in reports]


@pytest.mark.slow
@pytest.mark.parametrize("joined", [False, True])
def test_a_step_that_mixes_rows_is_divided_by_xla_if_the_program_joins_jax(tmp_path, joined):
    job, reports = start(tmp_path, "mixed_rows", join=free_addresses(1)[0] if joined else None)
    with job:
        job.all_end_well()
    for task in job.tasks:
        assert ("Every worker computes a step on the rows of all" in task.log) is not joined, task.log
    first, second = [json.loads(report.read_text()) for report in reports]
    assert first == second
    expected = mixed_rows(get_strategy(), {})
    assert first["history"].keys() == expected["history"].keys()
    for name, values in expected["history"].items():
        assert first["history"][name] == pytest.approx(values, abs=1e-5)
    assert first["evaluated"] == pytest.approx(expected["evaluated"], abs=1e-5)
    np.testing.assert_allclose(first["predicted"], expected["predicted"], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_data_of_their_own_that_ends_at_different_times(tmp_path):
    first, second = run(tmp_path, "own_data")
    assert first == second  # also where each worker has augmented the rows that all compute
    assert not first["pools as JAX does"]
    for name, value in first["whole"].items():
        assert first["own"][name] == pytest.approx(value, abs=1e-6)


@pytest.mark.slow
def test_a_function_that_makes_each_workers_data(tmp_path):
    first, second = run(tmp_path, "dataset_creator")
    assert first == second
    expected = dataset_creator(get_strategy(), {})
    for name, values in expected["history"].items():
        assert first["history"][name] == pytest.approx(values, abs=1e-5)
    assert first["evaluated"] == pytest.approx(expected["evaluated"], abs=1e-5)


@pytest.mark.slow
def test_the_chief_writes_and_all_stop_together(tmp_path):
    first, second = run(tmp_path, "callbacks", files=str(tmp_path))
    assert first == second
    assert len(first["losses"]) == STEPS + 3
    assert len(first["early"]["loss"]) == 2
    written = {path.name for path in tmp_path.iterdir() if re.search(r"-\d", path.name)} - {
        "report-0",
        "report-1",
    }
    assert written == {"model-0.keras", "log-0.csv", "board-0"}
    assert {path.name for path in (tmp_path / "board-0").iterdir()} == {"train", "validation"}


def test_a_job_whose_chief_died_goes_on_at_the_next_step(tmp_path):
    job, _ = start(tmp_path / "died", "backup", files=str(tmp_path), dies=0)
    with job:
        assert [task.code() for task in job.tasks] == [-9, EXIT_PEER_LOST]
    (first, second) = run(tmp_path / "again", "backup", files=str(tmp_path), dies=None)
    assert first == second
    again, expected = first["resumed"], first["left alone"]
    # Steps 1 to 8, 9 to 12 of 16: what was saved. What comes then is the same, bit for bit.
    assert again["losses"][-12:] == expected["losses"][-12:]
    assert again["weights"] == expected["weights"]
    for name, values in again["history"].items():
        assert values == expected["history"][name][-len(values) :]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scenario", "error"),
    [
        ("failing_callback", r"ZeroDivisionError: this callback fails|worker 1 (has )?failed"),
        ("other_structure", r"worker 0 and worker 1 have a batch of float32\[32, 6\], int64\[32\] and"),
        ("other_contents", r"worker 0 and worker 1 have batches with other contents"),
        ("drawn_early", r"other contents.* make it before the data"),
        ("generator_of_its_own", r"other contents.* np.random.default_rng\(...\) .* need a seed"),
    ],
)
def test_workers_that_do_not_fit_say_why(tmp_path, scenario, error):
    job, _ = start(tmp_path, scenario)
    with job:
        codes = [task.code() for task in job.tasks]
        assert 1 in codes, [task.log for task in job.tasks]
        assert set(codes) <= {1, EXIT_PEER_LOST}
        assert any(re.search(error, task.log) for task in job.tasks), job.tasks[0].log


@pytest.mark.slow
def test_a_program_without_a_seed_has_the_same_data_on_all_workers(tmp_path):
    first, second = run(tmp_path, "unseeded")
    assert first == second


@pytest.mark.slow
def test_data_that_keras_does_not_know_is_the_same_for_all_workers(tmp_path):
    first, second = run(tmp_path, "other_data")
    assert first == second
    expected = first.pop("arrays")
    for weights in first.values():
        for one, other in zip(weights, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("how", ["SIGKILL", "SIGSTOP"])
def test_a_worker_that_is_gone_ends_the_others(tmp_path, how):
    job, _ = start(tmp_path, "killed", signal=how, timeout_seconds=4.0)
    with job:
        survivor, lost = job.tasks
        assert survivor.code() == EXIT_PEER_LOST
        assert "worker 1" in survivor.last_line, survivor.log
        if how == "SIGKILL":
            assert lost.code(SOON) == -9
