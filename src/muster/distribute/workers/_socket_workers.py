"""Collectives of workers over TCP, with a connection between every two."""

import functools
import hmac
import itertools
import json
import logging
import secrets
import select
import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from muster._errors import MismatchError, MissingPeerError, PeerLostError
from muster.cluster.roster import RunningClock
from muster.distribute.workers._workers import HostArray, Workers

Buffers = Mapping[int, Sequence[HostArray]]
Patience = Callable[[int], float | None]
"""Rank of another worker -> the seconds that it may keep this one waiting; None for no limit."""

_log = logging.getLogger(__name__)

# Every message begins with its number and the size of its collective, which are equal on all workers.
_HEAD = struct.Struct("!QQ")
# Up to so many bytes every worker sends its arrays to all; larger ones are reduced in a share per worker.
_SMALL = 1 << 15
# A text of up to so many bytes is sent together with its length.
_SHORT = 56
_TOKEN = 16
_GREETING_SECS = 10.0
_LOG_SECS = 10.0
# The interval in which a waiting worker checks how long it may wait.
_POLL_SECS = 1.0
# The number of buffers that one system call takes.
_BUFFERS_PER_CALL = 64
# The number of workers that are asked where they are stuck.
_SHOWN_STACKS = 3


class SocketWorkers(Workers):
    """Connects every two workers of a job over TCP.

    A lost connection raises PeerLostError at once. A worker that is alive and does not take part raises
    MissingPeerError after a while; the roster notices one that stands still. Messages are neither encrypted
    nor signed: the token, which the roster passes on, guards against mistakes, not against attackers.

    Args:
        rank: The number of this worker.
        names: The names of all workers, in the order of their ranks.
        patience: Says how long to wait for a worker; called again and again while this one waits.

    Attributes:
        port: The port on which this worker listens until all are connected.
        token: The token that a peer must send, in hexadecimal digits.
    """

    def __init__(self, rank: int, names: Sequence[str], patience: Patience = lambda rank: None) -> None:
        self.rank = rank
        self.names = tuple(names)
        self._patience = patience
        self._clock = RunningClock()
        self._peers: dict[int, socket.socket] = {}
        self._messages = itertools.count()
        dual = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if dual else socket.AF_INET
        self._listener = socket.create_server(("", 0), family=family, backlog=len(names), dualstack_ipv6=dual)
        self.port: int = self._listener.getsockname()[1]
        self.token = secrets.token_hex(_TOKEN)

    def connect(self, look_up: Callable[[int], tuple[str, int, str]], timeout_secs: float) -> None:
        """Connect to the workers of lower rank, and wait for those of higher rank to connect.

        Args:
            look_up: Returns the host, port and token of a worker by its rank.
            timeout_secs: How long to wait, in seconds.

        Raises:
            MissingPeerError: A worker cannot be reached, or does not connect.
        """
        deadline = time.monotonic() + timeout_secs
        for peer in range(self.rank):
            host, port, token = look_up(peer)
            try:
                sock = socket.create_connection((host, port), timeout=_GREETING_SECS)
                sock.sendall(bytes.fromhex(token) + self.rank.to_bytes(4, "big"))
            except OSError as exc:
                raise MissingPeerError(
                    f"{self.names[self.rank]} cannot connect to {self.names[peer]} at "
                    f"{host}:{port}: {exc}. "
                    "Workers exchange gradients on ports that their systems choose; let them pass."
                ) from exc
            self._adopt(peer, sock)
        while len(self._peers) < self.size - 1:
            self._listener.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                sock, _ = self._listener.accept()
            except TimeoutError as exc:
                missing = [name for i, name in enumerate(self.names) if i not in {*self._peers, self.rank}]
                raise MissingPeerError(
                    f"{self.names[self.rank]} has waited {timeout_secs:.0f} s for {', '.join(missing)} to "
                    f"connect to its port {self.port}. Workers exchange gradients on ports that their "
                    "systems choose; let them pass."
                ) from exc
            if (rank := self._greeted_by(sock)) is None:
                sock.close()
            else:
                self._adopt(rank, sock)
        self._listener.close()

    def all_gather_object(self, value: Any) -> list[Any]:
        text = np.frombuffer(json.dumps(value).encode(), np.uint8)
        first = np.zeros(8 + _SHORT, np.uint8)
        first[:8] = np.frombuffer(len(text).to_bytes(8, "big"), np.uint8)
        first[8 : 8 + len(text)] = text[:_SHORT]
        firsts = self._gather_equal(first)
        lengths = [int.from_bytes(each[:8].tobytes(), "big") for each in firsts]
        texts = [each[8 : 8 + length] for each, length in zip(firsts, lengths, strict=True)]
        if max(lengths) > _SHORT:
            texts = [np.empty(length, np.uint8) for length in lengths]
            texts[self.rank] = text
            self._exchange(0, self._to_all([text]), {peer: [texts[peer]] for peer in self._peers})
        return [json.loads(each.tobytes()) for each in texts]

    def all_gather(self, array: HostArray) -> list[HostArray]:
        shapes = self.all_gather_object(array.shape)
        arrays = [np.empty(shape, array.dtype) for shape in shapes]
        arrays[self.rank] = np.ascontiguousarray(array)
        self._exchange(0, self._to_all([array]), {peer: [arrays[peer]] for peer in self._peers})
        return arrays

    def broadcast(self, arrays: Sequence[HostArray]) -> list[HostArray]:
        size = sum(array.nbytes for array in arrays)
        if self.rank == 0:
            self._exchange(size, self._to_all(arrays), {})
            return list(arrays)
        copies = [np.empty(array.shape, array.dtype) for array in arrays]
        self._exchange(size, {}, {0: copies})
        return copies

    def all_reduce(self, arrays: Sequence[HostArray]) -> list[HostArray]:
        began = time.monotonic()
        sums = self._all_reduce(arrays)
        self.communication_secs += time.monotonic() - began
        return sums

    def _all_reduce(self, arrays: Sequence[HostArray]) -> list[HostArray]:
        """Add in the order of the ranks: small arrays on every worker, large ones by reduce-scatter."""
        size = sum(array.nbytes for array in arrays)
        if size <= _SMALL:
            received = {peer: [np.empty_like(array) for array in arrays] for peer in self._peers}
            self._exchange(size, self._to_all(arrays), received)
            return self._add({**received, self.rank: arrays})
        share = functools.partial(_shares, arrays, self.size)
        local = share(self.rank)
        received = {peer: [np.empty_like(part) for part in local] for peer in self._peers}
        self._exchange(size, {peer: share(peer) for peer in self._peers}, received)
        totals = self._add({**received, self.rank: local})
        sums = [np.empty_like(array) for array in arrays]
        for place, total in zip(_shares(sums, self.size, self.rank), totals, strict=True):
            place[:] = total
        into = {peer: _shares(sums, self.size, peer) for peer in self._peers}
        self._exchange(size, self._to_all(totals), into)
        return sums

    def close(self) -> None:
        """Close all connections."""
        for sock in (*self._peers.values(), self._listener):
            sock.close()

    def _greeted_by(self, sock: socket.socket) -> int | None:
        """Return the rank of the worker that has connected; None if it is no worker of this job."""
        sock.settimeout(_GREETING_SECS)
        greeting = b""
        try:
            while len(greeting) < _TOKEN + 4 and (data := sock.recv(_TOKEN + 4 - len(greeting))):
                greeting += data
        except OSError:
            return None
        peer = int.from_bytes(greeting[_TOKEN:], "big")
        known = hmac.compare_digest(greeting[:_TOKEN], bytes.fromhex(self.token))
        return peer if known and self.rank < peer < self.size else None

    def _adopt(self, peer: int, sock: socket.socket) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._peers[peer] = sock

    def _to_all(self, arrays: Sequence[HostArray]) -> Buffers:
        return dict.fromkeys(self._peers, arrays)

    def _gather_equal(self, array: HostArray) -> list[HostArray]:
        """Return the arrays of all workers, by rank, of equal shapes and dtypes."""
        arrays = {peer: np.empty_like(array) for peer in self._peers}
        self._exchange(array.nbytes, self._to_all([array]), {peer: [into] for peer, into in arrays.items()})
        arrays[self.rank] = array
        return [arrays[rank] for rank in range(self.size)]

    def _add(self, buffers: Buffers) -> list[HostArray]:
        """Add the workers' arrays in the order of their ranks."""
        first, *rest = [buffers[rank] for rank in range(self.size)]
        sums = [np.add(a, b) for a, b in zip(first, rest[0], strict=True)]
        for arrays in rest[1:]:
            for total, array in zip(sums, arrays, strict=True):
                np.add(total, array, out=total)
        return sums

    def _exchange(self, size: int, out: Buffers, into: Buffers) -> None:
        """Send arrays to workers, and receive into arrays.

        Args:
            size: The bytes of the collective; the same on all workers.
            out: The arrays to send, by the receiver's rank; every worker is sent a head at least.
            into: The arrays to receive into, by the sender's rank.
        """
        head = _HEAD.pack(next(self._messages), size)
        heads = {peer: bytearray(_HEAD.size) for peer in self._peers}
        sending = {peer: _pending(memoryview(head), out.get(peer, ())) for peer in self._peers}
        filling = {peer: _pending(memoryview(heads[peer]), into.get(peer, ())) for peer in self._peers}
        clock = self._clock
        began = logged = idle = clock()
        while sending or filling:
            moved = False
            for peer, sock in self._peers.items():
                try:
                    if peer in sending:
                        moved |= self._send(peer, sock, sending)
                    if peer in filling:
                        moved |= self._fill(peer, sock, filling)
                except OSError as exc:
                    raise PeerLostError(f"{self.names[peer]} has broken off: {exc.strerror}.") from exc
            awaited = {*sending, *filling}
            if not awaited:
                break
            if moved:
                idle = clock()
                continue
            poll = select.poll()
            for peer in awaited:
                wanted = (peer in sending) * select.POLLOUT | (peer in filling) * select.POLLIN
                poll.register(self._peers[peer], wanted)
            if poll.poll(1000 * _POLL_SECS):
                continue
            now = clock()
            idle = self._be_patient(awaited, idle, now)
            if now - logged >= _LOG_SECS:
                logged = now
                self._say_waiting(awaited, now - began, now - idle)
        for peer, received in heads.items():
            if received != head:
                raise MismatchError(
                    f"{self.names[self.rank]} and {self.names[peer]} are not at the same point: their "
                    f"messages are {_HEAD.unpack(head)} and {_HEAD.unpack(received)} (number, bytes). All "
                    "workers must run the same program."
                )

    def _be_patient(self, awaited: set[int], idle: float, now: float) -> float:
        """Check how long this worker has waited.

        Args:
            awaited: The ranks of the workers that it waits for.
            idle: When their time began to run.
            now: The current time.

        Returns:
            When it began to run; ``now`` if one of them may take as long as it likes.

        Raises:
            MissingPeerError: Their time is up.
        """
        limits = [self._patience(peer) for peer in awaited]
        secs = min((limit for limit in limits if limit is not None), default=0.0)
        if None in limits:
            return now
        if now - idle >= secs:
            for peer in sorted(awaited)[:_SHOWN_STACKS]:
                _log.error("%s is here:\n%s", self.names[peer], self._stacks_of(peer))
            raise MissingPeerError(
                f"{self.names[self.rank]} has waited {now - idle:.0f} s for {self._names(awaited)}, to whom "
                "it is connected: look there for what takes so long. "
                "RunConfig(session_creation_timeout_secs=...) limits the wait for each other's first step, "
                "CommunicationOptions(timeout_seconds=...) for later ones.",
                tuple(self.names[peer] for peer in sorted(awaited)),
            )
        return idle

    def _stacks_of(self, rank: int) -> str:
        """Return where the threads of another worker are, or why that is not known."""
        return "(a place that cannot be asked for)"

    def _say_waiting(self, awaited: set[int], secs: float, idle_secs: float) -> None:
        """Log for whom this worker waits, and when it gives up.

        Args:
            awaited: The ranks of the workers that it waits for.
            secs: How long it has waited.
            idle_secs: How long they have had, as `_be_patient` counts.
        """
        text = f"{self.names[self.rank]} has waited {secs:.0f} s for {self._names(awaited)}"
        limits = [limit for peer in awaited if (limit := self._patience(peer)) is not None]
        if len(limits) < len(awaited):
            _log.info("%s.", text)  # one of them may take as long as it likes
        else:
            _log.warning("%s, and gives up in %.0f s.", text, max(0.0, min(limits) - idle_secs))

    def _names(self, peers: set[int]) -> str:
        return ", ".join(self.names[peer] for peer in sorted(peers))

    def _send(self, peer: int, sock: socket.socket, sending: dict[int, list[memoryview]]) -> bool:
        try:
            _drop(sending[peer], sock.sendmsg(sending[peer][:_BUFFERS_PER_CALL]))
        except BlockingIOError:
            return False
        if not sending[peer]:
            del sending[peer]
        return True

    def _fill(self, peer: int, sock: socket.socket, filling: dict[int, list[memoryview]]) -> bool:
        try:
            count = sock.recvmsg_into(filling[peer][:_BUFFERS_PER_CALL])[0]
        except BlockingIOError:
            return False
        if not count:
            raise ConnectionResetError(0, "end of the connection")
        _drop(filling[peer], count)
        if not filling[peer]:
            del filling[peer]
        return True


def _shares(arrays: Sequence[HostArray], workers: int, rank: int) -> list[HostArray]:
    """Return the share of flat arrays that a worker reduces."""
    return [a[len(a) * rank // workers : len(a) * (rank + 1) // workers] for a in arrays]


def _pending(head: memoryview, arrays: Sequence[HostArray]) -> list[memoryview]:
    """Return a head and the bytes of contiguous arrays, to be sent or filled."""
    return [head, *(a.reshape(-1).view(np.uint8).data for a in arrays if a.size)]


def _drop(pending: list[memoryview], count: int) -> None:
    """Drop the first ``count`` bytes."""
    done = 0
    while done < len(pending) and count >= len(pending[done]):
        count -= len(pending[done])
        done += 1
    del pending[:done]
    if count:
        pending[0] = pending[0][count:]
