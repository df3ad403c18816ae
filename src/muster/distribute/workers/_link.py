"""The link: connections between the workers of a job, over which they tell and add what they have."""

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

Array = Any
Buffers = Mapping[int, Sequence[Array]]
Patience = Callable[[int], float | None]
"""How long, in seconds, a worker may keep this one waiting, by its number; None: as long as it likes."""

_log = logging.getLogger(__name__)

# Every message begins with its number and with how many bytes it is about; both are the same everywhere.
_HEAD = struct.Struct("!QQ")
# Up to so many bytes everybody tells everybody; of more, each worker adds a share.
_SMALL = 1 << 15
# A text of up to so many bytes travels with its length.
_SHORT = 56
_TOKEN = 16
_GREET_SECS = 10.0
_SAY_SECS = 10.0
# How often a worker that waits looks for how long it may.
_LOOK_SECS = 1.0
# How many buffers one system call is given.
_AT_ONCE = 64


class Link:
    """Connects the workers of a job in pairs. All of them call the same methods in the same order.

    One that goes away is noticed at once: PeerLostError. One that stands still is the roster's to notice;
    one that lives and does not come is given up after a while: MissingPeerError. What is told is neither
    hidden nor signed: the token, which the roster hands on, keeps mistakes apart, not attackers.

    Args:
        rank: the number of this worker.
        tasks: the names of all workers, in the order of their numbers.
        patience: asked about the workers that this one waits for, again and again.

    Attributes:
        rank, tasks: as given.
        secs: how long adding values has taken so far, with waiting for other workers.
        port: where this worker listens until all are connected.
        token: what those that connect have to show, in hexadecimal digits.
    """

    def __init__(self, rank: int, tasks: Sequence[str], patience: Patience = lambda rank: None) -> None:
        self.rank = rank
        self.tasks = tuple(tasks)
        self._patience = patience
        self._peers: dict[int, socket.socket] = {}
        self.secs = 0.0
        self._messages = itertools.count()
        dual = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if dual else socket.AF_INET
        self._listener = socket.create_server(("", 0), family=family, backlog=len(tasks), dualstack_ipv6=dual)
        self.port: int = self._listener.getsockname()[1]
        self.token = secrets.token_hex(_TOKEN)

    def connect(self, look_up: Callable[[int], tuple[str, int, str]], timeout_secs: float) -> None:
        """Connect to the workers before this one, and wait for those after it to do so.

        Args:
            look_up: gives the host, port and token of a worker by its number.
            timeout_secs: how long to wait, in seconds.

        Raises:
            MissingPeerError: A worker cannot be reached, or does not come.
        """
        deadline = time.monotonic() + timeout_secs
        for peer in range(self.rank):
            host, port, token = look_up(peer)
            try:
                sock = socket.create_connection((host, port), timeout=_GREET_SECS)
                sock.sendall(bytes.fromhex(token) + self.rank.to_bytes(4, "big"))
            except OSError as exc:
                raise MissingPeerError(
                    f"{self.tasks[self.rank]} cannot connect to {self.tasks[peer]} at "
                    f"{host}:{port}: {exc}. "
                    "Workers exchange gradients on ports that their systems choose; let them pass."
                ) from exc
            self._adopt(peer, sock)
        while len(self._peers) < len(self.tasks) - 1:
            self._listener.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                sock, _ = self._listener.accept()
            except TimeoutError as exc:
                missing = [self.tasks[i] for i in self._others() if i not in self._peers]
                raise MissingPeerError(
                    f"{self.tasks[self.rank]} has waited {timeout_secs:.0f} s for {', '.join(missing)} to "
                    f"connect to its port {self.port}. Workers exchange gradients on ports that their "
                    "systems choose; let them pass."
                ) from exc
            if (greeted := self._greeted_by(sock)) is None:
                sock.close()
            else:
                self._adopt(greeted, sock)
        self._listener.close()

    def tell_all(self, value: Any) -> list[Any]:
        """Tell all workers a JSON value, and learn what they tell, in their order."""
        text = np.frombuffer(json.dumps(value).encode(), np.uint8)
        first = np.zeros(8 + _SHORT, np.uint8)
        first[:8] = np.frombuffer(len(text).to_bytes(8, "big"), np.uint8)
        first[8 : 8 + len(text)] = text[:_SHORT]
        firsts = self._tell(first)
        lengths = [int.from_bytes(each[:8].tobytes(), "big") for each in firsts]
        texts = [each[8 : 8 + length] for each, length in zip(firsts, lengths, strict=True)]
        if max(lengths) > _SHORT:
            texts = [np.empty(length, np.uint8) for length in lengths]
            texts[self.rank] = text
            self._exchange(0, self._to_all([text]), {peer: [texts[peer]] for peer in self._peers})
        return [json.loads(each.tobytes()) for each in texts]

    def require_equal(self, what: str, values: list[str]) -> None:
        """Check that all workers have the same texts.

        Args:
            what: what they are, for the message.
            values: those of this worker.

        Raises:
            MismatchError: in every worker, naming two that differ and where.
        """
        first, *rest = self.tell_all(values)
        for task, others in zip(self.tasks[1:], rest, strict=True):
            for at, (ours, theirs) in enumerate(itertools.zip_longest(first, others, fillvalue="nothing")):
                if ours != theirs:
                    raise MismatchError(
                        f"The {what} of {self.tasks[0]} and {task} differ: number {at} is {ours} in one, "
                        f"{theirs} in the other. All workers must run the same program on data of the same "
                        "structure."
                    )

    def gather(self, array: Array) -> list[Array]:
        """The arrays of all workers, in their order: of one dtype, their shapes may differ."""
        shapes = self.tell_all(array.shape)
        arrays = [np.empty(shape, array.dtype) for shape in shapes]
        arrays[self.rank] = np.ascontiguousarray(array)
        self._exchange(0, self._to_all([array]), {peer: [arrays[peer]] for peer in self._peers})
        return arrays

    def copy_first(self, arrays: Sequence[Array]) -> list[Array]:
        """The first worker's arrays, on all of them; shapes and dtypes are the same everywhere."""
        size = sum(array.nbytes for array in arrays)
        if self.rank == 0:
            self._exchange(size, self._to_all(arrays), {})
            return list(arrays)
        copies = [np.empty(array.shape, array.dtype) for array in arrays]
        self._exchange(size, {}, {0: copies})
        return copies

    def sum(self, arrays: Sequence[Array]) -> list[Array]:
        """The sums of flat arrays over the workers, the same on all of them, bit for bit.

        Each worker adds its share of every array, in the order of the workers, and tells the others.

        Args:
            arrays: of the same lengths and dtypes everywhere.
        """
        began = time.monotonic()
        sums = self._sum(arrays)
        self.secs += time.monotonic() - began
        return sums

    def _sum(self, arrays: Sequence[Array]) -> list[Array]:
        size = sum(array.nbytes for array in arrays)
        if size <= _SMALL:
            received = {peer: [np.empty_like(array) for array in arrays] for peer in self._peers}
            self._exchange(size, self._to_all(arrays), received)
            return self._add({**received, self.rank: arrays})
        share = functools.partial(_shares, arrays, len(self.tasks))
        own = share(self.rank)
        received = {peer: [np.empty_like(part) for part in own] for peer in self._peers}
        self._exchange(size, {peer: share(peer) for peer in self._peers}, received)
        totals = self._add({**received, self.rank: own})
        sums = [np.empty_like(array) for array in arrays]
        for place, total in zip(_shares(sums, len(self.tasks), self.rank), totals, strict=True):
            place[:] = total
        into = {peer: _shares(sums, len(self.tasks), peer) for peer in self._peers}
        self._exchange(size, self._to_all(totals), into)
        return sums

    def close(self) -> None:
        """Close all connections."""
        for sock in (*self._peers.values(), self._listener):
            sock.close()

    def _others(self) -> list[int]:
        return [i for i in range(len(self.tasks)) if i != self.rank]

    def _greeted_by(self, sock: socket.socket) -> int | None:
        """The number of the worker that has connected; None if it is none."""
        sock.settimeout(_GREET_SECS)
        greeting = b""
        try:
            while len(greeting) < _TOKEN + 4 and (data := sock.recv(_TOKEN + 4 - len(greeting))):
                greeting += data
        except OSError:
            return None
        peer = int.from_bytes(greeting[_TOKEN:], "big")
        known = hmac.compare_digest(greeting[:_TOKEN], bytes.fromhex(self.token))
        return peer if known and self.rank < peer < len(self.tasks) else None

    def _adopt(self, peer: int, sock: socket.socket) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._peers[peer] = sock

    def _to_all(self, arrays: Sequence[Array]) -> Buffers:
        return dict.fromkeys(self._peers, arrays)

    def _tell(self, array: Array) -> list[Array]:
        """What all workers tell in arrays of this shape and dtype, in their order."""
        told = {peer: np.empty_like(array) for peer in self._peers}
        self._exchange(array.nbytes, self._to_all([array]), {peer: [into] for peer, into in told.items()})
        told[self.rank] = array
        return [told[i] for i in range(len(self.tasks))]

    def _add(self, given: Buffers) -> list[Array]:
        """Add the workers' arrays in the order of the workers."""
        first, *rest = [given[i] for i in range(len(self.tasks))]
        sums = [np.add(a, b) for a, b in zip(first, rest[0], strict=True)]
        for arrays in rest[1:]:
            for total, array in zip(sums, arrays, strict=True):
                np.add(total, array, out=total)
        return sums

    def _exchange(self, size: int, out: Buffers, into: Buffers) -> None:
        """Send arrays to workers, and fill arrays with what comes from them.

        Args:
            size: the bytes of all that is about to be told; the same on all workers.
            out: what to send, by the receiver's number; a worker that is left out is sent the head alone.
            into: what to fill, by the sender's number, likewise.
        """
        head = _HEAD.pack(next(self._messages), size)
        heads = {peer: bytearray(_HEAD.size) for peer in self._peers}
        sending = {peer: _pending(memoryview(head), out.get(peer, ())) for peer in self._peers}
        filling = {peer: _pending(memoryview(heads[peer]), into.get(peer, ())) for peer in self._peers}
        began = said = idle = time.monotonic()
        while sending or filling:
            moved = False
            for peer, sock in self._peers.items():
                try:
                    if peer in sending:
                        moved |= self._send(peer, sock, sending)
                    if peer in filling:
                        moved |= self._fill(peer, sock, filling)
                except OSError as exc:
                    raise PeerLostError(f"{self.tasks[peer]} has broken off: {exc.strerror}.") from exc
            awaited = {*sending, *filling}
            if not awaited:
                break
            if moved:
                idle = time.monotonic()
                continue
            poll = select.poll()
            for peer in awaited:
                wanted = (peer in sending) * select.POLLOUT | (peer in filling) * select.POLLIN
                poll.register(self._peers[peer], wanted)
            if poll.poll(1000 * _LOOK_SECS):
                continue
            now = time.monotonic()
            idle = self._be_patient(awaited, idle, now)
            if now - said >= _SAY_SECS:
                said = now
                _log.info(
                    "%s waits for %s, %.0f s.", self.tasks[self.rank], self._names(awaited), now - began
                )
        for peer, received in heads.items():
            if received != head:
                raise MismatchError(
                    f"{self.tasks[self.rank]} and {self.tasks[peer]} are not at the same point: their "
                    f"messages are {_HEAD.unpack(head)} and {_HEAD.unpack(received)} (number, bytes). All "
                    "workers must run the same program."
                )

    def _be_patient(self, awaited: set[int], idle: float, now: float) -> float:
        """Since when workers that were awaited since ``idle`` have no excuse; raises if that is too long."""
        limits = [self._patience(peer) for peer in awaited]
        secs = min((limit for limit in limits if limit is not None), default=0.0)
        if None in limits:
            return now
        if now - idle >= secs:
            raise MissingPeerError(
                f"{self.tasks[self.rank]} has waited {now - idle:.0f} s for {self._names(awaited)}, to whom "
                "it is connected: look there for what takes so long. How long workers wait for each other's "
                "first step is said by RunConfig(session_creation_timeout_secs=...), for later ones by "
                "CommunicationOptions(timeout_seconds=...)."
            )
        return idle

    def _names(self, peers: set[int]) -> str:
        return ", ".join(self.tasks[peer] for peer in sorted(peers))

    def _send(self, peer: int, sock: socket.socket, sending: dict[int, list[memoryview]]) -> bool:
        try:
            _drop(sending[peer], sock.sendmsg(sending[peer][:_AT_ONCE]))
        except BlockingIOError:
            return False
        if not sending[peer]:
            del sending[peer]
        return True

    def _fill(self, peer: int, sock: socket.socket, filling: dict[int, list[memoryview]]) -> bool:
        try:
            count = sock.recvmsg_into(filling[peer][:_AT_ONCE])[0]
        except BlockingIOError:
            return False
        if not count:
            raise ConnectionResetError(0, "end of the connection")
        _drop(filling[peer], count)
        if not filling[peer]:
            del filling[peer]
        return True


def _shares(arrays: Sequence[Array], workers: int, worker: int) -> list[Array]:
    """A worker's share of flat arrays."""
    return [a[len(a) * worker // workers : len(a) * (worker + 1) // workers] for a in arrays]


def _pending(head: memoryview, arrays: Sequence[Array]) -> list[memoryview]:
    """The bytes of contiguous arrays, after a head."""
    return [head, *(memoryview(a.reshape(-1).view(np.uint8)) for a in arrays if a.size)]


def _drop(pending: list[memoryview], count: int) -> None:
    """Take away the first bytes."""
    done = 0
    while done < len(pending) and count >= len(pending[done]):
        count -= len(pending[done])
        done += 1
    del pending[:done]
    if count:
        pending[0] = pending[0][count:]
