"""However workers come, go and come again, each global step is made exactly once."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from ps_rows import AddingDevice, as_buffer

from muster.ps import _messages as messages
from muster.ps._applied import Applied
from muster.ps._machine import Machine
from muster.ps._messages import Caller
from muster.ps._plan import Plan, fingerprint
from muster.ps._replies import Asked, Lost
from muster.ps._tickets import Tickets


def test_numbers_go_up_and_lost_ones_come_first():
    tickets = Tickets(3)
    assert [tickets.ticket(who, None) for who in "abca"] == [3, 4, 5, 3]
    tickets.give_back("b")
    tickets.give_back("a")
    assert [tickets.ticket(who, None) for who in "def"] == [3, 4, 6]


@pytest.mark.parametrize("max_steps", [0, 2])
def test_no_steps_are_left_from_the_start(max_steps):
    tickets = Tickets(2)
    assert tickets.ticket("a", max_steps) is None
    assert tickets.finished(max_steps)


def test_what_is_open_is_given_out_again_by_whoever_goes_on():
    tickets = Tickets(3)
    assert [tickets.ticket(who, None) for who in "abc"] == [3, 4, 5]
    assert tickets.finish("b", 4, None)
    tickets.give_back("c")
    assert (tickets.step, tickets.open) == (4, (3, 5))
    again = Tickets(tickets.step, tickets.open)
    assert [again.ticket(who, None) for who in "def"] == [3, 5, 6]


@pytest.mark.parametrize("exact", [False, True])
def test_a_late_step_takes_another_place_unless_its_number_says_what_it_computes(exact):
    tickets = Tickets(exact=exact)
    assert [tickets.ticket(who, None) for who in "ab"] == [0, 1]
    tickets.give_back("a")
    assert tickets.finish("a", 0, None)  # nobody has begun it
    assert tickets.open == (1,)
    assert tickets.ticket("c", None) == 2
    tickets.give_back("c")
    assert tickets.ticket("d", None) == 2
    assert tickets.finish("c", 2, None) is not exact
    assert tickets.finish("d", 2, None)
    assert tickets.open == (1,)
    assert tickets.step == (2 if exact else 3)


@given(st.integers(0, 8), st.sets(st.integers(-2, 9), max_size=4), st.lists(st.integers(-2, 20), max_size=20))
def test_steps_that_come_with_their_tickets_count_once(start, left, tickets):
    """Some that were given out were not made when others began to count, and may come yet."""
    assume(all(number < start + len(left) for number in left))
    applied = Applied.except_for(left, start)
    made = set(range(-3, start + len(left))) - left
    assert applied.count == start
    for number in tickets:
        assert applied.add(number) == (number not in made)
        made.add(number)
        assert applied.count == start + len(made) - len(set(range(-3, start + len(left))) - left)
        assert applied.open == tuple(sorted(set(range(-3, max(made))) - made))


class Worker:
    """A worker between steps, or in one, that loses its connection at any time and asks again."""

    def __init__(self, machine, plan, index, max_steps):
        self.machine, self.plan, self.max_steps, self.round = machine, plan, max_steps, None
        self.caller = Caller(f"worker {index}", "run")
        self.sequence, self.ticket, self.outstanding, self.done = 0, None, None, False
        self.join()

    def join(self):
        request = messages.Join(plan=fingerprint(self.plan), starts=self.caller.task == "worker 0")
        return self.machine.handle([Asked(self.caller, request, [])], 0.0)

    def ask(self):
        if self.outstanding is None and not self.done:
            if self.ticket is None:
                self.outstanding = messages.TakeTicket(max_steps=self.max_steps)
            else:
                self.sequence += 1
                self.outstanding = messages.Push(
                    number=self.sequence,
                    ticket=self.ticket,
                    round=self.round,
                    wants=True,
                    max_steps=self.max_steps,
                )
            return self.machine.handle([Asked(self.caller, self.outstanding, [])], 0.0)
        return []

    def come_again(self, was_lost):
        replies = self.machine.handle([Lost(self.caller)], 0.0) if was_lost else []
        replies += self.join()
        if self.outstanding is not None:
            replies += self.machine.handle([Asked(self.caller, self.outstanding, [])], 0.0)
        return replies

    def hear(self, message):
        assert not isinstance(message, messages.Refused), message
        if isinstance(message, messages.Ticket):
            self.ticket, self.done = message.number, message.number is None
        elif isinstance(message, messages.Values):
            self.ticket, self.done = message.ticket, message.finished
        else:
            return
        self.round = message.round
        self.outstanding = None


@settings(max_examples=200)
@given(
    st.integers(0, 6),
    st.sampled_from([None, 0, 1, 2]),
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["ask", "lost", "joins", "unheard"])), max_size=60),
)
def test_never_more_than_max_steps_and_all_of_them(max_steps, max_staleness, events):
    plan = Plan(max_staleness=max_staleness)
    machine = Machine(AddingDevice(), name="ps 0", run="1", keeps_step=True, versions={})
    workers = [Worker(machine, plan, index, max_steps) for index in range(3)]
    chief = workers[0].caller
    machine.handle([Asked(chief, messages.Offer(), as_buffer(plan))], 0.0)
    machine.handle([Asked(chief, messages.Initialize(), [])], 0.0)

    def tell(replies, unheard=None):
        for reply in replies:
            if reply.caller != unheard:  # what was sent on a connection that breaks
                workers[int(reply.caller.task[-1])].hear(reply.message)

    for index, what in events:
        worker = workers[index]
        match what:
            case "ask":
                tell(worker.ask())
            case "unheard":
                tell(worker.ask(), unheard=worker.caller)
                tell(worker.come_again(was_lost=True))
            case _:
                tell(worker.come_again(was_lost=what == "lost"))
        assert step(machine, chief) <= max_steps
    for _ in range(3 * (max_steps + 2)):
        for worker in workers:
            tell(worker.ask())
    assert step(machine, chief) == max_steps
    assert all(worker.done for worker in workers)


def step(machine, caller):
    return machine.handle([Asked(caller, messages.Stats(), [])], 0.0)[0].message.step
