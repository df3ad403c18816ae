"""Plans: what parameter servers are told to hold and to do."""

import jax
import jax.export

from muster.distribute.engine._shards import Division, FlatArrays, Piece, ServerShare
from muster.ps import ArraySpec, Plan


def plans_of(division: Division) -> list[Plan]:
    """Describe the share of each server, with its update as an exported function."""
    count = len(division.shares)
    return [_plan(share, server, count) for server, share in enumerate(division.shares)]


def _plan(share: ServerShare, server: int, servers: int) -> Plan:
    shapes = (share.pulled.shapes, share.kept.shapes, share.pushed.shapes)
    update = jax.jit(share.update)
    return Plan(
        pulled=_specs(share.pulled),
        kept=_specs(share.kept),
        pushed=_specs(share.pushed),
        # Without places in the source, which differ between machines.
        meaning=update.lower(*shapes).as_text(),
        update=bytes(jax.export.export(update, platforms=("cpu",))(*shapes).serialize()),
        server=server,
        servers=servers,
    )


def _specs(arrays: FlatArrays) -> tuple[ArraySpec, ...]:
    return tuple(ArraySpec(_name(piece), piece.shape, piece.dtype) for piece in arrays.pieces)


def _name(piece: Piece) -> str:
    name = piece.key if isinstance(piece.key, str) else f"push {piece.key}"
    start, stop = piece.rows.start, piece.rows.stop
    return name if stop is None else f"{name}[{start}:{stop}]"
