"""Parameter servers in processes of their own, which hold the variables of a coordinator."""

import contextlib
import itertools
import re
import signal
import threading
from pathlib import Path

import numpy as np
import pytest
from store_functions import adagrad, descent, filled

from jobs import Job
from muster._errors import JobEndedError, ParameterServerError
from muster.distribute import Server
from muster.ps.contents import StoredName

pytestmark = pytest.mark.processes

CHILD = Path(__file__).with_name("store_child.py")
SIZE = 20_000


class Cluster(Job):
    """Servers in processes; the chief and workers are in this one."""

    def __init__(self, folder, servers, keeps=False):
        super().__init__(folder, [CHILD], ps=servers, chief=1, worker=3)
        self._keeps = keeps
        for index in range(servers):
            self.begin(index)

    def begin(self, index):
        folder = str(self.folder / f"snapshots-{index}") if self._keeps else None
        return self.start("ps", index, {"snapshot_dir": folder, "snapshot_updates": 1})

    @contextlib.contextmanager
    def client(self, kind="chief", index=0, origin="origin"):
        with Server(self.cluster, kind, index) as server:
            with contextlib.closing(server.store(origin, starts=kind == "chief")) as client:
                yield client


def prepare(chief):
    """Give each server a variable and its count, and the function that changes them."""
    made = [descent(SIZE, server=server) for server in range(chief.count)]
    chief.create((array, filled(array, 0)) for arrays, _ in made for array in arrays)
    chief.register([function for _, function in made])


def push(value, servers):
    return [[np.full(SIZE, value, np.float32)]] * servers


def counts(client):
    return [
        int(each) for each in client.read([StoredName(server, "count") for server in range(client.count)])
    ]


def memory(process):
    """The memory that a process has now, in bytes."""
    status = Path(f"/proc/{process}/status").read_text()
    return 1024 * int(re.search(r"VmRSS:\s+(\d+) kB", status)[1])


@pytest.mark.slow
def test_two_servers_that_end_with_the_job(tmp_path):
    with Cluster(tmp_path / "job", 2) as job, job.client() as chief, job.client("worker") as worker:
        prepare(chief)
        for closure in range(3):
            taken = worker.apply("descent", closure, closure, push(1.0, 2))
        assert [float(each[0][-1]) for each in taken] == [-1.5, -1.5]
        assert counts(chief) == [3, 3]
        chief.end()
        with pytest.raises(JobEndedError, match=r"ps 0 at 127.0.0.1:\d+ says that the coordinator has ended"):
            worker.pull("descent")
        worker.close()
        chief.close()
        for task in job.tasks:
            assert task.code() == 0
            assert task.log == ""


def test_a_server_that_is_killed_and_started_again(tmp_path):
    """Workers push without end while a server dies and comes back; each closure counts at most once."""
    numbers, done, failures = itertools.count(), [], []
    stopping = threading.Event()

    def work(client):
        try:
            while not stopping.is_set():
                closure = next(numbers)
                client.apply("descent", closure, 0, push(1.0, 2))
                done.append(closure)
        except Exception as exc:
            failures.append(exc)

    def wait_for_pushes(count):
        end = len(done) + count
        while len(done) < end and not failures:
            stopping.wait(0.01)

    with Cluster(tmp_path / "job", 2, keeps=True) as job, contextlib.ExitStack() as opened:
        chief = opened.enter_context(job.client())
        workers = [opened.enter_context(job.client("worker", index)) for index in range(2)]
        prepare(chief)
        threads = [threading.Thread(target=work, args=(worker,)) for worker in workers]
        for thread in threads:
            thread.start()
        wait_for_pushes(20)
        job.tasks[1].process.kill()
        job.tasks[1].code()
        again = job.begin(1)
        wait_for_pushes(20)
        stopping.set()
        for thread in threads:
            thread.join()
        assert not failures
        first, second = chief.statistics()
        made = counts(chief)
        assert made[0] == len(done)
        assert made[1] == len(done) - second.lost_updates
        assert first.lost_updates == 0
        values = chief.read([StoredName(server, "kernel") for server in range(2)])
        assert [set(np.unique(each)) for each in values] == [{-0.5 * each} for each in made]
        chief.end()
        for client in (chief, *workers):
            client.close()
        assert (job.tasks[0].code(), again.code()) == (0, 0)
        assert "goes on from its snapshot" in again.log
        assert bool(second.lost_updates) == ("ps 1 lost" in again.log)
        assert not list((tmp_path / "job").glob("snapshots-*"))


@pytest.mark.slow
def test_a_server_with_a_table_that_is_killed_and_started_again(tmp_path):
    """What one pushed to rows before the last snapshot is there, and what comes again counts once."""
    rows, dim = 5000, 4
    ids = [np.arange(0, rows, 50)]
    gradients = [np.ones((len(ids[0]), dim), np.float32)]
    with (
        Cluster(tmp_path / "job", 1, keeps=True) as job,
        job.client() as chief,
        job.client("worker") as worker,
    ):
        arrays, function = adagrad(rows, dim)
        chief.create((array, filled(array, 1.0)) for array in arrays)
        chief.register([function])
        for closure in range(5):
            worker.apply("adagrad", closure, 0, [[]], [[(ids[0], gradients)]])
        job.tasks[0].process.kill()
        job.tasks[0].code()
        again = job.begin(0)
        for closure in range(7):  # those before are known, or were lost
            worker.apply("adagrad", closure, 0, [[]], [[(ids[0], gradients)]])
        sums = 1.0 + np.arange(1, 8)
        ((table,),) = worker.pull("adagrad", [[np.arange(rows)]])
        wanted = np.ones((rows, dim))
        wanted[::50] -= (1 / np.sqrt(sums)).sum()
        np.testing.assert_allclose(table, wanted, rtol=1e-5)
        slot = chief.read_rows(StoredName(0, "slot"), 0, 51)
        assert slot[[0, 1, 50], 0].tolist() == [8, 1, 8]
        chief.end()
        for client in (chief, worker):
            client.close()
        assert again.code() == 0
        assert "goes on from its snapshot" in again.log


@pytest.mark.slow
def test_a_server_that_is_killed_without_snapshots(tmp_path):
    with Cluster(tmp_path / "job", 1) as job, job.client() as chief, job.client("worker") as worker:
        prepare(chief)
        worker.apply("descent", 1, 0, push(1.0, 1))
        job.tasks[0].process.kill()
        job.tasks[0].code()
        job.begin(0)
        for client in (worker, chief):
            with pytest.raises(
                ParameterServerError,
                match="ps 0 at .*has no snapshot of the values that it had. Start the job again: .*_dir",
            ):
                client.pull("descent")


def test_a_server_that_stands_still_for_a_while(tmp_path):
    with Cluster(tmp_path / "job", 1) as job, job.client() as chief:
        prepare(chief)
        job.tasks[0].process.stop()
        taken = []

        def work():
            taken.append(chief.apply("descent", 1, 0, push(1.0, 1)))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join(0.3)
        assert thread.is_alive()
        job.tasks[0].process.send_signal(signal.SIGCONT)
        thread.join()
        assert float(taken[0][0][0][0]) == -0.5
        chief.end()
        chief.close()
        assert job.tasks[0].code() == 0


@pytest.mark.slow
@pytest.mark.alone
def test_memory_stays_flat_over_pushes(tmp_path):
    with Cluster(tmp_path / "job", 1) as job, job.client() as chief:
        prepare(chief)
        given = push(0.0, 1)
        before = 0
        for closure in range(3000):
            chief.apply("descent", closure, closure, given)
            if closure == 500:
                before = memory(job.tasks[0].process.pid)
        # 2,500 pushes of 80 KB would be 200 MB.
        assert memory(job.tasks[0].process.pid) - before < 10e6
        chief.end()
        chief.close()
        assert job.tasks[0].code() == 0
