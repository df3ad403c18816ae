"""Look up rows of hashed tables, whose ids are any of 64 bits, in a step."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from muster._row_ids import HASHED_ROWS, NO_ID, wide_ids
from muster.program.passes._row_numbers import row_numbers
from muster.program.variables._variable_scope import current_scope


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class KeyedTable:
    """The rows of a hashed table in memory: the value of its variable in steps that do not train it.

    Attributes:
        ids: The lower and the upper half of each id, uint32 of shape (n, 2), in ascending order, without
            signs. The last one stands for all that are not there.
        rows: Their rows, of shape (n, ...). The last one is zeros. A `MappedArray` for those in files.
    """

    ids: Any
    rows: Any

    @classmethod
    def of(cls, ids: np.ndarray[Any, Any], rows: Any) -> "KeyedTable":
        """Return a table of rows.

        Args:
            ids: int64 of shape (n,), all different, ascending without signs.
            rows: Of shape (n + 1, ...): theirs, and one of zeros.
        """
        return cls(wide_ids(np.append(ids, NO_ID)), rows)

    @classmethod
    def empty(cls, row: tuple[int, ...], dtype: Any) -> "KeyedTable":
        """Return a table without rows, by the shape and dtype of one."""
        return cls(wide_ids([NO_ID]), np.zeros((1, *row), dtype))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the table's variable."""
        return (HASHED_ROWS, *self.rows.shape[1:])

    @property
    def dtype(self) -> Any:
        """The dtype of the rows."""
        return self.rows.dtype

    def look_up(self, pairs: jax.Array) -> jax.Array:
        """Return the rows of ids, zeros for those that have none; traceable.

        Args:
            pairs: The halves of ids, uint32 of shape (n, 2).
        """
        ids = jnp.asarray(self.ids)
        last = ids.shape[0] - 1
        lower, upper = pairs[:, 0], pairs[:, 1]

        def halve(_: Any, bounds: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            first, end = bounds
            middle = first + (end - first) // 2
            found = ids[middle]
            is_less = (found[:, 1] < upper) | ((found[:, 1] == upper) & (found[:, 0] < lower))
            return jnp.where(is_less, middle + 1, first), jnp.where(is_less, end, middle)

        start = jnp.zeros(pairs.shape[0], jnp.int32)
        place, _ = lax.fori_loop(0, ids.shape[0].bit_length(), halve, (start, start + last))
        place = jnp.where((ids[place] == pairs).all(1), place, last)
        return jnp.asarray(self.rows)[place]


def rows_by_id(variable: Any, pairs: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return rows of a hashed table: while it is trained those of its servers, else zeros without one.

    Args:
        variable: Its variable.
        pairs: The halves of ids, uint32 of shape (\\*S, 2).

    Returns:
        The rows, of shape (\\*S, ...), zeros where there is no id; and where there is one, bool of shape S.
    """
    shape, flat = pairs.shape[:-1], pairs.reshape(-1, 2)
    scope = current_scope()
    value = None if scope is None else scope.state_mapping.get(id(variable))
    if isinstance(value, KeyedTable):
        there = (flat != np.uint32(0xFFFFFFFF)).any(1)
        rows = value.look_up(flat)
    else:
        table = variable.value  # read first, so that the scope knows the variable
        name = variable.path if scope is None else scope.bindings.table.spec(variable).path
        numbers = row_numbers(flat, table=name)
        there = numbers < HASHED_ROWS
        rows = jnp.take(table, numbers, axis=0, mode="fill", fill_value=jnp.nan)
        rows = jnp.where(there[:, None], rows, 0)
    return rows.reshape(*shape, *rows.shape[1:]), there.reshape(shape)
