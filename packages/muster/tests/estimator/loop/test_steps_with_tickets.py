"""The batches of a worker beside parameter servers, without servers."""

import pytest

from muster._errors import JobEndedError
from muster.distribute.engine import NoMoreSteps, ServedState
from muster.estimator.loop._tickets import with_tickets


class Ended:
    """The servers of a job that the chief has ended, and a session."""

    def __init__(self, tickets):
        self.tickets = tickets
        self.state, self.outputs = ServedState(None, self, [], {}), {}

    def require_ticket(self):
        self.tickets -= 1
        if self.tickets < 0:
            raise NoMoreSteps

    def leave(self):
        raise JobEndedError("The chief has ended the job.")

    pull = leave

    def advance(self, state, outputs, steps):
        raise AssertionError("there are no new values")


@pytest.mark.parametrize("tickets", [2, 5])
def test_a_worker_that_has_no_step_to_make_needs_no_servers(tickets):
    job = Ended(tickets)
    assert len(list(with_tickets(iter(range(3)), job, job))) == min(tickets, 3)
