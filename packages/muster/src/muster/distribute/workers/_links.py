"""Connections to other workers, over which arrays are sent and received at the same time."""

import select
import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from muster._errors import MismatchError, PeerLostError
from muster.distribute.workers._schedules import Blocks, Schedule
from muster.distribute.workers._waiting import Wait
from muster.distribute.workers._workers import HostArray
from muster.net import Connection, drop_first

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


# Every message begins with the number and the size of its collective, which are equal on all workers.
_HEAD = struct.Struct("!QQ")
# The interval in which a waiting worker checks how long it may wait.
_POLL_SECS = 1.0


class Links:
    """The connections of a worker.

    Args:
        rank: The number of this worker.
        names: The names of all workers, in the order of their ranks.
        begin_wait: Called at the beginning of each exchange.
        lost: Returns the error for a worker whose connection has broken, given its rank and what was raised.
    """

    def __init__(
        self,
        rank: int,
        names: Sequence[str],
        begin_wait: Callable[[], Wait],
        lost: Callable[[int, OSError], PeerLostError],
    ) -> None:
        self._rank = rank
        self._names = names
        self._begin_wait = begin_wait
        self._lost = lost
        self._connections: dict[int, Connection] = {}
        self._is_midway = False

    @property
    def peers(self) -> frozenset[int]:
        """The ranks of the workers that this one is connected to."""
        return frozenset(self._connections)

    def add(self, peer: int, connection: Connection) -> None:
        """Take a connection to a worker."""
        self._connections[peer] = connection

    def interrupt(self) -> None:
        """Let the exchange that is under way, and all later ones, fail; any thread may call this."""
        for connection in [*self._connections.values()]:
            connection.shut_down()

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()

    def exchange(self, number: int, size: int, out: Buffers, into: Buffers) -> None:
        """Send arrays to workers, and receive from workers into arrays.

        Args:
            number: The number of the collective that this is a part of; the same on all workers.
            size: The bytes of the collective; the same on all workers.
            out: The arrays to send; a worker with none is sent a head.
            into: The arrays to receive into.

        Raises:
            PeerLostError: A connection has broken.
            MissingPeerError: A worker takes too long.
            MismatchError: Another worker is at another collective, or an earlier exchange was left midway.
        """
        if self._is_midway:  # by an error or a signal: others would take what follows for the rest of it
            raise MismatchError(
                f"{self._names[self._rank]} has left an exchange with other workers before its end, and "
                "cannot begin another one. Let the error or the interrupt of that one end the program, and "
                "start the job again."
            )
        self._is_midway = True
        head = _HEAD.pack(number, size)
        heads = {peer: bytearray(_HEAD.size) for peer in into}
        sending = {peer: _pending(memoryview(head), arrays) for peer, arrays in out.items()}
        filling = {peer: _pending(memoryview(heads[peer]), arrays) for peer, arrays in into.items()}
        wait = self._begin_wait()
        while sending or filling:
            moved = False
            for peer in {*sending, *filling}:
                try:
                    if peer in sending:
                        moved |= self._send(peer, sending)
                    if peer in filling:
                        moved |= self._fill(peer, filling)
                except OSError as exc:
                    raise self._lost(peer, exc) from exc
                if peer in heads and not _next_is(heads[peer], filling.get(peer)):
                    self._check(peer, head, heads.pop(peer))
            if moved:
                wait.has_moved()
            elif not self._is_ready(sending, filling):
                wait.check({*sending, *filling})
        wait.is_over()
        self._is_midway = False

    def _send(self, peer: int, sending: dict[int, list[memoryview]]) -> bool:
        try:
            drop_first(sending[peer], self._connections[peer].send(sending[peer]))
        except BlockingIOError:
            return False
        if not sending[peer]:
            del sending[peer]
        return True

    def _fill(self, peer: int, filling: dict[int, list[memoryview]]) -> bool:
        try:
            count = self._connections[peer].receive_into(filling[peer])
        except BlockingIOError:
            return False
        if not count:
            raise ConnectionResetError(0, "end of the connection")
        drop_first(filling[peer], count)
        if not filling[peer]:
            del filling[peer]
        return True

    def _check(self, peer: int, head: bytes, received: bytearray) -> None:
        if received != head:
            raise MismatchError(
                f"{self._names[self._rank]} and {self._names[peer]} are not at the same point: their "
                f"messages are {_HEAD.unpack(head)} and {_HEAD.unpack(received)} (number, bytes). All "
                "workers must run the same program."
            )

    def _is_ready(self, sending: Collection[int], filling: Collection[int]) -> bool:
        """Wait until something can be sent or received, for a second at most."""
        poll = select.poll()
        for peer in {*sending, *filling}:
            wanted = (peer in sending) * select.POLLOUT | (peer in filling) * select.POLLIN
            poll.register(self._connections[peer], wanted)
        return bool(poll.poll(1000 * _POLL_SECS))


def _pending(head: memoryview, arrays: Sequence[HostArray]) -> list[memoryview]:
    """Return a head and the bytes of contiguous arrays, to be sent or filled."""
    return [head, *(a.reshape(-1).view(np.uint8).data for a in arrays if a.size)]


def _next_is(head: bytearray, filling: list[memoryview] | None) -> bool:
    """Return whether a head, or a part of it, is what is to be filled next."""
    return filling is not None and filling[0].obj is head
