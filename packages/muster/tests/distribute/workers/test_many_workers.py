"""More workers than exchange directly: rings of neighbours, in threads with real connections."""

import threading

import numpy as np
import pytest

from linked import SECS, together
from muster._errors import MismatchError, MissingPeerError, PeerLostError
from muster.distribute.workers import _schedules as schedules
from muster.distribute.workers._socket_workers import SocketWorkers
from muster.distribute.workers._waiting import find_late

pytestmark = pytest.mark.alone

SMALL, LARGE = 100, 100_003


class Told:
    """What workers say for whom they wait, which the roster passes on in a job."""

    def __init__(self):
        self.awaited = {}

    def workers(self, *arguments):
        told = self

        class Telling(SocketWorkers):
            def _awaited_by(self, rank):
                return told.awaited.get(rank, frozenset())

            def _report_waiting(self, awaited):
                told.awaited[self.rank] = frozenset(awaited)

        return Telling(*arguments)


@pytest.mark.parametrize("count", [5, 6, 8, 13])
@pytest.mark.parametrize("length", [0, 1, SMALL, LARGE])
def test_sums_are_equal_on_all_workers(count, length):
    random = np.random.default_rng(length)
    given = [[random.normal(size=length).astype(np.float32), random.integers(0, 9, 5)] for _ in range(count)]
    results = together(count, lambda link: link.all_reduce(given[link.rank]))
    for total, number in results:
        assert total.tobytes() == results[0][0].tobytes()
        np.testing.assert_array_equal(number, sum(each[1] for each in given))
    np.testing.assert_allclose(results[0][0], sum(each[0] for each in given), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("length", [10, 57, 1000])
def test_values_are_gathered_and_taken_over(length):
    values = [["x" * length * rank, rank] for rank in range(7)]

    def work(link):
        told = link.all_gather_object(values[link.rank])
        rows = link.all_gather(np.full((link.rank, 2), link.rank, np.float32))
        small, large = (link.broadcast([np.full(size, link.rank + 1)])[0] for size in (SMALL, LARGE))
        return told, [row.shape for row in rows], {*small, *large}

    shapes = [(rank, 2) for rank in range(7)]
    assert together(7, work) == [(values, shapes, {1})] * 7


def test_a_worker_connects_to_its_neighbours_alone():
    connected = together(12, lambda link: link.all_gather_object(link.rank) and link._links.peers)
    assert connected == [schedules.neighbours(12, rank) for rank in range(12)]
    assert 0 < len(connected[0]) < 11


@pytest.mark.parametrize("length", [SMALL, LARGE])
@pytest.mark.parametrize("rounds", range(6))
def test_none_hangs_when_one_is_lost_in_the_middle(length, rounds):
    def work(link):
        if link.rank == 3:
            exchange, left = link._links.exchange, iter(range(rounds))

            def exchange_or_die(*arguments):
                if next(left, None) is None:
                    raise LookupError("died")
                exchange(*arguments)

            link._links.exchange = exchange_or_die
        for _ in range(8):
            link.all_reduce([np.ones(length, np.float32)])

    results = together(7, work)
    assert isinstance(results.pop(3), LookupError)
    assert {type(error) for error in results} == {PeerLostError}
    assert any("worker 3 has broken off" in str(error) for error in results)


@pytest.mark.parametrize("length", [SMALL, LARGE])
def test_who_only_waits_for_another_is_not_blamed(length):
    told = Told()
    given_up = threading.Barrier(9, timeout=SECS)

    def work(link):
        try:
            return None if link.rank == 5 else link.all_reduce([np.ones(length, np.float32)])
        finally:
            given_up.wait()

    def patience(rank):
        return 0.0 if len(told.awaited) == 8 else None

    results = together(9, work, patience, told.workers)
    assert results.pop(5) is None
    for error in results:
        assert isinstance(error, MissingPeerError)
        assert error.peers == ("worker 5",)
        assert " s for worker 5, " in str(error)
    assert any("for whom worker" in str(error) for error in results)
    assert any("to whom it is connected" in str(error) for error in results)


def test_who_waits_no_more_says_so():
    told = Told()
    both_wait = threading.Event()

    def work(link):
        if link.rank == 1:
            assert both_wait.wait(SECS)
        link.all_gather_object(0)

    def patience(rank):
        if told.awaited:
            both_wait.set()

    together(2, work, patience, told.workers)
    assert told.awaited == {0: frozenset()}


@pytest.mark.parametrize("lengths", [(SMALL, SMALL + 1), (LARGE, LARGE + 1), (SMALL, LARGE)])
def test_workers_at_different_points_are_told_so(lengths):
    results = together(6, lambda link: link.all_reduce([np.ones(lengths[link.rank == 2], np.float32)]))
    assert {type(error) for error in results} <= {MismatchError, PeerLostError}
    assert any("not at the same point" in str(error) for error in results)


@pytest.mark.parametrize(
    ("awaited", "chains", "late"),
    [
        ({1}, {}, {1}),
        ({1}, {1: {2}}, {2}),
        ({1, 3}, {1: {2}, 2: {4}}, {3, 4}),
        ({1}, {1: {2, 3}, 2: {3}}, {3}),
        ({1}, {1: {0}}, {1}),  # each waits for the other
        ({1}, {1: {2}, 2: {1}}, {1}),
        ({1}, {1: {0, 2}}, {2}),
    ],
)
def test_who_is_late(awaited, chains, late):
    assert find_late(0, awaited, lambda rank: chains.get(rank, set())) == late
