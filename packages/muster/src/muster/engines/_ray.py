"""The engine of a cluster of Ray: an actor for each task, in a placement group."""

import contextlib
import dataclasses
import functools
import math
import os
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from muster._errors import PlacementError
from muster._extras import extra_module
from muster._text import printable
from muster.cluster import Task, TaskType
from muster.engines._agent_connection import AgentConnection
from muster.engines._engine import Place, TaskRequest
from muster.engines._remote import GREET_SECS, INSTALL, HostOptions, RemoteEngine, agent_command

# How long a placement group may wait for room, in seconds.
ROOM_SECS = 60.0
# How long an actor waits for news of its agent before it returns, in seconds.
_EXCHANGE_SECS = 0.2
_CHUNK = 1 << 16
# How long a cluster may take to accept a connection, in seconds.
_REACH_SECS = 10.0
# The pause before an actor is started again, in seconds.
_AGAIN_SECS = 1.0


def _actor_class() -> type:
    """Return the class of actors, which is sent to nodes by value, also to those without muster."""

    class AgentActor:
        """Has an agent as a child process, and passes bytes to it and from it."""

        def __init__(self, words: list[str]) -> None:
            import os
            import subprocess
            import sys
            import tempfile

            self._errors = tempfile.TemporaryFile()
            self._process = subprocess.Popen(
                [sys.executable, *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                start_new_session=True,
            )
            os.set_blocking(self._process.stdout.fileno(), False)  # type: ignore[union-attr]

        def host(self) -> str:
            """Return the address of the node."""
            import ray

            return str(ray.util.get_node_ip_address())

        def exchange(self, data: bytes, wait_secs: float) -> tuple[bytes, str | None]:
            """Pass bytes to the agent, and return those that it has sent, and why it has ended if it has."""
            import os
            import select

            stdin, stdout = self._process.stdin, self._process.stdout
            if stdin is None or stdout is None:
                raise RuntimeError("A process was started without its pipes.")
            try:
                stdin.write(data)
                stdin.flush()
            except OSError:
                pass  # it has ended, as is seen below
            select.select([stdout], [], [], wait_secs)
            sent = b""
            while len(sent) < 1 << 20:
                try:
                    more = os.read(stdout.fileno(), 1 << 16)
                except BlockingIOError:
                    return sent, None
                if not more:
                    code = self._process.wait()
                    self._errors.seek(0)
                    said = self._errors.read()[-2000:].decode(errors="replace").strip()
                    return sent, f"its agent has ended, with code {code}" + (f": {said}" if said else "")
                sent += more
            return sent, None

    return AgentActor


class _ActorLink:
    """Passes bytes between an actor and a descriptor, by a thread of its own, until one of them ends.

    Args:
        ray: The module.
        actor: The actor, which is ended at the end.
        host: The address of the only node that it may have; empty for any.

    Attributes:
        descriptor: The other side: a socket, which whoever takes it closes.
        why: Why the actor has ended.
    """

    def __init__(self, ray: Any, actor: Any, host: str = "") -> None:
        self._ray, self.actor, self._host = ray, actor, host
        self._sock, theirs = socket.socketpair()
        self._sock.setblocking(False)
        self.descriptor = theirs.detach()
        self.why = "its actor has ended"
        self._thread = threading.Thread(target=self._run, name="muster-ray", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Wait until the descriptor, which is closed, has been read to its end, and the actor is ended."""
        self._thread.join()

    def _run(self) -> None:
        try:
            with self._sock:
                self._pass_on()
        finally:
            with contextlib.suppress(self._ray.exceptions.RayError):
                self._ray.kill(self.actor)  # its room is needed for another

    def _await_host(self) -> tuple[bytes, bool]:
        """Wait for the actor; return what has come for it meanwhile, and whether it is on its node."""
        host, given = self.actor.host.remote(), b""
        while True:
            more, closed = self._taken()
            given += more
            if closed:
                return given, False
            try:
                found = self._ray.get(host, timeout=_EXCHANGE_SECS)
            except self._ray.exceptions.GetTimeoutError:
                continue
            except self._ray.exceptions.RayError as exc:
                self.why = f"its actor has ended: {_first_line(exc)}"
                return given, False
            self.why = f"Ray has given it the node {found}"
            return given, found == self._host

    def _pass_on(self) -> None:
        early, goes_on = self._await_host() if self._host else (b"", True)
        if goes_on:
            while True:
                given, closed = self._taken()
                given, early = early + given, b""
                try:
                    sent, ended = self._ray.get(self.actor.exchange.remote(given, _EXCHANGE_SECS))
                except self._ray.exceptions.RayError as exc:
                    self.why = f"its actor has ended: {_first_line(exc)}"
                    return
                if closed:
                    return
                try:
                    self._sock.setblocking(True)
                    self._sock.sendall(sent)
                    self._sock.setblocking(False)
                except OSError:
                    continue  # the other side is closed: what it has sent last is taken above
                if ended is not None:
                    self.why = ended
                    return

    def _taken(self) -> tuple[bytes, bool]:
        """Return what is to be passed to the actor, and whether that was the last."""
        given = b""
        try:
            while len(given) < 16 * _CHUNK:
                data = self._sock.recv(_CHUNK)
                if not data:
                    return given, True
                given += data
        except BlockingIOError:
            pass
        except OSError:
            return given, True
        return given, False


class RayEngine(RemoteEngine):
    """Starts tasks in a cluster of Ray that runs: an actor for each, which keeps its place over restarts.

    Ray finds the nodes, by what each task asks for: a core, unless told otherwise. Needs the extra ``ray``.

    Args:
        address: That of the cluster, as ``ray.init`` takes it.
        options: What tasks on hosts have in common. If the job has a ``working_dir`` of Ray's, programs run
            there.
    """

    allots = True
    hosts_return = True

    def __init__(
        self,
        address: str,
        options: HostOptions,
    ) -> None:
        super().__init__(options)
        self._address = address
        self._ray: Any = None
        self._group: Any = None
        self._started = False  # whether this engine has connected to the cluster
        self._links: list[_ActorLink] = []
        self._agent_of: dict[Task, AgentConnection] = {}
        self._bundle_of: dict[Task, tuple[int, list[dict[str, float]]]] = {}

    def place(
        self, tasks: Sequence[Task], request: TaskRequest, program: tuple[str, ...]
    ) -> Mapping[Task, Place]:
        """Reserve room in the cluster, and an address for each task; see `Engine.place`.

        Tasks on a node share its cores, and the GPUs that Ray has given to them.
        """
        places = super().place(tasks, request, program)
        gpus: dict[str, dict[str, None]] = {}
        for place in places.values():
            gpus.setdefault(place.host, {}).update(dict.fromkeys(place.resources.gpus))
        return {
            task: dataclasses.replace(
                place, resources=dataclasses.replace(place.resources, gpus=tuple(gpus[place.host]))
            )
            for task, place in places.items()
        }

    def assign(self, tasks: Sequence[Task], request: TaskRequest) -> Mapping[Task, AgentConnection]:
        """Start an actor for each task that has none, in its own bundle of the placement group."""
        self._connect()
        ray = self._ray
        bundles = [_bundle(task, request) for task in tasks]
        self._bundle_of = {task: (number, bundles) for number, task in enumerate(tasks)}
        if self._group is None:
            self._group = ray.util.placement_group(bundles, strategy="PACK")
            try:
                ray.get(self._group.ready(), timeout=ROOM_SECS)
            except ray.exceptions.GetTimeoutError as exc:
                raise PlacementError(self._no_room(bundles)) from exc
        missing = [task for task in tasks if task not in self._agent_of or self._agent_of[task].lost]
        deadline = time.monotonic() + GREET_SECS
        # All are started before the first is waited for.
        actors = {task: self._start_actor(tasks.index(task), bundles) for task in missing}
        for task in missing:
            actor, host = self._await_actor(task, tasks.index(task), bundles, actors[task], deadline)
            self._link(task, host, _ActorLink(ray, actor))
        self.await_greetings(self._agent_of.values())
        for agent in self._agent_of.values():
            if agent.lost:
                raise PlacementError(
                    f"{agent.host}: {printable(agent.lost)}. All nodes need muster in the version of this "
                    f"host, for the Python of Ray's workers: {INSTALL}"
                )
        return dict(self._agent_of)

    def reconnect(self, lost: AgentConnection) -> AgentConnection | None:
        """Begin to start an actor again; it is no use if Ray gives it another node."""
        (task,) = (task for task, agent in self._placed.items() if agent is lost)
        actor = self._start_actor(*self._bundle_of[task])
        return self._link(task, lost.address, _ActorLink(self._ray, actor, lost.address))

    def _link(self, task: Task, host: str, link: _ActorLink) -> AgentConnection:
        """Take over the connection to the agent of an actor."""
        self._links.append(link)
        # Descriptors are closed on both sides of the link, so that its thread ends.
        why = functools.partial(getattr, link, "why")
        self._agent_of[task] = agent = AgentConnection(host, host, link.descriptor, link.descriptor, why)
        self.add(agent)
        return agent

    def _connect(self) -> None:
        """Connect to the cluster, unless this process is."""
        self._ray = ray = extra_module("ray", "ray", "--on ray")
        extra_module("ray.util.scheduling_strategies", "ray", "--on ray")
        if not ray.is_initialized():
            _check_reached(self._address)
            try:
                ray.init(address=self._address, log_to_driver=False, logging_level="warning")
            except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as exc:
                raise PlacementError(
                    f"There is no cluster of Ray that can be used: {exc} Start one by `ray start --head`, or "
                    "name it in RAY_ADDRESS. If it asks for a token, set RAY_AUTH_MODE=token, and "
                    "RAY_AUTH_TOKEN_PATH to the file of its token."
                ) from exc
            self._started = True
        if dict(ray.get_runtime_context().runtime_env).get("working_dir"):
            self._options = dataclasses.replace(self._options, workdir="")  # the actors' own

    def _await_actor(
        self, task: Task, number: int, bundles: Sequence[Mapping[str, float]], actor: Any, deadline: float
    ) -> tuple[Any, str]:
        """Wait for an actor to run, or for another in its place; return it, and the address of its node.

        Ray may still give an actor a node that has just been lost.
        """
        ray = self._ray
        while True:
            try:
                return actor, ray.get(actor.host.remote(), timeout=max(0.1, deadline - time.monotonic()))
            except ray.exceptions.GetTimeoutError as exc:
                raise PlacementError(self._no_room(bundles)) from exc
            except ray.exceptions.RayError as exc:
                if time.monotonic() > deadline:
                    raise PlacementError(f"Ray cannot start an actor for {task}: {_first_line(exc)}") from exc
            time.sleep(_AGAIN_SECS)
            actor = self._start_actor(number, bundles)

    def _start_actor(self, number: int, bundles: Sequence[Mapping[str, float]]) -> Any:
        ray, bundle = self._ray, bundles[number]
        strategy = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(
            placement_group=self._group, placement_group_bundle_index=number
        )
        actor = ray.remote(_actor_class()).options(
            num_cpus=bundle["CPU"],
            num_gpus=bundle.get("GPU", 0),
            memory=bundle.get("memory"),
            scheduling_strategy=strategy,
            max_restarts=0,
        )
        return actor.remote(agent_command("")[1:])

    def _no_room(self, bundles: Sequence[Mapping[str, float]]) -> str:
        """Say what is there, and what was asked for."""
        ray = self._ray
        there, free = ray.cluster_resources(), ray.available_resources()
        names = ("CPU", "GPU", "memory")
        asked = {name: sum(bundle.get(name, 0) for bundle in bundles) for name in names}
        said = ", ".join(
            f"{name} {asked[name]:g} of {there.get(name, 0):g}, of which {free.get(name, 0):g} are free"
            for name in names
            if asked[name]
        )
        largest = max(bundles, key=lambda bundle: (bundle.get("GPU", 0), bundle["CPU"]))
        return (
            f"The cluster of Ray has no room for {len(bundles)} tasks within {ROOM_SECS:.0f} s: {said}. A "
            f"node must have {dict(largest)} free for a task. Ask for less by --workers, --cpus, --gpus or "
            "--memory, or add nodes."
        )

    def close(self, code: int = 1) -> None:
        """End the actors, give the room back, and leave the cluster."""
        super().close(code)
        for link in self._links:
            link.end()
        self._links = []
        if self._group is not None:
            self._ray.util.remove_placement_group(self._group)
            self._group = None
        if self._started:
            self._started = False
            self._ray.shutdown()


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]


def _check_reached(address: str) -> None:
    """Raise PlacementError if nobody listens at an address: Ray would end this process then."""
    if address == "auto":
        address = os.environ.get("RAY_ADDRESS", "")
    host, _, port = address.rpartition(":")
    if address in ("", "auto", "local") or "/" in address or not port.isdecimal():
        return  # Ray finds it, or says what is wrong
    try:
        socket.create_connection((host, int(port)), _REACH_SECS).close()
    except OSError as exc:
        raise PlacementError(
            f"There is no cluster of Ray that can be used: nothing answers at {address}: {exc}. Start one by "
            "`ray start --head`, or name another by --on ray:HOST:PORT or in RAY_ADDRESS."
        ) from exc


def _bundle(task: Task, request: TaskRequest) -> dict[str, float]:
    """Return what a task asks Ray for."""
    bundle: dict[str, float] = {"CPU": 1 if request.cpus is None else request.cpus}
    if request.gpus and task.type not in (TaskType.PS, TaskType.EVALUATOR):
        bundle["GPU"] = request.gpus
    if request.memory is not None:
        bundle["memory"] = math.ceil(request.memory)
    return bundle
