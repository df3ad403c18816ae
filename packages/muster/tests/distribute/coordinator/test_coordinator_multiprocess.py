"""A coordinator and workers in processes of their own."""

import contextlib
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from clusters import Strategy, coordinator_of
from memory_servers import RealServers

from jobs import DEADLINE, Job
from muster._errors import OutOfRangeError
from muster._keras import keras
from muster._row_ids import LEAST_TABLE_BYTES
from muster.cluster import ClusterSpec
from muster.data import Dataset
from muster.distribute import function
from muster.distribute.coordinator import experimental_get_current_worker_index
from muster.program import GradientTape

pytestmark = pytest.mark.processes

_HERE = Path(__file__).parent
_SERVER, _COORDINATOR = [_HERE / "server_child.py"], [_HERE / "coordinator_child.py"]


def until(condition):
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, "it does not come true"
        threading.Event().wait(0.01)


def held(folder):
    """A dataset of one element, which is made when the file "go" is there."""

    def dataset():
        def elements():
            import os
            import time

            (folder / f"reached-{os.getpid()}").touch()
            while not (folder / "go").exists():
                time.sleep(0.01)
            yield np.int32(5)

        return Dataset.from_generator(elements, output_types=np.int32, output_shapes=())

    return dataset


def meeting(folder, name):
    """A dataset of one element, which is made when two processes want it."""

    def dataset():
        def elements():
            import os
            import time

            (folder / f"{name}-{os.getpid()}").touch()
            while len(list(folder.glob(f"{name}-*"))) < 2:
                time.sleep(0.01)
            yield np.int32(0)

        return Dataset.from_generator(elements, output_types=np.int32, output_shapes=())

    return dataset


def test_what_a_killed_worker_ran_runs_elsewhere_and_it_is_used_again(tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()

    @function
    def take(it, other):
        next(other)
        return experimental_get_current_worker_index(), next(it), next(it)

    with Job(tmp_path / "job", _SERVER, worker=2) as job:
        workers = [job.start("worker", index) for index in range(2)]
        with coordinator_of(Strategy(ClusterSpec(job.cluster))) as coordinator:
            it = iter(coordinator.create_per_worker_dataset(lambda: Dataset.range(100)))

            def taken(name):
                other = iter(coordinator.create_per_worker_dataset(meeting(folder, name)))
                values = [coordinator.schedule(take, args=(it, other)) for _ in range(2)]
                coordinator.join()
                return sorted(tuple(map(int, each)) for each in coordinator.fetch(values))

            assert taken("first") == [(0, 0, 1), (1, 0, 1)]
            hold = iter(coordinator.create_per_worker_dataset(held(folder)))
            value = coordinator.schedule(function(lambda it: next(it)), args=(hold,))
            until(lambda: list(folder.glob("reached-*")))
            (reached,) = folder.glob("reached-*")
            pid = int(reached.name.partition("-")[2])
            lost = next(i for i, worker in enumerate(workers) if worker.process.pid == pid)
            os.kill(pid, signal.SIGKILL)
            until(lambda: len(list(folder.glob("reached-*"))) == 2)
            (folder / "go").touch()
            assert value.fetch() == 5
            workers[lost].code()
            workers[lost] = job.start("worker", lost)
            others = {lost: (lost, 0, 1), 1 - lost: (1 - lost, 2, 3)}
            assert taken("again") == [others[0], others[1]]


@pytest.mark.slow
@pytest.mark.parametrize("killed", [False, True])
def test_workers_end_with_their_coordinator_but_not_when_it_is_killed(tmp_path, killed):
    with Job(tmp_path, _SERVER, worker=2) as job:
        for index in range(2):
            job.start("worker", index)
        chief = Job(tmp_path / "chief", _COORDINATOR)
        chief.cluster = job.cluster
        with chief:
            if killed:
                first = chief.start("chief", options={"hangs": True})
                until(lambda: "made 380" in first.log)
                first.process.kill()
                assert first.code() == -signal.SIGKILL
            last = chief.start("chief", options={"hangs": False})
            assert last.code() == 0, last.log
            assert "made 380" in last.log
        job.all_end_well()


@contextlib.contextmanager
def with_servers(job):
    """Yield a coordinator whose variables are on the servers of a job, and these."""
    cluster = ClusterSpec(job.cluster)
    strategy = Strategy(cluster)
    strategy.placement.storage = RealServers(cluster, strategy.links)
    with contextlib.closing(strategy.storage.client), coordinator_of(strategy) as coordinator:
        yield coordinator, strategy.storage


@pytest.mark.slow
def test_what_is_added_counts_once_although_workers_are_killed(tmp_path):
    with Job(tmp_path, _SERVER, worker=2, ps=2) as job:
        for index in range(2):
            job.start("ps", index)
        workers = [job.start("worker", index) for index in range(2)]
        with with_servers(job) as (coordinator, servers):
            count = servers.add(keras.Variable(0.0, name="count"), (1, 0, None))
            rows = servers.add(keras.Variable(np.zeros(6), name="rows"), (0, 0, 4), (1, 4, 6))

            @function
            def step(x):
                count.assign_add(x)
                rows.assign_add(keras.ops.ones(6) * x)

            values = [coordinator.schedule(step, args=(np.float32(1.0),)) for _ in range(2000)]
            for kill in range(4):
                until(lambda kill=kill: values[50 + 400 * kill].status.value == "READY")
                workers[kill % 2].process.kill()
                workers[kill % 2].code()
                workers[kill % 2] = job.start("worker", kill % 2)
            coordinator.join()
            assert servers.value(count).tolist() == [2000.0]
            assert servers.value(rows).tolist() == [2000.0] * 6


@pytest.mark.slow
def test_rows_of_a_table_change_once_although_workers_are_killed(tmp_path):
    rows = LEAST_TABLE_BYTES // 16
    ids = np.array([0, 3, rows // 2 - 1, rows // 2, rows - 1], "int32")
    with Job(tmp_path, _SERVER, worker=2, ps=2) as job:
        for index in range(2):
            job.start("ps", index)
        workers = [job.start("worker", index) for index in range(2)]
        with with_servers(job) as (coordinator, servers):
            table = keras.Variable(np.zeros((rows, 4)), dtype="float32", name="table")
            servers.add(table, (0, 0, rows // 2), (1, rows // 2, rows))
            optimizer = keras.optimizers.SGD(1.0)
            optimizer.build([table])
            for variable in optimizer.variables:
                servers.add(variable, (1, 0, None))

            @function
            def step(ids):
                with GradientTape() as tape:
                    total = keras.ops.sum(table.value[ids])
                optimizer.apply(tape.gradient(total, [table]), [table])

            values = [coordinator.schedule(step, args=(ids[: 1 + i % 5],)) for i in range(1000)]
            for kill in range(2):
                until(lambda kill=kill: values[50 + 400 * kill].status.value == "READY")
                workers[kill].process.kill()
                workers[kill].code()
                workers[kill] = job.start("worker", kill)
            coordinator.join()
            expected = np.zeros((rows, 4))
            expected[ids] = [[-1000.0], [-800.0], [-600.0], [-400.0], [-200.0]]
            np.testing.assert_array_equal(servers.value(table), expected)


def test_every_example_of_a_pass_counts_once_although_workers_are_killed(tmp_path):
    count = 600

    def dataset():
        return Dataset.range(count).shuffle(count).batch(2)

    with Job(tmp_path, _SERVER, worker=2, ps=1) as job:
        job.start("ps")
        workers = [job.start("worker", index) for index in range(2)]
        with with_servers(job) as (coordinator, servers):
            seen = servers.add(keras.Variable(np.zeros(count), name="seen"))

            @function
            def step(it):
                seen.assign_add(keras.ops.sum(keras.ops.one_hot(next(it), count), 0))

            it = iter(coordinator.create_per_worker_dataset(dataset, dispatch="dynamic"))
            values = [coordinator.schedule(step, args=(it,)) for _ in range(count // 2)]
            with pytest.raises(OutOfRangeError):
                coordinator.schedule(step, args=(it,))
            for kill in range(3):
                until(lambda kill=kill: values[20 + 90 * kill].status.value == "READY")
                workers[kill % 2].process.kill()
                workers[kill % 2].code()
                workers[kill % 2] = job.start("worker", kill % 2)
            coordinator.join()
            assert servers.value(seen).tolist() == [1.0] * count


def test_closures_wait_for_a_server_that_is_killed_and_go_on(tmp_path):
    snapshots = {"SNAPSHOTS": str(tmp_path / "snapshots")}
    with Job(tmp_path, _SERVER, worker=2, ps=1) as job:
        server = job.start("ps", environ=snapshots)
        for index in range(2):
            job.start("worker", index)
        with with_servers(job) as (coordinator, servers):
            count = servers.add(keras.Variable(0.0, name="count"))

            @function
            def step():
                count.assign_add(1.0)
                return count.value

            values = [coordinator.schedule(step) for _ in range(500)]
            until(lambda: values[100].status.value == "READY")
            server.process.kill()
            server.code()
            job.start("ps", environ=snapshots)
            coordinator.join()
            last = coordinator.schedule(step).fetch()
            assert 0.0 < last <= 501.0  # what came after the last snapshot is lost
            assert servers.value(count).tolist() == [last]
