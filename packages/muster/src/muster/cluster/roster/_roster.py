"""The roster of a job: its tasks find each other, exchange small values, and notice when one is lost."""

import contextlib
import logging
import os
import socket
import threading
import traceback
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import Any, Self

import msgspec

from muster._errors import ClusterError, MissingPeerError, PeerEndedError
from muster._text import printable_line
from muster.cluster._cluster_spec import ClusterSpec, Task, TaskType
from muster.cluster.roster._last_progress import write_last_progress
from muster.cluster.roster._membership import Membership
from muster.cluster.roster._membership_events import (
    GroupAction,
    GroupEvent,
    GroupRecord,
    Member,
)
from muster.cluster.roster._roster_address import listen_as, query_status
from muster.cluster.roster._roster_events import Announced, OwnTaskEnded
from muster.cluster.roster._roster_identity import derive_job_id, installed_versions, training_tasks
from muster.cluster.roster._roster_messages import MAX_ERROR, MAX_NEWS, Progress, Status, TaskState
from muster.cluster.roster._roster_thread import RosterThread
from muster.cluster.roster._roster_watch import LINGER_SECS, Watch
from muster.cluster.roster._termination import note_joined, write_termination
from muster.lifecycle import exit_at_once, is_embedded
from muster.net import (
    NO_CREDENTIALS,
    Connection,
    Credentials,
    Handler,
    Hello,
    adopt_listener,
    dial,
    split_address,
)

_log = logging.getLogger(__name__)

# The exit code of a task that ends because another is lost. Cluster managers that look at codes (Kubeflow's
# ExitCode policy) restart a task whose code is 128 or more; it is no signal's.
EXIT_PEER_LOST = 175

_SAY_SECS = 10.0  # how often a waiting task logs what is missing
_BEAT_SECS = 1.0  # the period of heartbeats, unless the deadline needs a shorter one
_MAX_NAMED = 10  # tasks named in one message


def exit_because_lost(task: Task, reason: str) -> None:
    """Exit at once with `EXIT_PEER_LOST`, after logging the reason and flushing logs and streams.

    In a process that is somebody else's, return: what waits for the task fails.

    Args:
        task: The task that was lost.
        reason: The reason, as a sentence that names the task.
    """
    if is_embedded():
        _log.warning("%s is lost: %s", task, reason)
        return
    exit_at_once(
        EXIT_PEER_LOST,
        lambda: _log.critical("This task ends, because it has lost %s: %s", task, reason),
    )


class Roster:
    """Connects the tasks of a job, and notices when one is lost.

    From its construction on, this task listens at its address and sends its status to anyone who asks
    (`query_status`). It connects to every other training task (chief and workers). A task that closes the
    connection, that fails, or that is silent for longer than ``heartbeat_secs`` is lost: then ``on_lost`` is
    called, once, on a thread of the roster. Any task may start first. Parameter servers and evaluators only
    send their status.

    As a context manager it calls `done` at the end, or `fail` with the exception that left the block.

    Every connection proves first that it knows the job's secret, if there is one. Without one nobody proves
    anything: that detects mistakes, not attackers.

    Args:
        cluster: All tasks of the job; empty for a job of one process.
        task: This task.
        job_id: The id of the job; None derives it from the addresses of the training tasks.
        credentials: What the tasks of this job prove to each other.
        handlers: What takes connections of other purposes at this task's address; called by the roster's
            thread.
        peers: The tasks to connect to and to watch; None for all other training tasks.
        heartbeat_secs: How long another task may be silent, in seconds.
        listener: A socket that already listens at this task's address; the roster closes it. None opens one.
        on_lost: Called when a task is lost, with that task and the reason as a sentence. If it returns, all
            waiting methods raise PeerLostError.
        versions: Versions that must be the same in all tasks; None takes `installed_versions`.
        elastic: Makes the membership of this process, for a job that goes on without a task that is lost;
            None for a job that ends.
        on_group: Called, on the roster's thread, with what the membership wants this task to do.

    Attributes:
        membership: Agrees with the others on who trains, if the job is elastic.

    Raises:
        ClusterError: The cluster does not have the task, or an address is not host:port.
        AddressInUseError: Another process listens at its address.
        RosterError: This process may not listen there.
    """

    def __init__(
        self,
        cluster: ClusterSpec,
        task: Task,
        *,
        job_id: str | None = None,
        credentials: Credentials = NO_CREDENTIALS,
        handlers: Mapping[str, Handler] = MappingProxyType({}),
        peers: Sequence[Task] | None = None,
        heartbeat_secs: float = 30.0,
        listener: socket.socket | None = None,
        on_lost: Callable[[Task, str], None] = exit_because_lost,
        versions: Mapping[str, str] | None = None,
        elastic: Callable[[Member], Membership] | None = None,
        on_group: Callable[[GroupAction], None] = lambda action: None,
    ) -> None:
        if not heartbeat_secs > 0:
            raise ValueError(f"heartbeat_secs must be more than 0, given: {heartbeat_secs!r}.")
        training = training_tasks(cluster) if cluster else (task,)
        here = task.type in cluster.jobs and task.index in cluster.task_indices(task.type)
        if cluster and not here and task.type != TaskType.EVALUATOR:
            raise ClusterError(f"{task} is not a task of the cluster, which is {cluster}. Check TF_CONFIG.")
        # An evaluator is outside the cluster, and parameter servers have no part in its collectives.
        others = [other for other in training if other != task] if task in training else []
        if peers is not None:
            others = list(peers)
        addresses = {other: cluster.task_address(other.type, other.index) for other in others}
        for address in addresses.values():
            split_address(address)
        own = Status(
            job=derive_job_id(cluster) if job_id is None else printable_line(job_id),
            task=task,
            run=uuid.uuid4().hex,
            pid=os.getpid(),
            host=socket.gethostname(),
            versions=installed_versions() if versions is None else dict(versions),
            training=training,
        )
        if listener is not None:
            listeners = [listener]
        else:
            own_address = cluster.task_address(task.type, task.index) if here else None
            listeners = listen_as(task, own_address, credentials) if own_address else []
        self._task = task
        self._peers = others
        self._addresses = addresses
        self._credentials = credentials
        self._announced: dict[str, Any] = {}
        self._reporting = threading.Lock()
        self.membership = None if elastic is None else elastic(Member(task, own.run))
        self._watch = Watch(own, addresses, heartbeat_secs, elastic=elastic is not None)
        self._thread = RosterThread(
            self._watch,
            addresses,
            listeners,
            credentials,
            handlers,
            min(_BEAT_SECS, heartbeat_secs / 5),
            on_lost,
            self.membership,
            on_group,
        )
        self._thread.start()

    @classmethod
    def from_environ(
        cls,
        environ: Mapping[str, str],
        cluster: ClusterSpec,
        task: Task,
        *,
        handlers: Mapping[str, Handler] = MappingProxyType({}),
        peers: Sequence[Task] | None = None,
        heartbeat_secs: float = 30.0,
        on_lost: Callable[[Task, str], None] = exit_because_lost,
        versions: Mapping[str, str] | None = None,
        elastic: Callable[[Member], Membership] | None = None,
        on_group: Callable[[GroupAction], None] = lambda action: None,
    ) -> Self:
        """Build the roster of a task from the variables that its launcher set; raises as Roster does.

        ``MUSTER_JOB_ID`` is the id of the job; ``MUSTER_LISTEN_FD`` the number of an inherited socket that
        listens at the task's address. Both are optional.
        """
        descriptor = environ.get("MUSTER_LISTEN_FD")
        credentials = Credentials.from_environ(environ)
        addresses = (cluster.task_address(job, n) for job in cluster.jobs for n in cluster.task_indices(job))
        if warning := credentials.warning(addresses):
            _log.warning("%s", warning)
        note_joined()
        return cls(
            cluster,
            task,
            job_id=environ.get("MUSTER_JOB_ID"),
            credentials=credentials,
            handlers=handlers,
            peers=peers,
            heartbeat_secs=heartbeat_secs,
            listener=None if descriptor is None else adopt_listener(descriptor),
            on_lost=on_lost,
            versions=versions,
            elastic=elastic,
            on_group=on_group,
        )

    def wait_for_all(self, timeout_secs: float) -> None:
        """Wait until all training tasks are connected to each other, with the same versions and cluster.

        Args:
            timeout_secs: How long to wait, in seconds.

        Raises:
            MissingPeerError: Tasks did not come in time; names them, their addresses, and what answers there.
            MismatchError: A task has other versions or another cluster.
            StrayPeerError: Another process has answered in place of a task for ten seconds.
            PeerLostError: A task is lost.
        """
        self._wait(self._watch.missing_peers, timeout_secs)

    def announce(self, key: str, value: Any) -> None:
        """Publish a value under a key to all other tasks, once for each key.

        Args:
            key: The key, by which `lookup` finds the value.
            value: Any value that can be stored as JSON.

        Raises:
            ValueError: The key was announced already, or the value is too large.
            TypeError: JSON has no such type.
        """
        with self._thread.changed:
            if key in self._announced:
                raise ValueError(f"{key!r} was announced already. Announce each key once.")
            try:
                packed = msgspec.msgpack.encode({**self._announced, key: value})
            except OverflowError as exc:
                raise ValueError(f"{value!r} holds an integer of more than 64 bits.") from exc
            if len(packed) > MAX_NEWS // 2:
                raise ValueError(
                    f"With {key!r} the announcements of {self._task} take {len(packed)} bytes, and "
                    f"{MAX_NEWS // 2} are allowed. Announce a digest or an address in place of what is large."
                )
            value = self._announced[key] = msgspec.msgpack.decode(packed)[key]  # as the others get it
        self._thread.post(Announced(key, value))

    def lookup(self, task: Task, key: str, timeout_secs: float) -> Any:
        """Wait for a value that a training task announces, and return it.

        Args:
            task: A training task, or this one.
            key: The key of the value.
            timeout_secs: How long to wait, in seconds.

        Raises:
            ValueError: There is no such task.
            RosterError: As `wait_for_all` does, for this task.
        """
        if task == self._task and key in self._announced:
            return self._announced[key]
        if task not in self._peers:
            raise ValueError(f"{task} is not another training task, and has not announced {key!r} here.")
        self._wait(lambda: self._watch.missing_values(key, [task]), timeout_secs)
        return self.statuses()[task].announcements[key]

    def report(self, **fields: Any) -> None:
        """Set fields of this task's `Progress`; None leaves a field as it is.

        The next heartbeat sends it, within a second; the call itself touches no socket. Numbers are converted
        to Python's: a loss that is still being computed on a device would be waited for.

        Args:
            fields: Fields of `Progress` by their names.

        Raises:
            ValueError: The state does not exist, or is one that `done` and `fail` set.
            TypeError: There is no such field.
        """
        if (state := fields.get("state")) in (TaskState.DONE, TaskState.FAILED):
            raise ValueError(f"The state {state} cannot be reported: call done() or fail() instead.")
        with self._reporting:  # threads report, each its own fields
            self._thread.progress = self._thread.progress.reported(fields)

    def report_from(self, sample: Callable[[], Mapping[str, Any]]) -> None:
        """Report what a function returns, before each heartbeat, once a second.

        Args:
            sample: Returns fields, as of `report`. The thread of the roster calls it, so it must not wait.
        """
        self._thread.before_beat.append(lambda: self.report(**sample()))

    @contextlib.contextmanager
    def reporting(self, state: TaskState) -> Iterator[None]:
        """Report a state while the block runs, and then the one before.

        Args:
            state: As of `report`.
        """
        before = self.progress.state
        self.report(state=state)
        try:
            yield
        finally:
            self.report(state=before)

    def connect(self, task: Task, purpose: str, timeout_secs: float) -> Connection:
        """Connect to another training task that was reached, for a purpose other than the roster's.

        Args:
            task: The task.
            purpose: What the connection is for: its roster has a handler for that.
            timeout_secs: How long that may take, in seconds.

        Raises:
            StrayPeerError: As `muster.net.dial`.
            OSError: As `muster.net.dial`.
        """
        to = self.statuses()[task].run
        return self.dial(task, self._addresses[task], purpose, timeout_secs, to)

    def dial(self, task: Task, address: str, purpose: str, timeout_secs: float, to: str = "") -> Connection:
        """Connect to any task of the job, as this one.

        Args:
            task: The task.
            address: Where it listens.
            purpose: What the connection is for: it has a handler for that.
            timeout_secs: How long that may take, in seconds.
            to: The random id of the process that is meant; empty for any.

        Raises:
            StrayPeerError: As `muster.net.dial`.
            OSError: As `muster.net.dial`.
        """
        own = self.statuses()[self._task]
        hello = Hello(
            purpose=purpose, name=str(self._task), callee=str(task), job=own.job, run=own.run, to=to
        )
        return dial(address, hello, self._credentials, timeout_secs)

    def stacks_of(self, task: Task, timeout_secs: float) -> str:
        """Ask another training task where its threads are; raises as `query_status`."""
        address = self._addresses[task]
        return query_status(address, timeout_secs, self._credentials, task=task, stacks=True).stacks

    def caller(self, hello: Hello) -> Task | None:
        """Return the training task that has dialed this one, or None if it is none that was reached."""
        statuses = self.statuses()
        return next(
            (
                task
                for task, status in statuses.items()
                if (str(task), status.job, status.run) == (hello.name, hello.job, hello.run)
                and hello.to == statuses[self._task].run
            ),
            None,
        )

    @property
    def progress(self) -> Progress:
        """The progress that this task has last reported."""
        return self._thread.progress

    def statuses(self) -> dict[Task, Status]:
        """Return the last known status of this task and of each training task that was reached."""
        with self._thread.changed:
            return self._watch.statuses()

    def tell_group(self, event: GroupEvent) -> None:
        """Pass an event to the membership, and wait until it has taken it, and has told the others."""
        self._thread.post_to_group(event)

    def group_records(self) -> dict[Member, GroupRecord]:
        """Return the other tasks of an elastic job that are there, and what they say about their group."""
        with self._thread.changed:
            return self.membership.present() if self.membership is not None else {}

    @property
    def others_wait(self) -> bool:
        """Whether workers have come that this one lets in, as soon as it takes others in."""
        with self._thread.changed:
            return self.membership is not None and self.membership.others_wait

    def wait_until(self, holds: Callable[[], bool], timeout_secs: float) -> bool:
        """Wait until something holds that changes by what is heard of others.

        Args:
            holds: Returns whether it does.
            timeout_secs: How long to wait at most, in seconds.

        Returns:
            Whether it holds.
        """
        with self._thread.changed:
            return self._thread.changed.wait_for(holds, timeout_secs)

    def fail(self, exc: BaseException) -> None:
        """Report to the others that this task fails, and why, so that they end, too.

        It first waits for a moment, because an exception is often the consequence of a lost task. If one is
        lost, that task is reported as the cause, and ``on_lost`` is called.
        """
        text = "".join(traceback.format_exception_only(exc)).strip()[:MAX_ERROR]
        if isinstance(exc, PeerEndedError):
            text = str(exc)[:MAX_ERROR]  # which is no error of this task: it is the reason of the job's end
        late = exc.peers if isinstance(exc, MissingPeerError | PeerEndedError) else ()
        blamed = next((peer for peer in self._peers if str(peer) in late), None)
        if blamed is not None:
            write_termination(blamed, text)
        self._thread.post(OwnTaskEnded(text, blamed))
        with self._thread.changed:
            self._thread.changed.wait_for(
                lambda: self._watch.ended or not self._thread.running, LINGER_SECS + 1.0
            )

    def done(self) -> None:
        """Report to the others that this task is done and may leave. From now on no task counts as lost."""
        self._thread.post(OwnTaskEnded(None))

    def close(self) -> None:
        """Send what is pending, and close all connections. Without `done` before, this task is lost."""
        self._thread.close()
        for call in self._thread.before_beat:
            call()
        write_last_progress(self._thread.progress)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if exc is None or (isinstance(exc, SystemExit) and not exc.code):
            self.done()
        else:
            self.fail(exc)
        self.close()

    def _wait(self, look: Callable[[], Mapping[Task, str]], timeout_secs: float) -> None:
        """Wait until nothing is missing, and log every ten seconds what is."""
        clock = self._thread.clock
        began = said = clock()
        before = self._thread.progress
        try:
            while True:
                with self._thread.changed:
                    now = clock()
                    missing = look()
                    hopeless = self._watch.hopeless(missing, now)
                    if hopeless is not None:
                        raise hopeless
                    if not missing:
                        return
                    names = _some(list(missing.values()))
                    if now - began >= timeout_secs or not self._thread.running:
                        raise MissingPeerError(
                            f"{self._task} has waited {now - began:.0f} s for {names}. See the logs of what "
                            "is missing. MultiWorkerMirroredStrategy(session_creation_timeout_secs=...) says "
                            "how long to wait."
                        )
                    self.report(state=TaskState.WAITING, waits_for=_some([*map(str, missing)]))
                    if now - said < _SAY_SECS:
                        self._thread.changed.wait(min(said + _SAY_SECS, began + timeout_secs) - now)
                        continue
                said = now
                _log.warning("Waiting for %s, %.0f s", names, now - began)
        finally:
            self.report(state=before.state, waits_for=before.waits_for)


def _some(names: Sequence[str]) -> str:
    more = [f"and {len(names) - _MAX_NAMED} more"] if len(names) > _MAX_NAMED else []
    return ", ".join([*names[:_MAX_NAMED], *more])
