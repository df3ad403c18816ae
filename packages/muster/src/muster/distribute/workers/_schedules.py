"""Plan collectives: the sender, receiver and block of each transfer, by rounds; no sockets or arrays.

Every array is cut into a block for each worker. Up to `DIRECT_WORKERS` workers are connected each to each,
and exchange *directly*, in a round or two in which all send to all. More of them form a *circulant graph*:
worker r is connected to r ± 1, 2, 4, … around the circle, and a collective takes about as many rounds as the
number of workers has binary digits, or twice as many.

- *Doubling*, for small sums: in each round two workers exchange all that they have, and both add it. Workers
  beyond the largest power of two first add to another's, and get the sum in the end.
- *Halving*, for large sums: in each round a worker gives away half of the blocks that it still adds up, and
  takes part in the other half, until one is left; then all gather the blocks. No byte is sent more often
  than in a ring, in far fewer rounds, whatever the number of workers.
- *Trees* from worker 0, for broadcasts: whole arrays if small; else each gets a block, and all gather them.

Every block is added up by one worker, or by several in the same order: sums are equal bit for bit.
"""

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

Blocks: TypeAlias = tuple[range, ...]
"""Runs of consecutive blocks."""

# Up to so many workers all exchange with all. On two cores, 2026-11-23, four workers took 0.5 ms for 1 KB
# directly and 0.9 by doubling, with as much processor time; eight took 1.9 and 1.2, 16 took 6.0 and 3.1.
DIRECT_WORKERS = 4
# Up to so many bytes every worker sends all that it has to all; more are reduced in a share per worker.
DIRECT_BYTES = 1 << 15
# Up to so many bytes are summed by doubling. There 6 to 16 workers took less time so up to 256 KB, and about
# as much or more from 512 KB on. A network that is slower than a processor copies moves that down.
_DOUBLING_BYTES = 1 << 17


@dataclasses.dataclass(frozen=True, kw_only=True)
class CommunicationRound:
    """One round of a schedule: the messages that a worker sends and receives at the same time.

    Args:
        sends: The blocks to send, by the receiver's rank; none tells it only that this worker takes part.
        receives: The blocks to receive, by the sender's rank.
        adds: Whether what is received is added to what this worker has, in the order of the ranks; otherwise
            it takes the place of that. All senders of such a round send the same blocks.
        keeps: The blocks that a later round needs, of those that the first round neither sends nor receives.
    """

    sends: Mapping[int, Blocks] = dataclasses.field(default_factory=dict)
    receives: Mapping[int, Blocks] = dataclasses.field(default_factory=dict)
    adds: bool = False
    keeps: Blocks = ()


Schedule: TypeAlias = Sequence[CommunicationRound]


def neighbours(size: int, rank: int) -> frozenset[int]:
    """Return the ranks of the workers with which a worker exchanges anything, of so many."""
    if size <= DIRECT_WORKERS:
        return frozenset(range(size)) - {rank}
    return frozenset((rank + sign * skip) % size for skip in _skips(size) for sign in (1, -1))


@functools.lru_cache
def all_reduce(size: int, rank: int, nbytes: int) -> Schedule:
    """Return a worker's part in adding arrays, of ``nbytes`` bytes on each worker."""
    if size == 1:
        return [CommunicationRound(keeps=_all(size))]
    if size <= DIRECT_WORKERS:
        return direct_sum(size, rank, nbytes)
    if nbytes <= _DOUBLING_BYTES:
        return [*_doubling(size, rank)]
    return [*_halving(size, rank), *_gathering(size, rank)]


@functools.lru_cache
def all_gather(size: int, rank: int) -> Schedule:
    """Return a worker's part in gathering the block of each worker."""
    if size <= DIRECT_WORKERS:
        return [_each_its_own(size, rank)]
    return [*_gathering(size, rank)]


@functools.lru_cache
def broadcast(size: int, rank: int, nbytes: int) -> Schedule:
    """Return a worker's part in taking over worker 0's arrays, of ``nbytes`` bytes."""
    if size <= DIRECT_WORKERS:
        to_others = _others(size, rank, _all(size) if rank == 0 else ())
        return [
            CommunicationRound(
                sends=to_others, receives=_others(size, rank, ()) | ({0: _all(size)} if rank else {})
            )
        ]
    if nbytes <= _DOUBLING_BYTES:
        return [*_tree(size, rank, whole=True)]
    return [*_tree(size, rank, whole=False), *(_to_others(each, rank) for each in _gathering(size, rank))]


def direct_sum(size: int, rank: int, nbytes: int) -> Schedule:
    if nbytes <= DIRECT_BYTES:
        return [
            CommunicationRound(
                sends=_others(size, rank, _all(size)), receives=_others(size, rank, _all(size)), adds=True
            )
        ]
    theirs = {peer: (range(peer, peer + 1),) for peer in range(size) if peer != rank}
    own = _others(size, rank, (range(rank, rank + 1),))
    return [CommunicationRound(sends=theirs, receives=own, adds=True), _each_its_own(size, rank)]


def _each_its_own(size: int, rank: int) -> CommunicationRound:
    """Every worker sends its own block to all."""
    theirs = {peer: (range(peer, peer + 1),) for peer in range(size) if peer != rank}
    return CommunicationRound(sends=_others(size, rank, (range(rank, rank + 1),)), receives=theirs)


def _doubling(size: int, rank: int) -> Iterator[CommunicationRound]:
    """Add pairwise: workers whose ranks differ in one digit have the same sums from then on."""
    power = 1 << size.bit_length() - 1
    everything = _all(size)
    if rank >= power:
        yield CommunicationRound(sends={rank - power: everything})
        yield CommunicationRound(receives={rank - power: everything})
        return
    extra = rank + power < size
    if extra:
        yield CommunicationRound(receives={rank + power: everything}, adds=True)
    for skip in _skips(power):
        both = {rank ^ skip: everything}
        yield CommunicationRound(sends=both, receives=both, adds=True)
    if extra:
        yield CommunicationRound(sends={rank + power: everything})


def _halving(size: int, rank: int) -> Iterator[CommunicationRound]:
    """Add until each worker has the sum of its own block: `_gathering` backwards."""
    *_, top = skips = _skips(size)
    for skip in reversed(skips):
        to, by, count = (rank + skip) % size, (rank - skip) % size, min(skip, size - skip)
        yield CommunicationRound(
            sends={to: _run(size, to, count)},
            receives={by: _run(size, rank, count)},
            adds=True,
            keeps=_run(size, (rank + count) % size, skip - count) if skip == top and count < skip else (),
        )


def _gathering(size: int, rank: int) -> Iterator[CommunicationRound]:
    """Gather every worker's block: each has the blocks from its own on, twice as many after each round."""
    for skip in _skips(size):
        to, by, count = (rank - skip) % size, (rank + skip) % size, min(skip, size - skip)
        yield CommunicationRound(sends={to: _run(size, rank, count)}, receives={by: _run(size, by, count)})


def _tree(size: int, rank: int, *, whole: bool) -> Iterator[CommunicationRound]:
    """Pass on worker 0's arrays: all of them, or the blocks of those that a worker passes them on to."""
    for skip in reversed(_skips(size)):
        first = rank % (2 * skip)
        if first == 0 and rank + skip < size:
            yield CommunicationRound(
                sends={rank + skip: _all(size) if whole else (_branch(size, rank + skip, skip),)}
            )
        elif first == skip:
            yield CommunicationRound(
                receives={rank - skip: _all(size) if whole else (_branch(size, rank, skip),)}
            )


def _branch(size: int, start: int, count: int) -> range:
    return range(start, min(start + count, size))


def _to_others(each: CommunicationRound, rank: int) -> CommunicationRound:
    """Leave out what worker 0 would receive."""
    sends = {peer: blocks for peer, blocks in each.sends.items() if peer != 0}
    return CommunicationRound(sends=sends, receives=each.receives if rank else {})


def _skips(size: int) -> list[int]:
    """Return the powers of two below the number of workers, from 1."""
    return [1 << digit for digit in range((size - 1).bit_length())]


def _run(size: int, start: int, count: int) -> Blocks:
    """Return so many blocks from one on, around the circle."""
    end = start + count
    return (range(start, end),) if end <= size else (range(start, size), range(end - size))


def _all(size: int) -> Blocks:
    return (range(size),)


def _others(size: int, rank: int, blocks: Blocks) -> dict[int, Blocks]:
    return dict.fromkeys((peer for peer in range(size) if peer != rank), blocks)
