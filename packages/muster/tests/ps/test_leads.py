"""No worker is more than so many steps ahead of the slowest: who may begin a step."""

from hypothesis import given
from hypothesis import strategies as st

from muster.ps._step_scheduler import StalenessBound


def make(leads, task, steps, most=2):
    for _ in range(steps):
        assert leads.may_begin(task, most)
        leads.count(task)


def test_a_worker_waits_for_the_slowest():
    leads = StalenessBound()
    for task in "abc":
        assert leads.may_begin(task, 2)
    make(leads, "a", 2)
    make(leads, "b", 1)
    assert not leads.may_begin("a", 2)
    make(leads, "b", 1)
    make(leads, "c", 1)
    make(leads, "a", 1)
    assert not leads.may_begin("a", 2)


def test_a_worker_that_comes_late_starts_from_the_slowest():
    leads = StalenessBound()
    make(leads, "a", 7)
    make(leads, "b", 1)  # where a is
    assert leads.may_begin("a", 2)


def test_a_worker_that_is_gone_holds_nobody_and_comes_back_where_it_was_or_the_slowest_is():
    leads = StalenessBound()
    assert leads.may_begin("b", 2)
    make(leads, "a", 2)
    assert not leads.may_begin("a", 2)
    leads.leave("b")
    make(leads, "a", 5)
    make(leads, "b", 2)
    assert not leads.may_begin("b", 2)
    leads.leave("b")
    assert not leads.may_begin("b", 2)  # to leave is no way to get ahead


@given(
    st.integers(1, 3),
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["step", "leave"])), max_size=80),
)
def test_leads_stay_within_bounds_and_someone_may_always_begin(most, events):
    leads, made, present = StalenessBound(), [0] * 3, set()
    for worker, what in events:
        if what == "leave":
            leads.leave(str(worker))
            present.discard(worker)
            continue
        if worker not in present:
            made[worker] = max([made[worker], *([min(made[each] for each in present)] if present else [])])
        present.add(worker)
        if leads.may_begin(str(worker), most):
            leads.count(str(worker))
            made[worker] += 1
            assert made[worker] - min(made[each] for each in present - {worker} or {worker}) <= most
        assert any(leads.may_begin(str(each), most) for each in present)
