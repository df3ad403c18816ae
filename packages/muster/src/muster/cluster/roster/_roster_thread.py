"""The thread of the roster: it holds the connections, and carries out the actions of `Watch`."""

import collections
import contextlib
import functools
import logging
import os
import resource
import selectors
import socket
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence

from muster._errors import StrayPeerError
from muster.cluster._cluster_spec import Task
from muster.cluster.roster import _roster_events as events
from muster.cluster.roster import _roster_messages as messages
from muster.cluster.roster._membership import Membership
from muster.cluster.roster._membership_events import (
    GiveUp,
    GroupAction,
    GroupEvent,
    GroupRecord,
    Member,
    MemberGone,
    MemberSeen,
    PublishRecord,
)
from muster.cluster.roster._roster_service import RosterService
from muster.cluster.roster._roster_watch import Watch
from muster.cluster.roster._termination import write_events, write_termination
from muster.net import Acceptor, Connection, Credentials, FrameBuffer, Handler, Hello, ProtocolError, dial

_log = logging.getLogger(__name__)


class RunningClock:
    """Counts the seconds in which this process runs.

    A suspended machine, a paused container or SIGSTOP stops all tasks of a job alike. Each one that goes on
    then finds the others silent for as long as it was itself asleep; by this clock no time has passed.
    Threads may share it.

    Args:
        asleep_secs: The process counts as asleep if nobody has asked for the time for so long, in seconds.
    """

    def __init__(self, asleep_secs: float = 5.0) -> None:
        self._limit_secs = asleep_secs
        self._lock = threading.Lock()
        self._seen = time.monotonic()
        self._asleep_secs = 0.0

    def __call__(self) -> float:
        """Return the time in seconds, from any start."""
        with self._lock:
            now = time.monotonic()
            if now - self._seen > self._limit_secs:
                self._asleep_secs += now - self._seen
            self._seen = now
            return now - self._asleep_secs


_CHUNK = 1 << 16
# How long a connection may take to come about, in seconds.
_DIAL_SECS = 5.0
# How long the last words of a task may take to be sent, in seconds.
_FLUSH_SECS = 1.0
# The open files of a program without the connections of a roster; many systems allow a process 1,024.
_OTHER_FILES = 512


class RosterThread:
    """The thread of the roster: it waits for events, passes them to `watch`, and carries out its actions.

    Only this thread changes `watch`. Others read it while they hold `changed`, which is notified at each
    event, and so at least every ``beat_secs``. Its times are those of `clock`.

    Args:
        watch: Turns events into actions.
        addresses: The addresses of the peers.
        listeners: The listening sockets of this task.
        credentials: What the tasks of this job prove to each other.
        handlers: What takes other connections than the roster's, by their purpose; called by the thread.
        beat_secs: The period of heartbeats, in seconds.
        on_lost: Called once by the thread, with the task and the reason, if a peer is lost.
        membership: Agrees with the others on who trains; None if the job is not elastic.
        on_group: Called by the thread with what the membership wants this task to do.
    """

    def __init__(
        self,
        watch: Watch,
        addresses: Mapping[Task, str],
        listeners: Sequence[socket.socket],
        credentials: Credentials,
        handlers: Mapping[str, Handler],
        beat_secs: float,
        on_lost: Callable[[Task, str], None],
        membership: Membership | None = None,
        on_group: Callable[[GroupAction], None] = lambda action: None,
    ) -> None:
        self.watch = watch
        self.membership = membership
        self._on_group = on_group
        self._members: dict[Member, GroupRecord] = {}  # as the membership knows them
        self.changed = threading.Condition()
        self.progress = messages.Progress()  # replaced by any thread, never changed in place
        self.before_beat: list[Callable[[], None]] = []  # called before each heartbeat
        self.clock = RunningClock(asleep_secs=5 * beat_secs)
        self._addresses = addresses
        self._hello = messages.encode_hello(messages.RosterHello(watch=True, caller=watch.own))
        self._beat_secs = beat_secs
        self._on_lost = on_lost
        self._credentials = credentials
        self._listeners = listeners
        self._peers: dict[Task, tuple[Connection, FrameBuffer]] = {}
        # What the thread is to call, and the connection that it takes over then.
        self._inbox: collections.deque[tuple[Callable[[], None], Connection | None]] = collections.deque()
        self._inbox_lock = threading.Lock()
        self._closing = threading.Event()
        self._flush_until = 0.0
        _allow_files(_OTHER_FILES + 2 * len(addresses))  # one to each task, and one from each
        self._selector = selectors.DefaultSelector()
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._selector.register(self._wake_in, selectors.EVENT_READ, self._woken)
        self._service = RosterService(self._selector, len(addresses), lambda: watch.own, self._handle)
        self.acceptor = Acceptor(
            self._selector,
            listeners,
            credentials,
            lambda: str(watch.own),
            {messages.PURPOSE: self._service.serve, **handlers},
            str(watch.own.task),
        )
        self._thread = threading.Thread(target=self._run, name="muster-roster", daemon=True)
        alive = weakref.ref(self)

        def in_child() -> None:
            if (thread := alive()) is not None:
                thread._forked()

        os.register_at_fork(after_in_child=in_child)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def post(self, event: events.Event) -> None:
        """Pass an event to the thread."""
        self._later(functools.partial(self._handle, event))

    def post_to_group(self, event: GroupEvent) -> None:
        """Pass an event to the membership, and wait until it has taken it."""
        taken = threading.Event()

        def work() -> None:
            with self.changed:
                self._decide([event])
                self.changed.notify_all()
            taken.set()

        self._later(work)
        while not taken.wait(1.0) and self.running:
            pass

    def close(self) -> None:
        """Send what is pending, within a second, and close everything."""
        self._later(self._close)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    @property
    def running(self) -> bool:
        """The thread runs."""
        return self._thread.is_alive()

    def _run(self) -> None:
        tick = self.clock()
        try:
            self._act(self.watch.start())
            if self.membership is not None:
                self._act_in_group(self.membership.start())
            while not self._closing.is_set() or self._flushing():
                self._read(max(0.0, min(tick, self._wake_at) - self.clock()))
                while self._inbox:
                    work, _ = self._inbox.popleft()
                    work()
                if self.clock() >= min(tick, self._wake_at):
                    # If this task itself was stopped, news may have piled up: read first, judge then.
                    self._read(0.0)
                    tick = self.clock() + self._beat_secs
                    self.acceptor.tidy()
                    self._service.tidy()
                    for call in self.before_beat:
                        call()
                    self._handle(events.Tick(self.progress))
        finally:
            with self._inbox_lock:
                self._closing.set()
            for _, connection in self._inbox:
                if connection is not None:
                    connection.close()
            self._close_files()
            with self.changed:
                self.changed.notify_all()

    @property
    def _wake_at(self) -> float:
        times = [self.watch.wake_at]
        if self.membership is not None:
            times.append(self.membership.wake_at)
        return min(times)

    def _read(self, timeout_secs: float) -> None:
        """Wait until sockets are ready, then read and write."""
        for key, mask in self._selector.select(timeout_secs):
            key.data(mask)

    def _later(self, work: Callable[[], None], taken: Connection | None = None) -> None:
        """Have the thread call a function that takes over a connection; close that if the thread ended."""
        with self._inbox_lock:
            if not self._closing.is_set():
                self._inbox.append((work, taken))
                with contextlib.suppress(BlockingIOError):  # then it is being woken
                    self._wake_out.send(b"!")
            elif taken is not None:
                taken.close()

    def _woken(self, mask: int) -> None:
        self._wake_in.recv(_CHUNK)

    def _close(self) -> None:
        self._flush_until = time.monotonic() + _FLUSH_SECS
        self._closing.set()

    def _flushing(self) -> bool:
        return self._service.unsent and time.monotonic() < self._flush_until

    def _forked(self) -> None:
        """Close the files in a forked child, which must not keep connections open after this task's end."""
        self.changed = threading.Condition()  # the thread may have held the locks, and is not in the child
        self._inbox_lock = threading.Lock()
        self._closing = threading.Event()
        self._closing.set()
        self._close_files()

    def _close_files(self) -> None:
        self.acceptor.close()
        for connection in (*(peer for peer, _ in self._peers.values()), *self._service.connections):
            connection.close()
        for sock in (*self._listeners, self._wake_in, self._wake_out):
            sock.close()
        self._selector.close()

    def _handle(self, event: events.Event) -> None:
        with self.changed:
            actions = self.watch.handle([event], self.clock())
            self.changed.notify_all()
        self._act(actions)
        if self.membership is not None:
            gone = [
                MemberGone(Member(each.task, each.run), each.certain)
                for each in actions
                if isinstance(each, events.Leave)
            ]
            self._follow(gone, is_tick=isinstance(event, events.Tick))

    def _follow(self, gone: Sequence[MemberGone], *, is_tick: bool) -> None:
        """Tell the membership what has changed among the others."""
        with self.changed:
            members = self.watch.members()
            for each in gone:
                self._members.pop(each.member, None)
            news: list[GroupEvent] = [*gone]
            news += [
                MemberSeen(member, record)
                for member, record in members.items()
                if self._members.get(member) != record
            ]
            self._members = members
            if news or is_tick:
                self._decide(news)

    def _decide(self, news: Sequence[GroupEvent]) -> None:
        if self.membership is not None:
            self._act_in_group(self.membership.handle(news, self.clock()))

    def _act_in_group(self, actions: Sequence[GroupAction]) -> None:
        for action in actions:
            if isinstance(action, PublishRecord):
                self._act(self.watch.handle([events.Grouped(action.record)], self.clock()))
            else:
                if isinstance(action, GiveUp) and not action.others_are_done and self.membership:
                    write_events(self.membership.log)
                self._on_group(action)

    def _act(self, actions: Sequence[events.Action]) -> None:
        for action in actions:
            match action:
                case events.Dial(task, delay):
                    threading.Thread(target=self._dial, args=(task, delay), daemon=True).start()
                case events.Close(task):
                    self._hang_up(task)
                case events.Publish(beat):
                    self._service.publish(beat)
                case events.Answer(caller, keep, stacks):
                    self._service.answer(caller, keep, stacks)
                case events.Log(level, text):
                    _log.log(level, "%s", text)
                case events.Leave():
                    pass  # `_follow` tells the membership
                case events.Lose(task, reason, culprit):
                    write_termination(culprit, reason)
                    write_events(self.watch.log)
                    self._on_lost(task, reason)

    def _dial(self, task: Task, delay: float) -> None:
        """Connect to a peer, on a separate thread, because resolving a name can take long."""
        if self._closing.wait(delay):
            return
        own = self.watch.own
        try:
            connection = dial(
                self._addresses[task],
                Hello(
                    purpose=messages.PURPOSE,
                    name=str(own.task),
                    callee=str(task),
                    job=own.job,
                    run=own.run,
                ),
                self._credentials,
                _DIAL_SECS,
            )
        except StrayPeerError as exc:
            self.post(events.Garbled(task, str(exc)))
            return
        except OSError as exc:
            refused = isinstance(exc, ConnectionRefusedError)
            self.post(events.DialFailed(task, _reason(exc), refused))
            return
        try:
            connection.send_all([self._hello], time.monotonic() + _DIAL_SECS)
        except OSError as exc:
            connection.close()
            self.post(events.DialFailed(task, _reason(exc)))
            return
        self._later(functools.partial(self._dialed, task, connection), connection)

    def _dialed(self, task: Task, connection: Connection) -> None:
        self._hang_up(task)
        self._peers[task] = connection, FrameBuffer(messages.MAX_NEWS)
        hear = functools.partial(self._hear, task, connection)
        self._selector.register(connection, selectors.EVENT_READ, hear)
        self._handle(events.Dialed(task))

    def _hear(self, task: Task, connection: Connection, mask: int) -> None:
        if not self._connected(task, connection):
            return
        try:
            data = connection.receive(_CHUNK)
        except BlockingIOError:
            return
        except OSError as exc:
            self._hang_up(task)
            self._handle(events.HungUp(task, _reason(exc), broken=True))
            return
        if not data:
            self._hang_up(task)
            self._handle(events.HungUp(task, "end of the connection"))
            return
        try:
            for message in self._peers[task][1].feed(data):
                self._handle(events.Heard(task, messages.decode_news(message)))
                if not self._connected(task, connection):
                    return
        except ProtocolError as exc:
            self._hang_up(task)
            self._handle(events.Garbled(task, f"it is something else: {exc}"))

    def _connected(self, task: Task, connection: Connection) -> bool:
        return task in self._peers and self._peers[task][0] is connection

    def _hang_up(self, task: Task) -> None:
        if task in self._peers:
            connection, _ = self._peers.pop(task)
            self._selector.unregister(connection)
            connection.close()


def _reason(exc: OSError) -> str:
    return (exc.strerror or str(exc)).lower()


def _allow_files(count: int) -> None:
    """Raise this process' limit of open files if it is lower, as far as the system lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < count:
        most = count if hard == resource.RLIM_INFINITY else min(count, hard)
        with contextlib.suppress(OSError, ValueError):  # macOS has a limit that is not told
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
