"""The batches of a worker beside parameter servers, without servers."""

import pytest

from muster._errors import JobEndedError
from muster.distribute.engine import NoMoreSteps, ServedState
from muster.distribute.engine._state_store import ArrayStore
from muster.distribute.servers import TicketedSteps


class Ended:
    """The servers of a job that the chief has ended."""

    fetches_ahead = False
    max_staleness = None
    upcoming = None

    def __init__(self, tickets):
        self.tickets = tickets

    def require_ticket(self):
        self.tickets -= 1
        if self.tickets < 0:
            raise NoMoreSteps

    def leave(self):
        raise JobEndedError("The chief has ended the job.")

    pull = leave

    def steps(self, batches):
        store = ArrayStore(ServedState(None, self, [], {}))
        return TicketedSteps(self).permitted(batches, store.renew)


@pytest.mark.parametrize("tickets", [2, 5])
def test_a_worker_that_has_no_step_to_make_needs_no_servers(tickets):
    job = Ended(tickets)
    assert len(list(job.steps(iter(range(3))))) == min(tickets, 3)


def test_the_next_batch_is_known_where_its_rows_can_be_fetched_ahead():
    def batches():
        yield from "abc"
        raise ValueError("the fourth is damaged")

    job = Ended(9)
    seen, given = [], job.steps(batches())
    for batch in iter(lambda: next(given), "c"):
        seen.append((batch, job.upcoming))
        job.fetches_ahead = True  # from the first step on
    assert (seen, job.upcoming) == ([("a", None), ("b", "c")], None)  # what comes after is an error
    with pytest.raises(ValueError, match="the fourth"):  # of its own step
        next(given)


@pytest.mark.parametrize("draws", [0, 1, 3])
def test_batches_that_are_drawn_while_servers_answer_come_in_their_order(draws):
    def batches():
        yield from "abcd"
        raise ValueError("the fifth is damaged")

    job = Ended(9)
    job.fetches_ahead = True
    seen, given = [], job.steps(batches())
    for _ in range(4):
        seen.append((next(given), job.upcoming))
        for _ in range(draws):
            job.draw()
    assert seen == [("a", "b"), ("b", "c"), ("c", "d"), ("d", None)]
    with pytest.raises(ValueError, match="the fifth"):
        next(given)


def test_the_end_of_the_data_comes_after_the_last_batch():
    job = Ended(9)
    job.fetches_ahead = True
    assert [(batch, job.upcoming) for batch in job.steps(iter("ab"))] == [
        ("a", "b"),
        ("b", None),
    ]
