"""Predictions of a job's speed, against queues and exchanges that can be computed by hand."""

import dataclasses
import json
import time

import pytest

from muster.__main__ import main
from muster.cluster.roster import Progress, TaskState, WorkTotals
from muster.launch._job_record import JobRecord, Recorder
from muster.launch._job_state import TaskRecord
from muster.launch.scaling._measured_job import MeasuredJob, NothingMeasuredError
from muster.launch.scaling._plan_command import _bytes_per_sec, _counts
from muster.launch.scaling._predictions import error_of, predict, saturation
from muster.launch.scaling._simulation import served_rate, slowest

IN_STEP = MeasuredJob(
    workers=2,
    servers=0,
    steps_per_sec=1 / 0.11,
    compute=0.09,
    input=0.01,
    spread=0.0,
    exchange=0.01,
    idle=0.0,
    nbytes=0.0,
    serve=0.0,
)
SERVED = dataclasses.replace(IN_STEP, servers=1, steps_per_sec=2 / 0.11, serve=0.004)


def task(totals, kind="worker", index=0, host=""):
    return TaskRecord(
        type=kind,
        index=index,
        state="done",
        pid=1,
        address="h:1",
        log="l",
        starts=1,
        host=host,
        progress=Progress(state=TaskState.TRAINING, totals=totals),
    )


def record(*tasks):
    return JobRecord(
        name="3f0a",
        program=("train.py",),
        folder="/logs",
        host="here",
        pid=1,
        started=None,
        began=0.0,
        written=1.0,
        tasks=tasks,
        cores=4,
    )


def test_what_a_job_in_step_has_measured():
    one = WorkTotals(100, compute=8.0, input=1.0, communication=1.0, nbytes=400, squares=100 * 0.09**2 * 1.25)
    two = WorkTotals(100, compute=9.0, input=0.0, communication=1.0, nbytes=400, squares=100 * 0.09**2 * 1.25)
    job = MeasuredJob.of(record(task(one), task(two, index=1), task(None, "evaluator")))
    assert (job.workers, job.servers, job.nbytes, job.serve) == (2, 0, 4.0, 0.0)
    assert (job.steps_per_sec, job.compute, job.input) == pytest.approx((10.0, 0.085, 0.005))
    assert (job.exchange, job.spread, job.cores) == pytest.approx((0.01, 0.5, 4))
    assert MeasuredJob.of(record(task(one), task(two, index=1, host="elsewhere"))).cores is None


def test_what_a_job_with_servers_has_measured():
    chief = WorkTotals(100, compute=9.0, communication=1.0)
    worker = WorkTotals(300, compute=27.0, communication=2.0, idle=1.0)
    servers = [WorkTotals(400, compute=secs, idle=60.0) for secs in (0.8, 1.2)]
    tasks = [task(chief, "chief"), task(worker), *(task(each, "ps", n) for n, each in enumerate(servers))]
    job = MeasuredJob.of(record(*tasks))
    assert (job.workers, job.servers) == (2, 2)
    assert (job.steps_per_sec, job.serve) == pytest.approx((20.0, 0.003))
    assert (job.exchange, job.idle) == pytest.approx((0.0075, 0.0025))


@pytest.mark.parametrize(
    "tasks", [[], [task(None)], [task(WorkTotals(3, 1.0))], [task(WorkTotals(99, 1.0), "ps")]]
)
def test_a_job_that_has_measured_nothing_predicts_nothing(tasks):
    with pytest.raises(NothingMeasuredError, match="job 3f0a has measured no steps yet: let its tasks train"):
        MeasuredJob.of(record(*tasks))


def test_the_job_itself_is_predicted_as_it_was():
    for job in (IN_STEP, SERVED):
        assert error_of(job, job) == pytest.approx(0.0, abs=0.001)


def test_workers_in_step_take_as_long_as_the_exchange_has_rounds():
    rates = [predict(IN_STEP, count, 0).steps_per_sec for count in (1, 2, 4, 8, 1024)]
    assert rates == pytest.approx([1 / 0.1, 1 / 0.11, 1 / 0.11, 1 / 0.13, 1 / 0.2])
    assert predict(IN_STEP, 8, 0).batches_per_sec == pytest.approx(8 / 0.13)
    assert predict(IN_STEP, 1, 0).limit == "computing"
    assert predict(IN_STEP, 100_000, 0).limit == "the exchange"


def test_workers_of_one_machine_share_its_processors():
    crowded = dataclasses.replace(IN_STEP, cores=2)
    rates = [predict(crowded, count, 0).steps_per_sec for count in (1, 2, 4, 8)]
    assert rates == pytest.approx([1 / 0.1, 1 / 0.11, 1 / (0.01 + 2 * 0.1), 1 / (0.01 + 4 * (0.09 + 0.03))])
    apart = [predict(each, 8, 0, 1.25e9).steps_per_sec for each in (crowded, IN_STEP)]
    assert apart[0] == apart[1]
    eight = dataclasses.replace(crowded, workers=8, steps_per_sec=rates[3], compute=0.36)
    assert predict(eight, 2, 0).steps_per_sec == pytest.approx(rates[1])


def test_bytes_take_the_networks_time():
    heavy = dataclasses.replace(IN_STEP, nbytes=1.25e8)  # 0.1 s at 10 Gbit/s, and a little more here
    assert predict(heavy, 2, 0, 1.25e9).steps_per_sec == pytest.approx(1 / (0.1 + 0.1 + 6e-5), rel=0.01)
    assert predict(heavy, 1024, 0, 1.25e9).steps_per_sec == pytest.approx(1 / 0.3, rel=0.01)
    assert predict(heavy, 1024, 0, 1.25e9).limit == "the exchange"


def test_the_slowest_of_many_is_waited_for():
    assert slowest(1, 0.1, 0.5) == slowest(1000, 0.1, 0.0) == 0.1
    exponential = [slowest(count, 1.0, 1.0) for count in (2, 10)]  # whose maxima are sums of 1/k
    assert exponential == pytest.approx([1.5, 2.929], rel=0.03)
    varied = dataclasses.replace(IN_STEP, spread=1.0)
    assert predict(varied, 1000, 0).limit == "waiting for the slowest worker"
    assert predict(varied, 1000, 0).efficiency < 0.15


def test_a_server_serves_one_after_the_other():
    free = served_rate(3, own=0.1, spread=0.0, between=0.02, serve=0.001)
    assert free == pytest.approx(3 / 0.121, rel=0.01)
    assert served_rate(1000, own=0.1, spread=0.0, between=0.02, serve=0.004) == pytest.approx(250, rel=0.01)


def test_a_closed_queue_of_one_exponential_server():
    """Of random times of both kinds, as machine repair has: the rate is known between two bounds."""
    rate = served_rate(10, own=0.09, spread=1.0, between=0.0, serve=0.01)
    assert 0.75 * 100 < rate < 10 / 0.1


def test_more_servers_share_the_work():
    at_once = [predict(SERVED, 1000, count).steps_per_sec for count in (1, 2, 4)]
    assert at_once == pytest.approx([250, 1 / 0.00205, 1 / 0.001075], rel=0.01)
    assert predict(SERVED, 1000, 1).limit == "the servers"
    assert predict(SERVED, 2, 4).limit == "computing"
    most, workers = saturation(SERVED, 1)
    assert (most, workers) == pytest.approx((250, 0.11 / 0.004), rel=0.01)


def test_the_network_of_servers_saturates():
    heavy = dataclasses.replace(SERVED, nbytes=1.25e8)
    rates = [predict(heavy, 1000, count, 1.25e9).steps_per_sec for count in (1, 4)]
    assert rates == pytest.approx([10.0, 40.0], rel=0.02)


def test_servers_are_predicted_from_jobs_with_servers_alone():
    with pytest.raises(
        ValueError, match="had no parameter servers, so that it says nothing of one with them"
    ):
        predict(IN_STEP, 2, 2)
    with pytest.raises(ValueError, match="it says nothing of one without them"):
        predict(SERVED, 2, 0)


def test_ten_thousand_workers_are_simulated_within_seconds():
    began = time.monotonic()
    spread = {"spread": 0.3}
    predict(dataclasses.replace(IN_STEP, **spread), 10_000, 0)
    found = predict(dataclasses.replace(SERVED, **spread), 10_000, 16)
    assert time.monotonic() - began < 10.0
    assert found.steps_per_sec == pytest.approx(saturation(SERVED, 16)[0], rel=0.01)


def test_the_same_is_predicted_again():
    varied = dataclasses.replace(SERVED, spread=0.5)
    assert predict(varied, 50, 2) == predict(varied, 50, 2)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The logs of a job of two workers that has ended."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = tmp_path / "logs"
    made.mkdir()
    tasks = [task(WorkTotals(100, 9.0, 1.0, 1.0, squares=1.0), index=n) for n in range(2)]
    Recorder("3f0a", ("train.py",), made).end(tasks, 0)
    return str(made)


def test_the_command_prints_a_table(folder, capsys):
    assert main(["plan", folder, "--workers", "1,2,1000", "--against", folder]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == (
        "Job 3f0a, 2 workers: 9.091 steps/s. A step: computing 90 ms, input 10 ms, exchange 10 ms, 0 MB, "
        "0% spread."
    )
    assert shown[1] == "workers  steps/s  batches/s  efficiency  most time goes to"
    assert shown[3] == "      2    9.091      18.18         91%  computing"
    assert shown[-1] == f"{folder}, 2 workers: 9.091 steps/s; the prediction is +0.0% off."


def test_the_command_prints_json(folder, capsys):
    assert main(["plan", folder, "--json", "--workers", "4", "--network", "10gbit"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["measured"]["workers"] == 2
    assert [each["workers"] for each in found["predicted"]] == [4]


def test_wrong_questions(folder, capsys):
    assert main(["plan", folder, "--ps", "1,2"]) == 1
    assert "so that it says nothing of them; leave --ps out" in capsys.readouterr().err
    assert main(["plan", "nobody's"]) == 1
    assert "no job has that name" in capsys.readouterr().err
    for wrong in (["--workers", "0,1"], ["--workers", "two"], ["--network", "10"], ["--ps", "1000000"]):
        with pytest.raises(SystemExit):
            main(["plan", folder, *wrong])
        assert "must be" in capsys.readouterr().err


def test_speeds_and_counts():
    assert (_bytes_per_sec("10gbit"), _bytes_per_sec("2.5Mbit/s")) == (1.25e9, 312_500.0)
    assert _counts("1,2,16") == [1, 2, 16]
