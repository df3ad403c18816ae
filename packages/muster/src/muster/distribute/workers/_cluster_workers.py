"""The workers of a cluster: watched by the roster, connected to each other, and ended together."""

import atexit
import contextlib
import os
import queue
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Set
from typing import Protocol

import jax

from muster import lifecycle
from muster._errors import PeerEndedError, PeerLostError, RosterError, StrayPeerError
from muster.cluster import ClusterSpec, Task
from muster.cluster.roster import (
    ENDING,
    Roster,
    TaskState,
    exit_because_lost,
    write_termination,
)
from muster.distribute.workers._jax_runtime import connect_runtimes
from muster.distribute.workers._socket_workers import SocketWorkers
from muster.distribute.workers._workers import START_SECS
from muster.net import Connection, Hello

# How long another worker may be silent before it is given up, and how long it may take for a step while it
# answers, in seconds.
SILENCE_SECS = 30.0
STEP_SECS = 600.0
# How long a stuck worker may take to answer where its threads are, in seconds.
_STACKS_SECS = 5.0

# How long the news that a worker has come to its end may take, after its connection has broken, in seconds.
_NEWS_SECS = 2.0

# What connections between workers are for, in their greeting; how long one may take, and the pause before
# another attempt, in seconds.
PURPOSE = "collectives"
_DIAL_SECS = 10.0
_REDIAL_SECS = 0.2
# One worker may go on working when the others are done, for up to a week.
_END_SECS = 7 * 24 * 3600


class RosterWorkers(SocketWorkers):
    """Connects some tasks of a cluster, and asks the roster about those that keep this one waiting.

    Args:
        roster: The roster of the job.
        task: This task.
        tasks: The tasks that train, in the order of their ranks.
        secs: How long another worker may take: before its first step, and for a later one, in seconds.
        each_to_each: Whether each is connected to all others, however many there are.
    """

    def __init__(
        self,
        roster: Roster,
        task: Task,
        tasks: tuple[Task, ...],
        secs: tuple[float, float],
        *,
        each_to_each: bool = False,
    ) -> None:
        self._roster, self._tasks = roster, tasks
        self._start_secs, self._step_secs = secs
        names = [str(each) for each in tasks]
        super().__init__(tasks.index(task), names, self._patience_with, each_to_each=each_to_each)

    def dial(self, rank: int) -> Connection:
        """Connect to another worker, by its rank."""
        deadline = time.monotonic() + _DIAL_SECS
        while True:
            left = max(_REDIAL_SECS, deadline - time.monotonic())
            try:
                return self._roster.connect(self._tasks[rank], PURPOSE, left)
            except ConnectionError:
                # It was reached before. If many strangers call there, it may have dropped this one of them.
                if time.monotonic() + _REDIAL_SECS > deadline:
                    raise
            time.sleep(_REDIAL_SECS)

    def _patience_with(self, rank: int) -> float | None:
        """Return how long a worker in the state that it reports may keep this one waiting, in seconds."""
        if (status := self._roster.statuses().get(self._tasks[rank])) is None:
            return self._step_secs
        state = status.progress.state
        match state:
            case TaskState.STARTING | TaskState.WAITING:
                return self._start_secs
            case TaskState.EVALUATING | TaskState.SAVING if self._roster.progress.state != state:
                return None  # the chief does that, and it may take long
            case _:
                return self._step_secs

    def _awaited_by(self, rank: int) -> frozenset[int]:
        if (status := self._roster.statuses().get(self._tasks[rank])) is None:
            return frozenset()
        named = status.progress.waits_for.split(", ")
        return frozenset(other for other, name in enumerate(self.names) if name in named)

    def _report_waiting(self, awaited: Set[int]) -> None:
        self._roster.report(waits_for=", ".join(self.names[rank] for rank in sorted(awaited)))

    def _stacks_of(self, rank: int) -> str:
        task = self._tasks[rank]
        try:
            return self._roster.stacks_of(task, _STACKS_SECS)
        except (OSError, StrayPeerError) as exc:
            return f"it does not say where: {exc}"


class ClusterWorkers(RosterWorkers):
    """Connects to the other tasks of a cluster, and their JAX runtimes where XLA's collectives are needed.

    From then on the workers watch each other. When one is gone, has failed or stands still, the others report
    it and end.

    Args:
        cluster: The tasks of the job and their addresses.
        task: This task.
        tasks: The tasks that train, in the order of their ranks.
        timeout_secs: How long another worker may be silent, and how long it may take for a step, in seconds;
            None for 30 s of silence, and ten minutes for a step.
        start_secs: How long to wait for the other tasks to come up, in seconds.

    Raises:
        RosterError: Another task does not come up, or does not match, or the address of this task is taken.
        MissingPeerError: A worker cannot be reached.
    """

    def __init__(
        self,
        cluster: ClusterSpec,
        task: Task,
        tasks: tuple[Task, ...],
        timeout_secs: float | None,
        start_secs: float = START_SECS,
    ) -> None:
        self._doing = "a step"
        self._reason = ""  # why another worker is lost
        self._is_connected = False
        self._callers: queue.SimpleQueue[tuple[Connection, Hello]] = queue.SimpleQueue()
        roster = Roster.from_environ(
            os.environ,
            cluster,
            task,
            handlers={PURPOSE: lambda connection, hello: self._callers.put((connection, hello))},
            heartbeat_secs=timeout_secs or SILENCE_SECS,
            on_lost=self._on_lost,
        )
        self._ending = JobEnding(roster, tasks)
        lifecycle.watch_program_end()
        with lifecycle.log_interrupt("Interrupted while waiting for the other tasks: nothing had begun."):
            roster.wait_for_all(start_secs)
        super().__init__(roster, task, tasks, (start_secs, timeout_secs or STEP_SECS))
        self.connect(self.dial, self._accept, start_secs)
        self._is_connected = True
        if self._reason:  # since then
            self.interrupt()
        self._ending.workers = self
        connect_runtimes(self, cluster.task_address(tasks[0].type, tasks[0].index))

    def _on_lost(self, task: Task, reason: str) -> None:
        """End this process, or where it is somebody else's the collective that is under way."""
        self._reason = reason
        exit_because_lost(task, reason)
        if self._is_connected:
            self.interrupt()

    def _accept(self, timeout_secs: float) -> tuple[int, Connection]:
        deadline = time.monotonic() + timeout_secs
        while True:
            try:
                connection, hello = self._callers.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty as exc:
                raise TimeoutError from exc
            if (task := self._roster.caller(hello)) is not None:
                return self._tasks.index(task), connection
            connection.close()  # of a process that was started by mistake, or before

    @property
    def reporter(self) -> Callable[..., None] | None:
        return self._roster.report

    @contextlib.contextmanager
    def supervised(self, start_secs: float = START_SECS, *, doing: str = "a step") -> Iterator[None]:
        self._start_secs = start_secs
        self._doing = doing
        try:
            with self.reporting(TaskState.STARTING):
                yield
        except BaseException as exc:
            self._ending.fail(exc)
            raise

    @contextlib.contextmanager
    def reporting(self, state: TaskState) -> Iterator[None]:
        with self._roster.reporting(state):
            yield

    def end_early(self, rank: int, number: int) -> None:
        task = self._tasks[rank]
        write_termination(task, f"{task} was told to end: it got {signal.Signals(number).name}.")
        super().end_early(rank, number)  # the chief has saved: from here on any worker may end
        self._ending.agreed = True

    def _lost(self, rank: int, error: OSError) -> PeerLostError:
        try:
            self._roster.lookup(self._tasks[rank], ENDING, _NEWS_SECS)
        except RosterError:  # no such news, or it is another that is lost
            if self._reason:
                return PeerLostError(self._reason)
            return super()._lost(rank, error)
        return ended_too_early(self.names[rank], self.names[self.rank], self._doing)


class SupportsClose(Protocol):
    """Has connections that are closed at the end."""

    def close(self) -> None:
        """Close all connections."""


class JobEnding:
    """Ends this process together with the others: reports an error or a clean end to them.

    After an error the process does not wait for the others. It skips JAX's shutdown, which would abort.

    Args:
        roster: The roster of the job.
        tasks: The tasks that train, and come to their end together; none if each does so by itself.

    Attributes:
        workers: The workers, closed at the end; None until they are connected.
        agreed: Whether all workers have agreed to end early, so that ending is no failure.
    """

    def __init__(self, roster: Roster, tasks: tuple[Task, ...]) -> None:
        self.workers: SupportsClose | None = None
        self.agreed = False
        self._roster = roster
        self._tasks = tasks
        self._code: int | None = None
        if not lifecycle.at_block_end(self._end_block):
            lifecycle.at_uncaught(self._uncaught)
            atexit.register(self._leave)

    def fail(self, error: BaseException) -> None:
        """Report an error to the others, unless the workers have agreed to end."""
        if self.agreed:
            return
        if isinstance(error, SystemExit):
            code = error.code
            self._code = code if isinstance(code, int) else 0 if code is None else 1
        else:
            self._code = _code_of(error)
        self._roster.fail(error)

    def _end_block(self, error: BaseException | None) -> None:
        """Leave the job at the end of a block of `lifecycle.embedded`, which this process goes on after."""
        try:
            if error is None and self._code is None:
                self._end_with_others()
            elif self.agreed:
                self._roster.done()
            elif error is not None and self._code is None:
                self._roster.fail(error)
        finally:
            if self.workers is not None:
                self.workers.close()
            self._roster.close()

    def _uncaught(self, error: BaseException) -> None:
        if not (self.agreed and isinstance(error, KeyboardInterrupt)):
            self._code = _code_of(error)
        if self._code is not None:
            self._end_failed(error, self._code)

    def _leave(self) -> None:
        if self._code is not None:
            self._exit(self._code)
        try:
            self._end_with_others()
        except RosterError as exc:
            self._end_failed(exc, 1)
        except KeyboardInterrupt as exc:  # which Python would only print here, and end with the exit code 0
            self._code = _code_of(exc)
            if not lifecycle.is_told(exc):
                traceback.print_exception(exc)
            self._end_failed(exc, self._code)

    def _end_with_others(self) -> None:
        """Wait until all have come to their end, so that this task ends as the job does."""
        if lifecycle.was_interrupted():
            raise KeyboardInterrupt
        if self.workers is not None:
            self._roster.announce(ENDING, True)
            self.workers.close()  # a worker that still waits for this one learns of it
            for task in self._tasks:
                self._roster.lookup(task, ENDING, _END_SECS)
        if jax.distributed.is_initialized():
            jax.distributed.shutdown()
        self._roster.done()
        self._roster.close()

    def _end_failed(self, error: BaseException, code: int) -> None:
        """Tell the others of an error, and end; Ctrl-C once more does not wait until they know."""
        with contextlib.suppress(KeyboardInterrupt):
            if self.agreed and isinstance(error, KeyboardInterrupt):
                self._roster.done()
            else:
                self._roster.fail(error)
        self._exit(code)

    def _exit(self, code: int) -> None:
        try:
            self._roster.close()
        finally:  # also if Ctrl-C comes once more
            lifecycle.leave(code)


def ended_too_early(peer: str, own: str, doing: str) -> PeerEndedError:
    """Return the error for a worker whose program has come to its end, while this one needs it.

    Args:
        peer: That worker.
        own: This worker.
        doing: What this worker does.
    """
    return PeerEndedError(
        f"{peer} has ended its program in the ordinary way (exit code 0), while {own} is in {doing} and "
        "needs it: all workers must call fit, evaluate and predict, and Estimators' train, alike and equally "
        "often, for as many epochs and steps.",
        (peer,),
    )


def _code_of(error: BaseException) -> int:
    """Return the exit code of a program that an error ends which is no SystemExit."""
    return 128 + signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
