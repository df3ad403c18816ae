"""The engine of a cluster of Slurm: it gets an allocation, and starts an agent on each of its nodes."""

import contextlib
import dataclasses
import functools
import logging
import os
import re
import selectors
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import BinaryIO

from muster._errors import PlacementError
from muster._text import printable
from muster.cluster import Task
from muster.cluster.resolvers import expand_hostlist, expand_tasks_per_node
from muster.cluster.roster import Termination
from muster.engines._agent_connection import AgentConnection
from muster.engines._engine import TaskExit, TaskRequest
from muster.engines._remote import INSTALL, HostOptions, RemoteEngine, agent_command

_log = logging.getLogger(__name__)

# How long a command of Slurm's may take, how long an allocation may take to be given back, how often to ask
# why a job waits, and how often to look at one that does, in seconds.
_CALL_SECS, _END_SECS, _ASK_SECS, _LOOK_SECS = 60.0, 20.0, 5.0, 0.2
# Slurm sends it to all steps, a minute before the time limit, so that tasks can save.
_WARNING = "--signal=TERM@60"
_HELD = b"\0held\n"
# Prints the variables of the allocation, and keeps that until the launcher is gone, however that ends, and
# the agents have let their tasks save.
_HOLD = (
    "env -0; printf 'held\\n'; cat > /dev/null; "
    "while squeue --noheader --steps --jobs=$SLURM_JOB_ID --format=%j | grep -q muster; do sleep 1; done"
)


@dataclasses.dataclass(frozen=True)
class SlurmPart:
    """A part of a job with nodes of its own; most jobs have one.

    Args:
        tasks: Its tasks, in the order in which nodes get them.
        options: What it asks for, as options of ``sbatch`` and ``salloc``.
    """

    tasks: tuple[Task, ...]
    options: tuple[str, ...]


class SlurmEngine(RemoteEngine):
    """Starts tasks in a cluster of Slurm: ``salloc`` gets the nodes, and ``srun`` starts an agent on each.

    The allocation is kept over restarts, unless a node was lost, or the time is over: then another is asked
    for. Slurm takes it back when this process ends.

    Args:
        name: The name of the job.
        parts: The parts of the job.
        options: What tasks on hosts have in common.
        script: A batch script for the same job.
        needs_launcher: Whether the script would not do all of the job, and is for checks alone.
        python: The interpreter on the nodes.
        setup: Lines of shell that are run on a node before the agent.
        srun: Further options of ``srun``, such as those of a container.
    """

    allots = True
    hosts_return = True

    def __init__(
        self,
        name: str,
        parts: Sequence[SlurmPart],
        options: HostOptions,
        *,
        script: str,
        needs_launcher: bool = False,
        python: str,
        setup: Sequence[str] = (),
        srun: Sequence[str] = (),
    ) -> None:
        super().__init__(options)
        self._name, self._parts = name, tuple(parts)
        self._script, self._needs_launcher = script, needs_launcher
        self._agent = "\n".join([*setup, f"exec {shlex.join([*agent_command(python), 'signals'])}"])
        self._srun = tuple(srun)
        self._allocation: _Allocation | None = None
        self._group_of: dict[str, int] = {}  # the part that a node belongs to
        self._evicted = ""  # why the allocation ends

    def check(self, tasks: Sequence[Task], request: TaskRequest, program: tuple[str, ...]) -> str:
        """Have Slurm check what the job asks for; see `Engine.check`."""
        _call("sbatch", "--test-only", given=self._script)
        return "" if self._needs_launcher else self._script.rstrip()

    def detach(self, tasks: Sequence[Task], request: TaskRequest, program: tuple[str, ...]) -> str:
        """Hand the batch script over; see `Engine.detach`."""
        number = _call("sbatch", "--parsable", given=self._script).strip().partition(";")[0]
        return (
            f"Slurm has the job {number}.\n  squeue --jobs {number}\n"
            f"  tail -F {self._name}-{number}.log\n  scancel {number}"
        )

    def assign(self, tasks: Sequence[Task], request: TaskRequest) -> Mapping[Task, AgentConnection]:
        """Get an allocation, unless the one that there is will do; connect to its nodes."""
        agents = {agent.host: agent for agent in self._agents}
        if self._allocation is None or self._evicted or len(agents) < len(self._group_of):
            lost = sorted(self._group_of.keys() - agents.keys())
            self._give_back()
            self.check(tasks, request, self._program)  # salloc would wait for what the cluster does not have
            self._allocation = _Allocation(self._name, self._parts, self._avoided(lost))
            tasks_of = self._allocation.await_nodes(self._parts)
            addresses = _addresses([node for node, _ in tasks_of])
            self._group_of = {node: group for node, group in tasks_of}
            agents = {node: self._connect(node, addresses[node]) for node in self._group_of}
            self._nodes = {task: node for (node, _), members in tasks_of.items() for task in members}
        self.await_greetings(agents.values())
        return {task: agents[self._nodes[task]] for task in tasks}

    def _avoided(self, lost: Sequence[str]) -> Sequence[str]:
        """Return the lost nodes, if Slurm can do without them; it notices only later that they are down."""
        if not lost:
            return ()
        try:
            _call("sbatch", "--test-only", f"--exclude={','.join(lost)}", given=self._script)
        except PlacementError:
            return ()
        self._news.append(f"Slurm was asked for other nodes than {', '.join(lost)}.")
        return lost

    def reconnect(self, lost: AgentConnection) -> AgentConnection | None:
        """Begin to connect to a node again, which Slurm keeps for the job."""
        return None if self._evicted else self._connect(lost.host, lost.address)

    def _connect(self, node: str, address: str) -> AgentConnection:
        if self._allocation is None:
            raise RuntimeError("There is no allocation.")
        group = [f"--het-group={self._group_of[node]}"] if len(self._parts) > 1 else []
        # All that the job has on the node, for all its tasks there; bytes are passed on as they are.
        words = ["srun", f"--jobid={self._allocation.job}", *group, "--overlap", f"--nodelist={node}"]
        words += ["--nodes=1", "--ntasks=1", "--unbuffered", "--cpu-bind=none", "--mpi=none", "--export=ALL"]
        words += ["--quiet", "--job-name=muster", *self._srun, "bash", "-c", self._agent]
        return self.connect(words, node, address, functools.partial(self._why, node), _environment())

    def _why(self, node: str, code: int, said: str, greeted: bool) -> str:
        """Return why a connection has ended."""
        if greeted:
            return f"srun on {node} has ended, with code {code}{said}"
        return (
            f"srun starts no agent of muster on it, and ends with code {code}{said}. If its Python lacks "
            f"muster, install this host's version there, or in the container's image: {INSTALL}. Or name "
            "another interpreter with --python, another image with --image, or what must be done before with "
            "--setup"
        )

    def passed_on(self, number: int) -> None:
        """Note a signal that Slurm has sent to the steps: the job is ended, or loses its allocation."""
        if self._evicted or self._allocation is None:
            return
        if number != signal.SIGTERM or not self._allocation.goes_on():
            super().passed_on(number)
            return
        self._evicted = f"the time of the allocation {self._allocation.job} is nearly over, or others get it"
        self._news.append(f"Slurm has sent SIGTERM: {self._evicted}. All tasks save and end.")
        for task in [*self._logs]:
            self.send(task, signal.SIGTERM)

    def events(self) -> list[TaskExit]:
        """Return the ends of tasks; see `Engine.events`."""
        exits = super().events()
        if not self._evicted:
            return exits
        return [self._as_evicted(each) if each.code else each for each in exits]

    def _as_evicted(self, ended: TaskExit) -> TaskExit:
        told = Termination(ended.task, f"{ended.task} was told to end, as {self._evicted}.")
        return dataclasses.replace(ended, told=told, evicted=True)

    def _give_back(self) -> None:
        """End the agents, then give the allocation back."""
        self.disconnect()
        if self._allocation is not None:
            self._allocation.end()
        self._allocation, self._evicted, self._group_of = None, "", {}

    def close(self, code: int = 1) -> None:
        """End the agents, and give the allocation back; see `Engine.close`."""
        super().close(code)
        self._give_back()


class _Allocation:
    """An allocation of ``salloc``, which lasts until `end`, or the end of this process.

    Args:
        name: The name of the job.
        parts: The parts of the job.
        avoided: Nodes that it is not to have, unless a part has an option ``--exclude`` of its own.

    Attributes:
        job: The number of the job; empty until Slurm has given it one.
    """

    def __init__(self, name: str, parts: Sequence[SlurmPart], avoided: Sequence[str] = ()) -> None:
        self.job = ""
        exclude = [f"--exclude={','.join(avoided)}"] if avoided else []
        common = [f"--job-name={name}", "--no-kill", _WARNING]
        words = ["salloc"]
        for number, part in enumerate(parts):
            words += [":"] if number else common
            words += exclude
            words += [word for option in part.options for word in shlex.split(option)]
        self._errors: BinaryIO = tempfile.TemporaryFile()
        # In a session of its own, which the terminal's Ctrl-C does not reach.
        self._process = subprocess.Popen(
            [*words, "sh", "-c", _HOLD],
            env=_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
        )

    def await_nodes(self, parts: Sequence[SlurmPart]) -> dict[tuple[str, int], list[Task]]:
        """Wait until Slurm has found nodes; return each one's tasks, by its name and the number of its part.

        Raises:
            PlacementError: Slurm refuses.
        """
        lines = self._read_held().decode(errors="replace").split("\0")
        found = dict(line.partition("=")[::2] for line in lines)
        self.job = found["SLURM_JOB_ID"]
        nodes: dict[tuple[str, int], list[Task]] = {}
        for number, part in enumerate(parts):
            end = f"_HET_GROUP_{number}" if len(parts) > 1 else ""
            hosts = expand_hostlist(found[f"SLURM_JOB_NODELIST{end}"])
            room = expand_tasks_per_node(found[f"SLURM_TASKS_PER_NODE{end}"])
            left = [*part.tasks]
            for host, count in zip(hosts, room, strict=True):
                nodes[host, number], left = left[:count], left[count:]
        return {place: tasks for place, tasks in nodes.items() if tasks}

    def _read_held(self) -> bytes:
        """Wait for the variables of the allocation, and say meanwhile why Slurm lets the job wait."""
        output = self._process.stdout
        if output is None:
            raise RuntimeError("A process was started without its pipes.")
        held, asked_at, reason = b"", time.monotonic(), ""
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            while not held.endswith(_HELD):
                if selector.select(_LOOK_SECS):
                    data = os.read(output.fileno(), 1 << 16)
                    if not data:
                        raise PlacementError(_refusal("salloc", self._said()))
                    held += data
                elif time.monotonic() - asked_at > _ASK_SECS:
                    asked_at = time.monotonic()
                    if (now := self._waits_for()) not in ("", reason):
                        reason = now
                        _log.warning("Slurm lets the job %s wait: %s.", self.job, reason)
        return held[: -len(_HELD)]

    def _waits_for(self) -> str:
        """Ask Slurm why the job does not start yet; return "" if it does not say."""
        if pending := re.search(r"(?:Pending job allocation|job) (\d+)", self._said()):
            self.job = pending[1]
            with contextlib.suppress(PlacementError):
                return printable(_call("squeue", "--noheader", f"--jobs={self.job}", "--format=%r").strip())
        return ""

    def goes_on(self) -> bool:
        """Return whether nobody has cancelled the job, or Slurm has to make room for others."""
        try:
            told = _call("scontrol", "--oneliner", "show", "job", self.job)
        except PlacementError:
            return False
        states = re.findall(r"\bJobState=(\w+)", told)
        preempted = re.search(r"\bPreemptTime=(?!None)\S", told)
        return preempted is not None or {*states} == {"RUNNING"}

    def _said(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")

    def end(self) -> None:
        """Give the allocation back, or leave the queue."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        if not self.job or self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(_END_SECS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._errors.close()


def _environment() -> dict[str, str]:
    """Return the environment for Slurm's commands: without what another job has set for its own."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("SLURM_") or name in ("SLURM_CONF", "SLURM_CLUSTERS")
    }


def _addresses(nodes: Sequence[str]) -> dict[str, str]:
    """Return where nodes are reached, as Slurm itself reaches them."""
    told = _call("scontrol", "--oneliner", "show", "node", ",".join(nodes))
    found = re.findall(r"NodeName=(\S+).*?\bNodeAddr=(\S+)", told)
    return {node: node for node in nodes} | {
        node: f"[{address}]" if ":" in address else address for node, address in found
    }


def _call(command: str, *options: str, given: str = "") -> str:
    """Return what a command of Slurm's prints.

    Raises:
        PlacementError: There is no such command, it fails, or Slurm does not answer.
    """
    try:
        done = subprocess.run(
            [command, *options],
            input=given,
            env=_environment(),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_CALL_SECS,
            check=False,
        )
    except FileNotFoundError as exc:
        raise PlacementError(
            f"There is no {command} on the PATH. --on slurm needs the commands of Slurm: start it on a login "
            "node of the cluster."
        ) from exc
    except subprocess.TimeoutExpired as exc:
        raise PlacementError(
            f"Slurm does not answer {command} within {_CALL_SECS:.0f} s. Is it up? Try `scontrol ping`."
        ) from exc
    if done.returncode:
        raise PlacementError(_refusal(command, done.stderr))
    return done.stdout


def _refusal(command: str, said: str) -> str:
    """Return an error with Slurm's own words."""
    lines = [line.removeprefix(f"{command}: ").removeprefix("error: ") for line in said.splitlines()]
    words = "; ".join(dict.fromkeys(printable(line.strip()) for line in lines if line.strip()))
    return (
        f"Slurm refuses the job: {words or f'{command} has failed'}. `sinfo` shows its partitions and nodes. "
        "What the job asks for is said by --cpus, --gpus, --memory, --tasks-per-node and --sbatch=OPTION, "
        "such as --sbatch=--partition=NAME."
    )
