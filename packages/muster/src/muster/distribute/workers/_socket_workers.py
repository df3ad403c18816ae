"""Collectives of workers over TCP."""

import functools
import itertools
import json
import math
import time
from collections.abc import Callable, Sequence, Set
from typing import Any

import numpy as np

from muster._errors import MissingPeerError, PeerLostError, StrayPeerError
from muster.cluster.roster import RunningClock
from muster.distribute.workers import _schedules as schedules
from muster.distribute.workers._links import Cut, Links, follow
from muster.distribute.workers._schedules import Schedule
from muster.distribute.workers._waiting import Others, Patience, Wait
from muster.distribute.workers._workers import HostArray, Workers
from muster.net import Connection

# The number of an exchange between two workers alone.
_BETWEEN = (1 << 64) - 1
# A text of up to so many bytes is sent together with its length.
_SHORT = 56


class SocketWorkers(Workers):
    """Connects the workers of a job over TCP, each with those with whom it exchanges something.

    A lost connection raises PeerLostError at once. A worker that is alive and does not take part raises
    MissingPeerError after a while; the roster notices one that stands still.

    Args:
        rank: The number of this worker.
        names: The names of all workers, in the order of their ranks.
        patience: Says how long to wait for a worker; called again and again while this one waits.
        each_to_each: Whether each is connected to all others, however many there are.
    """

    def __init__(
        self,
        rank: int,
        names: Sequence[str],
        patience: Patience = lambda rank: None,
        *,
        each_to_each: bool = False,
    ) -> None:
        self.rank = rank
        self.names = tuple(names)
        asked = Others(
            patience=patience,
            awaited_by=self._awaited_by,
            stacks=self._stacks_of,
            report=self._report_waiting,
        )
        begin_wait = functools.partial(Wait, rank, self.names, asked, RunningClock())
        self._links = Links(rank, self.names, begin_wait, self._lost)
        others = frozenset(range(self.size)) - {rank}
        self._neighbours = others if each_to_each else schedules.neighbours(self.size, rank)
        self._shares = _equal_shares(self.size)
        self._numbers = itertools.count()

    def connect(
        self,
        dial: Callable[[int], Connection],
        accept: Callable[[float], tuple[int, Connection]],
        timeout_secs: float,
    ) -> None:
        """Connect to the neighbours of lower rank, and wait for those of higher rank to connect.

        Args:
            dial: Connects to a worker by its rank.
            accept: Waits, for a time in seconds, until a worker connects to this one, and returns its rank
                and the connection; raises TimeoutError.
            timeout_secs: How long to wait, in seconds.

        Raises:
            MissingPeerError: A worker cannot be reached, or does not connect.
        """
        deadline = time.monotonic() + timeout_secs
        for peer in sorted(peer for peer in self._neighbours if peer < self.rank):
            try:
                self._links.add(peer, dial(peer))
            except (OSError, StrayPeerError) as exc:
                raise MissingPeerError(
                    f"{self.names[self.rank]} cannot connect to {self.names[peer]}: {exc}."
                ) from exc
        while self._links.peers != self._neighbours:
            try:
                rank, connection = accept(max(0.001, deadline - time.monotonic()))
            except TimeoutError as exc:
                missing = [self.names[peer] for peer in sorted(self._neighbours - self._links.peers)]
                raise MissingPeerError(
                    f"{self.names[self.rank]} has waited {timeout_secs:.0f} s for {', '.join(missing)} to "
                    "connect to it."
                ) from exc
            if rank in self._neighbours - self._links.peers:
                self._links.add(rank, connection)
            else:
                connection.close()

    def all_gather_object(self, value: Any) -> list[Any]:
        text = json.dumps(value).encode()
        first = len(text).to_bytes(8, "big") + text[:_SHORT].ljust(_SHORT)
        firsts = [
            each.tobytes() for each in self._gather(np.frombuffer(first, np.uint8), [len(first)] * self.size)
        ]
        lengths = [int.from_bytes(each[:8], "big") for each in firsts]
        if max(lengths) <= _SHORT:
            return [json.loads(each[8 : 8 + length]) for each, length in zip(firsts, lengths, strict=True)]
        return [json.loads(each.tobytes()) for each in self._gather(np.frombuffer(text, np.uint8), lengths)]

    def all_gather(self, array: HostArray) -> list[HostArray]:
        shapes = self.all_gather_object(array.shape)
        parts = self._gather(array.reshape(-1), [math.prod(shape) for shape in shapes])
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    def broadcast(self, arrays: Sequence[HostArray]) -> list[HostArray]:
        results = list(arrays) if self.rank == 0 else [np.empty(array.shape, array.dtype) for array in arrays]
        flat = [array.reshape(-1) for array in results]
        nbytes = _nbytes(arrays)
        self._exchange(schedules.broadcast(self.size, self.rank, nbytes), nbytes, flat, flat, self._shares)
        return results

    def all_reduce(self, arrays: Sequence[HostArray]) -> list[HostArray]:
        sums = [np.empty_like(array) for array in arrays]
        nbytes = _nbytes(arrays)
        self._exchange(schedules.all_reduce(self.size, self.rank, nbytes), nbytes, arrays, sums, self._shares)
        self.exchanged.nbytes += nbytes
        return sums

    def sum_in_order(self, terms: Sequence[Sequence[HostArray]], counts: Sequence[int]) -> list[HostArray]:
        """Return the sums of flat arrays over all terms of all workers, which are added in their order.

        The result does not depend on how the terms are divided among the workers, bit for bit. All workers
        are connected to each other.

        Args:
            terms: This worker's terms: for each the arrays, of equal lengths and dtypes in all terms.
            counts: The number of terms of each worker, by rank.
        """
        began, first = time.monotonic(), terms[0]
        sums = [np.empty_like(array) for array in first]
        nbytes = _nbytes(first)
        direct = nbytes <= schedules.DIRECT_BYTES  # then each adds all of it: one round in place of two
        whole = [slice(None)] * len(first)
        blocks = {peer: whole if direct else _blocks(first, self._shares, peer) for peer in range(self.size)}
        mine = blocks[self.rank]
        out = {
            peer: [array[part] for term in terms for array, part in zip(term, blocks[peer], strict=True)]
            for peer in range(self.size)
            if peer != self.rank
        }
        into = {
            peer: [
                np.empty_like(array[part])
                for _ in range(counts[peer])
                for array, part in zip(first, mine, strict=True)
            ]
            for peer in out
        }
        number = next(self._numbers)
        self._links.exchange(number, nbytes, out, into)
        own = [array[part] for term in terms for array, part in zip(term, mine, strict=True)]
        places = [total[part] for total, part in zip(sums, mine, strict=True)]
        arrays = [each for peer in range(self.size) for each in (own if peer == self.rank else into[peer])]
        for at, place in enumerate(places):
            _add_up(arrays[at :: len(places)], place)
        if self.size > 1 and not direct:
            shared = [total[part] for total, part in zip(sums, mine, strict=True)]
            theirs = {
                peer: [total[part] for total, part in zip(sums, blocks[peer], strict=True)] for peer in out
            }
            self._links.exchange(number, nbytes, dict.fromkeys(out, shared), theirs)
        self.exchanged.secs += time.monotonic() - began
        self.exchanged.nbytes += nbytes
        return sums

    def send_between(self, sender: int, receiver: int, arrays: Sequence[HostArray]) -> None:
        """Send arrays from one worker to another, which receives into its own; both call this, alike.

        Args:
            sender: The rank of the one.
            receiver: The rank of the other.
            arrays: Contiguous arrays of the same shapes and dtypes.
        """
        nbytes = _nbytes(arrays)
        if self.rank == sender:
            self._links.exchange(_BETWEEN, nbytes, {receiver: arrays}, {})
        elif self.rank == receiver:
            self._links.exchange(_BETWEEN, nbytes, {}, {sender: arrays})

    def interrupt(self) -> None:
        """Let the collective that is under way, and all later ones, fail; any thread may call this."""
        self._links.interrupt()

    def _lost(self, rank: int, error: OSError) -> PeerLostError:
        """Return the error for a worker whose connection has broken."""
        return PeerLostError(f"{self.names[rank]} has broken off: {error.strerror}.")

    def close(self) -> None:
        """Close all connections."""
        self._links.close()

    def _gather(self, array: HostArray, lengths: Sequence[int]) -> list[HostArray]:
        """Return the flat arrays of all workers, by rank, of known lengths."""
        ends = [0, *itertools.accumulate(lengths)]
        gathered = np.empty(ends[-1], array.dtype)
        parts = [gathered[start:end] for start, end in itertools.pairwise(ends)]
        parts[self.rank][:] = array
        schedule = schedules.all_gather(self.size, self.rank)
        self._exchange(schedule, gathered.nbytes, [gathered], [gathered], lambda array, block: ends[block])
        return parts

    def _exchange(
        self,
        schedule: Schedule,
        nbytes: int,
        given: Sequence[HostArray],
        results: Sequence[HostArray],
        cut: Cut,
    ) -> None:
        """Do what a schedule says; the arguments are those of `follow`, and the bytes of the collective."""
        began, number = time.monotonic(), next(self._numbers)
        for out, into in follow(schedule, self.rank, given, results, cut):
            self._links.exchange(number, nbytes, out, into)
        self.exchanged.secs += time.monotonic() - began

    def _awaited_by(self, rank: int) -> frozenset[int]:
        """Return for whom another worker says that it waits."""
        return frozenset()

    def _report_waiting(self, awaited: Set[int]) -> None:
        """Tell the others for whom this worker waits."""

    def _stacks_of(self, rank: int) -> str:
        """Return where the threads of another worker are, or why that is not known."""
        return "(a place that cannot be asked for)"


def _blocks(arrays: Sequence[HostArray], cut: Cut, rank: int) -> list[slice]:
    """Return where the block of a worker is in each array."""
    return [slice(cut(array, rank), cut(array, rank + 1)) for array in arrays]


def _add_up(terms: Sequence[HostArray], place: HostArray) -> None:
    """Add arrays one after the other."""
    if len(terms) == 1:
        place[:] = terms[0]
        return
    np.add(terms[0], terms[1], out=place)
    for term in terms[2:]:
        np.add(place, term, out=place)


def _nbytes(arrays: Sequence[HostArray]) -> int:
    return sum(array.nbytes for array in arrays)


def _equal_shares(size: int) -> Cut:
    """Return where the shares of so many workers of an array begin."""
    return lambda array, block: len(array) * block // size
