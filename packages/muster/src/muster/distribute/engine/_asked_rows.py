"""The table rows that a step fetches from each parameter server, and those that it pushes there."""

from collections.abc import Sequence
from typing import Any

import jax
import msgspec
import numpy as np

from muster._row_ids import NO_ROW, unique_ids, unique_wide_ids
from muster.ps import Array
from muster.ps.tables import owners


class TableRows(msgspec.Struct, frozen=True):
    """Rows of a table on a server; a part of a hashed table.

    Args:
        server: The number of the server.
        start: The first row; the number of the part.
        stop: The row after the last; the number of the next part.
    """

    server: int
    start: int
    stop: int


class AskedTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table of which a program takes some rows alone.

    Args:
        name: Its name, for errors.
        shape: Its shape.
        dtype: Its dtype.
        given: How many rows the program is given; those that no id asks for are zeros.
        pushed: How many arrays with as many rows the program pushes for it.
        parts: Where its rows are, in order.
        hashed: Whether it has rows for ids of 64 bits.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    given: int
    pushed: int
    parts: tuple[TableRows, ...]
    hashed: bool = False

    @property
    def row_shapes(self) -> tuple[jax.ShapeDtypeStruct, jax.ShapeDtypeStruct]:
        """The shapes and dtypes of the ids and of the rows that the program is given."""
        rows = jax.ShapeDtypeStruct((self.given, *self.shape[1:]), self.dtype)
        return jax.ShapeDtypeStruct((self.given,), "int32"), rows


class AskedRows:
    """The rows of tables that a step asks for.

    Args:
        tables: The tables.
        ids: For each the ids that look-ups ask for, in any order, with repetitions.
        checks: Whether ids of no row are an error; else they are left out.

    Attributes:
        numbers: For each hashed table, which of its rows each id asks for.

    Raises:
        DatasetError: A table has no such row.
    """

    def __init__(self, tables: Sequence[AskedTable], ids: Sequence[Any], *, checks: bool = True) -> None:
        self._tables = tables
        self.numbers: list[Array] = []
        self._ids: list[Array] = []
        # Of each table the servers of its parts, which of the ids those have, and these as they travel.
        self._parts: list[list[tuple[int, Any, Array]]] = []
        for table, given in zip(tables, ids, strict=True):
            unique: Array
            if table.hashed:
                unique, numbers = unique_wide_ids(given)
                self.numbers.append(numbers)
            else:
                unique = unique_ids(table.name, given, table.shape[0], checks=checks)
            self._ids.append(unique)
            chosen = [
                (part.server, some) for part, some in zip(table.parts, _divided(table, unique), strict=True)
            ]
            self._parts.append([(server, some, unique[some].astype(np.int64)) for server, some in chosen])

    def ids(self, servers: int) -> list[list[Array]]:
        """Return the ids for each server, by table, and by the table's parts there."""
        asked: list[list[Array]] = [[] for _ in range(servers)]
        for parts in self._parts:
            for server, _, ids in parts:
                asked[server].append(ids)
        return asked

    def taken(self, answers: Sequence[list[Array]], into: Sequence[Array] | None = None) -> Sequence[Array]:
        """Take the rows out of what servers have answered; return the ids and the rows of each table.

        The ids are those by which the program looks rows up: of hashed tables, their numbers.

        Args:
            answers: Of each server, arrays that are taken as a whole, and then rows in the order of `ids`.
            into: The arrays to return, whose content is replaced; None for new ones.
        """
        if into is None:
            shapes = (shape for table in self._tables for shape in table.row_shapes)
            into = [np.empty(shape.shape, shape.dtype) for shape in shapes]
        counts = [0] * len(answers)
        for parts in self._parts:
            for server, _, _ in parts:
                counts[server] += 1
        rows = [iter(each[len(each) - count :]) for each, count in zip(answers, counts, strict=True)]
        for each, count in zip(answers, counts, strict=True):
            del each[len(each) - count :]
        left = iter(into)
        for table, ids, parts in zip(self._tables, self._ids, self._parts, strict=True):
            numbers, values, count = next(left), next(left), len(ids)
            numbers[:count] = np.arange(count) if table.hashed else ids
            numbers[count:] = NO_ROW
            for server, some, _ in parts:
                values[some] = next(rows[server])
            values[count:] = 0
        return into

    def pushed(self, arrays: Sequence[Any], servers: int) -> list[list[tuple[Array, list[Array]]]]:
        """Return the ids and the rows to push to each server, in the order of `ids`.

        Args:
            arrays: What is pushed by rows for each table, one after the other.
            servers: The number of servers.
        """
        left = iter(arrays)
        rows: list[list[tuple[Array, list[Array]]]] = [[] for _ in range(servers)]
        for table, ids, parts in zip(self._tables, self._ids, self._parts, strict=True):
            made = [np.asarray(next(left))[: len(ids)] for _ in range(table.pushed)]
            for server, some, asked in parts:
                rows[server].append((asked, [each[some] for each in made]))
        return rows


def _divided(table: AskedTable, ids: Array) -> list[Any]:
    """Return which of some ids, ascending, each part of a table has."""
    if len(table.parts) == 1:
        return [slice(0, len(ids))]
    if table.hashed:
        owner = owners(ids, len(table.parts))
        return [np.flatnonzero(owner == part.start) for part in table.parts]
    return [slice(*np.searchsorted(ids, (part.start, part.stop))) for part in table.parts]
