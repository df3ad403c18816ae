"""Plan the arrays and updates of each parameter server."""

import jax
import jax.export

from muster.distribute.engine._shards import Division, ServerShare
from muster.ps import Plan


def plans_of(division: Division, max_staleness: int | None = None) -> list[Plan]:
    """Describe the share of each server, with its update as an exported function.

    Args:
        division: What the servers hold and do.
        max_staleness: How many steps a worker may be ahead of the slowest one; None for any number.
    """
    count = len(division.shares)
    return [_plan(share, server, count, max_staleness) for server, share in enumerate(division.shares)]


def _plan(share: ServerShare, server: int, servers: int, max_staleness: int | None) -> Plan:
    shapes = (share.pulled.shapes, share.kept.shapes, share.pushed.shapes)
    update = jax.jit(share.update)
    return Plan(
        pulled=share.pulled.specs,
        kept=share.kept.specs,
        pushed=share.pushed.specs,
        # Without places in the source, which differ between machines.
        meaning=update.lower(*shapes).as_text(),
        update=bytes(jax.export.export(update, platforms=("cpu",))(*shapes).serialize()),
        server=server,
        servers=servers,
        max_staleness=max_staleness,
    )
