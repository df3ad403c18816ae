"""Linked workers in threads of one process."""

import threading

from muster.distribute.workers._socket_workers import SocketWorkers

SECS = 20.0


def together(count, work, patience=lambda rank: None, kind=SocketWorkers):
    """Return what each of `count` linked workers makes of ``work(link)``, or its error."""
    links = [kind(rank, [f"worker {i}" for i in range(count)], patience) for rank in range(count)]
    results = [None] * count

    def run(rank):
        link = links[rank]
        try:
            link.connect(lambda peer: ("localhost", links[peer].port, links[peer].token), SECS)
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
