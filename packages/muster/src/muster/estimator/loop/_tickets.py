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
    while True:
        try:
            servers.require_ticket()
        except NoMoreSteps:
            break
        try:
            batch = next(batches)
        except StopIteration:
            with suppress(JobEndedError):
                servers.leave()
            break
        yield batch
    state = session.state
    if isinstance(state, ServedState):
        with suppress(JobEndedError):  # the chief was faster, which saves
            session.advance(state.renewed(), session.outputs, steps=0)
