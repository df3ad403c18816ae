"""The link: workers tell and add what they have."""

import itertools
import socket
import threading
import time

import jax.numpy as jnp
import numpy as np
import pytest

from linked import SECS, together
from muster._errors import AuthenticationError, MismatchError, MissingPeerError, PeerLostError
from muster.distribute.workers._links import Links
from muster.distribute.workers._socket_workers import SocketWorkers
from muster.distribute.workers._workers import add_terms
from muster.net import Connection

pytestmark = pytest.mark.alone


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("length", [0, 1, 2, 7, 100_003])
def test_sums_are_equal_on_all_workers(count, length):
    rng = np.random.default_rng(length)
    given = [
        [rng.normal(size=length).astype(np.float32), rng.integers(0, 9, 5).astype(np.int32)]
        for _ in range(count)
    ]
    results = together(count, lambda link: link.all_reduce(given[link.rank]))
    expected = [sum(arrays[1:], start=arrays[0]) for arrays in zip(*given, strict=True)]
    for sums in results:
        for total, same in zip(sums, expected, strict=True):
            assert total.dtype == same.dtype
            np.testing.assert_array_equal(total, same)


@pytest.mark.parametrize("counts", [(1, 1), (3, 2), (2, 2, 1), (1, 1, 2, 1)])
@pytest.mark.parametrize("length", [1, 7, 100_003])
def test_sums_in_order_do_not_depend_on_who_has_which_terms(counts, length):
    rng = np.random.default_rng(length)
    terms = [
        [(rng.normal(size=length) * 10.0 ** rng.integers(-6, 6)).astype(np.float32), rng.integers(0, 9, 5)]
        for _ in range(sum(counts))
    ]
    expected = add_terms(terms)
    ends = [*itertools.accumulate(counts, initial=0)]
    results = together(
        len(counts),
        lambda link: link.sum_in_order(terms[ends[link.rank] : ends[link.rank + 1]], counts),
    )
    for sums in results:
        for total, same in zip(sums, expected, strict=True):
            assert total.dtype == same.dtype
            np.testing.assert_array_equal(total, same)


def test_arrays_go_from_one_worker_to_another_alone():
    def work(link):
        arrays = [np.full((2, 3), link.rank, np.float32), np.array(link.rank, np.int32)]
        link.send_between(2, 0, arrays)
        link.barrier("then all go on")
        return [array.max() for array in arrays]

    assert together(3, work) == [[2, 2], [1, 1], [2, 2]]


def test_an_interrupted_collective_fails_at_once():
    def work(link):
        if link.rank == 1:
            return None
        threading.Timer(0.05, link.interrupt).start()
        with pytest.raises(PeerLostError):
            link.barrier("of which the other knows nothing")
        return True

    assert together(2, work) == [True, None]


def test_sums_of_bfloat16():
    given = np.asarray(jnp.arange(40_000) % 7, jnp.bfloat16)
    for (total,) in together(2, lambda link: link.all_reduce([given])):
        np.testing.assert_array_equal(total.astype(np.float32), 2 * given.astype(np.float32))


def test_a_large_sum_is_not_held_up_by_full_buffers():
    given = np.arange(8_000_000, dtype=np.float32)
    for (total,) in together(2, lambda link: link.all_reduce([given])):
        np.testing.assert_array_equal(total, given + given)


@pytest.mark.parametrize("length", [0, 10, 56, 57, 1000])
def test_workers_tell_each_other_texts_of_any_length(length):
    values = [["x" * length * rank, rank, None] for rank in range(3)]
    assert together(3, lambda link: link.all_gather_object(values[link.rank])) == [values] * 3


def test_rows_are_gathered_also_where_a_worker_has_none():
    results = together(3, lambda link: link.all_gather(np.full((link.rank, 2), link.rank, np.float32)))
    for arrays in results:
        assert [array.shape for array in arrays] == [(0, 2), (1, 2), (2, 2)]
        assert [array.mean() for array in arrays[1:]] == [1, 2]


def test_all_take_the_first_workers_arrays():
    results = together(
        3, lambda link: link.broadcast([np.full((2, 3), link.rank + 1.0), np.array(link.rank)])
    )
    for square, number in results:
        np.testing.assert_array_equal(square, np.ones((2, 3)))
        assert number == 0


def test_texts_that_differ_are_named():
    def check(link):
        link.require_equal("variables", ["kernel", "bias"])
        link.require_equal("variables", ["kernel", "bias", "extra"] if link.rank == 1 else ["kernel", "bias"])

    for error in together(3, check):
        assert isinstance(error, MismatchError)
        assert "worker 0 and worker 1 differ: number 2 is nothing in one, extra in the other" in str(error)


def test_workers_at_different_points_are_told_so():
    results = together(2, lambda link: link.all_reduce([np.ones(3 + link.rank, np.float32)]))
    assert any(
        isinstance(error, MismatchError) and "not at the same point" in str(error) for error in results
    )


def test_a_worker_that_leaves_is_named():
    first, second = together(2, lambda link: link.rank == 1 or link.all_gather_object(0))
    assert isinstance(first, PeerLostError)
    assert "worker 1 has broken off" in str(first)
    assert second is True


def test_a_worker_that_lives_and_does_not_come_is_given_up():
    given_up = threading.Barrier(3, timeout=SECS)

    def work(link):
        try:
            return None if link.rank == 2 else link.all_gather_object(link.rank)
        finally:
            given_up.wait()

    first, second, third = together(3, work, patience=lambda rank: 0.5)
    for rank, error in enumerate((first, second)):
        assert isinstance(error, MissingPeerError)
        assert f"worker {rank} has waited 1 s for worker 2, to whom it is connected" in str(error)
    assert third is None


def test_a_worker_with_an_excuse_is_waited_for_and_counted_from_its_end():
    excuses = iter([None, None, None])  # one is looked for each second
    given_up = threading.Barrier(2, timeout=SECS)

    def work(link):
        began = time.monotonic()
        try:
            return None if link.rank == 1 else link.all_gather_object(0)
        except MissingPeerError as exc:
            return exc, time.monotonic() - began
        finally:
            given_up.wait()

    (error, secs), _ = together(2, work, patience=lambda rank: next(excuses, 0.5))
    assert "has waited 1 s for worker 1" in str(error)
    assert secs > 3.9


def test_a_worker_that_does_not_connect_is_named():
    def accept(timeout_secs):
        raise TimeoutError

    link = SocketWorkers(0, ["worker 0", "worker 1"])
    with pytest.raises(MissingPeerError, match="waited 1 s for worker 1 to connect to it"):
        link.connect(lambda rank: None, accept, 1.0)


def test_a_worker_that_connects_twice_is_taken_once():
    pairs = [socket.socketpair() for _ in range(2)]
    calls = iter(
        [(1, Connection(here)) for here, _ in pairs] + [(7, Connection(socket.socket(socket.AF_UNIX)))]
    )
    link = SocketWorkers(0, ["worker 0", "worker 1", "worker 2"])

    def accept(timeout_secs):
        try:
            return next(calls)
        except StopIteration as exc:
            raise TimeoutError from exc

    with pytest.raises(MissingPeerError, match="waited 1 s for worker 2 to connect to it"):
        link.connect(lambda rank: None, accept, 1.0)
    assert pairs[1][1].recv(1) == b""
    link.close()
    for _, there in pairs:
        there.close()


@pytest.mark.parametrize("error", [ConnectionRefusedError("refused"), AuthenticationError("another secret")])
def test_a_worker_that_cannot_be_reached_is_named(error):
    def dial(rank):
        raise error

    link = SocketWorkers(1, ["worker 0", "worker 1"])
    with pytest.raises(MissingPeerError, match=f"worker 1 cannot connect to worker 0: {error}"):
        link.connect(dial, lambda timeout_secs: None, SECS)


def test_a_worker_that_was_interrupted_in_an_exchange_sends_no_other(monkeypatch):
    given, refused = [np.ones(4_000_000, np.float32)], threading.Event()
    sent, send = [], Links._send

    def interrupted(links, peer, sending):
        if links._rank == 1 and sent:
            raise KeyboardInterrupt
        moved = send(links, peer, sending)
        if links._rank == 1 and moved:
            sent.append(peer)
        return moved

    def work(link):
        if link.rank == 0:
            return link.all_reduce(given)
        with monkeypatch.context() as patches:
            patches.setattr(Links, "_send", interrupted)
            with pytest.raises(KeyboardInterrupt):
                link.all_reduce(given)
        with pytest.raises(MismatchError, match="worker 1 has left an exchange .* before its end"):
            link.all_reduce(given)
        refused.set()

    others, _ = together(2, work)
    assert refused.is_set()
    assert isinstance(others, PeerLostError)
