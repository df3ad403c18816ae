"""The layout of a function's arrays between workers and a server: flat buffers, in a fixed order."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from muster._arrays import dtype_named
from muster.ps._array_spec import ArraySpec
from muster.ps._flat_layout import Array, Flat, FlatLayout, sizes_of
from muster.ps.contents._stored import FunctionSignature, TableSignature
from muster.ps.tables import Ids

_ID = "int64"


class RowPush(NamedTuple):
    """The arrays pushed for rows of a table.

    Attributes:
        ids: Their ids, of shape (n,).
        rows: Arrays of n rows.
        whole: Arrays for all of them.
    """

    ids: Ids
    rows: tuple[Array, ...]
    whole: tuple[Array, ...]


class FunctionLayout:
    """Says which buffers follow the messages of a function.

    - Those of `Pull` are the ids of all tables, one after the other, in one; none if no rows are asked for.
    - The answer has what the function takes, flat, and then the rows of each table.
    - Those of `Push` are what is pushed as a whole, flat, and the ids of all tables; then, for each table,
      what is pushed for it as a whole, flat, and each array of rows; and at last the ids of rows that it asks
      for.

    Args:
        signature: What workers read and push.
    """

    def __init__(self, signature: FunctionSignature) -> None:
        self.tables = len(signature.tables)
        self._signature = signature
        self._takes, self._pushed = FlatLayout(signature.takes), FlatLayout(signature.pushed)
        self._of_tables = [FlatLayout(table.pushed) for table in signature.tables]
        # Of each table, the sizes of what is pushed for it as a whole, and of each row.
        self._sizes = [
            ([*layout.sizes.items()], [(each.dtype, each.size) for each in table.row_pushes])
            for layout, table in zip(self._of_tables, signature.tables, strict=True)
        ]
        self._row_kinds = [
            [(dtype_named(each.dtype), each.shape) for each in table.row_pushes] for table in signature.tables
        ]
        self._into: Flat = {}

    def asked_sizes(self, counts: Sequence[int]) -> list[tuple[str, int]]:
        """Return the dtype and the size of each buffer that asks for some rows of each table."""
        return [(_ID, sum(counts))] if self.tables else []

    def pushed_sizes(self, counts: Sequence[int]) -> list[tuple[str, int]]:
        """Return those that push some rows of each table."""
        sizes = [*self._pushed.sizes.items(), *self.asked_sizes(counts)]
        for count, (whole, rows) in zip(counts, self._sizes, strict=True):
            sizes += whole
            sizes += [(dtype, count * size) for dtype, size in rows]
        return sizes

    def pack_ids(self, ids: Sequence[Any]) -> list[Array]:
        """Return the ids of all tables to ask for.

        Raises:
            ValueError: They are not those of as many tables, or no integers of 64 bits in one dimension.
        """
        if len(ids) != self.tables:
            raise ValueError(f"There are ids for {len(ids)} tables, of a function with {self.tables}.")
        arrays = [np.asarray(each) for each in ids]
        for array in arrays:
            if array.dtype != np.int64 or array.ndim != 1:
                given = f"{array.dtype}{list(array.shape)}"
                raise ValueError(f"Ids must be int64 in one dimension. Given: {given}.")
        return [np.concatenate(arrays)] if arrays else []

    def pack_pushed(self, pushed: Sequence[Any], rows: Sequence[tuple[Any, Sequence[Any]]]) -> list[Array]:
        """Return arrays to push; they may be overwritten once those are packed that come next.

        Args:
            pushed: Those that are pushed as a whole: the function's own, then those of each table.
            rows: For each table ids, and arrays of as many rows.

        Raises:
            ValueError: They are not what the function takes.
        """
        specs, tables = self._signature.pushed, self._signature.tables
        wanted = len(specs) + sum(len(table.pushed) for table in tables)
        if len(pushed) != wanted:
            raise ValueError(f"{len(pushed)} arrays are to be pushed to a function that takes {wanted}.")
        own = {spec.name: array for spec, array in zip(specs, pushed, strict=False)}
        self._into = self._into or self._pushed.allocate()
        return [*self._pushed.pack(own, self._into).values(), *self.pack_rows(pushed[len(specs) :], rows)]

    def pack_rows(self, whole: Sequence[Any], rows: Sequence[tuple[Any, Sequence[Any]]]) -> list[Array]:
        """Return what is pushed for tables alone; arguments and errors are those of `pack_pushed`."""
        buffers, left = self.pack_ids([ids for ids, _ in rows]), iter(whole)
        tables = zip(self._of_tables, self._signature.tables, self._row_kinds, rows, strict=True)
        for layout, table, kinds, (ids, arrays) in tables:
            if table.pushed:
                buffers += layout.pack({spec.name: next(left) for spec in table.pushed}).values()
            buffers += _flat_rows(table, kinds, len(ids), arrays)
        return buffers

    def unpack_ids(self, buffers: Sequence[Array], counts: Sequence[int]) -> list[Array]:
        """Return the ids of each table, of the sizes of `asked_sizes`."""
        ends = list(itertools.accumulate(counts))
        return [buffers[0][end - count : end] for end, count in zip(ends, counts, strict=True)]

    def unpack_pushed(self, buffers: Sequence[Array], counts: Sequence[int]) -> tuple[Flat, list[RowPush]]:
        """Return what was pushed, of the sizes of `pushed_sizes`: for the function, and for its tables."""
        left = iter(buffers)
        flat = _next_flat(self._pushed, left)
        pushes = []
        for ids, layout, table in zip(
            self.unpack_ids([next(left)], counts) if self.tables else [],
            self._of_tables,
            self._signature.tables,
            strict=True,
        ):
            whole = tuple(layout.unpack(_next_flat(layout, left)).values())
            rows = tuple(next(left).reshape(-1, *each.shape) for each in table.row_pushes)
            pushes.append(RowPush(ids, rows, whole))
        return flat, pushes

    def unpack_taken(
        self, buffers: Sequence[Array], counts: Sequence[int], *, whole: bool = True
    ) -> list[Array]:
        """Return what was taken, and then rows of each table if there are counts of them.

        Args:
            buffers: What has come.
            counts: How many rows of each table; nothing for none of any.
            whole: Whether what is taken as a whole is there.

        Raises:
            ValueError: The buffers are others; the text is a clause.
        """
        rows = [table.row for table in self._signature.tables][: len(counts)]
        sizes = list(self._takes.sizes.items()) if whole else []
        sizes += [(row.dtype, count * row.size) for count, row in zip(counts, rows, strict=True)]
        if list(sizes_of(buffers)) != sizes:
            raise ValueError("its Values have other elements than the function takes")
        left, taken = iter(buffers), []
        if whole:
            arrays = self._takes.unpack(_next_flat(self._takes, left))
            taken = [arrays[spec.name] for spec in self._signature.takes]
        return [*taken, *(next(left).reshape(-1, *row.shape) for row in rows)]


def row_of(spec: ArraySpec) -> ArraySpec:
    """Return one row of an array."""
    return ArraySpec(spec.name, spec.shape[1:], spec.dtype)


def _next_flat(layout: FlatLayout, buffers: Iterator[Array]) -> Flat:
    return {dtype: next(buffers) for dtype in layout.sizes}


def _flat_rows(
    table: TableSignature, kinds: Sequence[tuple[Any, tuple[int, ...]]], count: int, arrays: Sequence[Any]
) -> list[Array]:
    given = [np.ascontiguousarray(array) for array in arrays]
    wanted = [(dtype, (count, *shape)) for dtype, shape in kinds]
    if [(array.dtype, array.shape) for array in given] != wanted:
        theirs = ", ".join(f"{array.dtype}{list(array.shape)}" for array in given) or "none"
        ours = ", ".join(f"{dtype}{list(shape)}" for dtype, shape in wanted) or "none"
        raise ValueError(
            f"The arrays that are pushed for {count} rows of {table.row.name} are {theirs}. They must be "
            f"{ours}."
        )
    return [array.reshape(-1) for array in given]
