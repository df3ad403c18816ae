"""The batches of a worker with parameter servers: one for each ticket, the permission for a step."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from muster._errors import JobEndedError
from muster.distribute.engine import NoMoreSteps, ServedState
from muster.distribute.servers import RemoteServers
from muster.estimator.session._session import Session


def with_tickets(batches: Iterator[Any], servers: RemoteServers, session: Session) -> Iterator[Any]:
    """Yield batches while there are steps to make for all workers together.

    Args:
        batches: The input of this worker.
        servers: Give the right to make a step.
        session: At the end it gets the values and the global step that all workers have come to, unless the
            chief has ended the job meanwhile.
    """
    left = _LookAhead(batches)
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
    state = session.state
    if isinstance(state, ServedState):
        with suppress(JobEndedError):  # the chief was faster, which saves
            session.advance(state.renewed(), session.outputs, steps=0)


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
