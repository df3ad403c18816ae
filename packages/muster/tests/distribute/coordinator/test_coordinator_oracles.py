"""What a coordinator does, case by case as recorded from TensorFlow, on workers that are threads."""

import functools
import threading
import time

import jax
import numpy as np
import pytest
from clusters import Strategy, cluster_of, coordinator_of, start_worker
from coordinator_departures import DEPARTURES
from gates import GATES, MEETINGS, Gate, failing, gated, meeting
from memory_servers import MemoryServers

import recorded
from muster._errors import CancelledError, OutOfRangeError
from muster._keras import keras
from muster.data import Dataset, TensorSpec
from muster.distribute import function, get_replica_context
from muster.distribute.coordinator import experimental_get_current_worker_index
from muster.program import GradientTape

_KNOWN = {"CancelledError": CancelledError, "OutOfRangeError": OutOfRangeError}
_DEADLINE = 60.0


@pytest.fixture(autouse=True)
def _gates_are_closed():
    GATES.clear()
    MEETINGS.clear()
    yield
    for gate in GATES.values():
        gate.released.set()


def until(condition):
    """Wait until a condition holds."""
    deadline = time.monotonic() + _DEADLINE
    while not condition():
        assert time.monotonic() < deadline, "it does not come true"
        threading.Event().wait(0.005)


def tried(call, *args, **kwargs):
    """What a step of a case comes to: a value, "ok" for none, or an error."""
    try:
        result = call(*args, **kwargs)
    except Exception as exc:
        return exc
    return "ok" if result is None or type(result).__name__ == "RemoteValue" else plain(result)


def plain(value):
    return jax.tree.map(
        lambda leaf: leaf.tolist() if hasattr(leaf, "tolist") else leaf,
        list(value) if isinstance(value, tuple) else value,
    )


def check(outcome, expected):
    """Check one outcome against the recorded one."""
    if isinstance(expected, dict) and "error" in expected:
        assert isinstance(outcome, Exception), f"{outcome!r} is no error"
        kind, message = expected["error"]["type"], expected["error"]["message"]
        if kind in _KNOWN:
            assert isinstance(outcome, _KNOWN[kind])
            assert message.partition("\n")[2].partition("\n")[0] in str(outcome)
        else:
            recorded.check_error(expected["error"], outcome)
        return
    assert not isinstance(outcome, Exception), repr(outcome)
    recorded.check_same(_listed(outcome), expected)


def _listed(value):
    """JSON has no tuples."""
    if isinstance(value, dict):
        return {key: _listed(each) for key, each in value.items()}
    return [_listed(each) for each in value] if isinstance(value, list | tuple) else value


@function
def add(a, b):
    return a + b


@function
def drawn(it):
    return next(it)


@function
def drawn_times(it, k):
    return next(it) * 0 + k


class Script:
    """Runs the steps of cases, each by its text or by a method of its own."""

    def __init__(self, coordinator, servers):
        self.c, self.servers, self.made = coordinator, servers, []

    def note(self, *outcomes):
        self.made += outcomes

    def schedule(self, fn, *args, **kwargs):
        """Schedule a function, and note the outcome; return the result to come."""
        try:
            value = self.c.schedule(fn, args=args, kwargs=kwargs)
        except Exception as exc:
            self.note(exc)
            return None
        self.note("ok")
        return value

    def join(self):
        self.note(tried(self.c.join))

    def done(self):
        self.note(tried(self.c.done))

    def fetch(self, *values):
        for value in values:
            result = tried(value.fetch)
            self.note("None" if result == "ok" else result)

    def status(self, value):
        self.note(value.status.value)

    def iterator(self, source):
        return iter(self.c.create_per_worker_dataset(source))

    def fail(self):
        """Schedule a function that fails."""
        return self.schedule(drawn, self.iterator(failing))

    def hold(self, number):
        """Schedule a function that waits for a gate."""
        GATES[number] = Gate()
        return self.schedule(drawn, self.iterator(functools.partial(gated, number)))

    def until_failed(self, value):
        until(lambda: value.status.value == "READY")
        self.note("ok")

    def until_running(self, *numbers):
        until(lambda: all(GATES[number].reached.is_set() for number in numbers))
        self.note("ok")

    def release(self, number):
        GATES[number].released.set()
        self.note("ok")

    def meet(self, name):
        MEETINGS[name] = threading.Barrier(2)
        return self.iterator(functools.partial(meeting, name))


def fetch_without_join_waits(s):
    s.fetch(s.schedule(add, 1, 2))
    s.done()


def ten_results_keep_their_order(s):
    values = [s.schedule(add, np.int32(i), 100) for i in range(10)]
    s.join()
    s.fetch(*values)
    s.done()


def join_and_done_with_nothing_scheduled(s):
    s.done()
    s.join()
    s.join()
    s.done()


def kwargs(s):
    s.fetch(s.schedule(add, b=5, a=7))
    s.fetch(s.schedule(add, 1, b=5))


def plain_python_function_is_rejected(s):
    s.schedule(lambda a, b: a + b, 3, 4)
    s.done()
    s.join()


def concrete_function(s):
    spec = TensorSpec((), np.int32)
    s.fetch(s.schedule(add.get_concrete_function(spec, spec), np.int32(3), np.int32(4)))


def structures_and_none(s):
    s.fetch(s.schedule(function(lambda: {"a": [1, 2], "b": ("s", 2.5)})))
    nothing = s.schedule(function(lambda: None))
    s.join()
    s.fetch(nothing)
    s.status(nothing)


def done_is_false_while_running(s):
    held = s.hold(1)
    s.until_running(1)
    s.done()
    s.status(held)
    s.release(1)
    s.join()
    s.done()
    s.status(held)
    s.fetch(held)


def remote_value_as_input(s):
    r = s.schedule(add, 1, 2)
    s.join()
    s.schedule(add, r, 1)
    s.schedule(add, 1, b=r)
    s.schedule(add, [r], 1)
    s.join()


def wrong_number_for_tf_function(s):
    s.schedule(add, 1)
    s.schedule(add, 1, 2, 3)
    s.schedule(add, 1, 2, c=3)
    s.done()
    s.join()


def sharded_variable(s):
    v = s.servers.add(keras.Variable([1.0, 2.0, 3.0, 4.0, 5.0]), (0, 0, 3), (1, 3, 5))
    s.note(type(v).__name__, [rows.stop - rows.start for rows in s.servers.rows_of(v)])

    @function
    def f():
        v.assign_add(np.ones(5))
        return keras.ops.take(v, [4, 0, 2])

    s.fetch(s.schedule(f))
    s.note(s.servers.value(v).tolist())


def creation_inside_scheduled_function(s):
    @function
    def f():
        return keras.Variable(1.0) + 1.0

    s.schedule(f)
    s.join()


def strategy_run_inside_schedule(s):
    strategy = s.c.strategy
    v = s.servers.add(keras.Variable(1.0))

    def of_replica(y):
        context = get_replica_context()
        return [y * v, context.num_replicas_in_sync, context.replica_id_in_sync_group]

    @function
    def f(x):
        out = strategy.run(of_replica, args=(x,))
        return out, strategy.reduce("SUM", out, axis=None)

    s.note(strategy.num_replicas_in_sync)
    s.fetch(s.schedule(f, 3.0))
    s.note(float(strategy.run(lambda: 1.0)))


def join_raises_once_then_works_again(s):
    r = s.fail()
    s.join()
    s.status(r)
    s.fetch(r)
    s.join()
    s.done()
    value = s.schedule(add, 1, 2)
    s.join()
    s.fetch(value)


def schedule_raises_and_drops_the_new_function(s):
    s.until_failed(s.fail())
    s.schedule(add, 1, 2)
    s.join()
    s.done()
    t = s.schedule(add, 3, 4)
    s.join()
    s.fetch(t)


def done_raises_the_pending_error(s):
    s.until_failed(s.fail())
    s.done()
    s.done()
    s.join()


def fetch_raises_but_does_not_clear(s):
    r = s.fail()
    s.fetch(r)
    s.until_failed(r)
    s.fetch(r)
    s.status(r)
    s.join()
    s.fetch(r)
    s.join()


def join_cancels_queued_and_running(s):
    h0, h1 = s.hold(0), s.hold(1)
    s.until_running(0, 1)
    f = s.fail()
    later = [s.schedule(add, np.int32(k), 0) for k in range(20)]
    joined = []
    thread = threading.Thread(target=lambda: joined.append(tried(s.c.join)))
    thread.start()
    s.note("ok")
    s.release(0)
    s.until_failed(f)
    thread.join(_DEADLINE)
    s.note(not thread.is_alive())
    s.release(1)
    s.note(joined[0])
    s.fetch(h0, f)
    s.note(type(tried(h1.fetch)).__name__, [type(tried(each.fetch)).__name__ for each in later[15:]])
    s.status(later[19])
    s.done()
    s.fetch(s.schedule(add, 1, 2))


def error_is_kept_until_someone_asks(s):
    def pending():
        return s.c._schedule._queue.failed

    s.until_failed(s.fail())
    threading.Event().wait(0.3)
    s.note("ok", pending())
    s.join()
    s.note(pending())


def running_function_on_other_worker_completes_before_join(s):
    h = s.hold(0)
    s.until_running(0)
    f = s.fail()
    s.until_failed(f)
    s.release(0)
    s.fetch(h, f)
    s.join()
    s.fetch(h)


def coordinator_fetch_raises(s):
    r = s.fail()
    s.until_failed(r)
    s.note(tried(s.c.fetch, r), tried(s.c.fetch, [r, 1]))
    s.join()


def repeated_errors(s):
    for _ in range(3):
        s.fail()
        s.join()
    s.join()
    s.fetch(s.schedule(add, 1, 1))


def constant_from_python_function(s):
    calls = []

    def dfn():
        calls.append(1)
        return Dataset.from_tensors(5).repeat()

    nxt = function(lambda it: next(it) * 2)
    ds = s.c.create_per_worker_dataset(dfn)
    it = iter(ds)
    s.note("ok", [type(ds).__name__, type(it).__name__])
    values = [s.c.schedule(nxt, args=(it,)) for _ in range(6)]
    s.note("ok")
    s.join()
    s.note(plain(s.c.fetch(values)), len(calls))


def finite_exhausted(s):
    drain = function(lambda it: next(it) + next(it) + next(it))
    it = s.iterator(lambda: Dataset.range(2))
    s.note("ok")
    r = s.schedule(drain, it)
    s.join()
    s.fetch(r)
    s.join()
    s.fetch(s.schedule(add, 1, 2))


def every_worker_gets_its_own_full_copy(s):
    @function
    def both(it, other):
        next(other)
        return next(it) + next(it) + next(it) + next(it) + next(it)

    it, other = s.iterator(lambda: Dataset.range(5)), s.meet("both")
    s.note("ok")
    values = [s.c.schedule(both, args=(it, other)) for _ in range(2)]
    s.note("ok")
    s.join()
    s.note(plain(s.c.fetch(values)))


def iteration_on_the_coordinator(s):
    ds = s.c.create_per_worker_dataset(lambda: Dataset.range(3))
    s.note(tried(next, iter(ds)))
    s.note(tried(lambda: [each for each in ds]))
    s.schedule(function(lambda: next(iter(ds))))


def bad_dataset_functions(s):
    def boom():
        raise ValueError("dataset boom")

    def mkvar():
        keras.Variable(1.0)
        return Dataset.range(3)

    for source in (lambda: [1, 2], 5, None, boom, mkvar):
        s.note(tried(s.iterator, source))


def from_dataset_object(s):
    it = s.iterator(Dataset.range(6).batch(2))
    s.note("ok")
    s.fetch(s.schedule(function(lambda it: keras.ops.stack([next(it), next(it), next(it)])), it))


@function
def take_two(it):
    return next(it), next(it)


def from_distributed_dataset(s):
    dds = s.c.strategy.experimental_distribute_dataset(Dataset.range(6).batch(4))
    s.note("ok", tried(iter, dds))
    s.fetch(s.schedule(take_two, s.iterator(dds)))


def distribute_datasets_from_function(s):
    strategy, seen = s.c.strategy, []

    def batches(ctx):
        seen.append([ctx.num_input_pipelines, ctx.input_pipeline_id, ctx.num_replicas_in_sync])
        return Dataset.range(6).batch(ctx.get_per_replica_batch_size(2)).take(2)

    it = s.iterator(function(lambda: strategy.distribute_datasets_from_function(batches)))
    s.note("ok", seen)
    s.fetch(s.schedule(take_two, it))


def worker_index(s):
    @function
    def both(other):
        next(other)
        return experimental_get_current_worker_index()

    other = s.meet("index")
    values = [s.c.schedule(both, args=(other,)) for _ in range(2)]
    s.note("ok")
    s.join()
    s.note(sorted(plain(s.c.fetch(values))))


def element_spec(s):
    def text(spec):
        return f"TensorSpec(shape={spec.shape}, dtype=tf.{spec.dtype}, name={spec.name})"

    ds = s.c.create_per_worker_dataset(function(lambda: Dataset.range(3).batch(2)))
    s.note("ok", text(ds.element_spec), tried(lambda: iter(ds).element_spec))
    s.note(text(s.c.create_per_worker_dataset(lambda: Dataset.range(3).batch(2)).element_spec))


def ten_sgd_steps(s):
    v = s.servers.add(keras.Variable([0.0, 0.0]))
    optimizer = keras.optimizers.SGD(0.1)
    optimizer.build([v])
    metric = keras.metrics.Sum()
    for variable in [*optimizer.variables, *metric.variables]:
        s.servers.add(variable)

    @function
    def train(it):
        x = next(it)
        with GradientTape() as tape:
            loss = keras.ops.sum(v * x)
        optimizer.apply(tape.gradient(loss, [v]), [v])
        metric.update_state(1.0)

    it = s.iterator(lambda: Dataset.from_tensors(np.float32([1.0, 2.0])).repeat())
    for _ in range(10):
        s.c.schedule(train, args=(it,))
    s.note("ok")
    s.join()
    s.note(s.servers.value(v).tolist(), int(s.servers.value(optimizer.iterations)))
    s.note(float(s.servers.value(metric.variables[0])))


def iterator_of_a_restarted_worker_starts_over(s):
    @function
    def take(it, other):
        next(other)
        return experimental_get_current_worker_index(), next(it), next(it)

    it = s.iterator(lambda: Dataset.range(100))
    s.note("ok")

    def taken(name):
        other = s.meet(name)
        values = [s.c.schedule(take, args=(it, other)) for _ in range(2)]
        s.c.join()
        s.note(sorted(plain(each) for each in s.c.fetch(values)))

    taken("first")
    taken("second")
    s.restart(1)
    s.note("ok", "ok")
    taken("third")


@pytest.mark.parametrize("case", recorded.cases("coordinator", departures=DEPARTURES))
def test_case(case):
    servers, cluster = MemoryServers(2), cluster_of(2, 2)
    workers = [start_worker(cluster, index, servers) for index in range(2)]

    def restart(index):
        workers[index].close()
        workers[index] = start_worker(cluster, index, servers)

    run = globals()[case["name"].partition("/")[2]]
    try:
        with coordinator_of(Strategy(cluster, servers)) as coordinator:
            script = Script(coordinator, servers)
            script.restart = restart
            run(script)
    finally:
        for gate in GATES.values():
            gate.released.set()
        for worker in workers:
            worker.close()
    expected = case["expect"]["outcomes"]
    assert len(script.made) == len(expected), script.made
    for outcome, each in zip(script.made, expected, strict=True):
        check(outcome, each)


def test_every_departure_is_needed():
    assert not recorded.unused("coordinator", DEPARTURES)
