"""The coordinator's connection to one worker: sends programs and requests, and detects its loss."""

import builtins
import contextlib
import math
import select
import socket
import time
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from muster import _errors
from muster._arrays import dtype_named
from muster._errors import ClosureError, MusterError, StrayPeerError
from muster._text import printable
from muster.distribute import closures as messages
from muster.distribute.closures import Failed
from muster.distribute.coordinator._per_worker import is_used
from muster.distribute.coordinator._programs import ShippedProgram
from muster.distribute.coordinator._schedule import ClosureEnded, Schedule, ScheduledClosure
from muster.net import Connection, ProtocolError, drop_first
from muster.ps import Array, Incoming, allocate, encode
from muster.ps.contents.updates import versions


def error_of(failed: Failed, worker: str) -> Exception:
    """Return the error of a closure: of its class, if that is Python's or muster's.

    Args:
        failed: What the worker has said.
        worker: The name of the worker.
    """
    error = _made(failed)
    error.add_note(f"{worker} has raised it:\n{printable(failed.trace)}")
    return error


def _made(failed: Failed) -> Exception:
    text = printable(failed.text)
    name = failed.classes[0] if failed.classes else "an error"
    for kind in failed.classes:
        found = getattr(_errors, kind, None) or getattr(builtins, kind, None)
        if not (isinstance(found, type) and issubclass(found, Exception)) or found in (
            Exception,
            MusterError,
        ):
            continue
        if kind != name:
            text = f"{name}: {text}"
        try:
            return found(text)
        except TypeError:  # it takes other arguments, as UnicodeDecodeError does
            text = f"{name}: {text}"
    return ClosureError(f"{name}: {text}")


# How long a worker may take to answer the first request, in seconds.
_BEGIN_SECS = 60.0
# A worker from which nothing comes for some time is asked whether it runs, and may take some to say so, in
# seconds. One that does not twice stands still.
_QUIET_SECS, _ASK_SECS = 5.0, 10.0
# When what a worker runs takes this long, in seconds, others may run what it has not begun.
_OVERDUE_SECS = 0.1
# The most arrays in a frame, whose header describes each.
_MAX_ARRAYS = 1000
# What makes seeds of neighbours differ: an odd number of 32 bits, of which half are set.
_SPREAD = 0x9E3779B9


class Ask(Protocol):
    """Raises OSError or StrayPeerError if a worker's process does not answer within some seconds."""

    def __call__(self, timeout_secs: float, /) -> None: ...


class CoordinatorRefusedError(Exception):
    """The worker refuses this coordinator. The text is a clause.

    Args:
        text: The text.
        busy: Whether it has another one.
    """

    def __init__(self, text: str, busy: bool) -> None:
        super().__init__(text)
        self.busy = busy


class _Sent(NamedTuple):
    """A closure that the worker has, and the program by which it is to run it."""

    task: ScheduledClosure
    program: ShippedProgram


class WorkerConnection:
    """A connection to a worker, and what was sent there: the closures that it has run in turn.

    Args:
        worker: The index of the worker.
        name: Its name and address.
        connection: The connection.
        ask: As of `Lane`.
        wake: A socket that becomes ready when closures are to stop.
        schedule: Where the closures come from.
    """

    def __init__(
        self,
        worker: int,
        name: str,
        connection: Connection,
        ask: Ask,
        wake: socket.socket,
        schedule: Schedule,
    ) -> None:
        self._worker = worker
        self._name = name
        self._connection = connection
        self._incoming = Incoming(connection, messages.ReplyHeader, self._place)
        self._ask = ask
        self._unanswered = 0  # how often it was asked whether it runs, since it was heard of
        self._wake_in = wake
        self._schedule = schedule
        self._platform = ""
        self._programs: set[str] = set()
        self._own: set[str] = set()
        self._iterators: set[int] = set()
        self._sent: dict[int, _Sent] = {}  # what the worker has, by its number
        self._told_to_stop = False
        self._overdue = False  # what it runs takes longer than expected: nothing is sent ahead
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)
        self._poll.register(wake, select.POLLIN)

    def serve(self, origin: str) -> None:
        """Have closures run until all ends."""
        self._send(messages.Begin(origin, versions()))
        ready, _ = self._hear(time.monotonic() + _BEGIN_SECS)
        if not isinstance(ready, messages.Ready):
            raise self._astray(ready)
        self._platform = ready.platform
        self._schedule.meet(self._worker)
        while (tasks := self._schedule.take(self._worker, self._busy_secs)) is not None:
            self._run([(task, task.closure.kind.program) for task in tasks])
            if not self._sent:
                continue
            reply, arrays = self._hear()
            if not isinstance(reply, messages.Answers):
                raise self._astray(reply)
            self._note(reply.answers, arrays)
        if self._sent:
            raise ConnectionAbortedError("the coordinator has ended")

    @property
    def _busy_secs(self) -> float | None:
        """The estimated time of the worker's closures, in seconds; None without closures."""
        if self._overdue and self._sent:
            return math.inf
        return sum(sent.task.closure.kind.secs for sent in self._sent.values()) if self._sent else None

    def _run(self, given: Sequence[tuple[ScheduledClosure, ShippedProgram]]) -> None:
        """Send closures, each to run by a program."""
        runs: list[messages.RequestedClosure] = []
        arrays: list[Array] = []
        for task, program in given:
            try:
                name, encoded = program.encoded(self._platform)
                numbers = task.closure.grant.numbers_for(program.draws)
            except Exception as exc:
                self._schedule.fail(self._worker, task.number, exc)
                continue
            own = task.closure.arrays_of(self._worker)
            if runs and len(arrays) + len(own) > _MAX_ARRAYS:
                self._send(messages.RunClosures(tuple(runs)), arrays)
                runs, arrays = [], []
            self._teach(task, program, name, encoded)
            iterators = tuple([each.number for each in task.closure.iterators])
            asked = messages.RequestedClosure(
                task.number, name, iterators, task.watermark, task.generation, numbers
            )
            runs.append(asked)
            arrays += own
            self._sent[task.number] = _Sent(task, program)
        if runs:
            self._send(messages.RunClosures(tuple(runs)), arrays)

    def _note(self, answers: Sequence[messages.Answer], arrays: Sequence[Array]) -> None:
        """Note what has come of closures; send those again whose batches need another program."""
        schedule, left = self._schedule, iter(arrays)
        ran: list[ClosureEnded] = []
        again: list[tuple[ScheduledClosure, ShippedProgram]] = []
        back: list[int] = []
        for answer in answers:
            task, program = self._sent.pop(answer.closure)
            match answer:
                case messages.Ran(secs=secs):
                    task.closure.kind.secs = secs
                    task.closure.grant.end(program.draws)
                    ran.append(
                        ClosureEnded(task.number, program.finish, [next(left) for _ in program.results])
                    )
                case messages.Failed():
                    schedule.fail(self._worker, task.number, error_of(answer, self._name))
                case messages.Drew(arrays=batches) if not schedule.stopping:
                    try:
                        again.append((task, task.closure.kind.for_batches(batches)))
                    except Exception as exc:  # of the user's function
                        schedule.fail(self._worker, task.number, exc)
                case messages.ClosureStopped() if not schedule.stopping:
                    back.append(task.number)
                case messages.ClosureStopped() | messages.Drew():
                    schedule.stop(self._worker, task.number)
        if ran:
            schedule.end(self._worker, ran)
        if back:
            schedule.give_back(self._worker, back)
        self._run(again)
        self._told_to_stop = self._told_to_stop and bool(self._sent)
        self._overdue = self._overdue and len(back) == len(answers)

    def _teach(self, task: ScheduledClosure, program: ShippedProgram, name: str, encoded: bytes) -> None:
        """Send what the worker needs for a closure, and does not have yet."""
        if name not in self._programs:
            self._send(messages.Learn(name), [np.frombuffer(encoded, np.uint8)])
            self._programs.add(name)
            for variable, value in program.own:
                if variable not in self._own:
                    array = messages.ArrayKind(value.shape, str(value.dtype))
                    self._send(messages.Own(variable, array), [_seed_of(self._worker, value.reshape(-1))])
                    self._own.add(variable)
        for iterator in task.closure.iterators:
            if iterator.number in self._iterators:
                continue
            if gone := tuple(number for number in self._iterators if not is_used(number)):
                self._send(messages.Forget(gone))
                self._iterators.difference_update(gone)
            made = [np.frombuffer(iterator.dataset.pickled, np.uint8)]
            self._send(messages.Iterate(iterator.number, iterator.shared), made)
            self._iterators.add(iterator.number)

    def _send(self, message: Any, arrays: Sequence[Array] = ()) -> None:
        left = encode(message, arrays)
        while left:
            try:
                drop_first(left, self._connection.send(left))
            except BlockingIOError:
                try:
                    self._connection.wait(select.POLLOUT, time.monotonic() + _QUIET_SECS)
                except TimeoutError:
                    self._ask_whether_it_runs()

    def _hear(self, deadline: float | None = None) -> tuple[Any, Sequence[Array]]:
        """Wait for the next reply; tell the worker once if the closures that it has are to stop."""
        while True:
            try:
                reply, arrays = self._incoming.receive()
            except BlockingIOError:
                if self._sent and self._schedule.stopping and not self._told_to_stop:
                    self._send(messages.Stop(tuple(self._sent)))
                    self._told_to_stop = True
                self._wait(deadline)
                continue
            if isinstance(reply, messages.RequestRefused):
                raise CoordinatorRefusedError(printable(reply.text), reply.busy)
            return reply, arrays

    def _wait(self, deadline: float | None) -> None:
        if not self._overdue and len(self._sent) > 1 and not self._poll.poll(1000 * _OVERDUE_SECS):
            self._overdue = True
            self._send(messages.Stop(tuple(self._sent)[1:]))
        ready = self._poll.poll(1000 * _QUIET_SECS)
        if not ready:
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError("it does not answer in time")
            self._ask_whether_it_runs()
        for descriptor, _ in ready:
            if descriptor == self._wake_in.fileno():
                drain(self._wake_in)
        if self._schedule.closed:
            raise ConnectionAbortedError("the coordinator has ended")

    def _ask_whether_it_runs(self) -> None:
        """Raise TimeoutError if its process does not answer twice: if this one was itself suspended, only the
        first time is lost."""
        try:
            self._ask(_ASK_SECS)
        except (OSError, StrayPeerError) as exc:
            self._unanswered += 1
            if self._unanswered > 1:
                raise TimeoutError(f"it stands still or is cut off: {exc}") from exc
        else:
            self._unanswered = 0

    def _place(self, reply: Any, sizes: Sequence[tuple[str, int]]) -> list[Array]:
        wanted: list[tuple[str, int]] = []
        for answer in reply.answers if isinstance(reply, messages.Answers) else ():
            if (sent := self._sent.get(answer.closure)) is None:
                raise ProtocolError(f"it answers closure {answer.closure}, which it does not have")
            if isinstance(answer, messages.Ran):
                wanted += [(kind.dtype, kind.size) for kind in sent.program.results]
        if [*map(tuple, sizes)] != wanted:
            raise ProtocolError("its closures have other results than their programs return")
        return [allocate(size, dtype_named(name)) for name, size in sizes]

    def _astray(self, reply: Any) -> ProtocolError:
        return ProtocolError(f"its reply does not fit: {messages.name_of(reply)}")


def drain(sock: socket.socket) -> None:
    """Receive what has woken a thread."""
    with contextlib.suppress(BlockingIOError):
        sock.recv(1 << 12)


def _seed_of(worker: int, state: Array) -> Array:
    """Return the first state of a seed generator for a worker: the first one's as in one process."""
    return np.concatenate([state[:1] ^ np.asarray(worker * _SPREAD % 2**32, state.dtype), state[1:]])
