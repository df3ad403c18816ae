"""Parameter servers in this process, which are reached over sockets."""

import contextlib

from jobs import free_addresses
from muster.cluster import ClusterSpec
from muster.distribute import AsynchronousStrategy, Server


@contextlib.contextmanager
def servers(count, partitioner=None, max_staleness=None):
    """The strategy of a chief beside some servers."""
    cluster = ClusterSpec({"chief": free_addresses(1), "ps": free_addresses(count)})
    with contextlib.ExitStack() as stack:
        for index in range(count):
            stack.enter_context(Server(cluster, "ps", index))
        chief = stack.enter_context(Server(cluster, "chief"))
        strategy = AsynchronousStrategy(
            chief, starts=True, partitioner=partitioner, max_staleness=max_staleness
        )
        stack.callback(strategy.close)
        yield strategy
