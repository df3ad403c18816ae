"""The engine of hosts on which the same command is started: one of them leads, the others call it."""

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from muster._errors import PlacementError
from muster.cluster import RendezvousListener, Task, call_rendezvous
from muster.engines._agent import Agent
from muster.engines._agent_connection import AgentConnection
from muster.engines._bridge import Bridge
from muster.engines._engine import EXIT_LOST, TaskRequest
from muster.engines._remote import HostOptions, RemoteEngine, agent_command, spread
from muster.net import Credentials, split_address

# How long the launchers of a job may take to meet, in seconds; how long one may that comes back.
_MEET_SECS, _AGAIN_SECS = 600.0, 1.0


class NodesEngine(RemoteEngine):
    """Starts tasks on this host and on those whose launchers call it.

    Args:
        nodes: The number of hosts, with this one.
        address: Where the others call, ``host:port``.
        listener: What listens there; closed with the engine. Who calls again later takes part at the next
            restart, or in an elastic job at once, at the address that it had.
        options: What tasks on hosts have in common; its variables are without the job's secret, which all
            launchers have.
    """

    hosts_return = True

    def __init__(
        self,
        nodes: int,
        address: str,
        listener: RendezvousListener,
        options: HostOptions,
    ) -> None:
        super().__init__(options)
        self._nodes = nodes
        self._address = address
        self._listener = listener
        self._here: AgentConnection | None = None
        self._bridges: list[Bridge] = []
        self._others: list[AgentConnection] = []
        self._called: list[AgentConnection] = []  # those that have called again, and have no task yet

    def assign(self, tasks: Sequence[Task], request: TaskRequest) -> Mapping[Task, AgentConnection]:
        """Wait until all hosts are there, the first time, and divide the tasks among them.

        Later those are left out that are gone and have not called again.
        """
        first = self._here is None
        if self._here is None or self._here.lost:
            self._here = self._connect_here()
        self._others = [agent for agent in [*self._others, *self._called] if not agent.lost]
        self._called = []
        missing = self._nodes - 1 - len(self._others)
        self._others += self._take_callers(missing, _MEET_SECS if first else _AGAIN_SECS)
        if first and len(self._others) < self._nodes - 1:
            raise PlacementError(
                f"{len(self._others) + 1} of {self._nodes} hosts have come to {self._address} within "
                f"{_MEET_SECS:.0f} s. Start the same command on the others."
            )
        agents = [self._here, *self._others]
        self.await_greetings(agents)
        for agent in agents:
            if agent.lost and (first or agent is self._here):
                raise PlacementError(f"{agent.host}: {agent.lost}")
        return spread(tasks, [agent for agent in agents if not agent.lost])

    def _connect_here(self) -> AgentConnection:
        host, _ = split_address(self._address)
        return self.connect(agent_command(sys.executable), host, host, self._why)

    def _take_callers(self, count: int, secs: float) -> list[AgentConnection]:
        """Return connections to the launchers that call within a time, in seconds, so many at most."""
        agents = []
        for connection, hello in self._listener.await_callers(count, secs):
            address = hello.name or self._listener.host_of(connection)
            bridge = Bridge(connection)
            self._bridges.append(bridge)
            descriptor = bridge.descriptor
            agent = AgentConnection(
                address, address, descriptor, descriptor, lambda: "its launcher has closed the connection"
            )
            self.add(agent)
            agents.append(agent)
        return agents

    def returned(self) -> list[Task]:
        """Return the tasks of hosts whose launchers have called again; see `Engine.returned`."""
        self._called += self._take_callers(self._nodes, 0.0)
        return super().returned()

    def reconnect(self, lost: AgentConnection) -> AgentConnection | None:
        """Return the connection by which a host has called again, if it has."""
        if lost is self._here:
            self._here = self._connect_here()
            return self._here
        for agent in self._called:
            if agent.address == lost.address and not agent.lost:
                self._called.remove(agent)
                self._others.append(agent)
                return agent
        return None

    def _why(self, code: int, said: str, greeted: bool) -> str:
        return f"the agent of this host has ended, with code {code}{said}"

    def close(self, code: int = 1) -> None:
        """Tell the other launchers how the job has ended, and leave them."""
        super().close(code)
        for bridge in self._bridges:
            bridge.join()
        self._bridges = []
        self._listener.close()


def join_nodes(address: str, own_address: str, credentials: Credentials) -> int:
    """Start tasks of this host for the launcher that listens at an address, until the job ends.

    Must be called from the main thread. A signal to this process is one to the job.

    Args:
        address: ``"host:port"`` of the other launcher.
        own_address: What the others call this host; empty for the address by which it reaches that one.
        credentials: What both prove to each other: whoever listens there can run programs here.

    Returns:
        The exit code of the job; `EXIT_LOST` if the other launcher is gone.

    Raises:
        RosterError: Nobody has answered in time, or somebody else.
    """
    bridge = Bridge(call_rendezvous(address, credentials, _MEET_SECS, own_address))
    folder = Path(tempfile.mkdtemp(prefix="muster-agent-"))
    requests, replies = bridge.descriptor, os.dup(bridge.descriptor)
    try:
        agent = Agent(requests, replies, folder, passes_signals=True)
        agent.run()
    finally:
        os.close(requests)
        os.close(replies)
        bridge.join()
        shutil.rmtree(folder, ignore_errors=True)
    return EXIT_LOST if agent.job_code is None else agent.job_code
