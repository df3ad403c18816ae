"""The steps of a worker beside parameter servers: one for each ticket, the right to make one global step."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from muster._errors import JobEndedError
from muster.distribute.engine import NoMoreSteps
from muster.distribute.input import BatchNumbers, Position, StepSource
from muster.distribute.servers._remote_servers import RemoteServers
from muster.ps import OPEN_TICKETS, SharedInput, tickets_in


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
        servers, left = self._servers, _LookAhead(batches)
        while True:
            try:
                servers.require_ticket()
            except NoMoreSteps:
                break
            try:
                batch = left.take()
            except StopIteration:
                with suppress(JobEndedError):
                    servers.leave()
                break
            servers.current, servers.upcoming = batch, left.look() if servers.fetches_ahead else None
            yield batch
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


class _LookAhead:
    """Takes batches one by one, and may look at the next one before it is taken.

    Args:
        batches: The batches.
    """

    def __init__(self, batches: Iterator[Any]) -> None:
        self._batches = batches
        self._next: Any = None
        self._error: Exception | None = None

    def take(self) -> Any:
        """Return the next batch; raises what the input does, StopIteration at its end."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        batch, self._next = self._next, None
        return next(self._batches) if batch is None else batch

    def look(self) -> Any:
        """Return the batch that will be taken next, once it is here; None if there is none."""
        if self._next is None and self._error is None:
            try:
                self._next = next(self._batches)
            except Exception as exc:  # of the step that takes it, and not of the one before
                self._error = exc
        return self._next
