"""Strangers at the address of a task: they learn nothing, change nothing, and use up little."""

import contextlib
import os
import random
import re
import resource
import socket
import ssl
import threading
import time

import pytest

from certificates import Authority
from muster._errors import AuthenticationError
from muster.cluster import ClusterSpec, Task
from muster.cluster.roster import query_status
from muster.cluster.roster._roster import Roster
from muster.net import BACKLOG, Credentials, Hello, Tls, _acceptor, dial
from muster.net._acceptor import MAX_GUESTS
from muster.net._greeting import MAGIC, CallerGreeting

pytestmark = pytest.mark.alone

SECRET = b"0123456789abcdef"
DEADLINE = 60.0
# How much memory strangers may cost a task, in bytes.
MOST_MEMORY = 64 << 20


class Losses(list):
    def __call__(self, task, reason):
        self.append(reason)


@pytest.fixture
def job():
    """Two tasks that have met, with a secret: the address of the first, and both rosters."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
        cluster = ClusterSpec({"worker": [f"127.0.0.1:{sock.getsockname()[1]}" for sock in sockets]})
        held.close()
        losses = Losses()
        options = {"credentials": Credentials(secret=SECRET), "on_lost": losses, "versions": {}}
        rosters = [held.enter_context(Roster(cluster, Task("worker", n), **options)) for n in range(2)]
        waits = [threading.Thread(target=roster.wait_for_all, args=(DEADLINE,)) for roster in rosters]
        for wait in waits:
            wait.start()
        for wait in waits:
            wait.join()
        yield cluster.task_address("worker", 0), rosters
        assert losses == []


def connect(address):
    host, port = address.split(":")
    return socket.create_connection((host, int(port)), timeout=DEADLINE)


def memory():
    """Return how much memory this process holds, in bytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def say(address, data):
    """Send something, and return the answer."""
    with connect(address) as sock:
        answer = b""
        with contextlib.suppress(OSError):
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            while received := sock.recv(1 << 12):
                answer += received
        return answer


def test_a_stranger_learns_nothing(job):
    address, (zero, _) = job
    zero.announce("weights", "precious")
    for secret in (None, b"a guess of a stranger"):
        with pytest.raises(AuthenticationError):
            query_status(address, DEADLINE, Credentials(secret=secret))
        said = say(address, CallerGreeting(secret, Hello(purpose="roster")).start())
        for known in (b"precious", b"worker", zero.statuses()[Task("worker", 0)].run.encode(), SECRET):
            assert known not in said


def test_a_stranger_takes_no_place(job):
    address, (zero, one) = job
    status = one.statuses()[Task("worker", 1)]
    hello = Hello(purpose="roster", name="worker 1", job=status.job, run=status.run)
    with pytest.raises(AuthenticationError):
        dial(address, hello, Credentials(secret=b"a guess of a stranger"), DEADLINE)
    zero.announce("still", "here")
    assert one.lookup(Task("worker", 0), "still", DEADLINE) == "here"


def test_a_stranger_at_the_address_of_a_task_cannot_pass_its_calls_on():
    with contextlib.ExitStack() as held:
        listener = held.enter_context(socket.create_server(("127.0.0.1", 0)))
        stranger = held.enter_context(socket.create_server(("127.0.0.1", 0)))
        stranger.settimeout(DEADLINE)
        address, strange = (f"127.0.0.1:{sock.getsockname()[1]}" for sock in (listener, stranger))
        cluster = ClusterSpec({"worker": [address, strange]})
        credentials = Credentials(secret=SECRET)
        zero = Roster(cluster, Task("worker", 0), listener=listener, credentials=credentials, versions={})
        held.enter_context(zero)
        caller = held.enter_context(stranger.accept()[0])
        called = held.enter_context(connect(address))
        for source, target in ((caller, called), (called, caller)) * 2:  # hello, challenge, proof, answer
            source.settimeout(DEADLINE)
            target.sendall(said := source.recv(1 << 12))
        assert b"welcome" not in said
        assert b"the caller means 'worker 1', and this is 'worker 0'" in said
        assert Task("worker", 1) not in zero.statuses()


def test_connections_that_are_held_open_keep_nobody_out(job):
    address, (zero, one) = job
    began = time.monotonic()
    with contextlib.ExitStack() as held:
        for _ in range(1000):
            held.enter_context(connect(address))
        deadline = time.monotonic() + DEADLINE
        while len(zero._thread.acceptor._guests) > 64 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert query_status(address, DEADLINE, Credentials(secret=SECRET)).task == Task("worker", 0)
        zero.announce("still", "here")
        assert one.lookup(Task("worker", 0), "still", DEADLINE) == "here"
        assert len(zero._thread.acceptor._guests) <= 64
    assert time.monotonic() - began < DEADLINE


def test_ports_that_are_held_open_do_not_slow_the_start():
    with contextlib.ExitStack() as held:
        listeners = [socket.create_server(("127.0.0.1", 0), backlog=BACKLOG) for _ in range(2)]
        places = [listener.getsockname() for listener in listeners]
        for place in places:
            for _ in range(500):
                stranger = held.enter_context(socket.socket())
                stranger.setblocking(False)
                stranger.connect_ex(place)
        cluster = ClusterSpec({"worker": [f"{host}:{port}" for host, port in places]})
        options = {"credentials": Credentials(secret=SECRET), "on_lost": Losses(), "versions": {}}
        began = time.monotonic()
        rosters = [
            held.enter_context(Roster(cluster, Task("worker", n), listener=listener, **options))
            for n, listener in enumerate(listeners)
        ]
        together = [threading.Thread(target=roster.wait_for_all, args=(DEADLINE,)) for roster in rosters]
        for wait in together:
            wait.start()
        for wait in together:
            wait.join()
        assert time.monotonic() - began < 4.0
        assert all(len(roster.statuses()) == 2 for roster in rosters)


@pytest.mark.parametrize(
    "messages", [10_000, pytest.param(1_000_000, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])]
)
def test_whatever_strangers_send_is_refused(job, messages, monkeypatch):
    monkeypatch.setattr(_acceptor, "_MAX_STRANGERS", messages)  # or it would take an hour
    address, (zero, one) = job
    draw = random.Random(messages)
    recorded = CallerGreeting(SECRET, Hello(purpose="roster")).start()
    say(address, recorded)  # what a first stranger costs is not what each costs
    before, files = memory(), len(os.listdir("/proc/self/fd"))
    for number in range(messages):
        match number % 4:
            case 0:
                data = draw.randbytes(draw.randrange(200))
            case 1:
                data = recorded[: draw.randrange(len(recorded))]
            case 2:
                data = recorded + draw.randbytes(draw.randrange(100))
            case _:
                data = MAGIC + draw.randrange(1 << 32).to_bytes(4, "big") + draw.randbytes(20)
        said = say(address, data)
        assert not said or said.startswith(MAGIC)
        assert b"welcome" not in said
    assert memory() - before < MOST_MEMORY
    assert len(os.listdir("/proc/self/fd")) <= files + 1
    zero.announce("still", "here")
    assert one.lookup(Task("worker", 0), "still", DEADLINE) == "here"


def test_what_a_stranger_costs_who_begins_with_tls(tmp_path):
    """Each sends all but the end of a handshake, which makes the task hold the most for it."""
    folder = Authority().make(tmp_path / "keys", "127.0.0.1")
    with contextlib.ExitStack() as held:
        sock = held.enter_context(socket.create_server(("127.0.0.1", 0)))
        address = f"127.0.0.1:{sock.getsockname()[1]}"
        credentials = Credentials(secret=SECRET, tls=Tls.load(folder))
        options = {"listener": sock, "credentials": credentials, "on_lost": Losses(), "versions": {}}
        roster = held.enter_context(Roster(ClusterSpec({"worker": [address]}), Task("worker", 0), **options))
        guests = roster._thread.acceptor._guests

        def call():
            """Say hello, and wait for the certificate that the task answers with."""
            stranger = held.enter_context(connect(address))
            to_task = ssl.MemoryBIO()
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            with contextlib.suppress(ssl.SSLWantReadError):
                context.wrap_bio(ssl.MemoryBIO(), to_task, server_hostname="127.0.0.1").do_handshake()
            stranger.sendall(to_task.read())
            assert stranger.recv(1 << 12)

        call()
        before = memory()
        for _ in range(MAX_GUESTS - 1):
            call()
        assert len(guests) == MAX_GUESTS
        assert memory() - before < (1 << 20) * MAX_GUESTS / 4
        assert query_status(address, DEADLINE, credentials).task == Task("worker", 0)


def test_a_flood_of_strangers_takes_little_of_a_processor(job):
    address, (zero, one) = job
    thread = zero._thread._thread
    clock = time.pthread_getcpuclockid(thread.ident)
    began, used = time.monotonic(), time.clock_gettime(clock)
    calls = 0
    with contextlib.ExitStack() as held:
        while time.monotonic() - began < 3.0:
            stranger = held.enter_context(socket.socket())
            stranger.setblocking(False)
            stranger.connect_ex(tuple([address.split(":")[0], int(address.split(":")[1])]))
            calls += 1
            if calls % 500 == 0:
                held.pop_all().close()
    assert calls > 2000
    assert time.clock_gettime(clock) - used < 0.15 * (time.monotonic() - began)
    zero.announce("still", "here")
    assert one.lookup(Task("worker", 0), "still", DEADLINE) == "here"
    assert query_status(address, DEADLINE, Credentials(secret=SECRET)).task == Task("worker", 0)


def test_refusals_do_not_fill_the_log(job, caplog):
    address, _ = job
    for number in range(300):
        say(address, b"%d" % number)
    refused = [record for record in caplog.records if re.search("refuses a connection", record.getMessage())]
    assert 1 < len(refused) <= 200
