"""The engine of hosts that are reached by ssh: an agent on each starts its tasks."""

import dataclasses
import functools
import os
import shlex
import sys
from collections.abc import Mapping, Sequence

from muster._errors import ClusterError, PlacementError
from muster._text import printable
from muster.cluster import Task
from muster.engines._agent_connection import AgentConnection
from muster.engines._engine import TaskRequest
from muster.engines._remote import INSTALL, HostOptions, RemoteEngine, agent_command, spread
from muster.net import split_address

# For the system's ssh: it never waits for a password, and notices a host that is gone.
_OPTIONS = ["-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=20", "-o", "ServerAliveInterval=10"]
# What ssh ends with if it has no connection, and a shell if there is no such program.
_NO_CONNECTION, _NO_PROGRAM = 255, 127


@dataclasses.dataclass(frozen=True)
class SshHost:
    """A host in the list of an engine.

    Args:
        name: What ssh calls it, such as ``me@node-1``.
        address: What the tasks on other hosts call it.
    """

    name: str
    address: str

    @classmethod
    def parse(cls, text: str) -> "SshHost":
        """Parse ``HOST``, ``USER@HOST`` or either with ``=ADDRESS``.

        Raises:
            ClusterError: It is none of these.
        """
        name, equals, address = text.partition("=")
        address = address if equals else name.rpartition("@")[2]
        # A name that begins with a hyphen would be an option of ssh.
        if not name or name.startswith("-") or not name.isprintable() or " " in name:
            raise ClusterError(f"A host for ssh must be HOST, USER@HOST or HOST=ADDRESS, given: {text!r}.")
        bracketed = f"[{address}]" if ":" in address and not address.startswith("[") else address
        split_address(f"{bracketed}:1")
        return cls(name, bracketed)


class SshEngine(RemoteEngine):
    """Starts tasks on hosts, over the system's ssh: one connection a host.

    Args:
        hosts: The hosts. Tasks that train are divided among them in blocks, and so are parameter servers.
        options: What tasks on hosts have in common.
        command: The words of the command that takes a host and a command line, as ssh does.
        python: The interpreter on the hosts, which has the same versions of Python and muster as this one.

    Raises:
        ClusterError: There is no host, or two have one name or one address.
    """

    hosts_return = True

    def __init__(
        self,
        hosts: Sequence[SshHost],
        options: HostOptions,
        *,
        command: Sequence[str] = ("ssh",),
        python: str = sys.executable,
    ) -> None:
        super().__init__(options)
        for names in ([host.name for host in hosts], [host.address for host in hosts]):
            if len(set(names)) < len(names) or not names:
                raise ClusterError(f"Each host must be named once, given: {', '.join(names) or 'none'}.")
        self._hosts = tuple(hosts)
        self._command = [*command, *(_OPTIONS if os.path.basename(command[0]) == "ssh" else ())]
        self._python = python
        self._connected: dict[str, AgentConnection] = {}
        self._has_placed = False

    def assign(self, tasks: Sequence[Task], request: TaskRequest) -> Mapping[Task, AgentConnection]:
        """Connect to those hosts that are not, and divide the tasks among all.

        The first time all must be there; later those are left out that are gone.
        """
        for host in self._hosts:
            if host.name not in self._connected or self._connected[host.name].lost:
                self._connected[host.name] = self._connect(host)
        agents = [self._connected[host.name] for host in self._hosts]
        self.await_greetings(agents)
        lost = [agent for agent in agents if agent.lost]
        if lost and (not self._has_placed or len(lost) == len(agents)):
            raise PlacementError("\n".join(f"{agent.host}: {printable(agent.lost)}" for agent in lost))
        self._has_placed = True
        return spread(tasks, [agent for agent in agents if not agent.lost])

    def reconnect(self, lost: AgentConnection) -> AgentConnection | None:
        """Begin to connect to a host again."""
        (host,) = (host for host in self._hosts if host.name == lost.host)
        self._connected[host.name] = self._connect(host)
        return self._connected[host.name]

    def _connect(self, host: SshHost) -> AgentConnection:
        agent = shlex.join(agent_command(self._python))
        command = [*self._command, host.name, f"exec {agent}"]
        try:
            return self.connect(command, host.name, host.address, functools.partial(self._why, host.name))
        except OSError as exc:
            raise PlacementError(
                f"{self._command[0]} cannot be started: {exc.strerror}. Install OpenSSH's client, or name "
                "another command with --ssh-command."
            ) from exc

    def _why(self, name: str, code: int, said: str, greeted: bool) -> str:
        """Return why a connection has ended."""
        command = shlex.join(self._command[:1])
        if greeted:
            return f"the connection of {command} to {name} has ended, with code {code}{said}"
        if code == _NO_CONNECTION:
            return (
                f"{command} cannot connect to it{said}. It must do so without a password: try "
                f"`{shlex.join([*self._command, name, 'true'])}`"
            )
        if code == _NO_PROGRAM:
            return f"there is no {self._python} on it{said}. Name its interpreter with --python"
        return (
            f"{self._python} starts no agent of muster on it, and ends with code {code}{said}. If it lacks "
            f"muster, install this host's version for it there: {INSTALL}. Or name another interpreter with "
            "--python"
        )
