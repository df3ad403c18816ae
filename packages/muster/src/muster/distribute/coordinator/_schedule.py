"""The coordinator's schedule of closures, shared by scheduling threads and the threads of workers."""

import threading
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, NamedTuple

from muster._errors import CancelledError, DatasetError, OutOfRangeError
from muster.cluster.roster import RunningClock
from muster.distribute.coordinator._batch_lease import BatchLease
from muster.distribute.coordinator._per_worker import DispatchedIterator, PerWorkerIterator
from muster.distribute.coordinator._queue import ClosureQueue
from muster.distribute.coordinator._remote_value import RemoteValue, RemoteValueStatus
from muster.distribute.coordinator._traced_closure import TracedClosure
from muster.ps import Array

# How many closures may wait.
_LIMIT = 256 * 1024
# How long a call of a worker that does not answer may take, in seconds.
_LONGEST_CALL_SECS = 60.0
# A worker that will be busy for less than this is given more closures, so that it need not wait for them, in
# seconds; and how many at a time, at most.
_AHEAD_SECS = 0.02
_AHEAD = 64


class Closure(NamedTuple):
    """A function with its arguments, and where its result goes.

    Attributes:
        kind: The function, traced for arguments of this kind.
        arrays: The arrays of the arguments, flat: once for all workers, or for each.
        iterators: The iterators among the arguments.
        value: Takes the result.
        grant: The batches that it draws of iterators that workers share.
    """

    kind: TracedClosure
    arrays: Sequence[Sequence[Array]]
    iterators: tuple[PerWorkerIterator, ...]
    value: RemoteValue
    grant: BatchLease = BatchLease(())

    @property
    def own_iterators(self) -> tuple[int, ...]:
        """The numbers of the iterators that each worker has of its own."""
        return tuple(each.number for each in self.iterators if not isinstance(each, DispatchedIterator))

    def fail(self, error: BaseException) -> None:
        """Note that it has failed, or was cancelled, and has had no effect.

        Others draw its batches, unless their data is wrong: it would be again.
        """
        self.value.fail(error)
        if not isinstance(error, DatasetError):
            self.grant.give_back()

    def arrays_of(self, worker: int) -> Sequence[Array]:
        """Return the arrays of the arguments for a worker."""
        return self.arrays[worker if len(self.arrays) > 1 else 0]


class ScheduledClosure(NamedTuple):
    """A closure that a worker is to run.

    Attributes:
        number: The number of the closure.
        closure: The closure.
        watermark: The number below which all closures have ended.
        generation: See ``ClosureQueue``.
    """

    number: int
    closure: Closure
    watermark: int
    generation: int


class ClosureEnded(NamedTuple):
    """A closure that has run.

    Attributes:
        number: Its number.
        finish: Makes its result of arrays.
        arrays: The arrays.
    """

    number: int
    finish: Callable[[Sequence[Any]], Any]
    arrays: Sequence[Array]


class Schedule:
    """Hands closures to the threads of workers.

    Args:
        limit: How many closures may wait.
        max_staleness: How many closures may begin while another one runs; None for any number.
        workers: The indices of the workers.

    Attributes:
        ended: Notified when a closure has ended.
        closed: Whether no worker gets closures any more.
        finished: How many closures have run so far.
    """

    def __init__(
        self, limit: int = _LIMIT, max_staleness: int | None = None, workers: Collection[int] = ()
    ) -> None:
        lock = threading.Lock()
        self.ended = threading.Condition(lock)
        self.closed = False
        self.finished = 0
        self._added = threading.Condition(lock)
        self._settled = threading.Condition(lock)  # whoever joins need not wake at every end
        self._queue: ClosureQueue[Closure] = ClosureQueue(limit, max_staleness)
        self._waits_for_others = max_staleness is not None
        self._fatal: BaseException | None = None
        self._on_cancel: list[Callable[[], None]] = []
        self._clock = RunningClock(_LONGEST_CALL_SECS)
        self._present: set[int] = set()  # the workers that are connected
        self._gone: set[int] = set()  # those that were, and are lost
        self._workers = frozenset(workers)
        self._spent: set[tuple[int, int]] = set()  # workers, and iterators of which they have no batch left
        self._deserted_at: float | None = None  # when the last of them was lost

    @property
    def waiting(self) -> int:
        """The number of closures that wait for a worker."""
        return self._queue.waiting

    def on_cancel(self, wake: Callable[[], None]) -> None:
        """Call a function when closures that run are to stop, or all ends."""
        self._on_cancel.append(wake)

    def put(self, closure: Closure) -> None:
        """Add a closure; wait while too many are there.

        Raises:
            Exception: What an earlier closure has raised; this one is dropped.
            RuntimeError: The coordinator was closed.
        """
        with self.ended:
            self._raise_error()
            if self.closed:
                raise RuntimeError(
                    "This coordinator was closed, or its strategy: it schedules nothing any more. Make a new "
                    "strategy, and a coordinator of it."
                )
            while self._queue.full:
                self.ended.wait()
                self._raise_error()
            self._queue.put(closure)
            if self._spent and not self._can_run(closure):
                self._fail_spent()
                self._notify_ended()
            if self._spent:
                self._added.notify_all()
            else:
                self._added.notify()

    def join(self) -> None:
        """Wait until all closures have ended.

        Raises:
            Exception: What one of them has raised.
        """
        with self.ended:
            self._settled.wait_for(lambda: self._queue.idle or self._has_error)
            self._raise_error()
            self._queue.renew()

    def wait_for_room(self, limit: int) -> None:
        """Wait until fewer closures wait or run than a limit; raises as `join` does."""
        with self.ended:
            self.ended.wait_for(lambda: self._queue.unfinished < limit or self._has_error)
            self._raise_error()

    def wait_for(self, value: RemoteValue) -> None:
        """Wait until the closure of a result has ended; raises as `join` does."""
        with self.ended:
            self.ended.wait_for(lambda: value.status is RemoteValueStatus.READY or self._has_error)
            self._raise_error()

    def cancel(self) -> None:
        """Cancel all closures, and wait until none runs; an error that nobody has heard of is forgotten."""
        with self.ended:
            self._cancel()
            self._queue.taken_error()

    def done(self) -> bool:
        """Return whether all closures have ended; raises as `join` does."""
        with self.ended:
            self._raise_error()
            if self._queue.idle:
                self._queue.renew()
            return self._queue.idle

    def renew(self) -> None:
        """Let closures that begin from now on see all that was assigned to variables until now."""
        with self.ended:
            self._queue.renew()

    def meet(self, worker: int) -> None:
        """Note that a worker is connected."""
        with self.ended:
            self._present.add(worker)
            self._gone.discard(worker)
            self._deserted_at = None

    @property
    def deserted_secs(self) -> float:
        """The seconds since the last worker was lost, while there is none; read about once a second."""
        now = self._clock()
        return 0.0 if self._deserted_at is None else now - self._deserted_at

    def take(self, worker: int, busy_secs: float | None) -> list[ScheduledClosure] | None:
        """Return closures for a worker to run, one after the other; None when all ends.

        Args:
            worker: The worker.
            busy_secs: How long those will take that it has, in seconds; None if it has none, and one is to be
                waited for.
        """
        with self._added:
            while not self.closed:
                if (taken := self._taken(worker, busy_secs)) or busy_secs is not None:
                    return taken
                self._added.wait()
        return None

    def _taken(self, worker: int, busy_secs: float | None) -> list[ScheduledClosure]:
        """Take no more than a worker's share of what waits, and nothing behind a closure that takes long."""
        queue, tasks = self._queue, list[ScheduledClosure]()
        most = min(_AHEAD, max(1, queue.waiting // max(1, len(self._present))))
        while len(tasks) < most and (busy_secs is None or busy_secs < _AHEAD_SECS):
            may_run = partial(self._has_batches, worker) if self._spent else None
            if (taken := queue.take(worker, may_run)) is None:
                break
            tasks.append(task := ScheduledClosure(*taken, queue.watermark, queue.generation))
            busy_secs = (busy_secs or 0.0) + task.closure.kind.secs
        return tasks

    @property
    def stopping(self) -> bool:
        """True if running closures must stop."""
        return self._queue.cancelling or self.closed

    def end(self, worker: int, ended: Sequence[ClosureEnded]) -> None:
        """Note the results of closures of a worker."""
        with self.ended:
            for number, finish, arrays in ended:
                self._queue.end(worker, number).value.end(finish, arrays)
            self.finished += len(ended)
            self._notify()

    def fail(self, worker: int, number: int, error: BaseException) -> None:
        """Note the error of a closure of a worker.

        One that finds no batch left of an iterator of the worker's own runs on a worker that has some: the
        iterator ends when no worker has, in whatever order theirs end.
        """
        with self.ended:
            own = self._queue.work(number).own_iterators
            if isinstance(error, OutOfRangeError) and own and not self.stopping:
                self._spent.update((worker, each) for each in own)
                if self._can_run(self._queue.work(number)):
                    self._queue.give_back(worker, [number])
                    self._added.notify_all()
                    return
            self._queue.end(worker, number, error).fail(error)
            if self._spent:
                self._fail_spent()
            self._notify()

    def _has_batches(self, worker: int, closure: Closure) -> bool:
        """Return whether a worker has batches left of the iterators of a closure, as far as is known."""
        return not any((worker, each) in self._spent for each in closure.own_iterators)

    def _can_run(self, closure: Closure) -> bool:
        """Return whether a worker has batches left for a closure, or one that has yet to come."""
        there = (self._workers | self._present) - self._gone
        return any(self._has_batches(worker, closure) for worker in there)

    def _fail_spent(self) -> None:
        """End what waits for batches that no worker has."""
        for number, closure in self._queue.waiting_work():
            if not self._can_run(closure):
                error = _no_batch_left()
                self._queue.fail_waiting(number, error).fail(error)

    def _cancellation_of(self, closure: Closure) -> BaseException:
        """Return the error of a closure that is cancelled: of one for which no worker has a batch, that."""
        if self._spent and closure.own_iterators and not self._can_run(closure):
            return _no_batch_left()
        return _cancelled()

    def stop(self, worker: int, number: int) -> None:
        """Note that a worker has stopped at a cancelled closure."""
        with self.ended:
            stopped = self._queue.end(worker, number)
            stopped.fail(self._cancellation_of(stopped))
            self._notify()

    def give_back(self, worker: int, numbers: Sequence[int]) -> None:
        """Let others run closures that a worker has not begun."""
        with self.ended:
            for cancelled in self._queue.give_back(worker, numbers):
                cancelled.fail(self._cancellation_of(cancelled))
            self._notify_ended()
            self._added.notify_all()

    def lose(self, worker: int) -> None:
        """Note that a worker is gone, with whatever it had."""
        with self.ended:
            self._present.discard(worker)
            self._gone.add(worker)
            self._spent = {each for each in self._spent if each[0] != worker}  # it begins its datasets anew
            if not self._present and self._deserted_at is None:
                self._deserted_at = self._clock()
            for cancelled in self._queue.lose(worker):
                cancelled.fail(_closed() if self.closed else self._cancellation_of(cancelled))
            if self._present and self._spent:
                self._fail_spent()
            self._notify_ended()
            self._added.notify_all()

    def fail_forever(self, error: BaseException) -> None:
        """Note that closures cannot be run: everybody who asks hears of it."""
        with self.ended:
            self._fatal = error
            for closure in self._queue.cancel():
                closure.fail(error)
            self._notify_ended()

    def close(self) -> None:
        """Let the threads of workers end."""
        with self.ended:
            self.closed = True
            for closure in self._queue.cancel():
                closure.fail(_closed())
            self._notify_ended()
            self._added.notify_all()
        self._wake()

    @property
    def _has_error(self) -> bool:
        return self._queue.failed or self._fatal is not None

    def _notify_ended(self) -> None:
        self.ended.notify_all()
        if self._queue.idle or self._has_error:
            self._settled.notify_all()

    def _notify(self) -> None:
        self._notify_ended()
        if self._waits_for_others:
            self._added.notify_all()

    def _wake(self) -> None:
        for wake in self._on_cancel:
            wake()

    def _cancel(self) -> None:
        for closure in self._queue.cancel():
            closure.fail(self._cancellation_of(closure))
        self._notify_ended()
        self._wake()
        self.ended.wait_for(lambda: not self._queue.cancelling)
        self._added.notify_all()
        self._queue.renew()

    def _raise_error(self) -> None:
        """Cancel everything, and raise the error that nobody has heard of yet, if there is one."""
        if self._queue.failed:
            self._cancel()
        error = self._queue.taken_error() or self._fatal
        if error is not None:
            raise error.with_traceback(None)


def _no_batch_left() -> OutOfRangeError:
    return OutOfRangeError("End of sequence: no worker has a batch left.")


def _cancelled() -> CancelledError:
    return CancelledError(
        "This function was cancelled, since another one had failed whose error was raised by the coordinator."
    )


def _closed() -> CancelledError:
    return CancelledError("This function was cancelled, since its coordinator was closed before it had run.")
