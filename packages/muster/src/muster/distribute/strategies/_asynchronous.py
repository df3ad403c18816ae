"""`AsynchronousStrategy`: one of several workers that train shared variables on parameter servers."""

from collections.abc import Mapping, Sequence

from muster.distribute.engine._flat_arrays import RowRange
from muster.distribute.engine._placement import Placement
from muster.distribute.engine._served import ServedEngine
from muster.distribute.servers import TicketedSteps
from muster.distribute.servers._server import Server
from muster.distribute.strategies._parameter_server import Partitioner, check_max_staleness
from muster.distribute.strategies._strategy import Strategy
from muster.distribute.workers._workers import SingleWorker
from muster.program.variables import VariableSpec
from muster.ps import ServedVariable, place

# It lies whole on the first server, which gives the tickets.
_GLOBAL_STEP = "global_step"


class AsynchronousStrategy(Strategy):
    """Trains variables on parameter servers, between workers that need not wait for each other.

    Args:
        server: The server of this task.
        starts: Whether this is the chief, whose values the servers start from.
        partitioner: Says how many shards a variable is divided into; None leaves all whole.
        max_staleness: How many steps a worker may be ahead of the slowest one; None for any number. With 0
            workers train in step, on the mean of their gradients.

    Raises:
        TypeError: ``max_staleness`` is neither an integer nor None.
        ValueError: It is negative.

    Source: tensorflow/python/training/device_setter.py, ``replica_device_setter``, by which an Estimator puts
    variables on parameter servers if its ``RunConfig`` names no strategy.
    """

    def __init__(
        self,
        server: Server,
        *,
        starts: bool,
        partitioner: Partitioner | None = None,
        max_staleness: int | None = None,
    ) -> None:
        check_max_staleness(max_staleness)
        servers = server.connect(starts=starts)
        servers.max_staleness = max_staleness

        def rows_of(variables: Sequence[VariableSpec]) -> Mapping[str, Sequence[RowRange]]:
            return _placed(variables, servers.count, partitioner)

        super().__init__(
            Placement(None),  # the engine puts values onto the servers
            ServedEngine(servers, rows_of),
            SingleWorker(server.roster, servers.exchanged),
            steps=TicketedSteps(servers),
        )
        self._servers = servers

    def end(self) -> None:
        """Tell all servers that the job has ended."""
        self._servers.end()

    def close(self) -> None:
        """Close the connections to the servers."""
        self._servers.close()


def _placed(
    variables: Sequence[VariableSpec], servers: int, partitioner: Partitioner | None
) -> dict[str, list[RowRange]]:
    """Return the rows that each server has of the variables that are trained, and of the global step."""
    trained = [
        ServedVariable(name=spec.path, shape=spec.shape, dtype=spec.dtype)
        for spec in variables
        if spec.trainable
    ]
    placed: dict[str, list[RowRange]] = {_GLOBAL_STEP: [RowRange(0)]}
    for shard in place(trained, servers, partitioner):
        whole = shard.part is None
        rows = RowRange(shard.server) if whole else RowRange(shard.server, shard.start, shard.stop)
        placed.setdefault(shard.variable, []).append(rows)
    return placed
