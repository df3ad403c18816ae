"""Workers that are lost and come back, and what is refused."""

import contextlib
import logging
import threading
import time
import traceback

import jax
import numpy as np
import pytest
from clusters import Links, Strategy, cluster_of, coordinated, coordinator_of, start_worker
from gates import GATES, Gate, gated
from jax.experimental import io_callback
from memory_servers import MemoryServers

from jobs import free_addresses
from muster._errors import CancelledError, MissingPeerError, RosterError, TraceError
from muster._keras import keras
from muster.cluster import ClusterSpec, SimpleClusterResolver
from muster.data import Dataset
from muster.distribute import ParameterServerStrategy, Server, function
from muster.distribute.closures import _service, _session
from muster.distribute.coordinator import (
    ClusterCoordinator,
    _worker_connection,
    _worker_thread,
    experimental_get_current_worker_index,
)
from muster.distribute.coordinator._pickling import pickled
from muster.distribute.servers import _build_server


@function
def one():
    return 1.0


def test_what_a_worker_has_pushed_counts_once_although_it_is_lost_before_it_says_so():
    servers, cluster = MemoryServers(), cluster_of(2, 1)
    workers = [start_worker(cluster, index, servers) for index in range(2)]
    count = servers.add(keras.Variable(0.0, name="count"))
    apply, lost = servers.apply, []

    def apply_and_lose(function, closure, *others):
        newest = apply(function, closure, *others)
        if closure == 7 and not lost:
            lost.append(threading.current_thread())
            raise ConnectionResetError("the worker is killed here")
        return newest

    def failed_run(self, asked, arrays, wait):
        answer = run(self, asked, arrays, wait)
        if lost and lost[0] is threading.current_thread() and asked.closure == 7:
            raise ConnectionResetError("the worker is killed here")
        return answer

    run = _session.ClosureSession.run
    servers.apply = apply_and_lose
    _session.ClosureSession.run = failed_run
    try:

        @function
        def step():
            count.assign_add(1.0)

        with coordinator_of(Strategy(cluster, servers)) as coordinator:
            for _ in range(30):
                coordinator.schedule(step)
            coordinator.join()
    finally:
        _session.ClosureSession.run = run
        for worker in workers:
            worker.close()
    assert lost
    assert servers.repeated >= 1  # and others whose answers had not been sent
    assert servers.value(count) == 30.0


def test_servers_forget_closures_that_have_ended():
    servers = MemoryServers()
    count = servers.add(keras.Variable(0.0, name="count"))

    @function
    def step():
        count.assign_add(1.0)

    with coordinated(workers=2, storage=servers) as coordinator:
        for _ in range(200):
            coordinator.schedule(step)
        coordinator.join()
        coordinator.schedule(step)  # a slow worker may have kept the others' from being forgotten
        coordinator.join()
    assert servers.value(count) == 201.0
    assert servers.applied[0] == {201}


def test_the_coordinator_waits_for_workers_that_are_not_up_yet():
    cluster = cluster_of(1)
    with coordinator_of(Strategy(cluster)) as coordinator:
        value = coordinator.schedule(one)
        assert not coordinator.done()
        with start_worker(cluster, 0):
            assert value.fetch() == 1.0


def test_a_strategy_has_one_coordinator():
    cluster = cluster_of(1)
    strategy = Strategy(cluster)
    with coordinator_of(strategy) as coordinator:
        assert ClusterCoordinator(strategy) is coordinator
    with pytest.raises(TypeError, match="Only ParameterServerStrategy is supported"):
        ClusterCoordinator(object())


def test_a_second_coordinator_of_a_cluster_is_refused(monkeypatch):
    monkeypatch.setattr(_worker_thread, "_LONGEST_PAUSE", 0.1)
    cluster = cluster_of(1)
    with start_worker(cluster, 0), coordinator_of(Strategy(cluster)) as first:
        assert first.schedule(one).fetch() == 1.0
        with coordinator_of(Strategy(cluster)) as second:
            value = second.schedule(one)
            monkeypatch.setattr(_worker_thread, "_BUSY_SECS", 0.1)
            with pytest.raises(RosterError, match="worker 0.*another coordinator uses this worker"):
                second.join()
            with pytest.raises(RosterError, match="another coordinator"):
                value.fetch()
        assert first.schedule(one).fetch() == 1.0


def test_the_next_coordinator_may_come_when_the_first_is_gone():
    cluster = cluster_of(1)
    with start_worker(cluster, 0):
        for _ in range(2):
            with coordinator_of(Strategy(cluster)) as coordinator:
                assert coordinator.schedule(one).fetch() == 1.0


def test_code_is_taken_only_from_callers_that_are_here_or_have_proved_themselves():
    assert _session.may_send_code("127.0.0.1", proved=False)
    assert _session.may_send_code("::1", proved=False)
    assert not _session.may_send_code("10.0.0.7", proved=False)
    assert not _session.may_send_code("fe80::1%eth0", proved=False)
    assert _session.may_send_code("10.0.0.7", proved=True)


def test_a_dataset_is_refused_where_nobody_proves_anything(monkeypatch):
    monkeypatch.setattr(_service, "may_send_code", lambda origin, proved: False)
    with coordinated(workers=1) as coordinator:
        it = iter(coordinator.create_per_worker_dataset(lambda: Dataset.range(3)))
        coordinator.schedule(function(lambda it: next(it)), args=(it,))
        with pytest.raises(RosterError, match="sends code.*MUSTER_SECRET_FILE"):
            coordinator.join()


def prints(x):
    jax.debug.print("{x}", x=x)
    return x


def calls(x):
    return jax.pure_callback(np.sin, x, x)


def calls_in_order(x):
    return io_callback(np.sin, x, x, ordered=True)


def calls_in_a_loop(x):
    return jax.lax.fori_loop(0, 3, lambda _, each: calls(each), x)


@pytest.mark.parametrize("talks", [prints, calls, calls_in_order, calls_in_a_loop])
def test_a_function_that_calls_back_is_refused_by_its_name(talks):
    with coordinated(workers=1) as coordinator:
        with pytest.raises(TraceError, match=f"'{talks.__name__}' cannot be scheduled.*calls back.*by "):
            coordinator.schedule(function(talks), args=(np.float32(1.0),))
        assert coordinator.schedule(one).fetch() == 1.0


def fails(x):
    raise KeyError("no such layer")


def branches(x):
    return x if x > 0 else -x


def reads(x):
    return float(x)


@pytest.mark.parametrize(
    ("code", "error", "line"),
    [
        (fails, KeyError, 'raise KeyError("no such layer")'),
        (branches, jax.errors.ConcretizationTypeError, "return x if x > 0 else -x"),
        (reads, jax.errors.ConcretizationTypeError, "return float(x)"),
    ],
)
def test_a_function_that_cannot_be_traced_is_said_where_it_is_scheduled(code, error, line):
    with coordinated(workers=1) as coordinator:
        with pytest.raises(error) as caught:
            coordinator.schedule(function(code), args=(np.float32(1.0),))
        text = "".join(traceback.format_exception(caught.value))
        assert line in text
        assert f"muster traced the function {code.__name__!r}" in text
        coordinator.join()  # it was said
        assert coordinator.schedule(one).fetch() == 1.0


def test_a_dataset_function_that_uses_a_variable_is_refused():
    variable = keras.Variable(3, name="limit", dtype="int32")
    with coordinated(workers=1) as coordinator:
        with pytest.raises(ValueError, match="uses the variable 'limit'"):
            coordinator.create_per_worker_dataset(lambda: Dataset.range(int(variable)))


def test_the_error_of_a_dataset_comes_with_its_class_and_where_it_was_raised():
    def broken(x):
        raise KeyError("no such column")

    def dataset():
        return Dataset.from_generator(lambda: iter([1]), output_types=np.int32, output_shapes=()).map(broken)

    def spec():
        return Dataset.range(2)

    with coordinated(workers=1) as coordinator:
        made = coordinator.create_per_worker_dataset(spec)
        made.pickled = pickled(dataset)
        value = coordinator.schedule(function(lambda it: next(it)), args=(iter(made),))
        with pytest.raises(KeyError, match="no such column") as caught:
            coordinator.join()
        assert 'raise KeyError("no such column")' in "".join(caught.value.__notes__)
        with pytest.raises(KeyError, match="no such column"):
            value.fetch()


def test_iterators_that_nobody_has_any_more_are_forgotten():
    take = function(lambda it: next(it))
    with coordinated(workers=1) as coordinator:
        dataset = coordinator.create_per_worker_dataset(lambda: Dataset.range(100).repeat())
        for _ in range(10):
            assert coordinator.schedule(take, args=(iter(dataset),)).fetch() == 0
        while sum(each.name == "muster-draws" for each in threading.enumerate()) > 1:
            threading.Event().wait(0.01)  # those of the others end


def test_the_queue_is_bounded():
    cluster = cluster_of(1)
    with coordinator_of(Strategy(cluster)) as coordinator:
        coordinator._schedule._queue._limit = 3
        scheduled = []

        def schedule_all():
            for _ in range(6):
                scheduled.append(coordinator.schedule(one))

        thread = threading.Thread(target=schedule_all)
        thread.start()
        while len(scheduled) < 3:
            threading.Event().wait(0.01)
        thread.join(0.2)
        assert len(scheduled) == 3
        with start_worker(cluster, 0):
            thread.join(60.0)
            assert coordinator.fetch(scheduled) == [1.0] * 6


def test_an_argument_is_what_it_was_when_the_function_was_scheduled():
    cluster = cluster_of(1)
    double = function(lambda x: x * 2)
    with coordinator_of(Strategy(cluster)) as coordinator:
        x = np.float32([1.0, 2.0])
        value = coordinator.schedule(double, args=(x,))
        x[:] = 100.0
        with start_worker(cluster, 0):
            assert value.fetch().tolist() == [2.0, 4.0]
            assert isinstance(value.get(), jax.Array)


def held_by(coordinator, number):
    """An iterator whose only element waits for the gate of this number."""
    GATES[number] = Gate()
    return iter(coordinator.create_per_worker_dataset(lambda: gated(number)))


@pytest.fixture
def quick_questions(monkeypatch):
    monkeypatch.setattr(_worker_connection, "_QUIET_SECS", 0.05)
    monkeypatch.setattr(_worker_connection, "_ASK_SECS", 30.0)


def test_what_runs_on_a_worker_that_stands_still_runs_elsewhere_and_counts_once(quick_questions):
    servers, cluster = MemoryServers(), cluster_of(2, 1)
    count = servers.add(keras.Variable(0, name="count", dtype="int32"))
    strategy = Strategy(cluster, servers)
    still, asked, links = {1}, [], Links(cluster)

    def ask_unless_still(task, timeout_secs):
        asked.append(task.index)
        if task.index in still:
            raise TimeoutError("it does not answer")
        links.ask(task, timeout_secs)

    def dial_unless_still(task, purpose):
        def dial(timeout_secs):
            if task.index in still:
                raise TimeoutError("it does not answer")
            return links.dial_to(task, purpose)(timeout_secs)

        return dial

    strategy.links.ask, strategy.links.dial_to = ask_unless_still, dial_unless_still

    @function
    def step():
        count.assign_add(7)
        return experimental_get_current_worker_index()

    apply, calls = servers.apply, []
    reached, released, pushed = threading.Event(), threading.Event(), threading.Semaphore(0)

    def held_apply(*args):
        calls.append(args)
        if len(calls) == 1:
            reached.set()
            released.wait(60.0)
        newest = apply(*args)
        pushed.release()
        return newest

    servers.apply = held_apply
    with contextlib.ExitStack() as stack:
        for index in range(2):
            stack.enter_context(start_worker(cluster, index, servers))
        coordinator = stack.enter_context(coordinator_of(strategy))
        value = coordinator.schedule(step)
        assert reached.wait(60.0)
        while asked.count(0) < 3:  # it is busy, and says so
            threading.Event().wait(0.01)
        assert not coordinator.done()
        still.add(0)
        still.remove(1)
        assert value.fetch() == 1
        released.set()  # the one that has stood still goes on
        for _ in range(2):
            assert pushed.acquire(timeout=60.0)
        assert servers.repeated == 1
        assert servers.value(count) == 7
        still.clear()  # it is used again
        while coordinator._schedule._present != {0, 1}:
            threading.Event().wait(0.01)


def test_a_coordinator_whose_workers_are_all_gone_says_so(monkeypatch):
    monkeypatch.setattr(_worker_thread, "_DESERTED_SECS", 0.3)
    cluster = cluster_of(2)
    with coordinator_of(Strategy(cluster)) as coordinator:
        with start_worker(cluster, 0), start_worker(cluster, 1):
            assert coordinator.schedule(one).fetch() == 1.0
        value = coordinator.schedule(one)
        with pytest.raises(MissingPeerError, match="All workers have been gone .* refused"):
            coordinator.join()
        with pytest.raises(MissingPeerError):
            value.fetch()


def test_a_worker_waits_for_the_next_coordinator_but_not_for_ever(monkeypatch):
    monkeypatch.setattr(_service, "_NEXT_SECS", 0.1)
    monkeypatch.setattr(_service, "_LOOK_SECS", 0.05)
    cluster = cluster_of(1)
    with start_worker(cluster, 0) as server:
        assert not server._closures._ended.wait(0.3)  # the first one may come late
        with coordinator_of(Strategy(cluster)) as coordinator:
            assert coordinator.schedule(one).fetch() == 1.0
        with pytest.raises(MissingPeerError, match="worker 0 has lost its coordinator"):
            server.join()


def test_a_server_waits_for_the_next_coordinator_but_not_for_ever(monkeypatch):
    monkeypatch.setattr(_build_server, "_NEXT_SECS", 0.1)
    server, worker = free_addresses(2)
    cluster = ClusterSpec({"ps": [server], "worker": [worker]})
    with Server(cluster, "ps") as ps:
        assert not ps._service._ended.wait(2.5)  # the first one may come late
        strategy = ParameterServerStrategy(SimpleClusterResolver(cluster))
        with strategy.scope():
            kept = keras.Variable(1.0)
        assert float(kept.value) == 1.0
        strategy.close(ends=False)
        with pytest.raises(MissingPeerError, match="ps 0 has lost all tasks that it has served"):
            ps.join()


def test_a_worker_that_is_told_to_leave_does_when_its_coordinator_has(monkeypatch):
    cluster = cluster_of(1)
    with start_worker(cluster, 0) as server:
        thread = threading.Thread(target=server.join)
        with coordinator_of(Strategy(cluster)) as coordinator:
            assert coordinator.schedule(one).fetch() == 1.0
            server._closures.leave()
            thread.start()
            assert coordinator.schedule(one).fetch() == 1.0
        thread.join(60.0)
        assert not thread.is_alive()


def test_all_hear_of_the_end_though_a_function_runs_and_no_variable_was_created():
    server, worker = free_addresses(2)
    cluster = ClusterSpec({"ps": [server], "worker": [worker]})
    strategy = ParameterServerStrategy(SimpleClusterResolver(cluster))
    servers = [Server(cluster, job) for job in cluster.jobs]
    threads = [threading.Thread(target=each.join) for each in servers]
    for thread in threads:
        thread.start()
    coordinator = ClusterCoordinator(strategy)
    value = coordinator.schedule(function(lambda it: next(it)), args=(held_by(coordinator, 8),))
    assert GATES[8].reached.wait(60.0)
    strategy.close()
    for thread in threads:
        thread.join(60.0)
    GATES[8].released.set()
    assert not any(thread.is_alive() for thread in threads)
    with pytest.raises(CancelledError, match="its coordinator was closed"):
        value.fetch()


def test_a_worker_that_ends_waits_for_what_its_datasets_compute():
    def slow(x):
        time.sleep(1.5 if x else 0.0)
        return x

    with coordinated(workers=1) as coordinator:
        dataset = coordinator.create_per_worker_dataset(lambda: Dataset.range(100).map(slow))
        coordinator.schedule(function(lambda it: next(it)), args=(iter(dataset),)).fetch()
    assert not [thread for thread in threading.enumerate() if thread.name == "muster-draws"]


def test_a_worker_that_cannot_be_reached_is_not_called_without_a_pause():
    cluster, calls = cluster_of(1), []

    def dial(timeout_secs):
        calls.append(timeout_secs)
        raise ConnectionRefusedError("nothing listens there")

    strategy = Strategy(cluster)
    strategy.links.dial_to = lambda task, purpose: dial
    with coordinator_of(strategy) as coordinator:
        coordinator._schedule._wake()
        while len(calls) < 2:
            threading.Event().wait(0.01)
        before = len(calls)
        threading.Event().wait(0.5)
        assert len(calls) - before < 20


def test_a_worker_that_cannot_be_reached_is_said(caplog, monkeypatch):
    monkeypatch.setattr(_worker_thread, "_SAY_SECS", 0.1)
    cluster = cluster_of(1)
    with caplog.at_level(logging.WARNING), coordinator_of(Strategy(cluster)):
        while not any("worker 0" in message for message in caplog.messages):
            threading.Event().wait(0.01)


def test_to_look_at_a_result_begins_no_generation():
    with coordinated(workers=1) as coordinator:
        closures = coordinator.closures
        value = coordinator.schedule(one)
        closures.wait_for(value)
        before = closures._queue.generation
        assert value.peek() == 1.0
        assert closures._queue.generation == before
        assert value.fetch() == 1.0
        assert closures._queue.generation == before + 1


def test_what_is_cancelled_does_not_run_and_raises_nothing_later():
    cluster = cluster_of(1)
    with coordinator_of(Strategy(cluster)) as coordinator:
        values = [coordinator.schedule(one) for _ in range(3)]
        coordinator.closures.wait_for_room(4)
        assert values[0].peek() is None
        coordinator.closures.cancel()
        assert coordinator.done()
        with start_worker(cluster, 0):
            assert coordinator.schedule(one).fetch() == 1.0
        for value in values:
            with pytest.raises(CancelledError, match="cancelled"):
                value.fetch()
