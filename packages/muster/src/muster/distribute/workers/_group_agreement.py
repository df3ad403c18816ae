"""The agreement of workers on a group: who takes the next step together, from which state."""

import contextlib
import functools
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

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
    MemberPhase,
    Membership,
    MembersMet,
    ProgramEnded,
    Roster,
    StepLeft,
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
from muster.distribute.workers._elastic_loops import ReplicatedLoop
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
from muster.distribute.workers._workers import Exchanged, HostArray, ReplicaShare

_log = logging.getLogger(__name__)

# How long the first worker waits for more of them at the start, if there are enough, in seconds.
_GATHER_SECS = 10.0
# How long the workers that are left wait for others if they are too few, in seconds.
_PATIENCE_SECS = 600.0
POLL_SECS = 0.2
# How often a worker that waits says so, in seconds.
_SAY_SECS = 10.0
# Set by a launcher for a task that it has started again alone; how long it looks for the others, in seconds.
_STARTED_ALONE = "MUSTER_STARTED_ALONE"
_LATE_SECS = 60.0


class StepInterruptedError(PeerLostError):
    """A collective was left, since the workers change."""


class OthersDoneError(Exception):
    """The others have come to the end of their programs, before this worker could join them."""


class GroupAgreement:
    """Agrees with the other workers on a group, connects to its members, and brings all to the same step.

    The roster's thread runs the machine that decides, `muster.cluster.roster.Membership`, and leaves its
    actions here. All else is for the thread that takes steps.

    Args:
        cluster: The tasks that there may be, and their addresses.
        task: This task.
        tasks: The tasks that may train. The first one begins the job, with those who are there.
        share: Gets the replicas of this worker in each group.
        least: The least number of workers that go on.
        exchanged: What this process has exchanged with other tasks.
        on_place: Called with the rank of this worker and the names of all, in each new group.
        timeout_secs: As for `ClusterWorkers`.
        start_secs: How long to wait for the first group, in seconds.

    Attributes:
        roster: The roster of the job.
        ending: Ends this process.
        inner: The members of the last group, connected; None before the first one.
        loop: In whose step this worker is; None for none.
        last_loop: The last one that this worker was in.
        collectives: How many collectives this worker has completed.
        last: The result of the last one.
        has_begun: Whether it has taken a step, so that it can go on with others.
        joins: Whether it has yet to join a job that was under way when it came.
        epoch: That of the group that has met last.
        programs: What this worker has compiled.
        given: What another has given to this one, which joined.
        others_are_done: Whether the others have come to the end of their programs without this worker.
    """

    def __init__(
        self,
        cluster: ClusterSpec,
        task: Task,
        tasks: tuple[Task, ...],
        share: ReplicaShare,
        least: int,
        exchanged: Exchanged,
        on_place: Callable[[int, tuple[str, ...]], None],
        *,
        timeout_secs: float | None,
        start_secs: float,
    ) -> None:
        self._task, self._tasks, self._share = task, tasks, share
        self._exchanged, self._on_place = exchanged, on_place
        self._step_secs = timeout_secs or STEP_SECS
        self.start_secs = start_secs
        self._connections = GroupConnections(self.require_no_change)
        self._entered: Group | None = None  # by the roster's thread: the newest group
        self._gave_up = ""
        self._has_newest = self._leaving = False
        self._saves: lifecycle.Terminated | None = None  # lets the loop save, as nobody else does
        self._tried = 0  # the epoch of the last group that was to meet
        self.others_are_done = self.has_begun = self.joins = False
        self.inner: RosterWorkers | None = None
        self.loop: ReplicatedLoop | None = None
        self.last_loop: ReplicatedLoop | None = None
        self.collectives = self.epoch = 0
        self.last: Any = None
        self.programs = CompiledPrograms()
        self.given: tuple[Any, list[HostArray]] | None = None
        make = functools.partial(
            Membership,
            tasks=tasks,
            minimum=least,
            most=share.total,
            gather_secs=_GATHER_SECS,
            patience_secs=_PATIENCE_SECS,
            first_epoch=time.time_ns() // 1_000_000,  # later than those of the job's earlier runs
        )
        self.roster = Roster.from_environ(
            os.environ,
            cluster,
            task,
            handlers={PURPOSE: self._connections.put},
            heartbeat_secs=timeout_secs or SILENCE_SECS,
            elastic=make,
            on_group=self._on_group,
        )
        self.ending = JobEnding(self.roster, ())
        self.ending.workers = self

    def begin(self) -> bool:
        """Become a member of the first group; return False if there is one already."""
        self.roster.tell_group(BecameReady(founds=True))
        said = time.monotonic()
        # One that a launcher has started again is to join others. If they have ended, it has nothing to do.
        joins = bool(os.environ.get(_STARTED_ALONE)) and self._task != self._tasks[0]
        deadline = said + (min(_LATE_SECS, self.start_secs) if joins else self.start_secs)
        while True:
            if self.others_train:
                self.roster.tell_group(CameLate())
                _log.info("%s has come to a job that is under way.", self._task)
                return False
            if self._gave_up:
                self._give_up()
            if self._leaving:
                self.leave_step(StepInterruptedError("The workers change."))
            if (group := self._entered) is not None and group.epoch > self._tried:
                try:
                    self._meet(group)
                except PeerLostError as exc:
                    self.leave_step(exc)
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
                    f"{self._task} has waited {self.start_secs:.0f} s for the first workers. The first of "
                    f"them, {self._tasks[0]}, has to be there at the start."
                )
            with self.roster.reporting(TaskState.WAITING):
                self.roster.wait_until(self._has_news, POLL_SECS)

    def regroup(self) -> bool:
        """Meet the next group; return whether the collective under way is done, with the result of others.

        Raises:
            OthersDoneError: Of one that joins: they have come to the end of their programs.
        """
        while True:
            group = self._wait_for_group()
            try:
                return self._meet(group)
            except PeerLostError as exc:
                self.leave_step(exc)

    def require_no_change(self) -> None:
        """Raise an error if this worker is to leave what it does, since the workers change."""
        if self._leaving or self._gave_up:
            raise StepInterruptedError("The workers change.")

    def leave_step(self, reason: Exception) -> None:
        """Tell the membership that this worker is in no step, since a connection has broken or is to."""
        if not isinstance(reason, StepInterruptedError):
            _log.debug("%s leaves a step: %s", self._task, reason)
        if self.inner is not None:
            self.inner.close()
        self._leaving = False
        self.roster.tell_group(LinkBroken(self._tried))
        self.roster.tell_group(StepLeft())

    def close(self) -> None:
        """Leave the others: they go on without this worker."""
        self.roster.tell_group(ProgramEnded())
        if self.inner is not None:
            self.inner.close()

    def come_again(self, reason: str) -> NoReturn:
        """End with the code that launchers know: started again, this worker can join the others."""
        self._gave_up, self._has_newest = reason, False
        self._give_up()

    @contextlib.contextmanager
    def ending_no_guest(self) -> Iterator[None]:
        """Raise PeerLostError where the process is not to end with the code of a lost worker.

        Loops have saved before, as they do when a signal ends them.
        """
        try:
            yield
        except lifecycle.Terminated as exc:
            if exc is self._saves and lifecycle.is_embedded():
                raise PeerLostError(f"{self._task} cannot go on: {self._gave_up}") from exc
            raise

    @property
    def others_train(self) -> bool:
        """Whether others have a group."""
        return bool(self._bases())

    @property
    def size_of_others(self) -> int:
        """How many they are in their newest group; 0 without one."""
        return max(((each.epoch, len(each.members)) for each in self._bases()), default=(0, 0))[1]

    @property
    def place_of_others(self) -> int | None:
        """Give the place where the others train, as in `GroupRecord`; None if nobody trains."""
        records = self.roster.group_records()
        newest = max(self._bases(), key=lambda each: each.epoch, default=None)
        found = [records[each] for each in (newest.members if newest else ()) if each in records]
        return next((each.place for each in found if each.phase is not MemberPhase.LEFT), None)

    def _bases(self) -> list[Group]:
        records = self.roster.group_records().values()
        return [record.base for record in records if record.base is not None]

    def _on_group(self, action: GroupAction) -> None:
        """Take what the membership has decided; the roster's thread calls this."""
        match action:
            case LeaveStep(reason):
                level = logging.DEBUG if self.loop is None else logging.INFO
                _log.log(level, "%s leaves the step: %s", self._task, reason)
                self._leaving = True
                if (inner := self.inner) is not None:
                    inner.interrupt()
            case EnterGroup(group):
                self._entered = group
                self._leaving = False
            case GiveUp(reason, has_newest, others_are_done):
                self._gave_up, self._has_newest, self.others_are_done = reason, has_newest, others_are_done
                if (inner := self.inner) is not None:
                    inner.interrupt()

    def _wait_for_group(self) -> Group:
        with self.roster.reporting(TaskState.WAITING):
            said = 0.0
            while (group := self._entered) is None or group.epoch <= self._tried:
                if self.others_are_done:
                    raise OthersDoneError(self._gave_up)
                if self._gave_up:
                    self._give_up()
                if self._leaving:
                    self.leave_step(StepInterruptedError("The workers change."))
                self.roster.wait_until(self._has_news, POLL_SECS)
                now = time.monotonic()
                said = said or now  # not at once: mostly it is a moment
                if now - said > _SAY_SECS:
                    said = now + (0 if not self.joins else 10 * _SAY_SECS)
                    _log.log(logging.INFO if self.joins else logging.WARNING, "%s", self._waits_for())
        return group

    def _waits_for(self) -> str:
        if not self.joins:
            return f"{self._task} waits for other workers to go on with."
        if any(len(base.members) == self._share.total for base in self._bases()):
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
        if self._has_newest and self.loop is not None:
            self._on_place(0, (str(self._task),))  # nobody else saves
            _log.critical("%s", text)
            self.ending.agreed = True
            self._saves = lifecycle.Terminated(EXIT_PEER_LOST)
            raise self._saves
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
            self.roster, self._task, tasks, (self.start_secs, self._step_secs), each_to_each=True
        )
        inner.exchanged = self._exchanged
        if self.inner is not None:
            self.inner.close()
        self.inner = inner
        try:
            inner.connect(
                functools.partial(self._connections.dial, inner, group),
                functools.partial(self._connections.accept, group),
                self._step_secs,
            )
            steps = 0 if self.last_loop is None else self.last_loop.steps_taken()
            own_place = StepReached(steps, self.collectives, self.loop is not None, self.joins)
            told = [StepReached(*each) for each in inner.all_gather_object([*own_place])]
        except (MissingPeerError, ConnectionError) as exc:
            raise PeerLostError(f"{self._task} cannot meet the others: {exc}") from exc
        self.roster.tell_group(MembersMet(group))
        gets = self._compare(inner, told)
        rank = group.members.index(own)
        self._on_place(rank, inner.names)
        new = shares_of(self._share.total, inner.size)[rank]
        self._share.first, self._share.count = new.first, new.count
        self.epoch = group.epoch
        if self.has_begun or self.joins:
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
                packed_result(self.last) if inner.rank == source else np.empty(0, np.uint8)
            )
            if gets:
                self.last = unpacked_result(given[source])
        if coming:
            self._welcome(inner, source, coming)
        # All that make the step again begin with the same number; who makes collectives counts one it got.
        self.collectives = told[source].collectives - gets
        return gets

    def _welcome(self, inner: RosterWorkers, source: int, coming: Sequence[int]) -> None:
        """Give those who come the state before the next step."""
        arrays: list[HostArray] = []
        meta: Any = None
        given = self.loop.give() if inner.rank == source and self.loop is not None else None
        if given is not None:
            value, arrays = given
            meta = [
                value,
                [[list(each.shape), each.dtype.name] for each in arrays],
                self.programs.to_json(),
            ]
        meta = inner.all_gather_object(meta)[source]
        if inner.rank in coming:
            self.given = None
            if meta is not None:
                self.programs.require_those(meta[2])
                self.given = meta[0], [np.empty(shape, np.dtype(name)) for shape, name in meta[1]]
                arrays = self.given[1]
        for rank in coming:
            if meta is not None and inner.rank in (source, rank):
                inner.send_between(source, rank, arrays)
