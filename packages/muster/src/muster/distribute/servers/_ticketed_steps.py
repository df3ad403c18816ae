"""The steps of a worker beside parameter servers: one for each ticket, the right to make one global step."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from muster._errors import JobEndedError
from muster.distribute.engine import NoMoreSteps
from muster.distribute.input import BatchNumbers, Position, StepSource
from muster.distribute.servers._remote_servers import RemoteServers
from muster.ps import OPEN_TICKETS, SharedInput, tickets_in

# How many batches are read ahead at most: the next one, whose rows can be asked for, and the one after it.
_AHEAD = 2


class TicketedSteps(StepSource, BatchNumbers):
    """Lets a worker make a step with each ticket that the first server gives it.

    Where workers share a pass over the data, a ticket is also the number of its batch.

    Args:
        servers: The worker's connections to the servers.
    """

    shared = True

    def __init__(self, servers: RemoteServers) -> None:
        self._servers = servers
        self.numbers = self
        self.max_staleness = servers.max_staleness

    @property
    def global_step(self) -> int:
        return self._servers.global_step

    @global_step.setter
    def global_step(self, step: int) -> None:
        self._servers.global_step = step

    def begin(self, last_step: int | None) -> None:
        self._servers.begin(last_step)

    def permitted(self, batches: Iterator[Any], at_end: Callable[[], None]) -> Iterator[Any]:
        servers = self._servers
        following: deque[_Drawn] = deque()

        def draw() -> None:
            if len(following) < _AHEAD and not (following and following[-1].error):
                following.append(_drawn(batches))

        while True:
            try:
                servers.require_ticket()
            except NoMoreSteps:
                break
            drawn = following.popleft() if following else _drawn(batches)
            if drawn.error is not None:
                if not isinstance(drawn.error, StopIteration):
                    raise drawn.error
                with suppress(JobEndedError):
                    servers.leave()
                break
            servers.current, servers.upcoming, servers.draw = drawn.batch, None, None
            if servers.fetches_ahead:
                if not following:
                    draw()  # an error is that of the step that takes it
                servers.upcoming, servers.draw = following[0].batch, draw
            yield drawn.batch
        with suppress(JobEndedError):  # the chief was faster, which saves
            at_end()

    def look_up(self) -> int | None:
        return self._servers.look_up_step()

    def share(self, position: Position) -> None:
        if self.max_staleness == 0:
            raise ValueError(
                'max_staleness=0 and dispatch="dynamic" exclude each other: in a round all workers make the '
                "same step, and the step says which batch is read. Set max_staleness=1, or divide the data "
                "by hand: dataset.shard(...)."
            )
        (start,) = position.pipelines
        self._servers.shared = SharedInput(position=dict(start), begin=position.begin or 0)
        self._servers.open = position.open

    def share_nothing(self) -> None:
        self._servers.shared = None

    @property
    def position(self) -> Position:
        shared = self._servers.shared
        return Position() if shared is None else Position(pipelines=[shared.position], begin=shared.begin)

    def take(self) -> int:
        self._servers.require_ticket()
        return self._servers.ticket or 0

    def end_at(self, number: int) -> None:
        self._servers.end_at(number)

    def left_open(self, variables: Mapping[str, Any]) -> list[int]:
        tickets = variables.get(OPEN_TICKETS)
        return [] if tickets is None else [*tickets_in(tickets)]


class _Drawn(NamedTuple):
    """A batch, or what the input has raised in place of it, StopIteration at its end."""

    batch: Any = None
    error: Exception | None = None


def _drawn(batches: Iterator[Any]) -> _Drawn:
    """Draw the next batch."""
    try:
        return _Drawn(next(batches))
    except Exception as exc:
        return _Drawn(error=exc)
