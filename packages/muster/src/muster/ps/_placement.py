"""Place the rows of variables on servers, as a function of the variables alone.

Every task computes this by itself, so that it must come out the same everywhere: it does not depend on the
order in which the variables are given.
"""

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from muster.ps._partitioners import bytes_of_element, require_positive


@dataclass(frozen=True, kw_only=True)
class ServedVariable:
    """A variable to place.

    Attributes:
        name: Its name, which no other has.
        shape: Its shape.
        dtype: Its dtype, or that one's name.
        splittable: Whether its rows may lie on several servers.
    """

    name: str
    shape: tuple[int, ...]
    dtype: Any
    splittable: bool = True


@dataclass(frozen=True, kw_only=True)
class ServedShard:
    """A variable, or some rows of one, on a server.

    Attributes:
        variable: The variable's name.
        part: Which of the variable's shards it is, from 0; None if the variable is whole.
        start: Its first row; 0 of a scalar.
        stop: The row after its last; 1 of a scalar.
        nbytes: Its size in bytes.
        server: The server's task index.
    """

    variable: str
    part: int | None
    start: int
    stop: int
    nbytes: int
    server: int

    @property
    def name(self) -> str:
        """Its own name: ``dense/kernel``, or ``dense/kernel/part_0`` if that is split, as in TensorFlow."""
        return self.variable if self.part is None else f"{self.variable}/part_{self.part}"


def place(
    variables: Iterable[ServedVariable],
    servers: int,
    partitioner: Callable[[tuple[int, ...], Any], Sequence[int]] | None = None,
    held: Sequence[int] = (),
) -> list[ServedShard]:
    """Place variables on servers, such that the servers hold about as many bytes.

    Variables, or their shards, go in turn to the server that holds the least, the largest first. Of equal
    ones, the first by name; of servers, the one with the lowest index.

    Args:
        variables: The variables, in any order.
        servers: The number of servers.
        partitioner: Says from a variable's shape and dtype how many shards there are along each axis; along
            others than the first, 1. None splits nothing. It is not asked about scalars, nor about what
            cannot be split.
        held: How many bytes each server holds already; nothing by default.

    Returns:
        The shards, by the variables' names and in the order of rows.

    Raises:
        ValueError: There is no server, two variables have one name, or the partitioner gives something else.

    Source: tensorflow/python/distribute/parameter_server_strategy_v2.py, ``_create_variable``, which goes
        round the servers without regard to bytes.
    """
    servers = require_positive("servers", servers)
    served = sorted(variables, key=lambda variable: variable.name)
    if doubled := [
        name for name, count in Counter(variable.name for variable in served).items() if count > 1
    ]:
        raise ValueError(f"Several variables are called {doubled[0]!r}: servers know a variable by its name.")
    pieces = [
        _Piece(variable, *rows) for variable in served for rows in _rows_of_parts(variable, partitioner)
    ]
    loads = [(load, server) for server, load in enumerate(held or [0] * servers)]
    heapq.heapify(loads)
    held_by: dict[_Piece, int] = {}
    for piece in sorted(pieces, key=lambda piece: -piece.nbytes):
        load, held_by[piece] = loads[0]
        heapq.heapreplace(loads, (load + piece.nbytes, held_by[piece]))
    return [
        ServedShard(
            variable=piece.variable.name,
            part=piece.part,
            start=piece.start,
            stop=piece.stop,
            nbytes=piece.nbytes,
            server=held_by[piece],
        )
        for piece in pieces
    ]


def split_rows(rows: int, shards: int) -> list[tuple[int, int]]:
    """Split rows in order into nearly equal shards, the first of which take one more: 10 in 4 are 3, 3, 2, 2.

    Args:
        rows: The number of rows.
        shards: The number of shards, at most one a row.

    Returns:
        The first row of each shard, and the row after its last.

    Source: tensorflow/python/ops/embedding_ops.py, the ``"div"`` strategy.
    """
    size, more = divmod(rows, shards)
    starts = [shard * size + min(shard, more) for shard in range(shards + 1)]
    return list(zip(starts, starts[1:], strict=False))


class _Piece(NamedTuple):
    """A variable, or a shard of one, without a server yet."""

    variable: ServedVariable
    part: int | None
    start: int
    stop: int

    @property
    def nbytes(self) -> int:
        row_bytes = math.prod(self.variable.shape[1:]) * bytes_of_element(self.variable.dtype)
        return (self.stop - self.start) * row_bytes


def _rows_of_parts(
    variable: ServedVariable, partitioner: Callable[[tuple[int, ...], Any], Sequence[int]] | None
) -> list[tuple[int | None, int, int]]:
    """Return the number, the first row and the end of each shard of a variable."""
    rows, shards = variable.shape[0] if variable.shape else 1, 1
    if partitioner is not None and variable.splittable and variable.shape:
        try:
            counts = partitioner(variable.shape, variable.dtype)
        except Exception as exc:
            exc.add_note(
                f"This came from variable_partitioner, for variable {variable.name!r} of shape "
                f"{variable.shape} and dtype {variable.dtype}."
            )
            raise
        shards = min(_checked(variable, counts), rows)
    if shards <= 1:
        return [(None, 0, rows)]
    return [(part, start, stop) for part, (start, stop) in enumerate(split_rows(rows, shards))]


def _checked(variable: ServedVariable, counts: Any) -> int:
    """Return the number of shards that a partitioner gives, along the first axis."""
    if isinstance(counts, list | tuple) and counts and all(count == 1 for count in counts[1:]):
        first = counts[0]
        if isinstance(first, int | np.integer) and first >= 1:
            return int(first)
    raise ValueError(
        "variable_partitioner must return a list/tuple whose elements are 1 besides the first element "
        f"(non-zero), got: {counts!r} for variable {variable.name!r} of shape {variable.shape}. Only the "
        "first axis can be split."
    )
