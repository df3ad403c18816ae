"""Linked workers in threads of one process."""

import functools
import queue
import socket
import threading

from muster.distribute.workers._socket_workers import SocketWorkers
from muster.net import Connection

SECS = 20.0


def together(count, work, patience=lambda rank: None, kind=SocketWorkers):
    """Return what each of `count` linked workers makes of ``work(link)``, or its error."""
    links = [kind(rank, [f"worker {i}" for i in range(count)], patience) for rank in range(count)]
    results = [None] * count
    callers = [queue.SimpleQueue() for _ in links]

    def dial(rank, peer):
        here, there = socket.socketpair()
        callers[peer].put((rank, Connection(there)))
        return Connection(here)

    def accept(rank, timeout_secs):
        try:
            return callers[rank].get(timeout=timeout_secs)
        except queue.Empty as exc:
            raise TimeoutError from exc

    def run(rank):
        link = links[rank]
        try:
            link.connect(functools.partial(dial, rank), functools.partial(accept, rank), SECS)
            results[rank] = work(link)
        except Exception as exc:
            results[rank] = exc
        finally:
            link.close()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECS)
        assert not thread.is_alive()
    return results
