"""Blocks of arrays: what schedules send, receive and add, without sockets."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from muster.distribute.workers._schedules import Blocks, Schedule
from muster.distribute.workers._workers import HostArray

Buffers: TypeAlias = Mapping[int, Sequence[HostArray]]
"""Contiguous arrays to send or to receive into, by the rank of the other worker."""
Cut: TypeAlias = Callable[[HostArray, int], int]
"""A flat array and the number of a block -> where that block begins."""


def follow(
    schedule: Schedule, rank: int, given: Sequence[HostArray], results: Sequence[HostArray], cut: Cut
) -> Iterator[tuple[Buffers, Buffers]]:
    """Yield what a worker sends and receives, round by round, and add up what it has received.

    Args:
        schedule: The rounds.
        rank: The number of this worker.
        given: The flat arrays that it begins with, which are only read.
        results: The arrays to fill, of the same shapes and dtypes. They are the given ones where a schedule
            adds nothing.
        cut: Says where blocks begin.
    """
    source = given
    for each in schedule:
        out = {peer: _views(source, blocks, cut) for peer, blocks in each.sends.items()}
        places = {peer: _views(results, blocks, cut) for peer, blocks in each.receives.items()}
        if not each.adds:
            yield out, places
        else:
            (peer, place), *_ = places.items()
            into = {peer: [np.empty_like(part) for part in place] for peer in places}
            yield out, into
            _add({**into, rank: _views(source, each.receives[peer], cut)}, place)
        if each.keeps:
            kept = zip(_views(results, each.keeps, cut), _views(given, each.keeps, cut), strict=True)
            for part, as_given in kept:
                part[:] = as_given
        source = results


def _views(arrays: Sequence[HostArray], blocks: Blocks, cut: Cut) -> list[HostArray]:
    return [array[cut(array, run.start) : cut(array, run.stop)] for array in arrays for run in blocks]


def _add(addends: Buffers, places: Sequence[HostArray]) -> None:
    """Add the workers' arrays in the order of their ranks; the third and later are not at the places."""
    first, second, *rest = [addends[rank] for rank in sorted(addends)]
    for place, a, b in zip(places, first, second, strict=True):
        np.add(a, b, out=place)
    for arrays in rest:
        for place, array in zip(places, arrays, strict=True):
            np.add(place, array, out=place)
