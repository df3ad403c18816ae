"""Estimators that train on parameter servers: real processes, some of which are killed."""

import os
import random
import re
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from parameter_server_child import X, Y, model_fn, model_fn_with_hashed_table, model_fn_with_table

from jobs import DEADLINE, Job
from muster.checkpoint import latest_checkpoint, read_checkpoint, writer_of
from muster.data import Dataset
from muster.distribute import MirroredStrategy
from muster.estimator import Estimator, RunConfig
from muster.ps._snapshot_files import open_file

pytestmark = [pytest.mark.alone, pytest.mark.processes]

CHILD = Path(__file__).with_name("parameter_server_child.py")
STEPS = 100

# For the test of many kills.
SOAK_STEPS = 40_000
FAULTS, PERIOD_SECS = 24, 5.0
KILLED = (("worker", 0), ("ps", 0), ("ps", 1), ("chief", 0))


class Served(Job):
    def __init__(self, folder, **tasks):
        super().__init__(folder, [CHILD], **tasks)

    def launch(self, kind, index=0, **options):
        model_dir = str(self.folder / "model")
        return self.start(kind, index, {"model_dir": model_dir, "max_steps": STEPS} | options)

    def launch_all(self, **options):
        return {
            (kind, index): self.launch(kind, index, **options)
            for kind, addresses in self.cluster.items()
            for index in range(len(addresses))
        }

    @property
    def checkpoint(self):
        return read_checkpoint(latest_checkpoint(self.folder / "model"))


@pytest.fixture
def job(tmp_path):
    with Served(tmp_path / "job", chief=1, worker=1, ps=2) as job:
        yield job


def steps_of(task):
    return [int(step) for step in re.findall(r"^step (\d+)$", task.log, re.M)]


def writers(checkpoint):
    """Who wrote the data files of a checkpoint."""
    return sorted(writer_of(name) for name in os.listdir(checkpoint) if name != "manifest.json")


def until(condition, *tasks):
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, [task.log[-2000:] for task in tasks]
        time.sleep(0.02)


def test_workers_make_max_steps_together_and_all_tasks_end(job):
    tasks = job.launch_all()
    evaluator = job.launch("evaluator")
    job.all_end_well()
    own = [steps_of(tasks[task]) for task in (("chief", 0), ("worker", 0))]
    assert len(own[0]) + len(own[1]) == STEPS
    assert all(own)
    assert max(map(max, own)) == STEPS
    assert job.checkpoint.step == STEPS
    assert int(job.checkpoint.variables["global_step"]) == STEPS
    losses = [float(loss) for loss in re.findall(r"global_step = \d+, loss = ([\d.e+-]+)", evaluator.log)]
    assert losses[-1] < 0.1 * losses[0]
    assert f"global_step = {STEPS}" in evaluator.log


def test_a_worker_that_is_killed_keeps_nobody_and_may_come_back(job):
    tasks = job.launch_all(slow=0.02)
    chief, worker = tasks["chief", 0], tasks["worker", 0]
    until(lambda: len(steps_of(worker)) > 5, chief, worker)
    worker.process.send_signal(signal.SIGKILL)
    assert worker.code() == -signal.SIGKILL
    killed_at, before = time.monotonic_ns(), len(steps_of(chief))
    until(lambda: len(steps_of(chief)) > before + 5, chief)
    times = times_of(chief)
    assert max(np.diff(times[sum(at < killed_at for at in times) - 1 :])) < 2e9  # the pause, in ns
    again = job.launch("worker", slow=0.02)
    for task in (chief, again, tasks["ps", 0], tasks["ps", 1]):
        assert task.code() == 0, task.log
    assert job.checkpoint.step == STEPS
    assert max(steps_of(chief)) == STEPS or max(steps_of(again)) == STEPS


@pytest.mark.slow
def test_hooks_of_workers_beside_others_begin_and_stop_by_their_steps(job, tmp_path):
    options, trains = {"max_steps": None, "stops": 60, "slow": 0.01}, str(tmp_path / "the worker trains")
    chief = job.launch("chief", awaits=trains, at=30, **options)
    worker = job.launch("worker", waits=20, makes=trains, **options)
    for index in range(2):
        job.launch("ps", index)
    job.all_end_well()
    assert "Waiting for global step 20 before starting training." in worker.log
    assert steps_of(worker)[0] > 20
    assert 60 <= steps_of(chief)[-1] <= job.checkpoint.step <= 62


@pytest.mark.slow
def test_steps_a_second_are_those_of_all_workers(job):
    options = {"max_steps": 600, "log_steps": 100}
    chief = job.launch("chief", slow=0.05, **options)
    job.launch("worker", **options)
    for index in range(2):
        job.launch("ps", index)
    job.all_end_well()
    # A report comes between what the chief says of a step and of the next.
    made, ratios = None, []
    for step, at, rate in re.findall(
        r"^step (\d+)\nmade at (\d+)$|^global_step/sec: ([\d.e+-]+)$", chief.log, re.M
    ):
        if step:
            now = int(step), int(at)
        else:
            if made is not None:
                ratios.append(float(rate) * 1e-9 * (now[1] - made[1]) / (now[0] - made[0]))
            made = now
    assert len(ratios) >= 2
    assert 0.7 < np.median(ratios) < 1.4
    assert len(steps_of(chief)) < 0.5 * steps_of(chief)[-1]


def test_a_chief_that_is_killed_comes_back_and_saves_on(job):
    tasks = job.launch_all(slow=0.05)
    chief, worker = tasks["chief", 0], tasks["worker", 0]
    until(lambda: len(steps_of(chief)) > 5 and steps_of(worker), chief, worker)
    chief.process.send_signal(signal.SIGKILL)
    assert chief.code() == -signal.SIGKILL
    before = steps_of(worker)[-1]
    until(lambda: steps_of(worker)[-1] > before + 3, worker)
    again = job.launch("chief", slow=0.05)
    for task in (worker, again, tasks["ps", 0], tasks["ps", 1]):
        assert task.code() == 0, task.log
    assert job.checkpoint.step == STEPS
    assert steps_of(again)[0] > before


@pytest.mark.slow
def test_a_worker_whose_input_ends_stops_and_the_others_go_on(job):
    trains = str(job.folder / "worker trains")
    chief = job.launch("chief", epochs=3, awaits=trains)  # 12 batches
    worker = job.launch("worker", makes=trains, slow=0.1)
    for index in range(2):
        job.launch("ps", index)
    job.all_end_well()
    assert len(steps_of(chief)) == 12
    assert len(steps_of(worker)) == STEPS - 12
    assert "The input of chief 0 has ended. 2 workers read an epoch each." in chief.log
    assert "chief 0 waits for the training of worker 0 to end." in chief.log
    assert job.checkpoint.step == STEPS


@pytest.mark.slow
def test_training_goes_on_without_a_worker_that_stands_still(job):
    tasks = job.launch_all(slow=0.02, stall=2.0)
    chief, worker = tasks["chief", 0], tasks["worker", 0]
    until(lambda: len(steps_of(worker)) > 5, chief, worker)
    worker.process.send_signal(signal.SIGSTOP)
    for task in (chief, tasks["ps", 0], tasks["ps", 1]):
        assert task.code() == 0, task.log
    assert "worker 0 has not finished its step for" in tasks["ps", 0].log
    assert job.checkpoint.step == STEPS


def train_though_a_server_is_killed(job, index, **options):
    """The chief, the worker and the server that was started again, when all have ended."""
    options |= {"slow": 0.02, "snapshot_updates": 5}
    tasks = job.launch_all(**options)
    chief, worker, server = tasks["chief", 0], tasks["worker", 0], tasks["ps", index]
    snapshot = job.folder / "model" / f"ps-{index}" / "values"
    until(lambda: snapshot.exists() and len(steps_of(worker)) > 10, chief, worker)
    server.process.send_signal(signal.SIGKILL)
    assert server.code() == -signal.SIGKILL
    again = job.launch("ps", index, **options)
    for task in (chief, worker, again, tasks["ps", 1 - index]):
        assert task.code() == 0, task.log
    assert f"ps {index} was started again, and goes on from its snapshot" in again.log
    assert job.checkpoint.step == STEPS
    return chief, worker, again


@pytest.mark.parametrize(
    ("index", "options"),
    [(0, {}), (1, {"shards": 2, "table": True}), (0, {"table": "hashed"})],
    ids=["first", "rows of a table", "rows by id"],
)
def test_a_server_that_is_killed_goes_on_from_its_snapshot(job, index, options):
    chief, worker, again = train_though_a_server_is_killed(job, index, **options)
    for task in (chief, worker):
        assert ("Rows of table/embeddings travel alone" in task.log) == ("table" in options)
    assert int(job.checkpoint.variables["global_step"]) == STEPS
    assert not list((job.folder / "model").glob("ps-*"))
    lost = max(map(int, re.findall(rf"ps {index} lost (\d+) updates", again.log)), default=0)
    made = len(steps_of(chief)) + len(steps_of(worker))
    assert made == STEPS + (lost if index == 0 else 0)


def updates_in_snapshot(folder):
    """How many updates the newest snapshot in a folder has; None if there is none."""
    found = [folder / name for name in ("changes", "values") if (folder / name).exists()]
    return open_file(found[0], dict)[0]["saved"]["version"] - 1 if found else None


def test_a_server_that_is_killed_has_the_same_rows_of_a_hashed_table_again(tmp_path):
    goes_on = tmp_path / "goes on"
    options = {"table": "hashed", "snapshot_updates": 1, "max_steps": 30, "at": 15, "awaits": str(goes_on)}
    with Served(tmp_path / "job", chief=1, ps=2) as job:
        tasks = job.launch_all(**options)
        chief, folder = tasks["chief", 0], job.folder / "model" / "ps-1"
        until(lambda: updates_in_snapshot(folder) == 15, chief)
        tasks["ps", 1].process.send_signal(signal.SIGKILL)
        assert tasks["ps", 1].code() == -signal.SIGKILL
        again = job.launch("ps", 1, **options)
        goes_on.touch()
        for task in (chief, again, tasks["ps", 0]):
            assert task.code() == 0, task.log
        assert "ps 1 was started again, and goes on from its snapshot" in again.log
        found = job.checkpoint.variables
    alone = Estimator(model_fn_with_hashed_table, tmp_path / "alone", RunConfig(tf_random_seed=1))
    alone.train(lambda: Dataset.from_tensor_slices((X, Y)).batch(16).repeat(), max_steps=30)
    expected = read_checkpoint(alone.latest_checkpoint()).variables
    columns = ("", "#ids", "#uses")
    for name in (*(f"table/embeddings{each}" for each in columns), "adagrad/table_embeddings_accumulator"):
        rows, others = (
            dict(zip(each["table/embeddings#ids"].tolist(), each[name], strict=False))
            for each in (found, expected)
        )
        assert rows.keys() == others.keys()
        for key, row in others.items():
            np.testing.assert_allclose(rows[key], row, rtol=1e-4, atol=1e-6, err_msg=name)


def test_a_job_of_which_everything_was_killed_goes_on_from_its_checkpoint(job):
    tasks = job.launch_all(slow=0.02, snapshot_updates=5)
    chief, worker = tasks["chief", 0], tasks["worker", 0]
    until(lambda: latest_checkpoint(job.folder / "model") and len(steps_of(worker)) > 20, chief, worker)
    for task in tasks.values():
        task.process.send_signal(signal.SIGKILL)
    for task in tasks.values():
        assert task.code() == -signal.SIGKILL
    saved = job.checkpoint.step
    assert list((job.folder / "model").glob("ps-*/values"))
    again = job.launch_all(slow=0.02)
    for task in again.values():
        assert task.code() == 0, task.log
        assert "snapshot" not in task.log
    first = min(steps_of(again["chief", 0]) + steps_of(again["worker", 0]))
    assert first == saved + 1
    assert job.checkpoint.step == STEPS


@pytest.mark.slow
def test_a_job_whose_steps_are_all_made_ends_at_once(job):
    job.launch_all(max_steps=40)
    job.all_end_well()
    job.launch_all(max_steps=40)
    job.all_end_well()
    assert job.checkpoint.step == 40
    assert job.tasks[4].log.count("Skipping training since max_steps has already saved") == 1
    assert "chief 0 has no steps to make, and tells the servers that the job has ended." in job.tasks[4].log


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_nothing_is_lost_beyond_what_is_said(tmp_path):
    """Two minutes of random kills, each task started again at once; by the seed ``MUSTER_SOAK_SEED`` (1)."""
    options = {"max_steps": SOAK_STEPS, "slow": 0.005, "snapshot_updates": 100, "save_steps": 1000}
    draw = random.Random(int(os.environ.get("MUSTER_SOAK_SEED", "1")))
    with Served(tmp_path / "job", chief=1, worker=1, ps=2) as job:
        tasks = job.launch_all(**options)
        trainers = [task for (kind, _), task in tasks.items() if kind != "ps"]
        until(lambda: all(steps_of(task) for task in trainers), *trainers)
        kills = 0
        while kills < FAULTS and tasks["chief", 0].process.poll() is None:
            kind, index = draw.choice(KILLED)
            tasks[kind, index].process.send_signal(signal.SIGKILL)
            assert tasks[kind, index].code() == -signal.SIGKILL
            tasks[kind, index] = job.launch(kind, index, **options)
            kills += 1
            time.sleep(PERIOD_SECS)  # the time between two faults
        for task in tasks.values():
            assert task.code(within=300) == 0, task.log[-5000:]
        assert kills == FAULTS
        assert job.checkpoint.step == SOAK_STEPS
        assert int(job.checkpoint.variables["global_step"]) == SOAK_STEPS
        lost = sum(
            max(map(int, re.findall(r"ps 0 lost (\d+) updates", task.log)), default=0) for task in job.tasks
        )
        made = sum(len(steps_of(task)) for task in job.tasks)
        # A trainer that is killed may have made a step that it has not written down.
        assert SOAK_STEPS + lost - FAULTS <= made <= SOAK_STEPS + lost


@pytest.mark.slow
@pytest.mark.parametrize("table", [False, True])
def test_a_checkpoint_of_two_servers_is_gone_on_from_on_one_and_without(tmp_path, table):
    model = str(tmp_path / "model")
    runs = [
        ({"chief": 1, "ps": 2}, {}, ["", "ps-0", "ps-1"]),
        ({"chief": 1, "ps": 1}, {}, ["", "ps-0"]),
        ({"chief": 1, "worker": 1}, {"mirrored": True}, [""]),
        ({"chief": 1}, {}, [""]),
        ({"chief": 1, "ps": 2}, {}, ["", "ps-0", "ps-1"]),
    ]
    for number, (tasks, options, wrote) in enumerate(runs, 1):
        with Served(tmp_path / f"job {number}", **tasks) as job:
            job.launch_all(model_dir=model, max_steps=10 * number, table=table, **options)
            job.all_end_well()
        saved = read_checkpoint(latest_checkpoint(model))
        assert writers(saved.path) == wrote
        assert saved.step == 10 * number
        for name in ("global_step", "adagrad/iteration" if table else "adam/iteration"):
            assert int(saved.variables[name]) == 10 * number, name


def killed_while_it_writes(job):
    """A job's chief, its first server, and the half that its second one wrote of a checkpoint."""
    dies = job.folder / "ps 1 has written half"
    chief, first = job.launch("chief"), job.launch("ps", 0)
    killed = job.launch("ps", 1, dies=str(dies))
    until(dies.exists, chief, first, killed)
    (half,) = (job.folder / "model").glob("ckpt-20/variables-*-ps-1.safetensors")
    killed.process.send_signal(signal.SIGKILL)
    assert killed.code() == -signal.SIGKILL
    assert half.read_bytes() == b"half"
    assert job.checkpoint.step == 0
    return chief, first, half


@pytest.mark.slow
def test_a_checkpoint_waits_for_a_server_that_is_killed_while_it_writes(tmp_path):
    with Served(tmp_path / "job", chief=1, ps=2) as job:
        chief, first, half = killed_while_it_writes(job)
        again = job.launch("ps", 1)
        for task in (chief, first, again):
            assert task.code() == 0, task.log
        assert "is broken while it writes its part of a checkpoint" in chief.log
        assert half.stat().st_size > 4
        saved = read_checkpoint(half.parent)
        assert saved.step == 20
        assert writers(saved.path) == ["", "ps-0", "ps-1"]
        assert job.checkpoint.step == STEPS


@pytest.mark.slow
def test_a_checkpoint_is_not_written_if_a_server_has_lost_its_values(tmp_path):
    with Served(tmp_path / "job", chief=1, ps=2) as job:
        chief, first, half = killed_while_it_writes(job)
        shutil.rmtree(job.folder / "model" / "ps-1")
        job.launch("ps", 1)
        assert chief.code() != 0
        assert re.search("Error: ps 1 at .* (lost|started again)", chief.log)
        assert job.checkpoint.step == 0
        assert not half.parent.exists()
        for task in job.tasks:
            task.process.kill()
            task.code()
        again = job.launch_all()
        for task in again.values():
            assert task.code() == 0, task.log
        assert job.checkpoint.step == STEPS


@pytest.mark.slow
def test_a_master_trains_and_evaluates_with_a_strategy_that_divides_variables(tmp_path):
    with Served(tmp_path / "job", master=1, worker=1, ps=2) as job:
        tasks = job.launch_all(shards=2)
        job.all_end_well()
        master = tasks["master", 0]
        checkpoint = job.checkpoint
    losses = [float(loss) for loss in re.findall(r"global_step = \d+, loss = ([\d.e+-]+)", master.log)]
    assert losses[-1] < 0.5 * np.mean(Y**2)  # the worker may make most steps while the master evaluates
    assert f"global_step = {STEPS}" in master.log
    assert checkpoint.variables["dense_1/kernel"].shape == (5, 8)
    held = re.findall(r"^ps (\d) holds dense_1/kernel \[(\d), 8\]$", master.log, re.M)
    assert set(held) == {("0", "3"), ("1", "2")}


def times_of(task):
    return [int(at) for at in re.findall(r"^made at (\d+)$", task.log, re.M)]


@pytest.mark.slow
def test_a_fast_worker_is_no_more_steps_ahead_than_it_may_be(job):
    trains = str(job.folder / "worker trains")
    options = {"max_staleness": 2}
    chief = job.launch("chief", awaits=trains, **options)  # after its first step
    worker = job.launch("worker", makes=trains, slow=0.05, **options)
    for index in range(2):
        job.launch("ps", index, **options)
    job.all_end_well()
    assert len(steps_of(chief)) + len(steps_of(worker)) == STEPS
    # The worker starts from the chief's first step, until it ends.
    events = sorted([(at, 1) for at in times_of(chief)[1:]] + [(at, -1) for at in times_of(worker)])
    leads = np.cumsum([each for at, each in events if at <= times_of(worker)[-1]])
    assert max(abs(leads)) <= 2, leads
    assert max(leads) >= 1, leads
    assert len(steps_of(worker)) > 0.4 * STEPS


@pytest.mark.slow
@pytest.mark.parametrize("table", [False, True])
def test_steps_made_together_are_those_of_as_many_replicas(tmp_path, table):
    steps = 20
    with Served(tmp_path / "job", chief=1, worker=1, ps=2) as job:
        options = {"max_staleness": 0, "max_steps": steps, "shards": 2, "table": table}
        tasks = [job.launch(kind, part=part, **options) for part, kind in enumerate(["chief", "worker"])]
        for index in range(2):
            job.launch("ps", index, **options)
        job.all_end_well()
        assert [len(steps_of(task)) for task in tasks] == [steps, steps]
        trained = job.checkpoint
    config = RunConfig(tf_random_seed=1, train_distribute=MirroredStrategy(["/cpu:0", "/cpu:1"]))
    model = model_fn_with_table if table else model_fn
    mirrored = Estimator(model, str(tmp_path / "mirrored"), config)
    mirrored.train(lambda: Dataset.from_tensor_slices((X, Y)).batch(16).repeat(), max_steps=steps)
    expected = read_checkpoint(latest_checkpoint(tmp_path / "mirrored")).variables
    assert trained.step == steps
    assert set(trained.variables) == set(expected)
    for path, value in expected.items():
        np.testing.assert_allclose(trained.variables[path], value, rtol=1e-5, atol=1e-5, err_msg=path)


@pytest.mark.slow
@pytest.mark.parametrize("max_staleness", [0, 2])
def test_a_worker_that_stands_still_does_not_hold_the_others_for_long(job, max_staleness):
    tasks = job.launch_all(slow=0.01, stall=2.0, max_staleness=max_staleness)
    chief, worker = tasks["chief", 0], tasks["worker", 0]
    until(lambda: len(steps_of(worker)) > 5, chief, worker)
    worker.process.send_signal(signal.SIGSTOP)
    before = len(steps_of(chief))
    until(lambda: len(steps_of(chief)) > before + 10, chief)
    worker.process.send_signal(signal.SIGCONT)
    job.all_end_well()
    assert max(np.diff(times_of(chief))) < 10e9
    assert job.checkpoint.step == STEPS
    assert re.search("worker 0 has not finished its step for", tasks["ps", 0].log)


@pytest.mark.slow
@pytest.mark.parametrize("index", [0, 1])
def test_rounds_go_on_with_a_server_that_was_killed(job, index):
    train_though_a_server_is_killed(job, index, max_staleness=0)
