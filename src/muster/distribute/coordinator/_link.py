"""A connection to one worker: what it is taught and asked, and whether it still runs."""

import contextlib
import select
import socket
import time
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from muster._arrays import dtype_named
from muster._errors import StrayPeerError
from muster._text import printable
from muster.distribute import closures as messages
from muster.distribute.coordinator._failures import error_of
from muster.distribute.coordinator._per_worker import is_used
from muster.distribute.coordinator._programs import ShippedProgram
from muster.distribute.coordinator._schedule import Schedule, Task
from muster.net import Connection, ProtocolError, drop_first
from muster.ps import Array, Incoming, allocate, encode
from muster.ps.updates import versions

# How long a worker may take to answer the first request, in seconds.
_BEGIN_SECS = 60.0
# A worker from which nothing comes for some time is asked whether it runs, and may take some to say so, in
# seconds. One that does not twice stands still.
_QUIET_SECS, _ASK_SECS = 5.0, 10.0
# What makes seeds of neighbours differ: an odd number of 32 bits, of which half are set.
_SPREAD = 0x9E3779B9


class Ask(Protocol):
    """Raises OSError or StrayPeerError if a worker's process does not answer within some seconds."""

    def __call__(self, timeout_secs: float, /) -> None: ...


class RefusedError(Exception):
    """The worker refuses this coordinator. The text is a clause.

    Args:
        text: The text.
        busy: Whether it has another one.
    """

    def __init__(self, text: str, busy: bool) -> None:
        super().__init__(text)
        self.busy = busy


class Link:
    """A connection to a worker, and what was sent there.

    Args:
        worker: The index of the worker.
        name: Its name and address.
        connection: The connection.
        ask: As of `Lane`.
        wake: A socket that becomes ready when a closure is to stop.
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
        self._incoming = Incoming(connection, messages.AnswerHeader, self._place)
        self._ask = ask
        self._unanswered = 0  # how often it was asked whether it runs, since it was heard of
        self._wake_in = wake
        self._schedule = schedule
        self._platform = ""
        self._programs: set[str] = set()
        self._own: set[str] = set()
        self._iterators: set[int] = set()
        self._expected: ShippedProgram | None = None
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)
        self._poll.register(wake, select.POLLIN)

    def serve(self, origin: str) -> None:
        """Have closures run until all ends."""
        self._send(messages.Begin(origin, versions()))
        ready, _ = self._hear(None, time.monotonic() + _BEGIN_SECS)
        if not isinstance(ready, messages.Ready):
            raise self._astray(ready)
        self._platform = ready.platform
        self._schedule.meet(self._worker)
        while (task := self._schedule.take(self._worker)) is not None:
            self._run(task)

    def _run(self, task: Task) -> None:
        """Have a closure run, by the program that fits the batches that it draws."""
        schedule, kind = self._schedule, task.closure.kind
        program = kind.program
        while True:
            try:
                name, encoded = program.encoded(self._platform)
                numbers = task.closure.grant.numbers_for(program.draws)
            except Exception as exc:
                return schedule.fail(self._worker, exc)
            self._teach(task, program, name, encoded)
            iterators = tuple(each.number for each in task.closure.iterators)
            run = messages.Run(task.number, name, iterators, task.watermark, task.generation, numbers)
            self._expected = program
            self._send(run, task.closure.arrays_of(self._worker))
            answer, arrays = self._hear(task.number)
            match answer:
                case messages.Ran():
                    task.closure.grant.end(program.draws)
                    return schedule.end(self._worker, program.finish, arrays)
                case messages.Failed():
                    return schedule.fail(self._worker, error_of(answer, self._name))
                case messages.Stopped():
                    return schedule.stop(self._worker)
                case messages.Drew(arrays=batches):
                    if schedule.stopping:
                        return schedule.stop(self._worker)
                    try:
                        program = kind.for_batches(batches)
                    except Exception as exc:  # of the user's function
                        return schedule.fail(self._worker, exc)
                case _:
                    raise self._astray(answer)

    def _teach(self, task: Task, program: ShippedProgram, name: str, encoded: bytes) -> None:
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

    def _hear(self, closure: int | None, deadline: float | None = None) -> tuple[Any, Sequence[Array]]:
        """Wait for the next answer; tell the worker once if the closure that it runs is to stop."""
        told = closure is None
        while True:
            try:
                answer, arrays = self._incoming.receive()
            except BlockingIOError:
                if not told and self._schedule.stopping and closure is not None:
                    self._send(messages.Stop(closure))
                    told = True
                self._wait(deadline)
                continue
            if isinstance(answer, messages.Refused):
                raise RefusedError(printable(answer.text), answer.busy)
            if closure is not None and getattr(answer, "closure", None) != closure:
                raise self._astray(answer)
            return answer, arrays

    def _wait(self, deadline: float | None) -> None:
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

    def _place(self, message: Any, sizes: Sequence[tuple[str, int]]) -> list[Array]:
        wanted: list[tuple[str, int]] = []
        if isinstance(message, messages.Ran) and self._expected is not None:
            wanted = [(kind.dtype, kind.size) for kind in self._expected.results]
        if [*map(tuple, sizes)] != wanted:
            raise ProtocolError(f"its {messages.name_of(message)} has other arrays than the program returns")
        return [allocate(size, dtype_named(name)) for name, size in sizes]

    def _astray(self, answer: Any) -> ProtocolError:
        return ProtocolError(f"its answer does not fit: {messages.name_of(answer)}")


def drain(sock: socket.socket) -> None:
    """Receive what has woken a thread."""
    with contextlib.suppress(BlockingIOError):
        sock.recv(1 << 12)


def _seed_of(worker: int, state: Array) -> Array:
    """Return the first state of a seed generator for a worker: the first one's as in one process."""
    return np.concatenate([state[:1] ^ np.asarray(worker * _SPREAD % 2**32, state.dtype), state[1:]])
