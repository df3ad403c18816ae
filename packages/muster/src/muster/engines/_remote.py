"""What engines share whose tasks are started by agents, on hosts that are elsewhere."""

import dataclasses
import os
import platform
import selectors
import signal
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, TypeVar

from muster._clocks import clock_difference, date_now
from muster._errors import PlacementError
from muster._text import printable
from muster._version import __version__
from muster.cluster import Task, TaskType
from muster.cluster.roster import EVENTS, Termination
from muster.engines import _agent_messages as messages
from muster.engines._agent_connection import AgentConnection
from muster.engines._engine import EXIT_LOST, Place, TaskCondition, TaskExit, TaskRequest, TaskStart
from muster.engines._machine import MachineResources

# How long a host may take to answer, in seconds: an interpreter on a slow shared disk starts slowly.
GREET_SECS, ANSWER_SECS = 90.0, 60.0
# How long to wait before a lost host is looked for again, in seconds.
_LOOK_SECS = 5.0
# How long a command may take to end when its connection was closed, in seconds: it waits for the agent.
_END_SECS = 20.0
_SHOWN_BYTES = 2000
# What to do where muster is missing.
INSTALL = f"pip install muster-train=={__version__}"
# The signals that another launcher of the job may pass on.
_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_H = TypeVar("_H")


@dataclasses.dataclass
class _Return:
    """The way back of a host that was lost.

    Attributes:
        agent: The new connection to it; None between two tries.
        again_at: When to try again, if there is none.
        asked: Whether it was asked for the places of its tasks.
    """

    agent: AgentConnection | None
    again_at: float
    asked: bool = False


def agent_command(python: str) -> list[str]:
    """Return the words that start an agent, which talks over its standard input and output."""
    return [python, "-P", "-m", "muster.engines._agent"]


def spread(tasks: Sequence[Task], hosts: Sequence[_H]) -> dict[Task, _H]:
    """Divide tasks among hosts: those that train in blocks, so the servers; the evaluator goes to the last.

    Args:
        tasks: All tasks of a job, in its order.
        hosts: The hosts, at least one.
    """
    serve = [task for task in tasks if task.type == TaskType.PS]
    evaluate = [task for task in tasks if task.type == TaskType.EVALUATOR]
    train = [task for task in tasks if task not in serve and task not in evaluate]
    placed: dict[Task, _H] = {}
    for group in (train, serve):
        placed |= {task: hosts[number * len(hosts) // len(group)] for number, task in enumerate(group)}
    return {task: placed.get(task, hosts[-1]) for task in tasks}


@dataclasses.dataclass(frozen=True, kw_only=True)
class HostOptions:
    """Holds what each task of a job on other hosts is started with.

    Args:
        grace_secs: How long tasks may take to end when their agent has lost the launcher, in seconds.
        environ: The variables that tasks are handed.
        workdir: The folder that programs run in on the hosts; empty for the agent's own.
        files: A tar archive of the program's folder, which hosts unpack and run in; empty for none.
    """

    grace_secs: float
    environ: Mapping[str, str]
    workdir: str = ""
    files: bytes = b""


class RemoteEngine(ABC):
    """Starts tasks through agents.

    Args:
        options: What tasks on hosts have in common.
    """

    is_local = False
    allots = False
    manifest = ""
    hosts_return = False

    def __init__(self, options: HostOptions) -> None:
        self._options = options
        self._selector = selectors.DefaultSelector()
        self._agents: list[AgentConnection] = []  # those that are connected
        self._commands: list[tuple[AgentConnection, subprocess.Popen[bytes], BinaryIO]] = []
        self._program: tuple[str, ...] = ()
        self._placed: dict[Task, AgentConnection] = {}
        self._addresses: dict[Task, str] = {}
        self._returns: dict[int, _Return] = {}  # by the ids of the agents that are lost
        self._logs: dict[Task, Path] = {}  # of the tasks that run
        self._conditions: dict[Task, TaskCondition] = {}
        self._news: list[str] = []
        self._compared: set[str] = set()  # hosts whose clocks were compared with this one's

    @abstractmethod
    def assign(self, tasks: Sequence[Task], request: TaskRequest) -> Mapping[Task, AgentConnection]:
        """Return the agent that is to start each task: those that are connected, or new ones.

        Raises:
            PlacementError: There is none.
        """

    def reconnect(self, lost: AgentConnection) -> AgentConnection | None:
        """Begin to connect to a host again that is lost, without waiting; return None if that cannot be."""
        return None

    def place(
        self, tasks: Sequence[Task], request: TaskRequest, program: tuple[str, ...]
    ) -> Mapping[Task, Place]:
        """Reserve an address for each task on its host; see `Engine.place`."""
        for agent in [agent for agent in self._agents if agent.lost]:
            self._drop(agent)
        self._program = program
        assigned = self.assign(tasks, request)
        agents = {id(agent): agent for agent in assigned.values()}.values()
        self.await_greetings(agents)
        asked_at = date_now()
        for agent in agents:
            _check_versions(agent)
            self._ask_for_places(agent, [task for task in tasks if assigned[task] is agent])
        self._await(agents, lambda agent: agent.answer is not None, ANSWER_SECS)
        answered_at = date_now()
        places = {}
        for agent in agents:
            answer = agent.answer
            if not isinstance(answer, messages.TasksPlaced):
                reason = answer.reason if isinstance(answer, messages.PlaceRefused) else agent.lost
                raise PlacementError(f"{agent.host}: {printable(reason or 'it does not answer')}")
            self._compare_clocks(agent.host, clock_difference(answer.time, asked_at, answered_at))
            resources = MachineResources(cores=answer.cores, gpus=answer.gpus, memory=answer.memory)
            mine = [task for task in tasks if assigned[task] is agent]
            for task, address in zip(mine, answer.addresses, strict=True):
                places[task] = Place(host=agent.host, address=address, resources=resources)
        self._placed = dict(assigned)
        self._addresses = {task: place.address for task, place in places.items()}
        return {task: places[task] for task in tasks}

    def _compare_clocks(self, host: str, ahead: float) -> None:
        """Tell, once for each host, if its clock is another one than this host's."""
        if ahead and host not in self._compared:
            how = "ahead of" if ahead > 0 else "behind"
            self._news.append(
                f"The clock of {host} is {abs(ahead):.0f} s {how} that of this host. Training does not "
                "depend on it, but certificates and object stores do, and so do the dates of files: let both "
                "follow one clock, such as by NTP."
            )
        self._compared.add(host)

    def check(self, tasks: Sequence[Task], request: TaskRequest, program: tuple[str, ...]) -> str:
        """Return nothing: there is no cluster manager; see `Engine.check`."""
        return ""

    def detach(self, tasks: Sequence[Task], request: TaskRequest, program: tuple[str, ...]) -> str:
        """Return nothing, likewise; see `Engine.detach`."""
        return ""

    def _ask_for_places(
        self, agent: AgentConnection, tasks: list[Task], addresses: Sequence[str] = ()
    ) -> None:
        agent.answer = None
        agent.send(
            messages.PlaceTasks(
                tasks=tasks,
                address=agent.address,
                workdir=self._options.workdir,
                program=self._program,
                grace_secs=self._options.grace_secs,
                environ={**self._options.environ},
                files=self._options.files,
                addresses=[*addresses],
            )
        )

    def connect(
        self,
        command: Sequence[str],
        host: str,
        address: str,
        why: Callable[[int, str, bool], str],
        environ: Mapping[str, str] | None = None,
    ) -> AgentConnection:
        """Start an agent by a command of this machine, such as ssh, and return the connection.

        Args:
            command: The command and its arguments; its input and output are those of the agent.
            host: What the user calls the host.
            address: What other hosts call it.
            why: Returns why the connection has ended: given the command's exit code, the last that it has
                said, after a colon, and whether the agent had greeted.
            environ: The environment of the command; None for that of this process.

        Raises:
            OSError: The command cannot be started.
        """
        errors: BinaryIO = tempfile.TemporaryFile()
        try:
            # In a session of its own, which the terminal's Ctrl-C does not reach.
            process = subprocess.Popen(
                command,
                env=environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        except OSError:
            errors.close()
            raise

        def ended() -> str:
            try:
                code = process.wait(1.0)
            except subprocess.TimeoutExpired:
                return f"{command[0]} has closed its output"
            errors.seek(0)
            said = errors.read()[-_SHOWN_BYTES:].decode(errors="replace").strip()
            return why(code, f": {said}" if said else "", agent.greeting is not None)

        if process.stdin is None or process.stdout is None:
            raise RuntimeError("A process was started without its pipes.")
        # Copies are the connection's.
        with process.stdin, process.stdout:
            replies, requests = os.dup(process.stdout.fileno()), os.dup(process.stdin.fileno())
        agent = AgentConnection(host, address, replies, requests, ended)
        self._commands.append((agent, process, errors))
        self.add(agent)
        return agent

    def add(self, agent: AgentConnection) -> None:
        """Take over a new connection."""
        self._agents.append(agent)
        self._selector.register(agent, selectors.EVENT_READ)

    def await_greetings(self, agents: Iterable[AgentConnection]) -> None:
        """Wait until agents have greeted, or are lost."""
        self._await(agents, lambda agent: agent.greeting is not None, GREET_SECS)
        for agent in agents:
            if agent.greeting is None:
                agent.lose(f"no agent has answered on it within {GREET_SECS:.0f} s")

    def _await(
        self, agents: Iterable[AgentConnection], done: Callable[[AgentConnection], bool], secs: float
    ) -> None:
        """Wait until something is so for each of these agents, or it is lost."""
        deadline = time.monotonic() + secs
        while not all(agent.lost or done(agent) for agent in agents) and time.monotonic() < deadline:
            self._selector.select(0.1)
            self.events()

    def _drop(self, agent: AgentConnection) -> None:
        """Close a connection, and forget it, with a command that has ended."""
        self._unregister(agent)
        self._agents = [each for each in self._agents if each is not agent]
        agent.close()
        for of, process, errors in self._commands:
            if of is agent and process.poll() is not None:
                errors.close()
        self._commands = [each for each in self._commands if not each[2].closed]

    def _unregister(self, agent: AgentConnection) -> None:
        """Watch a connection no more: one that has ended would always be ready."""
        if agent.fileno() in self._selector.get_map():
            self._selector.unregister(agent)

    def start(self, start: TaskStart) -> None:
        """Have a task started; see `Engine.start`."""
        self._logs[start.task] = start.log
        self._conditions[start.task] = TaskCondition()
        for path in start.log.parent.glob(f"{start.log.stem}.*{EVENTS}"):
            path.unlink(missing_ok=True)
        self._placed[start.task].send(
            messages.StartTask(start.task, start.program, {**start.environment}, start.cores, start.snapshots)
        )

    def fileno(self) -> int:
        """Return a descriptor that is readable when an agent has told something."""
        return self._selector.fileno()

    def events(self) -> list[TaskExit]:
        """Return the ends of tasks; see `Engine.events`."""
        exits: list[TaskExit] = []
        for agent in self._agents:
            for message in agent.receive():
                match message:
                    case messages.TaskOutput(task, data):
                        if task in self._logs:
                            with self._logs[task].open("ab", buffering=0) as file:
                                file.write(data)
                    case messages.TaskReport(task, pid, joined, stopped, finishing):
                        if task in self._conditions:
                            self._conditions[task] = TaskCondition(
                                pid=pid, joined=joined, stopped=stopped, finishing=finishing
                            )
                    case messages.TaskGone():
                        exits += self._take_exit(message)
                    case messages.SignalReceived(number) if number in _PASSED_ON:
                        self.passed_on(number)
            if agent.lost:
                self._unregister(agent)
                exits += self._lose_tasks(agent)
        return exits

    def passed_on(self, number: int) -> None:
        """Take a signal that an agent has passed on for one to this launcher."""
        os.kill(os.getpid(), number)

    def _take_exit(self, message: messages.TaskGone) -> list[TaskExit]:
        task = message.task
        log = self._logs.pop(task, None)
        self._conditions.pop(task, None)
        if log is None:
            return []
        for end, data in message.logs.items():
            (log.parent / f"{log.stem}.{os.path.basename(end)}").write_bytes(data)
        return [
            TaskExit(
                task=task,
                code=message.code,
                told=message.told,
                joined=message.joined,
                progress=message.progress,
            )
        ]

    def _lose_tasks(self, agent: AgentConnection) -> list[TaskExit]:
        """Take those tasks for ended that an agent had which is lost."""
        lost = [task for task in self._logs if self._placed.get(task) is agent]
        for task in lost:
            del self._logs[task]
            self._conditions.pop(task, None)
        return [
            TaskExit(
                task=task,
                code=EXIT_LOST,
                told=Termination(task, f"{task} is lost with its host: {printable(agent.lost)}."),
                lost=True,
            )
            for task in lost
        ]

    def news(self) -> list[str]:
        """Return what the user is to be told; see `Engine.news`."""
        told, self._news = self._news, []
        return told

    def returned(self) -> list[Task]:
        """Connect to lost hosts again, and return the tasks of those that are back; see `Engine.returned`."""
        now = time.monotonic()
        back: list[Task] = []
        for lost in {id(agent): agent for agent in self._placed.values() if agent.lost}.values():
            tasks = [task for task, agent in self._placed.items() if agent is lost]
            under_way = self._returns.get(id(lost))
            if under_way is None or (under_way.agent is None and now >= under_way.again_at):
                self._returns[id(lost)] = _Return(self.reconnect(lost), now + _LOOK_SECS)
            elif (agent := under_way.agent) is not None and self._has_places(under_way, agent, tasks):
                self._placed |= dict.fromkeys(tasks, agent)
                del self._returns[id(lost)]
                self._drop(lost) if lost in self._agents else None
                back += tasks
        return back

    def _has_places(self, under_way: "_Return", agent: AgentConnection, tasks: list[Task]) -> bool:
        """Ask a host that is back for the places of its tasks; return whether it has given them."""
        if agent.greeting is not None and not agent.lost and not under_way.asked:
            under_way.asked = True
            try:
                _check_versions(agent)
            except PlacementError as exc:
                agent.lose(str(exc))
            else:
                self._ask_for_places(agent, tasks, [self._addresses[task] for task in tasks])
        if agent.lost or isinstance(agent.answer, messages.PlaceRefused):
            # Such as when the tasks that it had still end there, and have their ports.
            self._drop(agent)
            under_way.agent, under_way.again_at = None, time.monotonic() + _LOOK_SECS
        return not agent.lost and isinstance(agent.answer, messages.TasksPlaced)

    def conditions(self) -> Mapping[Task, TaskCondition]:
        """Return how each running task is; see `Engine.conditions`."""
        return dict(self._conditions)

    def send(self, task: Task, number: int) -> None:
        """Have a signal sent to a task, if it runs."""
        if task in self._logs:
            self._placed[task].send(messages.SignalTask(task, number))

    def end_attempt(self) -> bool:
        """Have all killed that is left of an attempt; see `Engine.end_attempt`."""
        agents = [agent for agent in self._agents if not agent.lost and agent in self._placed.values()]
        for agent in agents:
            agent.answer = None
            agent.send(messages.EndAttempt())
        self._await(agents, lambda agent: agent.answer is not None, ANSWER_SECS)
        for under_way in self._returns.values():
            if under_way.agent is not None:
                self._drop(under_way.agent)
        self._returns.clear()
        self._placed = {}
        self._logs.clear()
        self._conditions.clear()
        return all(
            isinstance(agent.answer, messages.AttemptEnded) and agent.answer.clean
            for agent in agents
            if not agent.lost
        )

    def close(self, code: int = 1) -> None:
        """Break all connections, at which the agents end what they have started, and wait for that."""
        self.disconnect(code)
        self._selector.close()

    def disconnect(self, code: int = 1) -> None:
        """Break all connections as `close` does; others can be made."""
        gone = [agent for agent, _, _ in self._commands if agent.lost or agent.greeting is None]
        for agent in self._agents:
            agent.send(messages.JobEnded(code))
        for agent in self._agents:
            self._drop(agent)
        for agent, process, errors in self._commands:
            try:
                process.wait(0.0 if agent in gone else _END_SECS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            errors.close()
        self._commands = []


def _check_versions(agent: AgentConnection) -> None:
    """Raise PlacementError if an agent is lost already, or has another version of muster or Python."""
    if agent.greeting is None or agent.lost:
        raise PlacementError(f"{agent.host}: {printable(agent.lost)}")
    here = platform.python_version()
    if agent.greeting.muster != __version__:
        raise PlacementError(
            f"{agent.host} has muster {printable(agent.greeting.muster)}, and this host has {__version__}. "
            f"Install the same there: {INSTALL}"
        )
    if agent.greeting.python.rpartition(".")[0] != here.rpartition(".")[0]:
        raise PlacementError(
            f"{agent.host} runs Python {printable(agent.greeting.python)}, and this host {here}. "
            "Name an interpreter of the same version there with --python."
        )
