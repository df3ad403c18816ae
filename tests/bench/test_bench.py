"""The bench itself, on its smallest case and with muster alone: it measures nothing here."""

import json
import math
import subprocess
import sys

import pytest

from repository import ROOT


@pytest.fixture(autouse=True)
def _bench_can_be_imported(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)


@pytest.mark.processes
def test_a_run_prints_a_table_and_keeps_its_figures(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "bench.peers", "--cases", "mlp", "--contestants", "muster"]
        + ["--steps", "2", "--alternations", "3", "--results", tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads((tmp_path / "peers_mlp.json").read_text())
    times = figures["ms_per_step"]
    assert list(times) == ["muster"]
    assert len(times["muster"]) == 3
    assert f"| muster, Estimator | {sorted(times['muster'])[1]:.3f} | 1 |" in done.stdout
    assert figures["losses"][0] > figures["losses"][1]
    assert figures["steps_per_turn"] == 2
    assert {"date", "machine", "versions", "contestants", "roofline_ms"} <= set(figures)


@pytest.mark.processes
def test_the_growth_with_variables_is_measured_in_each_way(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "bench.growth", "--counts", "4", "--rounds", "1", "--results", tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    ways = json.loads((tmp_path / "growth.json").read_text())["ways"]
    assert list(ways) == ["plain JAX", "Keras' fit", "fit", "loop", "Estimator", "served"]
    for way, by_count in ways.items():
        (turn,) = by_count["4"]
        assert 0 < turn["compiling"] < turn["first"], way
        assert 0 < turn["step_ms"]
        assert f"| {way} | 4 |" in done.stdout


def test_losses_that_differ_are_told_by_step_and_name():
    from bench.peers import widest_gap

    gap, where = widest_gap({"a": [2.0, 1.0], "b": [2.0, 1.5], "c": [2.0, 1.25]})

    assert gap == 0.5
    assert where == "step 2: a has 1.000000, b has 1.500000"


def test_losses_that_are_no_numbers_differ_by_more_than_any_bound():
    from bench.peers import widest_gap

    assert widest_gap({"a": [1.0], "b": [math.nan]})[0] == math.inf


CASES = ["mlp", "cnn", "resnet", "mobilenet", "lstm", "gru", "transformer", "wide_and_deep"]


def test_each_case_is_known_by_name():
    from bench import peers

    assert list(peers.CASES) == CASES


@pytest.mark.parametrize("case", CASES)
def test_the_cost_of_a_step_counts_every_kernel_of_the_model(case):
    import importlib

    from muster._keras import keras

    module = importlib.import_module(f"bench.cases.{case}")
    model = module.keras_model(keras)
    features, _ = module.data(1)
    model(features)

    kernels = [v for v in model.trainable_variables if v.path.endswith("kernel")]
    counted = sum(layer.weights for layer in module.LAYERS if layer.multiply_adds)
    assert counted == sum(math.prod(kernel.shape) for kernel in kernels)


@pytest.mark.processes
def test_a_canned_model_is_measured_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("MUSTER_BENCH_TENSORFLOW", str(tmp_path / "absent"))
    done = subprocess.run(
        [sys.executable, "-m", "bench.canned", "--steps", "2", "--alternations", "1", "--results", tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads((tmp_path / "canned.json").read_text())
    assert list(figures["ms_per_step"]) == ["muster"]
    assert figures["losses"][0] > figures["losses"][1]


@pytest.mark.processes
@pytest.mark.soak  # it compiles for long
def test_tables_on_servers_and_in_workers_are_compared(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "bench.recommender", "--rows", "30000", "--large-rows", "40000"]
        + ["--steps", "8", "--alternations", "1", "--results", tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "recommender.json").read_text())
    tables = [(each["table"], each["rows"]) for each in found["figures"]]
    assert tables == [("served", 30_000), ("mirrored", 30_000), ("sparse", 30_000), ("served", 40_000)]
    assert all(each["batches_s"] > 0 and each["worker_mb"] > 0 for each in found["figures"])
    assert set(found["ratios"]) == {"mirrored", "sparse"}


def test_contestants_take_turns_in_the_other_order_at_every_round(capsys):
    from bench.coordinator import in_turn, ratios

    took = []

    def turn(name, speed):
        took.append(name)
        return speed * len(took)

    found = in_turn({"muster": lambda: turn("muster", 2.0), "other": lambda: turn("other", 1.0)}, 2)

    assert took == ["other", "muster", "muster", "other"]
    assert found == {"muster": [4.0, 6.0], "other": [1.0, 4.0]}
    assert ratios(found) == {"muster": 5.0, "other": 2.5, "over other": 2.75}
    assert "muster is 2.75 (1.5 to 4) times as fast as other." in capsys.readouterr().out


def test_what_a_job_trains_on_twice_after_a_restart_is_counted():
    from bench import jobs

    def made(step, first):
        return {"step": step, "first": first}

    before = [made(1, 0), made(2, 64), made(3, 128)]
    # From the checkpoint of step 2: with the next example, and with the first.
    exact = [*before, made(3, 128), made(4, 192)]
    again = [*before, made(3, 0), made(4, 64)]
    assert (jobs.steps_again(exact), jobs.twice(exact)) == (1, 0)
    assert (jobs.steps_again(again), jobs.twice(again)) == (1, 2 * 2 * jobs.BATCH)


def test_a_job_that_never_goes_on_is_not_taken_for_a_fast_one():
    from bench import jobs

    assert jobs.middle([3.0, 1.0, 2.0]) == "2.0 (1.0 to 3.0)"
    assert jobs.middle([3.0, None]) == f"3.0 (3.0 to 3.0) not within {jobs.DEADLINE_SECS}, 1 times of 2"
    assert jobs.middle([None]) == f"not within {jobs.DEADLINE_SECS}, 1 times of 1"


def test_peers_that_do_not_go_on_after_a_kill_are_told():
    from bench import recovery

    figures = {"seconds": 0.5, "again": 0, "noticed": 0.1, "joined": 0.3}
    found = {
        "elastic": [figures, figures],
        "torchrun": [{"seconds": 5.0, "again": 10}, {"again": 0}],
        "ray": [{"again": 0}, {"again": 0}],
    }
    table = recovery.kill_table(found)
    assert "| elastic job | 0.50 (0.50 to 0.50) |  | 0 | 0.10 (0.10 to 0.10) | 0.30 (0.30 to 0.30) |" in table
    assert "5.00 (5.00 to 5.00) none within 60 s, 1 times of 2 | 10.0 (10.0 to 10.0) |" in table
    assert "| none within 60 s, 2 times of 2 |  | 0 |" in table


def test_a_start_without_lightning_is_measured_all_the_same(monkeypatch, capsys):
    from bench import start

    monkeypatch.setattr(start, "python_of", lambda contestant: None)
    assert list(start.jobs()) == list(start.JOBS)
    assert "Lightning is not installed" in capsys.readouterr().err
