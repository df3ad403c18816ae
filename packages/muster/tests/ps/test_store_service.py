"""Stores and their clients over real sockets."""

import contextlib
import struct
import threading
import time

import msgspec
import numpy as np
import pytest
from store_job import SECS, client, serving, wait_for
from store_values import ADD, COUNT, LOOK, ROWS, SLOT, TRAIN, VERSIONS, A, B, full

from muster._errors import JobEndedError, MissingPeerError, ParameterServerError
from muster.net import Connection
from muster.ps import _messages as messages
from muster.ps._array_spec import ArraySpec
from muster.ps._bundles import bundle
from muster.ps._replies import Asked
from muster.ps._wire import encode
from muster.ps.contents import StoredArray, StoredFunction, StoredName


def stored(spec, server=0):
    return StoredArray(spec.name, server, spec.shape, spec.dtype)


def prepare(chief, servers=1):
    chief.create((stored(spec, n), full(spec, n)) for n in range(servers) for spec in (A, B, COUNT))
    chief.register([ADD] * servers)
    chief.register([LOOK, *[None] * (servers - 1)])


def pushes(value, servers=1):
    return [[np.full((3, 2), value, np.float32)]] * servers


def first(taken, server=0):
    return float(taken[server][0].flat[0])


class Fragile(Connection):
    """A connection that breaks before its next answer is received, once told to."""

    breaks = False

    def receive_into(self, buffers):
        if self.breaks:
            raise ConnectionResetError("cut by the test")
        return super().receive_into(buffers)


def fragile(server, task, made):
    """Dial so that the connections are in a list and can be broken."""

    def call(secs):
        made.append(Fragile(server.dial(task)(secs)._sock))
        return made[-1]

    return call


def test_a_coordinator_and_a_worker_of_two_servers():
    with (
        serving() as one,
        serving() as two,
        client(one, two) as chief,
        client(one, two, task="worker 0") as worker,
    ):
        prepare(chief, 2)
        assert [[array.tolist() for array in each] for each in worker.pull("add")] == [
            [full(A, n).tolist(), full(B, n).tolist()] for n in range(2)
        ]
        taken = worker.apply("add", 1, 0, pushes(2.0, 2))
        assert (first(taken, 0), first(taken, 1)) == (2.0, 3.0)
        chief.assign({StoredName(1, "a"): full(A, 9.0), StoredName(0, "b"): full(B, 8.0)})
        names = [StoredName(1, "a"), StoredName(0, "b"), StoredName(1, "count"), StoredName(1, "a")]
        assert [array.flat[0] for array in chief.read(names)] == [9.0, 8.0, 2, 9.0]
        taken = worker.pull("look")
        assert [len(each) for each in taken] == [2, 0]
        assert [array.shape for array in taken[0]] == [(4,), (3, 2)]
        chief.delete([StoredName(1, "b")])
        with pytest.raises(
            ParameterServerError, match=r"ps 1 \(localhost:.*refuses this task: there is no function"
        ):
            worker.pull("add")
        assert [each.variables for each in worker.statistics()] == [3, 2]


def test_servers_are_asked_at_the_same_time():
    """Each of two servers answers once the other was asked, too."""
    both = threading.Barrier(2)

    def met(machine):
        handle = machine.handle

        def wait(events, now):
            if any(isinstance(event, Asked) and isinstance(event.message, messages.Push) for event in events):
                both.wait(SECS)
            return handle(events, now)

        machine.handle = wait

    with serving() as one, serving() as two, client(one, two) as chief:
        prepare(chief, 2)
        for server in (one, two):
            met(server.machine)
        assert first(chief.apply("add", 1, 0, pushes(1.0, 2)), 1) == 2.0


def test_what_is_returned_is_the_callers():
    with serving() as server, client(server) as chief:
        prepare(chief)
        before = chief.pull("add")
        after = [chief.apply("add", number, 0, pushes(1.0)) for number in range(3)]
        assert [first(each) for each in (before, *after)] == [0.0, 1.0, 2.0, 3.0]
        before[0][0][:] = 7.0
        assert first(chief.pull("add")) == 3.0


def test_values_are_never_torn_and_nothing_is_lost():
    big = ArraySpec("a", (50_000, 2), "float32")
    add = StoredFunction(
        fingerprint="add",
        takes=("a",),
        reads=("a", "count"),
        updates=("a", "count"),
        pushed=(ArraySpec("p", big.shape, "float32"),),
        update=b"adds",
    )
    torn, numbers = [], iter(range(1000))
    with serving() as server, client(server) as chief:
        chief.create([(stored(big), full(big, 0)), (stored(COUNT), full(COUNT, 0))])
        chief.register([add])

        def work(index):
            with client(server, task=f"worker {index}", run=str(index)) as worker:
                for _ in range(10):
                    ((values,),) = worker.apply("add", next(numbers), 0, [[full(big, 1)]])
                    torn.extend(values[values != values[0, 0]][:1])

        threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not torn
        assert first(chief.pull("add")) == 40.0


def test_a_push_whose_answer_is_lost_counts_once(caplog):
    made = []
    with serving() as server, client(server) as chief:
        prepare(chief)
        with client(server, task="worker 0", dials=[fragile(server, "worker 0", made)]) as worker:
            worker.apply("add", 0, 0, pushes(1.0))
            made[-1].breaks = True
            assert first(worker.apply("add", 1, 0, pushes(1.0))) == 2.0
        (counts,) = chief.statistics()
        assert (counts.pushes, len(made)) == (2, 2)
    assert "connection to ps 0 (localhost:" in caplog.text


def test_a_change_whose_answer_is_lost_is_made_once():
    made = []
    with serving() as server, client(server, dials=[fragile(server, "chief 0", made)]) as chief:
        prepare(chief)
        made[-1].breaks = True
        chief.assign({StoredName(0, "a"): full(A, 5.0)})
        assert len(made) == 2
        assert chief.read([StoredName(0, "a")])[0].max() == 5.0


def test_several_clients_of_one_process():
    with serving() as server, client(server) as chief, client(server) as other:
        prepare(chief)
        other.assign({StoredName(0, "a"): full(A, 5.0)})
        chief.assign({StoredName(0, "a"): full(A, 6.0)})
        assert first(other.pull("add")) == 6.0


def test_a_push_of_other_arrays_is_an_error_here():
    with serving() as server, client(server) as chief:
        prepare(chief)
        with pytest.raises(ValueError, match=r"push 0 \(float32\[3, 2\]\).*float32\[2\]"):
            chief.apply("add", 1, 0, [[np.zeros(2, np.float32)]])
        with pytest.raises(ValueError, match="0 arrays are to be pushed to a function that takes 1"):
            chief.apply("add", 1, 0, [[]])
        assert first(chief.apply("add", 1, 0, pushes(1.0))) == 1.0


def test_a_function_that_no_server_has():
    with serving() as server, client(server) as chief:
        with pytest.raises(
            ParameterServerError, match="No parameter server has a function missing. Register"
        ):
            chief.pull("missing")
        prepare(chief)
        with pytest.raises(ParameterServerError, match="another function with its fingerprint"):
            chief.register([StoredFunction(fingerprint="add", takes=("a",))])
        assert first(chief.pull("add")) == 0.0


def test_a_worker_is_refused_what_the_coordinator_alone_may():
    with serving() as server, client(server) as chief, client(server, task="worker 0") as worker:
        prepare(chief)
        with pytest.raises(ParameterServerError, match="it is not the coordinator"):
            worker.assign({StoredName(0, "a"): full(A, 5.0)})
        assert first(worker.apply("add", 1, 0, pushes(1.0))) == 1.0


def test_a_second_coordinator():
    with serving() as server, client(server) as chief:
        prepare(chief)
        with client(server, origin="another", run="another") as other:
            with pytest.raises(
                ParameterServerError, match="chief 0 is the coordinator of a job on this server"
            ):
                other.connect()
        assert first(chief.pull("add")) == 0.0


def test_a_coordinator_that_is_started_again():
    with serving() as server:
        with client(server) as chief:
            prepare(chief)
            worker = client(server, task="worker 0")
            old = worker.__enter__()
            old.apply("add", 1, 0, pushes(1.0))
        wait_for(lambda: len(server.service._peers) == 1)
        with client(server, origin="another", run="another") as chief:
            prepare(chief)
            assert first(chief.pull("add")) == 0.0
            with pytest.raises(ParameterServerError, match="another coordinator has begun a job"):
                old.apply("add", 2, 0, pushes(1.0))
            assert first(chief.pull("add")) == 0.0
        old.close()


def test_rows_of_tables_of_two_servers():
    arrays = (A, B, COUNT, ROWS, SLOT)
    with (
        serving() as one,
        serving() as two,
        client(one, two) as chief,
        client(one, two, task="worker 0") as worker,
    ):
        chief.create((stored(spec, n), full(spec, 1)) for n in range(2) for spec in arrays)
        second = msgspec.structs.replace(TRAIN.tables[0], start=110)
        chief.register([TRAIN, msgspec.structs.replace(TRAIN, tables=(second,))])
        ids = [[np.array([101, 109])], [np.array([], np.int64)]]
        assert [[each.shape for each in part] for part in worker.pull("train", ids)] == [
            [(3, 2), (4,), (2, 2)],
            [(3, 2), (4,), (0, 2)],
        ]
        assert [len(part) for part in worker.pull("train")] == [2, 2]
        whole = [full(TRAIN.pushed[0], 1.0), np.float32(2.0)]
        rows = [[(part[0], [np.full((len(part[0]), 2), 5.0, np.float32)])] for part in ids]
        taken = worker.apply("train", 1, 0, [whole, whole], rows)
        assert [len(part) for part in taken] == [2, 2]
        assert [part[2].tolist() for part in worker.pull("train", ids)] == [[[11, 11], [11, 11]], []]
        assert chief.read([StoredName(1, "count")])[0] == 2
        for wrong, text in (
            (
                [(ids[0][0], [])],
                "The arrays that are pushed for 2 rows of rows are none. They must be float32",
            ),
            ([], "There are ids for 0 tables, of a function with 1"),
            (
                [(np.array([1.0]), [np.zeros((1, 2), np.float32)])],
                r"Ids must be int64 .* Given: float64\[1\]",
            ),
        ):
            with pytest.raises(ValueError, match=text):
                worker.apply("train", 2, 0, [whole, whole], [wrong, rows[1]])
        with pytest.raises(ParameterServerError, match="id 111 is of no row of rows"):
            worker.pull("train", [[np.array([111])], [np.array([111])]])


def test_rows_are_read_and_assigned_in_parts():
    with serving() as server, client(server) as chief:
        chief.create([(stored(ROWS), full(ROWS, 1))])
        chief.assign_rows(StoredName(0, "rows"), 2, np.arange(4, dtype=np.float32).reshape(2, 2))
        found = chief.read_rows(StoredName(0, "rows"), 1, 3)
        assert found.tolist() == [[1, 1], [0, 1], [2, 3]]


def test_the_end_of_the_job():
    with serving() as server, client(server) as chief, client(server, task="worker 0") as worker:
        prepare(chief)
        worker.pull("add")
        chief.end()
        with pytest.raises(
            JobEndedError, match=r"ps 0 \(localhost:.* says that the coordinator has ended the job"
        ):
            worker.apply("add", 1, 0, pushes(1.0))
        chief.end()
        chief.close()
        worker.close()
        server.service.join()


def test_a_server_that_comes_back_without_values_is_named():
    made = []
    with serving() as server, serving() as again, client(server) as chief:
        prepare(chief)
        with client(server, task="worker 0", dials=[fragile(server, "worker 0", made)]) as worker:
            worker.pull("add")
            server.address = again.address
            made[-1].breaks = True
            with pytest.raises(
                ParameterServerError, match="ps 0 .* was started again, and has no snapshot.* snapshot_dir"
            ):
                worker.apply("add", 1, 0, pushes(1.0))
        chief.close()
        with pytest.raises(
            ParameterServerError, match="has no snapshot of the values that it had. Start the job"
        ):
            chief.pull("add")


def test_a_server_that_is_not_there_in_time():
    with serving() as server, client(server, secs=0.3) as chief:
        server.address = "localhost:1"
        with pytest.raises(MissingPeerError, match="has not answered within 0.3 s"):
            chief.connect()


def test_other_versions_of_software():
    with serving() as server, client(server, versions=VERSIONS | {"jax": "1.1"}) as chief:
        with pytest.raises(ParameterServerError, match="it has 1.1 of jax, and this server has 1.2"):
            chief.connect()


JOIN = messages.Join(origin="origin", client="client", versions=VERSIONS)


@pytest.mark.parametrize("joins", [False, True])
@pytest.mark.parametrize(
    "sent",
    [
        b"\xff" * 100,
        struct.pack("!I", 1 << 31),
        struct.pack("!I", 5) + b"\xc1\xc1\xc1\xc1\xc1",
        encode(messages.Pull(function="x" * 1000), [np.zeros(5, np.int8)]),
        encode(messages.Push(function="add", number=1), [np.zeros(1 << 20, np.int8)]),
        encode(messages.Push(function="add", number=1), [np.zeros(7, np.float32)]),
        encode({"type": "apply", "function": "add", "closure": -1}, ()),
        encode({"type": "apply", "function": "add", "closure": 1 << 63}, ()),
        encode({"type": "assign", "sequence": -1}, ()),
        encode(messages.Read(), [np.broadcast_to(np.int8(0), (1 << 50,))])[:1],
        encode(messages.Values(version=1), ()),
    ],
    ids=range(11),
)
def test_malformed_and_oversized_requests_end_their_connection(sent, joins, caplog):
    sent = [sent] if isinstance(sent, bytes) else sent
    with serving() as server, client(server) as chief:
        prepare(chief)
        with server.dial("worker 9")(SECS) as connection:
            deadline = time.monotonic() + SECS
            if joins:
                connection.send_all(encode(JOIN, ()), deadline)
                assert b"joined" in connection.wait_for_data(1 << 16, deadline)
            connection.send_all(sent, deadline)
            said = b""
            while b"refused" not in said:
                received = connection.wait_for_data(1 << 16, deadline)
                assert received
                said += received
        assert first(chief.apply("add", 1, 0, pushes(1.0))) == 1.0
    assert "ps 0 refuses worker 9 at 127.0.0.1: " in caplog.text


def test_random_bytes_leave_the_server_up():
    rng = np.random.default_rng(7)
    requests = [
        encode(messages.Push(function="add", number=1), [np.zeros(6, np.float32)]),
        encode(messages.Assign(sequence=1), bundle([(A, full(A, 1))])),
        encode(messages.Read(), bundle([(A, full(A, 1))])),
        encode(messages.Register(sequence=1), [np.zeros(50, np.uint8)]),
    ]
    good = [b"".join(map(bytes, each)) for each in requests]
    join = b"".join(
        map(bytes, encode(messages.Join(origin="origin", client="fuzz", versions=VERSIONS, starts=True), ()))
    )
    with serving() as server, client(server) as chief:
        prepare(chief)
        for turn in range(100):
            data = bytearray(rng.bytes(200) if turn % 5 == 4 else good[turn % 5])
            for place in rng.integers(0, len(data), 4):
                data[place] = rng.integers(256)
            with server.dial(f"worker {turn}")(SECS) as connection, contextlib.suppress(OSError):
                connection.send_all([join, bytes(data)], time.monotonic() + SECS)
        wait_for(lambda: len(server.service._peers) == 1)
        assert chief.statistics()[0].functions == 2
        before = first(chief.pull("add"))
        assert first(chief.apply("add", 1 << 40, 0, pushes(1.0))) == before + 1.0 or np.isnan(before)


def test_who_does_not_read_holds_nobody_up():
    big = ArraySpec("a", (1_000_000, 2), "float32")
    with serving() as server, client(server) as chief:
        chief.create([(stored(big), full(big, 0)), (stored(COUNT), full(COUNT, 0))])
        chief.register([StoredFunction(fingerprint="look", takes=("a",))])
        with server.dial("worker 0")(SECS) as slow:
            deadline = time.monotonic() + SECS
            slow.send_all(encode(JOIN, ()), deadline)
            slow.wait_for_data(1 << 16, deadline)
            slow.send_all(encode(messages.Pull(function="look"), ()), deadline)
            for turn in range(3):
                chief.assign({StoredName(0, "a"): full(big, turn)})
                assert first(chief.pull("look")) == turn
