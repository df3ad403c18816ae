"""What engines with agents decide, without hosts."""

import contextlib
import os
import platform
import re
import select
import signal
import socket
import threading
import time

import msgspec
import pytest

from muster import __version__
from muster._errors import ClusterError
from muster.cluster import Task
from muster.cluster.roster import Termination
from muster.engines import (
    EXIT_LOST,
    HostOptions,
    RemoteEngine,
    SshHost,
    TaskExit,
    TaskRequest,
    TaskStart,
    _agent,
    _agent_messages,
    _remote,
)
from muster.engines._agent import Agent
from muster.engines._agent_connection import AgentConnection
from muster.engines._remote import spread
from muster.launch._plan import JobShape, handed_over
from muster.launch._sync import pack_folder
from muster.net import encode_frame


@pytest.mark.parametrize(
    ("shape", "hosts", "placed"),
    [
        (JobShape(workers=2), "ab", "ab"),
        (JobShape(workers=4), "ab", "aabb"),
        (JobShape(workers=3, evaluator=True), "ab", "aabb"),
        (JobShape(workers=1, chief=True, ps=2, evaluator=True), "ab", "ababb"),
        (JobShape(workers=1), "abc", "a"),
        (JobShape(workers=5), "abc", "aabbc"),
    ],
)
def test_tasks_are_divided_among_hosts(shape, hosts, placed):
    assert "".join(spread(shape.tasks, hosts).values()) == placed


@pytest.mark.parametrize(
    ("text", "name", "address"),
    [
        ("node-1", "node-1", "node-1"),
        ("me@node-1", "me@node-1", "node-1"),
        ("front=10.0.0.1", "front", "10.0.0.1"),
        ("me@front=::1", "me@front", "[::1]"),
    ],
)
def test_a_host_has_a_name_for_ssh_and_an_address_for_the_others(text, name, address):
    assert SshHost.parse(text) == SshHost(name, address)


@pytest.mark.parametrize("text", ["", "-v", "=a", "a=", "a b", "a=b/c", "a=b c"])
def test_what_is_no_host_is_refused(text):
    with pytest.raises(ClusterError):
        SshHost.parse(text)


def test_other_hosts_are_handed_what_concerns_training(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("correct horse battery staple\n")
    secret.chmod(0o600)
    environ = {
        "MUSTER_SECRET_FILE": str(secret), "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "-x", "PYTHONHASHSEED": "3",
        "PATH": "/here", "AWS_SECRET_ACCESS_KEY": "hidden",
    }  # fmt: skip
    assert handed_over(environ) == {
        "MUSTER_SECRET": "correct horse battery staple",
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "-x",
        "PYTHONHASHSEED": "3",
    }


def test_a_program_outside_of_the_folder_is_not_sent(tmp_path):
    with pytest.raises(ClusterError, match=r"/elsewhere/train.py is not in it"):
        pack_folder(("/elsewhere/train.py",), tmp_path)


def test_a_folder_that_is_too_large_is_not_sent(tmp_path, monkeypatch):
    monkeypatch.setattr("muster.launch._sync._MOST_BYTES", 10)
    (tmp_path / "train.py").write_bytes(b"1" * 11)
    with pytest.raises(ClusterError, match="--sync sends at most"):
        pack_folder(("-m", "train"), tmp_path)


@pytest.fixture
def pipes():
    """Return the two ends of an agent, and those of its launcher."""
    ends = [*os.pipe(), *os.pipe()]
    open_ends = set(ends)
    yield ends, open_ends
    for end in open_ends:
        os.close(end)


def talk(connection, agent, until):
    for _ in range(1000):
        agent._serve()
        told = connection.receive()
        if until() or connection.lost:
            return told
    return pytest.fail("it never came so far")


def test_an_agent_and_its_launcher_talk_after_what_a_login_prints(pipes, tmp_path):
    (requests, asks, hears, replies), _ = pipes
    connection = AgentConnection("h", "127.0.0.1", hears, asks, lambda: "closed")
    agent = Agent(requests, replies, tmp_path)
    os.write(replies, b"Welcome!\nmuster-agent is not here\n")
    agent.greet()
    talk(connection, agent, lambda: connection.greeting)
    assert connection.greeting.muster == __version__
    task = Task("worker", 0)
    request = _agent_messages.PlaceTasks(
        [task], "127.0.0.1", str(tmp_path), ("no.py",), 1.0, {"JAX_PLATFORMS": "cpu"}
    )
    connection.send(request)
    talk(connection, agent, lambda: connection.answer)
    assert connection.answer.reason == f"there is no no.py in {tmp_path}"
    connection.answer = None
    (tmp_path / "no.py").touch()
    connection.send(request)
    talk(connection, agent, lambda: connection.answer)
    assert connection.answer.addresses[0].startswith("127.0.0.1:")
    connection.answer = None
    connection.send(_agent_messages.EndAttempt())
    talk(connection, agent, lambda: connection.answer)
    assert connection.answer.clean
    agent.end()


def test_what_is_no_agent_is_named(pipes):
    (_, asks, hears, replies), _ = pipes
    connection = AgentConnection("h", "h", hears, asks, lambda: "closed")
    os.write(replies, b"\nmuster-agent {}\n")
    assert connection.receive() == []
    assert "what answers on h is no agent of this version of muster" in connection.lost


def test_an_agent_that_is_silent_is_lost(pipes, monkeypatch):
    (_, asks, hears, _), _ = pipes
    connection = AgentConnection("h", "h", hears, asks, lambda: "closed")
    assert connection.receive() == []
    assert connection.lost == ""
    monkeypatch.setattr(_remote.messages, "SILENCE_SECS", -1.0)
    connection.receive()
    assert connection.lost == "h has been silent for -1 s"


def test_a_launcher_that_is_silent_or_gone_is_given_up(pipes, tmp_path, monkeypatch):
    (requests, asks, _, replies), open_ends = pipes
    agent = Agent(requests, replies, tmp_path)
    agent._serve()
    with monkeypatch.context() as patched:
        patched.setattr(_agent.messages, "SILENCE_SECS", -1.0)
        with pytest.raises(_agent._LauncherGoneError):
            agent._serve()
    agent._serve()
    os.close(asks)
    open_ends.discard(asks)
    with pytest.raises(_agent._LauncherGoneError):
        agent._serve()
    agent.end()


def test_a_signal_ends_an_agent(pipes, tmp_path):
    (requests, _, _, replies), _ = pipes
    agent = Agent(requests, replies, tmp_path)
    agent._note_signal(signal.SIGTERM, None)
    with pytest.raises(_agent._LauncherGoneError):
        agent._serve()
    agent.end()


class Hosts(RemoteEngine):
    """Hosts whose agents are told what to say by a test, one for each task."""

    def __init__(self, *agents):
        super().__init__(HostOptions(grace_secs=1.0, environ={}, workdir="/"))
        self.given = agents
        for agent in agents:
            self.add(agent)

    def assign(self, tasks, request):
        return dict(zip(tasks, self.given, strict=True))


def test_a_host_that_is_lost_ends_its_tasks_and_wakes_nobody_any_more(tmp_path):
    ends = [socket.socketpair(), socket.socketpair()]
    agents = []
    for number, (ours, _) in enumerate(ends):
        descriptor = ours.detach()
        agents.append(AgentConnection(f"h{number}", "h", descriptor, descriptor, lambda: "it is off"))
    engine = Hosts(*agents)
    tasks = [Task("worker", 0), Task("worker", 1)]
    hello = msgspec.json.encode(_agent_messages.AgentHello(__version__, platform.python_version()))
    for number, (_, theirs) in enumerate(ends):
        placed = _agent_messages.TasksPlaced(
            [f"h:{number + 1}"], ((0,),), (), None, time.time() - 600 * number
        )
        theirs.sendall(_agent_messages.GREETING + hello + b"\n")
        theirs.sendall(encode_frame(_agent_messages.Ping()))
        engine._await([agents[number]], lambda agent: agent.greeting is not None, 10.0)
        # The answer comes after the question.
        threading.Thread(target=answer, args=(theirs, encode_frame(placed))).start()
    places = engine.place(tasks, TaskRequest(), ("train.py",))
    assert [place.address for place in places.values()] == ["h:1", "h:2"]
    (told,) = engine.news()
    assert re.match("The clock of h1 is (599|600|60.) s behind that of this host", told)
    assert engine.news() == []
    for task in tasks:
        log = tmp_path / f"worker-{task.index}.log"
        engine.start(TaskStart(task=task, program=(), environment={}, cores=None, log=log))
    ends[0][1].sendall(encode_frame(_agent_messages.TaskOutput(tasks[0], b"half a li")))
    ends[0][1].close()
    exits = []
    while not exits:
        exits = engine.events()
    assert (tmp_path / "worker-0.log").read_text() == "half a li"
    assert exits == [
        TaskExit(
            task=tasks[0], code=EXIT_LOST, lost=True,
            told=Termination(tasks[0], "worker 0 is lost with its host: it is off."),
        )
    ]  # fmt: skip
    assert select.select([engine], [], [], 0.0)[0] == []
    assert engine.events() == []
    # One that is started there all the same is lost, too.
    engine.start(TaskStart(task=tasks[0], program=(), environment={}, cores=None, log=tmp_path / "log"))
    assert [each.lost for each in engine.events()] == [True]
    engine.close()
    ends[1][1].close()


class ReturningHosts(Hosts):
    """Hosts of which the first can be reached again, by connections that a test gives."""

    def __init__(self, agent, *again):
        super().__init__(agent)
        self.again = [*again]

    def reconnect(self, lost):
        self.add(agent := self.again.pop(0))
        return agent


def joined(sock, host="h"):
    descriptor = sock.detach()
    return AgentConnection(host, "127.0.0.1", descriptor, descriptor, lambda: "it is off")


def test_a_host_that_is_back_gives_tasks_their_addresses_again(tmp_path, monkeypatch):
    """The first try finds that the port is not free yet, the second gets an agent as it is."""
    monkeypatch.setattr(_remote, "_LOOK_SECS", 0.0)
    (tmp_path / "train.py").touch()
    task = Task("worker", 0)
    pairs = [socket.socketpair() for _ in range(3)]
    engine = ReturningHosts(*(joined(ours) for ours, _ in pairs))
    engine._options = HostOptions(grace_secs=1.0, environ={}, workdir=str(tmp_path))
    agents = [Agent(theirs.fileno(), os.dup(theirs.fileno()), tmp_path) for _, theirs in pairs]
    for agent in agents:
        agent.greet()
    ended = threading.Event()
    turn = threading.Thread(target=lambda: serve_until(agents[0], ended.is_set))
    turn.start()
    place = engine.place([task], TaskRequest(), ("train.py",))[task]
    ended.set()
    turn.join()
    pairs[0][1].shutdown(socket.SHUT_RDWR)
    engine.start(TaskStart(task=task, program=(), environment={}, cores=None, log=tmp_path / "log"))
    while not engine.events():
        pass
    back, tries = [], set()
    while not back:
        engine.events()
        back = engine.returned()
        number = 2 - len(engine.again)
        tries.add(number)
        with contextlib.suppress(_agent._LauncherGoneError):  # after the first try
            agents[number]._serve()
        if number == 2 and agents[0]._engine is not None:
            agents[0].end()
            agents[0]._engine = None
    assert back == [task]
    assert tries == {1, 2}
    assert agents[2]._engine._ports[task].number == int(place.address.rpartition(":")[2])
    assert engine.returned() == []
    agents[2].end()
    engine.close()
    for agent in agents:
        os.close(agent._replies)
    for _, theirs in pairs:
        theirs.close()


def serve_until(agent, done):
    while not done():
        agent._serve()


def answer(sock, frame):
    sock.recv(1)
    sock.sendall(frame)
