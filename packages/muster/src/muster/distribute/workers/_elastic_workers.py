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
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, TypeVar

from muster import lifecycle
from muster._errors import MismatchError, MissingPeerError, PeerLostError
from muster.cluster import ClusterSpec, Task
from muster.cluster.roster import BecameReady, CameTo, TakesIn, TaskState, write_termination
from muster.distribute.workers._cluster_workers import RosterWorkers
from muster.distribute.workers._elastic_loops import (
    LoopSteps,
    LoopWorkers,
    ReplicatedLoop,
    WorkersChangedError,
)
from muster.distribute.workers._group_agreement import (
    POLL_SECS,
    GroupAgreement,
    OthersDoneError,
    StepInterruptedError,
)
from muster.distribute.workers._meeting import of_record, recorded, shares_of
from muster.distribute.workers._workers import (
    START_SECS,
    GiveState,
    HostArray,
    ReplicaShare,
    Workers,
    add_terms,
)

_log = logging.getLogger(__name__)

_Result = TypeVar("_Result")

_LOOP = "a loop"
# By what key the result of a call is announced to those who come later.
_RESULT = "result of call {}"
# How often a worker that waits says so, in seconds.
_SAY_SECS = 10.0


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

    Raises:
        MissingPeerError: There is no group in time.
        RosterError: The address of this task is taken, or another task does not match.
    """

    comes_and_goes = True
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
        self._task = task
        self._in_order = in_order
        self._doing = ""  # what can go on with others: a call of train or fit
        self._loop_steps = LoopSteps()
        self._places = self._place = 0
        self.rank, self.names = 0, (str(task),)
        self.share = ReplicaShare(0, 1, virtual_replicas)
        self._group = GroupAgreement(
            cluster,
            task,
            tasks,
            self.share,
            least,
            self.exchanged,
            self._take_place,
            timeout_secs=timeout_secs,
            start_secs=start_secs,
        )
        self._roster = self._group.roster
        self._ending = self._group.ending
        lifecycle.watch_program_end()
        with lifecycle.log_interrupt("Interrupted while waiting for the other tasks: nothing had begun."):
            self._group.joins = not self._group.begin()

    def _take_place(self, rank: int, names: tuple[str, ...]) -> None:
        self.rank, self.names = rank, names

    @property
    def joins(self) -> bool:
        """Whether the job was under way when this worker came: it has to `join` before its first step."""
        return self._group.joins

    @property
    def epoch(self) -> int:
        """That of the group that has met last. When it has changed, so have the replicas of this worker."""
        return self._group.epoch

    @property
    def is_chief(self) -> bool:
        """True if this is the first of those who are there; never for one that has yet to join them."""
        return self.rank == 0 and not self.joins

    def all_gather_object(self, value: Any) -> list[Any]:
        return self._collective(lambda workers: workers.all_gather_object(value), [value])

    def all_gather(self, array: HostArray) -> list[HostArray]:
        return self._collective(lambda workers: workers.all_gather(array), [array])

    def broadcast(self, arrays: Sequence[HostArray]) -> list[HostArray]:
        if self.has_joined_loop and self._doing == _LOOP:
            raise MismatchError(
                f"{self._task} has joined the others in their loop, and a step uses {len(arrays)} variables "
                "that are not in the Checkpoint whose state they have sent. Name all that steps use in it: "
                "models, optimizers, and metrics, too."
            )
        return self._collective(lambda workers: workers.broadcast(arrays), list(arrays))

    def all_reduce(self, arrays: Sequence[HostArray]) -> list[HostArray]:
        return self._collective(lambda workers: workers.all_reduce(arrays), list(arrays))

    def sum_terms(self, terms: Sequence[Sequence[HostArray]]) -> list[HostArray]:
        if self._group.inner is None:  # of a worker that has yet to join the others
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
        self._group.start_secs, self._doing = start_secs, doing
        try:
            with self._group.ending_no_guest(), self.reporting(TaskState.STARTING):
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
        if not self._group.has_begun:
            super().require_equal(subject, values)

    def note_program(self, shapes: str, text: str) -> None:
        self._group.programs.note(shapes, text)

    @contextlib.contextmanager
    def taking_in(self) -> Iterator[None]:
        """Let others join while the block runs, which is a loop of steps."""
        self.come_to(self._place or self.next_place())
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
        self._group.close()
        while self._group.others_train:
            self._roster.wait_until(lambda: False, POLL_SECS)
        self._ending.agreed = True  # it has not failed
        raise SystemExit(0)

    @functools.cached_property
    def in_loops(self) -> Workers:
        return LoopWorkers(self, self._roster, self.share.total, self._loop_steps)

    def stepped(self, step: Callable[[], _Result]) -> _Result:
        """Take a step of a loop of the user's; again, whenever workers are lost in it."""
        if self.joins:
            self.stand_by(
                "nobody can join them in a loop of their own, unless each process calls `restore` of a "
                "CheckpointManager's Checkpoint before it, and draws from a distributed dataset"
            )
        self._loop_steps.require_same_batch()
        self._doing = self._doing or _LOOP
        while True:
            try:
                with self._group.ending_no_guest(), self.stepping(self._loop_steps):
                    result = step()
            except WorkersChangedError:
                continue
            self._loop_steps.count += 1
            return result

    def drew(self, source: object, digest: Callable[[], str]) -> None:
        loop = self._loop_steps
        if not loop.begins_step(source, digest):
            return
        self.come_to(loop.place)
        if not (loop.count and self._roster.others_wait):
            return
        loop.digest = digest
        try:
            with self.taking_in(), self.stepping(loop):
                try:
                    self._group.require_no_change()
                except StepInterruptedError as exc:
                    self._group.leave_step(exc)
                    self._group.regroup()
        finally:
            loop.digest = None

    def join_loop(self, give: GiveState) -> tuple[Any, list[HostArray]] | None:
        loop = self._loop_steps
        if loop.gives is not None:
            return None
        loop.gives, loop.place = give, self.next_place()
        if not self.joins or self.others_are_past(loop.place):
            return None
        about, arrays = self.join_at_work("when the workers changed once more")
        if "loop" not in about:
            self.come_again("It came to the loop when the others had left it.")
        self._doing, self._group.has_begun = _LOOP, True
        self.has_joined_loop = True
        return loop.take(about), arrays

    def next_place(self) -> int:
        """Return the number of the loop or call that begins, of those where others can join this worker."""
        self._places += 1
        return self._places

    def come_to(self, place: int) -> None:
        """Tell those who come where in the program they can join this worker; 0 for nowhere."""
        if place != self._place:
            self._place = place
            self._roster.tell_group(CameTo(place))

    def others_are_past(self, place: int) -> bool:
        """Wait until the others are where they can be joined; return whether that is later in the program."""
        said = time.monotonic()
        while (theirs := self._group.place_of_others) == 0:
            self._roster.wait_until(lambda: False, POLL_SECS)
            if time.monotonic() - said > _SAY_SECS:
                said = time.monotonic()
                _log.info("%s waits until the others are where it can join them.", self._task)
        return theirs is not None and theirs > place

    def note_result(self, place: int, result: Any) -> None:
        """Keep the result of a call that has ended, for workers that come later and leave it out.

        Args:
            place: The number of the call, among the places where others can join.
            result: The result, a plain value such as numbers and arrays of any shape and numeric dtype. If it
                is not, or there is no room for more, those who come stand by.
        """
        try:
            self._roster.announce(_RESULT.format(place), recorded(result))
        except (TypeError, ValueError) as exc:
            _log.info("Workers that come later cannot leave out what this one has just done: %s", exc)

    def result_at(self, place: int) -> Any:
        """Return the result of a call that the others have ended, and note it as theirs was.

        Raises:
            SystemExit: None of them has noted it.
        """
        key = _RESULT.format(place)
        for status in self._roster.statuses().values():
            if key in status.announcements:
                result = of_record(status.announcements[key])
                self.note_result(place, result)
                return result
        self.stand_by("they have not noted the result of a call that they have ended")

    @contextlib.contextmanager
    def stepping(self, loop: ReplicatedLoop) -> Iterator[None]:
        """Let a loop's steps be made again, and others join it, while the block runs.

        In the block collectives raise `WorkersChangedError` where the step under way is to be made again.

        Args:
            loop: The loop.
        """
        group = self._group
        before = group.loop, group.last_loop  # a hook may run a function of its own
        group.loop = group.last_loop = loop
        group.has_begun = True
        try:
            yield
        finally:
            group.loop = before[0]
            if before[0] is not None:
                group.last_loop = before[1]

    def come_again(self, reason: str) -> NoReturn:
        """End with the code that launchers know: started again, this worker can join the others."""
        self._group.come_again(reason)

    def expect_share(self) -> None:
        """Assume the replicas that this worker will have when it has joined the others, if none is lost."""
        if self.joins and (others := self._group.size_of_others):
            count = min(1 + others, self.share.total)
            *_, last = shares_of(self.share.total, count)
            self.share.first, self.share.count = last.first, last.count

    def join(self) -> tuple[Any, list[HostArray]] | None:
        """Wait until the others let this worker in.

        Returns:
            What one of them gives; None if they have ended, or are where nobody can join them.
        """
        self._roster.tell_group(BecameReady())
        try:
            self._group.regroup()
        except OthersDoneError:
            return None
        self._group.joins = False
        return self._group.given

    def join_at_work(self, when: str) -> tuple[Any, list[HostArray]]:
        """Wait until the others let this worker in; return what one of them gives.

        Args:
            when: When they cannot let it in, for the message.

        Raises:
            SystemExit: They have ended, or are where nobody can join them.
        """
        given = self.join()
        if given is not None:
            return given
        if self._group.others_are_done:
            self.stand_by("they have come to the end of their programs")
        self.come_again(f"It came when nobody could join the others, {when}.")

    def close(self) -> None:
        """Leave the others: they go on without this worker."""
        self._group.close()

    def _collective(self, call: Callable[[RosterWorkers], _Result], alone: _Result) -> _Result:
        """Make a collective; with others than before if they have changed, or leave the step."""
        group = self._group
        if group.inner is None:  # of a worker that has yet to join the others
            return alone
        while True:
            try:
                group.require_no_change()
                result = call(group.inner)
                break
            except (PeerLostError, MissingPeerError) as exc:  # the latter: one is there, and stands still
                if not (group.has_begun and self._doing):
                    if not isinstance(exc, StepInterruptedError):
                        raise
                    raise PeerLostError(
                        f"{self._task} cannot continue without those that have gone: a job can from its "
                        "first step on. Start it again."
                    ) from exc
                group.leave_step(exc)
                if group.regroup():
                    result = group.last
                    group.last = None
                    break
                if group.loop is not None:
                    raise WorkersChangedError from exc
        group.collectives += 1
        group.last = result
        return result
