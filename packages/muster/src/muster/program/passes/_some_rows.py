"""Compute table-shaped values for some rows, indexed by position instead of id."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend import core as jex

from muster._row_ids import NO_ROW
from muster.program.passes._jaxprs import Atom, Equation
from muster.program.passes._row_values import RowValues

TableRows: TypeAlias = tuple[Any, Any]
"""Ids of rows of a table, and the rows.

The ids are int32 of shape (k,), each once, in ascending order, and `NO_ROW` at the end where there is no row.
The rows are of shape (k, ...), zeros where there is none.
"""


class SomeRows:
    """Computes the values that consist of rows of a table, for some of the rows.

    Args:
        of: Which values those are.
        table: The table in the program; None if it is not read.
        given: The rows of the table.
        read: Returns values of the program that do not consist of rows of the table.
    """

    def __init__(
        self,
        of: RowValues,
        table: jex.Var | None,
        given: TableRows,
        read: Callable[[Iterable[Atom]], list[jax.Array]],
    ) -> None:
        self._of = of
        self._ids, rows = map(jnp.asarray, given)
        self._made: dict[Atom, jax.Array] = {} if table is None else {table: rows}
        self._places: dict[tuple[Atom, Any], jax.Array] = {}
        self._read = read

    def read(self, atom: Atom) -> jax.Array:
        """Return rows of a value, of shape (k, ...), or all of one that does not consist of rows."""
        if atom not in self._of and not self._of.is_alike(atom):
            return self._read([atom])[0]
        if atom not in self._made:
            self._made[atom] = self._rows_by(self._of.maker(atom))
        return self._made[atom]

    def compute(self, eqn: Equation) -> jax.Array:
        """Return what an equation computes of rows that does not itself consist of them."""
        rows = self.read(eqn.invars[0])
        if self._of.looks_up(eqn):
            return _bound(eqn, [rows, self._place(eqn)], **_ANY_INDICES)
        return _bound(eqn, [rows])

    def _rows_by(self, eqn: Equation) -> jax.Array:
        """Compute rows of a value by the equation that computes all of them."""
        operand, *others = eqn.invars
        if eqn.primitive is lax.broadcast_in_dim_p:
            narrow = self.read(operand) if operand in self._of else self._read([operand])[0]
            return widened(eqn, narrow, len(self._ids))
        if eqn.primitive is lax.reshape_p:
            return self.read(operand).reshape(-1, *eqn.params["new_sizes"][1:])
        if self._of.adds_rows(eqn):
            added = [self.read(operand), self._place(eqn), *self._read(others[1:])]
            return _bound(eqn, added, mode=lax.GatherScatterMode.FILL_OR_DROP, **_ANY_INDICES)
        return _bound(eqn, [self.read(v) for v in eqn.invars])

    def _place(self, eqn: Equation) -> jax.Array:
        """Return the indices of a look-up or addition with places among the rows, instead of ids.

        An id whose row is not given has a place beyond them: it gives a row of NaNs, and adds to none.
        """
        key = eqn.invars[1], eqn.params["mode"]
        if key not in self._places:
            (indices,) = self._read(key[:1])
            wanted = ids_among(eqn, indices, self._of.rows)
            places = jnp.searchsorted(self._ids, wanted)
            is_given = (self._ids.at[places].get(mode="clip") == wanted) & (wanted < self._of.rows)
            found = jnp.where(is_given, places, len(self._ids)).astype(indices.dtype)
            alone = indices.shape[-1] == 1
            self._places[key] = found[..., None] if alone else indices.at[..., _axis(eqn)].set(found)
        return self._places[key]


def asked_ids(eqn: Equation, indices: jax.Array, rows: int) -> jax.Array:
    """Return the ids of the rows that a look-up, or an addition of rows, asks a table for.

    Args:
        eqn: The look-up or addition.
        indices: Its indices.
        rows: The number of rows of the table.

    Returns:
        int32 of shape (n,). An addition asks for no row where its id is out of range; a look-up asks for what
        there is not, unless it clips ids itself.
    """
    ids = ids_among(eqn, indices, rows).reshape(-1)
    if eqn.primitive is lax.scatter_add_p:
        return jnp.where((ids >= 0) & (ids < rows), ids, NO_ROW)
    return ids


def ids_among(eqn: Equation, indices: jax.Array, rows: int) -> jax.Array:
    """Return the ids of rows among the indices of a look-up or addition."""
    ids = indices[..., _axis(eqn)].astype(jnp.int32)
    return jnp.clip(ids, 0, rows - 1) if eqn.params["mode"] == lax.GatherScatterMode.CLIP else ids


def widened(eqn: Equation, value: jax.Array, rows: Any) -> jax.Array:
    """Broadcast a value as an equation does, to another number of rows."""
    return lax.broadcast_in_dim(value, (rows, *eqn.params["shape"][1:]), eqn.params["broadcast_dimensions"])


# Places are in no order, and those of ids whose row is not given are the same.
_ANY_INDICES = {"indices_are_sorted": False, "unique_indices": False}


def _bound(eqn: Equation, operands: Sequence[jax.Array], **params: object) -> jax.Array:
    made: jax.Array = eqn.primitive.bind(*operands, **{**eqn.params, **params})
    return made


def _axis(eqn: Equation) -> int:
    """Return which element of an index is the row."""
    axes = eqn.params["dimension_numbers"]
    is_lookup = eqn.primitive is lax.gather_p
    index: int = (axes.start_index_map if is_lookup else axes.scatter_dims_to_operand_dims).index(0)
    return index
