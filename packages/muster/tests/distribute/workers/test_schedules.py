"""Schedules of collectives, run without sockets: workers take turns, and messages wait in queues."""

import collections
import itertools
import math

import jax.numpy as jnp
import numpy as np
import pytest

from muster.distribute.workers import _schedules as schedules
from muster.distribute.workers._links import follow

COUNTS = range(1, 34)
SMALL, LARGE = 1 << 10, 1 << 20  # bytes: which algorithm is chosen


def run(count, schedule_of, given, results, cut):
    """Let workers follow their schedules in a random order; each waits for what it is to receive."""
    queues = collections.defaultdict(collections.deque)
    workers = {
        rank: follow(schedule_of(rank), rank, given[rank], results[rank], cut) for rank in range(count)
    }
    waiting, steps = {}, dict.fromkeys(range(count), 0)
    random = np.random.default_rng(count)
    while workers:
        runnable = [rank for rank in workers if all(queues[peer, rank] for peer in waiting.get(rank, ()))]
        assert runnable, f"deadlock: {waiting}"
        rank = random.choice(runnable)
        for peer, places in waiting.pop(rank, {}).items():
            message = queues[peer, rank].popleft()
            assert [part.shape for part in message] == [place.shape for place in places]
            for place, part in zip(places, message, strict=True):
                place[:] = part
        try:
            out, waiting[rank] = next(workers[rank])
        except StopIteration:
            del workers[rank]
            continue
        assert {*out, *waiting[rank]} <= schedules.neighbours(count, rank)
        steps[rank] += 1
        for peer, parts in out.items():
            queues[rank, peer].append([part.copy() for part in parts])
    assert not any(queues.values())
    return steps


def equal_shares(count):
    return lambda array, block: len(array) * block // count


def reduced(count, given, nbytes):
    """The sums on each worker, by the algorithm for arrays of so many bytes."""
    for arrays in given:
        for array in arrays:
            array.flags.writeable = False
    results = [[np.full_like(array, 77) for array in arrays] for arrays in given]
    run(count, lambda rank: schedules.all_reduce(count, rank, nbytes), given, results, equal_shares(count))
    return results


def bits(arrays):
    return [array.tobytes() for array in arrays]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("nbytes", [SMALL, LARGE])
def test_sums_are_the_same_bit_for_bit(count, nbytes):
    random = np.random.default_rng(count)
    given = [
        [
            random.normal(size=501).astype(np.float32) * 10.0 ** random.integers(-6, 6),
            random.integers(-9, 9, 100),
            random.normal(size=33),
            np.asarray(random.normal(size=40), jnp.bfloat16),
            np.asarray(random.normal(size=7), np.float16),
            np.zeros(0, np.float32),
            np.asarray([random.normal()], np.float32),
        ]
        for _ in range(count)
    ]
    results = reduced(count, given, nbytes)
    assert len({tuple(bits(arrays)) for arrays in results}) == 1
    assert bits(reduced(count, given, nbytes)[0]) == bits(results[0])  # and from run to run
    exact = [np.sum([np.float64(array) for array in each], axis=0) for each in zip(*given, strict=True)]
    size = [
        np.sum([np.abs(np.float64(array)) for array in each], axis=0) for each in zip(*given, strict=True)
    ]
    for total, expected, bound, array in zip(results[0], exact, size, given[0], strict=True):
        assert (total.dtype, total.shape) == (array.dtype, array.shape)
        precision = 0.0 if array.dtype.kind == "i" else float(jnp.finfo(array.dtype).eps)
        assert np.all(np.abs(np.float64(total) - expected) <= precision * bound * math.log2(2 * count))


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("nbytes", [SMALL, LARGE])
def test_few_workers_add_in_the_order_of_their_ranks(count, nbytes):
    random = np.random.default_rng(count)
    given = [[random.normal(size=1000).astype(np.float32)] for _ in range(count)]
    expected = sum((array for (array,) in given[1:]), start=given[0][0])
    for (total,) in reduced(count, given, nbytes):
        np.testing.assert_array_equal(total, expected)


@pytest.mark.parametrize("count", [5, 8, 13])
@pytest.mark.parametrize("nbytes", [SMALL, LARGE])
def test_which_nan_it_is_does_not_depend_on_the_worker(count, nbytes):
    given = [[np.full(64, 0x7FC00000 + rank, np.uint32).view(np.float32)] for rank in range(count)]
    assert len({tuple(bits(arrays)) for arrays in reduced(count, given, nbytes)}) == 1


@pytest.mark.parametrize("count", COUNTS)
def test_blocks_of_any_lengths_are_gathered(count):
    ends = [0, *itertools.accumulate((7 * rank) % 5 for rank in range(count))]
    whole = np.arange(ends[-1])
    arrays = [np.full(ends[-1], -1) for _ in range(count)]
    for rank, array in enumerate(arrays):
        array[ends[rank] : ends[rank + 1]] = whole[ends[rank] : ends[rank + 1]]
    filled = [[array] for array in arrays]
    run(
        count,
        lambda rank: schedules.all_gather(count, rank),
        filled,
        filled,
        lambda array, block: ends[block],
    )
    for array in arrays:
        np.testing.assert_array_equal(array, whole)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("nbytes", [SMALL, LARGE])
def test_all_get_what_worker_0_has(count, nbytes):
    filled = [
        [np.arange(101), np.arange(3.0)] if rank == 0 else [np.zeros(101, int), np.zeros(3)]
        for rank in range(count)
    ]
    for array in filled[0]:
        array.flags.writeable = False
    run(count, lambda rank: schedules.broadcast(count, rank, nbytes), filled, filled, equal_shares(count))
    for whole, part in filled:
        np.testing.assert_array_equal(whole, np.arange(101))
        np.testing.assert_array_equal(part, np.arange(3.0))


def sent(schedule):
    return sum(len(run) for each in schedule for blocks in each.sends.values() for run in blocks)


@pytest.mark.parametrize("count", [5, 6, 7, 8, 16, 31, 32, 33, 1000])
def test_many_workers_take_few_rounds_and_send_little(count):
    digits = (count - 1).bit_length()
    for rank in {0, 1, count // 2, count - 1}:
        large = schedules.all_reduce(count, rank, LARGE)
        assert len(large) == 2 * digits
        assert sent(large) == 2 * (count - 1)  # blocks: no worker can send less
        assert len(schedules.all_reduce(count, rank, SMALL)) <= digits + 1
        assert len(schedules.all_gather(count, rank)) == digits
        assert len(schedules.broadcast(count, rank, SMALL)) <= digits


def test_connections_are_mutual_and_few():
    for count in COUNTS:
        for rank in range(count):
            peers = schedules.neighbours(count, rank)
            assert rank not in peers
            assert all(rank in schedules.neighbours(count, peer) for peer in peers)
    assert schedules.neighbours(4, 1) == {0, 2, 3}
    assert schedules.neighbours(1000, 0) == {
        1,
        2,
        4,
        8,
        16,
        32,
        64,
        128,
        256,
        512,
        999,
        998,
        996,
        992,
        984,
        968,
        936,
        872,
        744,
        488,
    }
