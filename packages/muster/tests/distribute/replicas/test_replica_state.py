"""State that a step changes besides weights: the same on two devices of a process and on two workers."""

from pathlib import Path

import numpy as np
import pytest
from replica_state import EPSILON, MOMENTUM, ROWS, STEPS, WIDTH, X, Y, run

from jobs import Job
from muster.distribute import MirroredStrategy

pytestmark = pytest.mark.processes

CHILD = Path(__file__).with_name("replica_state.py")
SHARED = range(1, STEPS)  # the steps whose rows the replicas share


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return run(None, tmp_path_factory.mktemp("alone"))


@pytest.fixture(scope="module")
def mirrored(tmp_path_factory):
    return run(MirroredStrategy(["/cpu:0", "/cpu:1"]), tmp_path_factory.mktemp("mirrored"))


@pytest.fixture(scope="module")
def workers(tmp_path_factory):
    """What each of two workers saw."""
    folder = tmp_path_factory.mktemp("workers")
    files = [folder / f"worker{index}.npz" for index in (0, 1)]
    with Job(folder, [CHILD], worker=2) as job:
        for index, file in enumerate(files):
            job.start("worker", index, {"model_dir": str(folder / "model"), "seen": str(file)})
        job.all_end_well()
    return [dict(np.load(file)) for file in files]


@pytest.fixture(params=["mirrored", "workers"])
def replicas(request):
    """What each of two replicas computed in the steps that they share, and the job's state."""
    if request.param == "workers":
        first, second = request.getfixturevalue("workers")
        return first, second, first
    both = request.getfixturevalue("mirrored")
    halves = [{}, {}]
    for step in SHARED:
        for name in (f"normalized{step}", f"dropped{step}"):
            halves[0][name], halves[1][name] = np.split(both[name], 2)
    return *halves, both


@pytest.mark.samples("mirrored")
def test_batch_statistics_are_each_replicas_own(replicas):
    for step in SHARED:
        for number, replica in enumerate(replicas[:2]):
            rows = X[ROWS * (2 * (step - 1) + number) :][:ROWS]
            expected = (rows - rows.mean(0)) / np.sqrt(rows.var(0) + EPSILON)
            np.testing.assert_allclose(replica[f"normalized{step}"], expected, rtol=1e-4, atol=1e-5)


def test_moving_statistics_are_means_over_the_replicas_which_count_by_their_rows(replicas):
    mean, variance = np.zeros(3), np.ones(3)
    for step in SHARED:
        halves = X[2 * ROWS * (step - 1) :][: 2 * ROWS].reshape(2, ROWS, 3)
        mean = MOMENTUM * mean + (1 - MOMENTUM) * halves.mean(1).mean(0)
        variance = MOMENTUM * variance + (1 - MOMENTUM) * halves.var(1).mean(0)
    first, second = np.split(X[2 * ROWS * (STEPS - 1) :], [3])  # five rows
    mean = MOMENTUM * mean + (1 - MOMENTUM) * (3 * first.mean(0) + 2 * second.mean(0)) / 5
    variance = MOMENTUM * variance + (1 - MOMENTUM) * (3 * first.var(0) + 2 * second.var(0)) / 5
    variables = replicas[2]
    np.testing.assert_allclose(variables["variable:norm/moving_mean"], mean, rtol=1e-5)
    np.testing.assert_allclose(variables["variable:norm/moving_variance"], variance, rtol=1e-5)


def test_dropout_masks_are_each_replicas_own(replicas, alone):
    masks = {}
    for step in SHARED:
        for number, replica in enumerate(replicas[:2]):
            dropped = replica[f"dropped{step}"]
            assert dropped.shape == (ROWS, WIDTH)
            assert set(np.unique(dropped)) == {0, 2}
            masks[step, number] = dropped.tobytes()
        # The first replica's are those of one device.
        np.testing.assert_array_equal(replicas[0][f"dropped{step}"], alone[f"dropped{step}"])
    assert len(set(masks.values())) == len(masks)


@pytest.mark.samples("mirrored")
def test_the_metrics_of_replicas_count_each_example_once(replicas):
    found = replicas[2]
    mean, variance, gamma, beta, kernel, bias = [
        found[f"variable:{name}"]
        for name in ("norm/moving_mean", "norm/moving_variance", "norm/gamma", "norm/beta")
    ] + [found["variable:dense/kernel"], found["variable:dense/bias"]]
    logits = ((X - mean) / np.sqrt(variance + EPSILON) * gamma + beta) @ kernel + bias
    assert found["metric:count"] == len(Y)
    assert found["metric:total"] == Y.sum()
    assert found["metric:accuracy"] == pytest.approx((logits.argmax(1) == Y).mean(), abs=1e-7)
    assert found["metric:mean"] == pytest.approx(Y.mean(), abs=1e-7)


def test_two_workers_and_two_devices_of_one_process_have_the_same_state(mirrored, workers):
    for name, value in mirrored.items():
        if name.startswith(("variable:", "metric:")):
            for worker in workers:
                np.testing.assert_allclose(worker[name], value, rtol=1e-6, atol=1e-7, err_msg=name)
    for step in SHARED:
        both = np.concatenate([worker[f"dropped{step}"] for worker in workers])
        np.testing.assert_array_equal(both, mirrored[f"dropped{step}"])
