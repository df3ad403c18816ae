"""Describe to each parameter server what it holds, and how pushes update it."""

import jax

from muster.distribute.engine._shards import Division
from muster.distribute.engine._variable_layout import exported
from muster.ps import Plan


def plans_of(division: Division, max_staleness: int | None = None) -> list[Plan]:
    """Describe the share of each server, with its update as an exported function.

    Args:
        division: What the servers hold and do.
        max_staleness: How many steps a worker may be ahead of the slowest one; None for any number.
    """
    return [_plan(division, server, max_staleness) for server in range(len(division.shares))]


def _plan(division: Division, server: int, max_staleness: int | None) -> Plan:
    share, servers = division.shares[server], len(division.shares)
    buffers = share.pulled.shapes, share.kept.shapes, share.pushed.shapes
    shapes, structure = jax.tree.flatten(buffers)

    def run(*arrays: jax.Array) -> list[jax.Array]:
        return jax.tree.leaves(share.update(*jax.tree.unflatten(structure, arrays)))

    text, update = exported(run, *shapes)
    changes = bool(share.pulled.shapes or share.kept.shapes)
    of_tables = "" if division.tables is None else division.tables.meaning
    return Plan(
        pulled=share.pulled.specs,
        kept=share.kept.specs,
        pushed=share.pushed.specs,
        meaning=text + of_tables,
        update=update if changes else b"",
        tables=division.plan_tables(server),
        server=server,
        servers=servers,
        max_staleness=max_staleness,
    )
