"""Workers that come and go: those that are left take over, and a step that one has interrupted is made again.

All state is replicated, so that nothing is lost while one worker is left. When a connection breaks, or the
roster says that a worker is gone, every collective fails at once. The workers then agree on a new group
(`muster.cluster.roster.Membership`), connect, and compare how far they have come. They may differ by one
collective at most, since each needs all of them: who has its result gives it to who has not. If that was the
last one of a step, it is done everywhere; otherwise all make the step again, with the replicas and the input
of the new division. A worker that has come gets the state before that step.
"""

import contextlib
import functools
import logging
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, TypeVar

import numpy as np

from muster import lifecycle
from muster._errors import MissingPeerError, PeerLostError
from muster.cluster import ClusterSpec, Task
from muster.cluster.roster import (
    EXIT_PEER_LOST,
    BecameReady,
    CameLate,
    EnterGroup,
    GiveUp,
    Group,
    GroupAction,
    LeaveStep,
    LinkBroken,
    Member,
    Membership,
    MembersMet,
    ProgramEnded,
    Roster,
    StepLeft,
    TakesIn,
    TaskState,
    write_termination,
)
from muster.distribute.workers._cluster_workers import (
    PURPOSE,
    SILENCE_SECS,
    STEP_SECS,
    JobEnding,
    RosterWorkers,
)
from muster.distribute.workers._elastic_loops import (
    LoopSteps,
    LoopWorkers,
    ReplicatedLoop,
    WorkersChangedError,
)
from muster.distribute.workers._group_connections import GroupConnections
from muster.distribute.workers._meeting import (
    CompiledPrograms,
    StepReached,
    behind_by_a_result,
    packed_result,
    shares_of,
    source_of,
    unpacked_result,
)
from muster.distribute.workers._workers import (
    START_SECS,
    HostArray,
    ReplicaShare,
    Workers,
    add_terms,
)

_log = logging.getLogger(__name__)

_Result = TypeVar("_Result")

# How long the first worker waits for more of them at the start, if there are enough, in seconds.
_GATHER_SECS = 10.0
# How long the workers that are left wait for others if they are too few, in seconds.
_PATIENCE_SECS = 600.0
_POLL_SECS = 0.2
# How often a worker that waits says so, in seconds.
_SAY_SECS = 10.0
# Set by a launcher for a task that it has started again alone; how long it looks for the others, in seconds.
_STARTED_ALONE = "MUSTER_STARTED_ALONE"
_LATE_SECS = 60.0


class _LeftError(PeerLostError):
    """A collective was left, since the workers change."""


class _DoneError(Exception):
    """The others have come to the end of their programs, before this worker could join them."""


class ElasticWorkers(Workers):
    """The workers that are there now, of those that a cluster names; they divide virtual replicas among them.

    Args:
        cluster: The tasks that there may be, and their addresses.
        task: This task.
        tasks: The tasks that may train. The first one begins the job, with those who are there.
        virtual_replicas: The number of replicas of the job, whoever computes them.
        least: The least number of workers that go on.
        in_order: Whether sums are added replica by replica, so that they do not depend on who computes which.
        timeout_secs: As for `ClusterWorkers`.
        start_secs: How long to wait for the first group, in seconds.

    Attributes:
        joins: Whether the job was under way when this worker came: it has to `join` before its first step.
        epoch: That of the group that has met last. When it has changed, so have the replicas of this worker.

    Raises:
        MissingPeerError: There is no group in time.
        RosterError: The address of this task is taken, or another task does not match.
    """

    share: ReplicaShare

    def __init__(
        self,
        cluster: ClusterSpec,
        task: Task,
        tasks: tuple[Task, ...],
        virtual_replicas: int,
        least: int = 1,
        *,
        in_order: bool = False,
        timeout_secs: float | None = None,
        start_secs: float = START_SECS,
    ) -> None:
        self._task, self._tasks = task, tasks
        self._start_secs, self._step_secs = start_secs, timeout_secs or STEP_SECS
        self._in_order = in_order
        self._connections = GroupConnections(self._require_no_change)
        self._entered: Group | None = None  # by the roster's thread: the newest group
        self._gave_up = ""
        self._has_newest = self._others_are_done = False
        self._leaving = False
        self._inner: RosterWorkers | None = None
        self._collectives = 0
        self._last: Any = None
        self._loop: ReplicatedLoop | None = None  # in whose step this worker is
        self._last_loop: ReplicatedLoop | None = None
        self._doing = ""  # what can go on with others: a call of train or fit
        self._has_begun = False  # whether it has taken a step since
        self._programs = CompiledPrograms()
        self._loop_steps = LoopSteps()
        self._given: tuple[Any, list[HostArray]] | None = None
        self._tried = 0  # the epoch of the last group that was to meet
        self.epoch = 0
        self.joins = False
        self.rank, self.names = 0, (str(task),)
        self.share = ReplicaShare(0, 1, virtual_replicas)
        make = functools.partial(
            Membership,
            tasks=tasks,
            minimum=least,
            most=virtual_replicas,
            gather_secs=_GATHER_SECS,
            patience_secs=_PATIENCE_SECS,
            first_epoch=time.time_ns() // 1_000_000,  # later than those of the job's earlier runs
        )
        self._roster = Roster.from_environ(
            os.environ,
            cluster,
            task,
            handlers={PURPOSE: self._connections.put},
            heartbeat_secs=timeout_secs or SILENCE_SECS,
            elastic=make,
            on_group=self._on_group,
        )
        self._ending = JobEnding(self._roster, ())
        self._ending.workers = self
        lifecycle.watch_program_end()
        with lifecycle.log_interrupt("Interrupted while waiting for the other tasks: nothing had begun."):
            self.joins = not self._begin()

    def _begin(self) -> bool:
        """Become a member of the first group; return False if there is one already."""
        self._roster.tell_group(BecameReady(founds=True))
        said = time.monotonic()
        # One that a launcher has started again is to join others. If they have ended, it has nothing to do.
        joins = bool(os.environ.get(_STARTED_ALONE)) and self._task != self._tasks[0]
        deadline = said + (min(_LATE_SECS, self._start_secs) if joins else self._start_secs)
        while True:
            if any(record.base is not None for record in self._roster.group_records().values()):
                self._roster.tell_group(CameLate())
                _log.info("%s has come to a job that is under way.", self._task)
                return False
            if self._gave_up:
                self._give_up()
            if self._leaving:
                self._leave_step(_LeftError("The workers change."))
            if (group := self._entered) is not None and group.epoch > self._tried:
                try:
                    self._meet(group)
                except PeerLostError as exc:
                    self._leave_step(exc)
                else:
                    return True
            now = time.monotonic()
            if now - said > _SAY_SECS:
                said = now
                _log.warning("%s waits for %s, to begin with it.", self._task, self._tasks[0])
            if now > deadline and joins:
                self._gave_up = f"{self._tasks[0]} is not there, and nobody trains."
                self._give_up()
            if now > deadline:
                raise MissingPeerError(
                    f"{self._task} has waited {self._start_secs:.0f} s for the first workers. The first of "
                    f"them, {self._tasks[0]}, has to be there at the start."
                )
            with self._roster.reporting(TaskState.WAITING):
                self._roster.wait_until(self._has_news, _POLL_SECS)

    @property
    def is_chief(self) -> bool:
        """True if this is the first of those who are there; never for one that has yet to join them."""
        return self.rank == 0 and not self.joins

    def all_gather_object(self, value: Any) -> list[Any]:
        return self._collective(lambda workers: workers.all_gather_object(value), [value])

    def all_gather(self, array: HostArray) -> list[HostArray]:
        return self._collective(lambda workers: workers.all_gather(array), [array])

    def broadcast(self, arrays: Sequence[HostArray]) -> list[HostArray]:
        return self._collective(lambda workers: workers.broadcast(arrays), list(arrays))

    def all_reduce(self, arrays: Sequence[HostArray]) -> list[HostArray]:
        return self._collective(lambda workers: workers.all_reduce(arrays), list(arrays))

    def sum_terms(self, terms: Sequence[Sequence[HostArray]]) -> list[HostArray]:
        if self._inner is None:  # of a worker that has yet to join the others
            return add_terms(terms)
        total = self.share.total
        counts = [share.count for share in shares_of(total, len(self.names))]
        if self._in_order or counts[0] == 1:
            return self._collective(lambda workers: workers.sum_in_order(terms, counts), [])
        sums = add_terms(terms)
        return self._collective(lambda workers: workers.all_reduce(sums), sums)

    @property
    def reporter(self) -> Callable[..., None] | None:
        return self._roster.report

    @contextlib.contextmanager
    def supervised(self, start_secs: float = START_SECS, *, doing: str = "a step") -> Iterator[None]:
        self._start_secs, self._doing = start_secs, doing
        try:
            with self.reporting(TaskState.STARTING):
                yield
        except BaseException as exc:
            self._ending.fail(exc)
            raise
        finally:
            self._doing = ""

    @contextlib.contextmanager
    def reporting(self, state: TaskState) -> Iterator[None]:
        with self._roster.reporting(state):
            yield

    def end_early(self, rank: int, number: int) -> None:
        write_termination(self._task, f"{self._task} was told to end: it got {signal.Signals(number).name}.")
        self._ending.agreed = True

    def require_equal(self, subject: str, values: Sequence[str]) -> None:
        # Those who come later compile by themselves, when the others have done so.
        if not self._has_begun:
            super().require_equal(subject, values)

    def note_program(self, shapes: str, text: str) -> None:
        self._programs.note(shapes, text)

    @contextlib.contextmanager
    def taking_in(self) -> Iterator[None]:
        """Let others join while the block runs, which is a loop of steps."""
        self._roster.tell_group(TakesIn(True))
        try:
            yield
        finally:
            self._roster.tell_group(TakesIn(False))

    def require_member(self, doing: str) -> None:
        """Stand by until the job ends, and end, if this worker has come too late for what the others do.

        Args:
            doing: What nobody can join, such as ``evaluate``.
        """
        if self.joins:
            self.stand_by(f"nobody can join them in {doing}")

    def stand_by(self, reason: str) -> NoReturn:
        """Leave the others if this worker is among them, wait until they have ended, and end."""
        _log.warning("%s stands by until the others end: %s.", self._task, reason)
        self._leave_group()
        while any(record.base is not None for record in self._roster.group_records().values()):
            self._roster.wait_until(lambda: False, _POLL_SECS)
        self._ending.agreed = True  # it has not failed
        raise SystemExit(0)

    @functools.cached_property
    def in_loops(self) -> Workers:
        return LoopWorkers(self, self._roster, self.share.total)

    def stepped(self, step: Callable[[], _Result]) -> _Result:
        """Take a step of a loop of the user's; again, whenever workers are lost in it."""
        self.require_member("a loop of its own")
        self._doing = self._doing or "a loop"
        while True:
            try:
                with self.stepping(self._loop_steps):
                    result = step()
            except WorkersChangedError:
                continue
            self._loop_steps.count += 1
            return result

    @contextlib.contextmanager
    def stepping(self, loop: ReplicatedLoop) -> Iterator[None]:
        """Let a loop's steps be made again, and others join it, while the block runs.

        In the block collectives raise `WorkersChangedError` where the step under way is to be made again.

        Args:
            loop: The loop.
        """
        before = self._loop, self._last_loop  # a hook may run a function of its own
        self._loop = self._last_loop = loop
        self._has_begun = True
        try:
            yield
        finally:
            self._loop = before[0]
            if before[0] is not None:
                self._last_loop = before[1]

    def come_again(self, reason: str) -> NoReturn:
        """End with the code that launchers know: started again, this worker can join the others."""
        self._gave_up, self._has_newest = reason, False
        self._give_up()

    def expect_share(self) -> None:
        """Assume the replicas that this worker will have when it has joined the others, if none is lost."""
        bases = [record.base for record in self._roster.group_records().values() if record.base is not None]
        if self.joins and bases:
            count = min(1 + len(max(bases, key=lambda base: base.epoch).members), self.share.total)
            *_, last = shares_of(self.share.total, count)
            self.share.first, self.share.count = last.first, last.count

    @property
    def others_have_ended(self) -> bool:
        """Whether the others have come to the end of their programs without this worker."""
        return self._others_are_done

    def join(self) -> tuple[Any, list[HostArray]] | None:
        """Wait until the others let this worker in.

        Returns:
            What one of them gives; None if they have ended, or are where nobody can join them.
        """
        self._roster.tell_group(BecameReady())
        try:
            self._regroup()
        except _DoneError:
            return None
        self.joins = False
        return self._given

    def close(self) -> None:
        """Leave the others: they go on without this worker."""
        self._leave_group()

    def _leave_group(self) -> None:
        self._roster.tell_group(ProgramEnded())
        if self._inner is not None:
            self._inner.close()

    def _on_group(self, action: GroupAction) -> None:
        """Take what the membership has decided; the roster's thread calls this."""
        match action:
            case LeaveStep(reason):
                level = logging.DEBUG if self._loop is None else logging.INFO
                _log.log(level, "%s leaves the step: %s", self._task, reason)
                self._leaving = True
                if (inner := self._inner) is not None:
                    inner.interrupt()
            case EnterGroup(group):
                self._entered = group
                self._leaving = False
            case GiveUp(reason, has_newest, others_are_done):
                self._gave_up, self._has_newest, self._others_are_done = reason, has_newest, others_are_done
                if (inner := self._inner) is not None:
                    inner.interrupt()

    def _collective(self, call: Callable[[RosterWorkers], _Result], alone: _Result) -> _Result:
        """Make a collective; with others than before if they have changed, or leave the step."""
        if self._inner is None:  # of a worker that has yet to join the others
            return alone
        while True:
            try:
                self._require_no_change()
                result = call(self._inner)
                break
            except (PeerLostError, MissingPeerError) as exc:  # the latter: one is there, and stands still
                if not (self._has_begun and self._doing):
                    if not isinstance(exc, _LeftError):
                        raise
                    raise PeerLostError(
                        f"{self._task} cannot continue without those that have gone: a job can from its "
                        "first step on. Start it again."
                    ) from exc
                self._leave_step(exc)
                if self._regroup():
                    result = self._last
                    self._last = None
                    break
                if self._loop is not None:
                    raise WorkersChangedError from exc
        self._collectives += 1
        self._last = result
        return result

    def _require_no_change(self) -> None:
        """Raise an error if this worker is to leave what it does, since the workers change."""
        if self._leaving or self._gave_up:
            raise _LeftError("The workers change.")

    def _leave_step(self, reason: Exception) -> None:
        """Tell the membership that this worker is in no step, since a connection has broken or is to."""
        if not isinstance(reason, _LeftError):
            _log.debug("%s leaves a step: %s", self._task, reason)
        if self._inner is not None:
            self._inner.close()
        self._leaving = False
        self._roster.tell_group(LinkBroken(self._tried))
        self._roster.tell_group(StepLeft())

    def _regroup(self) -> bool:
        """Meet the next group; return whether the collective under way is done, with the result of others."""
        while True:
            group = self._wait_for_group()
            try:
                return self._meet(group)
            except PeerLostError as exc:
                self._leave_step(exc)

    def _wait_for_group(self) -> Group:
        with self._roster.reporting(TaskState.WAITING):
            said = 0.0
            while (group := self._entered) is None or group.epoch <= self._tried:
                if self._others_are_done:
                    raise _DoneError(self._gave_up)
                if self._gave_up:
                    self._give_up()
                if self._leaving:
                    self._leave_step(_LeftError("The workers change."))
                self._roster.wait_until(self._has_news, _POLL_SECS)
                now = time.monotonic()
                said = said or now  # not at once: mostly it is a moment
                if now - said > _SAY_SECS:
                    said = now + (0 if not self.joins else 10 * _SAY_SECS)
                    _log.log(logging.INFO if self.joins else logging.WARNING, "%s", self._waits_for())
        return group

    def _waits_for(self) -> str:
        if not self.joins:
            return f"{self._task} waits for other workers to go on with."
        bases = [record.base for record in self._roster.group_records().values() if record.base is not None]
        if any(len(base.members) == self.share.total for base in bases):
            return (
                f"{self._task} stands by: there are as many workers as virtual replicas. It takes the place "
                "of one that is lost."
            )
        return f"{self._task} waits for the others to let it in."

    def _has_news(self) -> bool:
        group = self._entered
        return self._leaving or bool(self._gave_up) or (group is not None and group.epoch > self._tried)

    def _give_up(self) -> NoReturn:
        """End this process with the code that launchers know: started again, it may join the others."""
        text = f"{self._task} cannot go on: {self._gave_up}"
        write_termination(self._task, text)
        if self._has_newest and self._loop is not None:
            self.rank = 0  # nobody else saves
            _log.critical("%s", text)
            self._ending.agreed = True
            raise lifecycle.Terminated(EXIT_PEER_LOST)
        if lifecycle.is_embedded():
            raise PeerLostError(text)
        lifecycle.exit_at_once(EXIT_PEER_LOST, lambda: _log.critical("%s", text))
        raise SystemExit(EXIT_PEER_LOST)  # not reached

    def _meet(self, group: Group) -> bool:
        """Connect to the members of a group, and agree with them on the next step.

        Returns:
            Whether another has given the result of the collective that is under way here.

        Raises:
            PeerLostError: A member is gone, or the group has changed.
        """
        self._tried = group.epoch
        own = Member(self._task, self._own_run(group))
        tasks = tuple(each.task for each in group.members)
        inner = RosterWorkers(
            self._roster, self._task, tasks, (self._start_secs, self._step_secs), each_to_each=True
        )
        inner.exchanged = self.exchanged
        if self._inner is not None:
            self._inner.close()
        self._inner = inner
        try:
            inner.connect(
                functools.partial(self._connections.dial, inner, group),
                functools.partial(self._connections.accept, group),
                self._step_secs,
            )
            steps = 0 if self._last_loop is None else self._last_loop.steps_taken()
            own_place = StepReached(steps, self._collectives, self._loop is not None, self.joins)
            told = [StepReached(*each) for each in inner.all_gather_object([*own_place])]
        except (MissingPeerError, ConnectionError) as exc:
            raise PeerLostError(f"{self._task} cannot meet the others: {exc}") from exc
        self._roster.tell_group(MembersMet(group))
        gets = self._compare(inner, told)
        self.rank, self.names = group.members.index(own), inner.names
        new = shares_of(self.share.total, inner.size)[self.rank]
        self.share.first, self.share.count = new.first, new.count
        self.epoch = group.epoch
        if self._has_begun or self.joins:
            names = ", ".join(inner.names)
            _log.info("%s goes on with %s, at step %s.", self._task, names, max(each.steps for each in told))
        return gets

    def _own_run(self, group: Group) -> str:
        return next(each.run for each in group.members if each.task == self._task)

    def _compare(self, inner: RosterWorkers, told: Sequence[StepReached]) -> bool:
        """Give results and states to those who lack them; return whether this worker got a result."""
        behind = behind_by_a_result(told)
        source = source_of(told)
        coming = [rank for rank, place in enumerate(told) if place.joins]
        if source is None:
            return False
        gets = inner.rank in behind
        if behind:
            given = inner.all_gather(
                packed_result(self._last) if inner.rank == source else np.empty(0, np.uint8)
            )
            if gets:
                self._last = unpacked_result(given[source])
        if coming:
            self._welcome(inner, source, coming)
        # All that make the step again begin with the same number; `_collective` counts a result that was got.
        self._collectives = told[source].collectives - gets
        return gets

    def _welcome(self, inner: RosterWorkers, source: int, coming: Sequence[int]) -> None:
        """Give those who come the state before the next step."""
        arrays: list[HostArray] = []
        meta: Any = None
        given = self._loop.give() if inner.rank == source and self._loop is not None else None
        if given is not None:
            value, arrays = given
            meta = [
                value,
                [[list(each.shape), each.dtype.name] for each in arrays],
                self._programs.to_json(),
            ]
        meta = inner.all_gather_object(meta)[source]
        if inner.rank in coming:
            self._given = None
            if meta is not None:
                self._programs.require_those(meta[2])
                self._given = meta[0], [np.empty(shape, np.dtype(name)) for shape, name in meta[1]]
                arrays = self._given[1]
        for rank in coming:
            if meta is not None and inner.rank in (source, rank):
                inner.send_between(source, rank, arrays)
