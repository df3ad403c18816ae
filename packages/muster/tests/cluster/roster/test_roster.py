"""Rosters in one process, over real sockets."""

import contextlib
import errno
import logging
import resource
import selectors
import signal
import socket
import sys
import threading
import time

import pytest

from muster import _errors as errors
from muster import net
from muster.cluster import ClusterSpec, Task
from muster.cluster.roster import _roster_service as service
from muster.cluster.roster._roster import Roster
from muster.cluster.roster._roster_address import query_status
from muster.cluster.roster._roster_identity import derive_job_id
from muster.cluster.roster._roster_messages import (
    MAX_STACKS,
    Progress,
    RosterHello,
    Status,
    TaskState,
    decode_news,
    encode_hello,
)
from muster.net import FrameBuffer
from muster.net import _acceptor as acceptor
from muster.net._greeting import MAGIC, CallerGreeting

pytestmark = pytest.mark.alone

ZERO, ONE, TWO = (Task("worker", index) for index in range(3))
DEADLINE = 60.0


@pytest.fixture
def held():
    """What is closed at the end, whatever happens."""
    with contextlib.ExitStack() as stack:
        yield stack


def workers(count):
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return ClusterSpec({"worker": [f"127.0.0.1:{sock.getsockname()[1]}" for sock in sockets]})


class Losses(list):
    """Keeps who was lost, instead of ending the process."""

    def __init__(self):
        super().__init__()
        self.come = threading.Event()

    def __call__(self, task, reason):
        self.append((task, reason))
        self.come.set()


@pytest.fixture
def join(held):
    """Start the roster of a task."""

    def start(cluster, task, **options):
        return held.enter_context(Roster(cluster, task, **{"on_lost": Losses(), "versions": {}} | options))

    return start


def together(*calls):
    """Run functions side by side, and return what each returned or raised."""
    results = [None] * len(calls)

    def run(index, call):
        try:
            results[index] = call()
        except errors.RosterError as exc:
            results[index] = exc

    threads = [threading.Thread(target=run, args=item) for item in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def all_come(*rosters):
    assert together(*(lambda r=r: r.wait_for_all(DEADLINE) for r in rosters)) == [None] * len(rosters)


@pytest.fixture
def cluster():
    return workers(2)


@pytest.fixture
def losses():
    """Those of worker 0 of the pair."""
    return Losses()


@pytest.fixture
def pair(join, cluster, losses):
    """Two workers that have reached."""
    rosters = [join(cluster, ZERO, on_lost=losses), join(cluster, ONE)]
    all_come(*rosters)
    return rosters


def until(look):
    """Wait for a condition, and return it."""
    deadline = time.monotonic() + DEADLINE
    while not (found := look()):
        assert time.monotonic() < deadline
        threading.Event().wait(0.005)
    return found


def test_what_is_announced_is_looked_up(pair):
    zero, one = pair
    results = together(
        lambda: one.lookup(ZERO, "coordinator", DEADLINE), lambda: zero.announce("coordinator", ("h", 1))
    )
    assert results == [["h", 1], None]
    assert zero.lookup(ZERO, "coordinator", 0.0) == ["h", 1]  # as the others see it
    # Each has its own value under one key, and "nothing" is a value.
    zero.announce("x", {"a": 1})
    one.announce("x", None)
    for roster in pair:
        assert [roster.lookup(task, "x", DEADLINE) for task in (ZERO, ONE)] == [{"a": 1}, None]


def test_what_is_not_announced_in_time_is_named(pair):
    zero, one = pair
    one.announce("something", 1)
    with pytest.raises(errors.MissingPeerError, match=r"s for worker 1 at .*; it has not announced 'else'\)"):
        zero.lookup(ONE, "else", 0.0)


def test_what_is_reported_is_heard(pair):
    zero, one = pair
    one.report(state=TaskState.TRAINING, step=3, loss=0.5)
    one.report(steps_per_sec=10, input_wait=0.25, waits_for="x" * 1000)
    assert one.progress == Progress(
        state=TaskState.TRAINING, step=3, loss=0.5, steps_per_sec=10.0, input_wait=0.25, waits_for="x" * 500
    )
    assert zero.progress.step != 3
    until(lambda: zero.statuses()[ONE].progress == one.progress)
    for state in (TaskState.DONE, TaskState.FAILED, "asleep"):
        with pytest.raises(ValueError, match="state|asleep"):
            one.report(state=state)


def test_a_job_of_one_process_needs_nobody(join):
    alone = join(ClusterSpec({}), ZERO)
    alone.wait_for_all(0.0)
    alone.announce("program", 1)
    assert alone.lookup(ZERO, "program", 0.0) == 1
    assert list(alone.statuses()) == [ZERO]


@pytest.mark.parametrize(
    ("task", "listens"), [(Task("evaluator", 0), False), (Task("ps", 0), True), (Task("chief", 0), True)]
)
def test_only_training_tasks_wait_for_each_other(join, task, listens):
    ports = workers(3).job_tasks("worker")
    cluster = ClusterSpec({"chief": ports[:1], "ps": ports[1:2], "worker": ports[2:]})
    roster = join(cluster, task)
    if listens:
        assert query_status(cluster.task_address(task.type, 0), DEADLINE).task == task
    if task.type == "chief":
        with pytest.raises(errors.MissingPeerError, match=r"chief 0 has waited 0 s for worker 0 at "):
            roster.wait_for_all(0.0)
        assert roster.statuses()[task].training == (Task("chief", 0), ZERO)
    else:
        roster.wait_for_all(0.0)


def test_wrong_arguments_are_errors(pair):
    zero, _ = pair
    zero.announce("taken", 1)
    for value, error in ((1 << 64, ValueError), ("x" * 600_000, ValueError), (object(), TypeError)):
        with pytest.raises(error, match="64 bits|take 6000|unsupported"):
            zero.announce("key", value)
    with pytest.raises(ValueError, match="'taken' was announced already"):
        zero.announce("taken", 2)
    with pytest.raises(ValueError, match="worker 2 is not another training task"):
        zero.lookup(TWO, "key", DEADLINE)
    with pytest.raises(ValueError, match="heartbeat_secs must be more than 0"):
        Roster(ClusterSpec({}), ZERO, heartbeat_secs=0.0)
    with pytest.raises(errors.ClusterError, match="worker 7 is not a task of the cluster"):
        Roster(workers(1), Task("worker", 7))
    with pytest.raises(errors.ClusterError, match="must be host:port"):
        Roster(ClusterSpec({"worker": ["nowhere", "127.0.0.1:1"]}), ONE)


def test_tasks_with_one_cluster_have_one_job_id():
    one = ClusterSpec({"worker": ["a:1", "b:1"], "chief": ["c:1"]})
    other = ClusterSpec({"chief": ["c:1"], "worker": {1: "b:1", 0: "a:1"}, "evaluator": ["d:1"]})
    assert derive_job_id(one) == derive_job_id(other)
    assert derive_job_id(one) != derive_job_id(ClusterSpec({"worker": ["a:1", "c:1"], "chief": ["b:1"]}))


def test_who_is_waited_for_is_said_again_and_again(join, cluster, caplog, monkeypatch):
    monkeypatch.setattr("muster.cluster.roster._roster._SAY_SECS", 0.2)
    zero = join(cluster, ZERO, heartbeat_secs=1.0)
    here, missing = (cluster.task_address("worker", index) for index in (0, 1))
    error, asked = together(
        lambda: zero.wait_for_all(0.7),
        lambda: until(lambda: (s := query_status(here, DEADLINE)).progress.waits_for and s),
    )
    assert isinstance(error, errors.MissingPeerError)
    where = f"worker 1 at {missing} (connection refused)"
    assert str(error).startswith(f"worker 0 has waited 1 s for {where}")
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert said == [f"Waiting for {where}, {secs} s" for secs in (0, 0, 1)]
    assert (asked.state, asked.progress.waits_for) == (TaskState.WAITING, "worker 1")


def test_a_task_that_waits_is_not_kept_by_a_peer_that_leaves(pair):
    zero, one = pair
    one.done()
    with pytest.raises(errors.PeerLostError, match="worker 1 at .* has ended already"):
        zero.lookup(ONE, "program", DEADLINE)


def test_a_peer_that_leaves_without_a_word_is_lost_once(pair, losses):
    zero, one = pair
    one.close()
    assert losses.come.wait(DEADLINE)
    with pytest.raises(errors.PeerLostError, match="worker 1 at .* has ended without a word"):
        zero.lookup(ONE, "program", DEADLINE)
    zero.fail(ValueError("x"))
    assert [task for task, _ in losses] == [ONE]
    assert zero.statuses()[ZERO].blamed == ONE


def test_an_error_that_names_a_file_whose_name_is_no_utf_8(pair):
    zero, one = pair
    one.fail(ValueError("cannot read \udcff.csv"))
    with pytest.raises(errors.PeerLostError, match=r"failed: ValueError: cannot read \\udcff\.csv"):
        zero.lookup(ONE, "key", DEADLINE)


@pytest.mark.parametrize("job_id", ["a\x7fb", "a\udcffb"])
def test_a_job_whose_id_cannot_be_printed(join, cluster, job_id):
    options = {"job_id": job_id, "credentials": net.Credentials(secret=b"0123456789abcdef")}
    all_come(*(join(cluster, task, **options) for task in (ZERO, ONE)))


@pytest.mark.parametrize(
    ("leave", "state"),
    [
        (lambda: None, TaskState.DONE),
        (lambda: sys.exit(0), TaskState.DONE),
        (lambda: sys.exit(3), TaskState.FAILED),
        (lambda: signal.raise_signal(signal.SIGINT), TaskState.FAILED),
    ],
    ids=["end", "exit 0", "exit 3", "ctrl-c"],
)
def test_how_the_block_is_left_is_how_the_task_ends(join, cluster, losses, leave, state):
    zero = join(cluster, ZERO, on_lost=losses)
    with contextlib.suppress(BaseException), Roster(cluster, ONE, versions={}) as one:
        all_come(zero, one)
        leave()
    until(lambda: zero.statuses()[ONE].state == state)
    if state == TaskState.FAILED:
        assert losses.come.wait(DEADLINE)
    else:
        assert not losses


class Speaker(threading.Thread):
    """Something that is not muster: it says the same to every caller, and hangs on."""

    def __init__(self, address, data):
        super().__init__()
        host, port = address.split(":")
        self._data = data
        self._server = socket.create_server((host, int(port)))

    def run(self):
        with contextlib.ExitStack() as kept, contextlib.suppress(OSError):
            while True:
                connection = kept.enter_context(self._server.accept()[0])
                connection.sendall(self._data)

    def __enter__(self):
        self.start()

    def __exit__(self, *exc):
        self._server.shutdown(socket.SHUT_RDWR)
        self.join()
        self._server.close()


@pytest.mark.parametrize(
    "data", [b"SSH-2.0-OpenSSH\r\n", b"\x00\x00\x12\x04", b'{"muster": 9}\n', b'{"muster":1,"status":{}}\n']
)
def test_something_else_at_a_peers_address_is_named(join, cluster, monkeypatch, caplog, data):
    monkeypatch.setattr("muster.cluster.roster._roster_watch.STRAY_SECS", 0.5)
    address = cluster.task_address("worker", 1)
    zero = join(cluster, ZERO)
    with Speaker(address, data), pytest.raises(errors.StrayPeerError) as raised:
        zero.wait_for_all(DEADLINE)
    said = "it speaks an older version" if b"muster" in data else "it is something else: it s"
    assert str(raised.value).startswith(f"What answers is not worker 1 at {address}: {said}")
    assert sum("What answers is not" in record.getMessage() for record in caplog.records) == 1


def test_something_silent_at_a_peers_address_is_named(join, cluster):
    address = cluster.task_address("worker", 1)
    zero = join(cluster, ZERO)
    with Speaker(address, b""):
        ends, said = time.monotonic() + DEADLINE, ""
        while "does not answer" not in said and time.monotonic() < ends:
            with pytest.raises(errors.MissingPeerError) as raised:
                zero.wait_for_all(0.5)
            said = str(raised.value)
        assert "accepts connections there, but does not answer" in said
    # It may have been a launcher that held the port: the task itself is found.
    one = join(cluster, ONE)
    all_come(zero, one)


def test_another_job_at_a_peers_address_is_named_by_both(join, cluster, monkeypatch, caplog):
    monkeypatch.setattr("muster.cluster.roster._roster_watch.STRAY_SECS", 0.5)
    zero = join(cluster, ZERO, job_id="ours")
    join(ClusterSpec({"worker": [cluster.task_address("worker", 1)]}), ZERO, job_id="theirs")
    with pytest.raises(errors.StrayPeerError, match="it is worker 0 of job theirs .* and this is job ours"):
        zero.wait_for_all(DEADLINE)
    text = "A stray process calls from 127.0.0.1: it says that it is worker 0 of job ours"
    assert any(record.getMessage().startswith(text) for record in caplog.records)


def test_a_task_that_was_started_twice_learns_it_and_harms_nobody(join, cluster, pair, monkeypatch, caplog):
    monkeypatch.setattr("muster.cluster.roster._roster_watch.STRAY_SECS", 0.5)
    here, one_address = cluster.job_tasks("worker")
    elsewhere = ClusterSpec({"worker": [here, *workers(1).job_tasks("worker")]})
    twin = join(elsewhere, ONE, job_id=derive_job_id(cluster))
    with pytest.raises(
        errors.StrayPeerError, match="it has reached another process as worker 1: this task was st"
    ):
        twin.wait_for_all(DEADLINE)
    text = f"but worker 1 at {one_address} answers as another process"
    assert any(text in record.getMessage() for record in caplog.records)
    for roster, name in zip(pair, "ab", strict=True):
        roster.announce("still", name)
    for roster in pair:
        assert [roster.lookup(task, "still", DEADLINE) for task in (ZERO, ONE)] == ["a", "b"]


def test_a_socket_that_listens_already_is_used(join, held):
    listener = socket.create_server(("127.0.0.1", 0))
    address = f"127.0.0.1:{listener.getsockname()[1]}"
    early = held.enter_context(socket.create_connection(("127.0.0.1", listener.getsockname()[1])))
    early.settimeout(DEADLINE)
    join(ClusterSpec({"worker": [address]}), ZERO, listener=listener)
    greet(early)  # who called before the task was there is answered too
    early.sendall(encode_hello(RosterHello(watch=False)))
    assert next(news_of(early)).task == ZERO


# Callers that behave badly.


def greet(sock):
    """Greet the roster that a blocking socket is connected to."""
    greeting = CallerGreeting(None, net.Hello(purpose="roster"))
    sock.sendall(greeting.start())
    while not greeting.done:
        sock.sendall(greeting.feed(sock.recv(1 << 12)))


def news_of(sock):
    """Yield what a roster says until it closes the connection."""
    frames = FrameBuffer(1 << 20)
    while data := sock.recv(1 << 16):
        yield from map(decode_news, frames.feed(data))


def call(held, address, data):
    host, port = address.split(":")
    caller = held.enter_context(socket.socket())
    caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    caller.settimeout(DEADLINE)
    caller.connect((host, int(port)))
    caller.sendall(data)
    return caller


def test_a_storm_of_connections_is_weathered(join, cluster, held, monkeypatch):
    monkeypatch.setattr(acceptor, "GREETING_SECS", 1e9)
    address = cluster.task_address("worker", 0)
    zero = join(cluster, ZERO)
    callers = [call(held, address, b"m" * (index % 2)) for index in range(300)]
    one = join(cluster, ONE)
    all_come(zero, one)
    assert len(zero._thread.acceptor._guests) <= 64
    assert callers[0].recv(1) == b""  # the oldest had to go


def test_the_stacks_of_very_many_threads_are_cut(join, monkeypatch):
    monkeypatch.setattr(service, "thread_stacks", lambda: "é" * (1 << 20))
    cluster = workers(1)
    join(cluster, ZERO)
    stacks = query_status(cluster.task_address("worker", 0), DEADLINE, stacks=True).stacks
    assert stacks == "é" * MAX_STACKS


def test_a_caller_that_dribbles_is_answered(join, held):
    cluster = workers(1)
    join(cluster, ZERO)
    caller = call(held, cluster.task_address("worker", 0), b"")
    caller.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    greeting = CallerGreeting(None, net.Hello(purpose="roster"))
    frame = greeting.start()
    while frame:
        for index in range(len(frame)):
            caller.sendall(frame[index : index + 1])
        frame = b""
        while not frame and not greeting.done:
            frame = greeting.feed(caller.recv(1))
    for byte in encode_hello(RosterHello(watch=False)):
        caller.sendall(bytes([byte]))
    assert isinstance(next(news_of(caller)), Status)


@pytest.mark.parametrize(
    "data",
    [
        b"x",
        b"{}\n",
        b"{" * 10_000,
        b'{"muster":1,"watch":3}\n',
        MAGIC + b"\0\0\0\1\xc0",
        MAGIC + b"\xff" * 10,
    ],
)
def test_a_caller_that_does_not_speak_the_protocol_is_told_so(join, held, data):
    cluster = workers(1)
    join(cluster, ZERO)
    caller = call(held, cluster.task_address("worker", 0), data)
    answer = b""
    with contextlib.suppress(ConnectionResetError):  # of what it has sent, not all was read
        while received := caller.recv(1 << 12):
            answer += received
    assert answer.startswith(MAGIC)
    assert b"the connection is refused: it " in answer


@pytest.mark.parametrize("data", [b"\0\0\0\1\xc0", b"\xff" * 10])
def test_a_caller_that_greets_and_then_sends_something_else_has_to_go(join, held, data):
    cluster = workers(1)
    join(cluster, ZERO)
    caller = call(held, cluster.task_address("worker", 0), b"")
    greet(caller)
    caller.sendall(data)
    assert caller.recv(1) == b""


@pytest.mark.parametrize("greets", [False, True])
def test_a_caller_that_says_nothing_has_to_go(join, held, monkeypatch, greets):
    monkeypatch.setattr(service, "_CALL_SECS", 0.1)
    monkeypatch.setattr(acceptor, "GREETING_SECS", 0.5 if greets else 0.1)
    cluster = workers(1)
    join(cluster, ZERO, heartbeat_secs=0.5)
    caller = call(held, cluster.task_address("worker", 0), b"")
    if greets:
        greet(caller)
    assert caller.recv(1) == b""


def test_a_watcher_that_does_not_read_holds_nobody_up(pair, cluster, held):
    zero, one = pair
    hello = encode_hello(RosterHello(watch=True, caller=one.statuses()[ONE]))
    deaf = call(held, cluster.task_address("worker", 0), b"")
    greet(deaf)
    deaf.sendall(hello)
    for index in range(40):
        zero.announce(str(index), "x" * 10_000)
    assert one.lookup(ZERO, "39", DEADLINE) == "x" * 10_000
    # What is kept for it is one frame, and the last it gets is the newest.
    assert max(len(caller.out) for caller in zero._thread._service._callers.values()) < 1 << 20
    for news in news_of(deaf):
        if isinstance(news, Status) and "39" in news.announcements:
            break


def test_last_words_reach_a_slow_watcher(pair, cluster, held):
    zero, one = pair
    hello = encode_hello(RosterHello(watch=True, caller=one.statuses()[ONE]))
    slow = call(held, cluster.task_address("worker", 0), b"")
    greet(slow)
    slow.sendall(hello)
    for index in range(40):
        zero.announce(str(index), "x" * 10_000)
    one.lookup(ZERO, "39", DEADLINE)  # by now more was sent than any buffer holds
    zero.done()
    _, heard = together(zero.close, lambda: list(news_of(slow)))
    assert heard[-1].state == TaskState.DONE


def test_a_call_that_answers_itself_is_no_answer(join, cluster, monkeypatch):
    def connect(addresses, deadline):
        sock = socket.socket()
        sock.bind(("127.0.0.1", 0))
        sock.connect(sock.getsockname())
        return sock

    monkeypatch.setattr("muster.net._dial._connect", connect)
    with pytest.raises(errors.MissingPeerError, match=r"worker 1 at .* \(nothing listens there\)"):
        join(cluster, ZERO).wait_for_all(0.3)


def test_the_roster_of_a_large_job_may_open_more_files(join):
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    cluster = ClusterSpec({"worker": [f"127.0.0.1:{port}" for port in range(1, 401)]})
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, limits[1]))
        with join(cluster, TWO):
            assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= min(1024 + 200, limits[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_too_many_open_files_stop_the_listening_for_a_while_only(held, caplog):
    class Full(socket.socket):
        def accept(self):
            raise OSError(errno.EMFILE, "Too many open files")

    listener = held.enter_context(Full())
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    selector = held.enter_context(selectors.DefaultSelector())
    served = acceptor.Acceptor(selector, [listener], net.NO_CREDENTIALS, lambda: "worker 0", {})
    held.enter_context(socket.create_connection(listener.getsockname()))
    ((key, mask),) = selector.select(DEADLINE)
    key.data(mask)
    assert selector.select(0.0) == []
    assert "Too many open files" in caplog.text
    served.tidy()
    assert len(selector.select(DEADLINE)) == 1


def test_closing_twice_is_harmless_and_leaves_nothing_open(join):
    roster = join(workers(1), ZERO)
    roster.close()
    roster.close()
    roster.report(step=1)
    roster.fail(ValueError("too late"))
