"""Updates of rows that are exported and compiled: the only module of tables that imports JAX."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.export
import numpy as np

from muster._arrays import dtype_named
from muster.ps._flat_layout import Array
from muster.ps._plan import ArraySpec
from muster.ps.tables._spec import Column
from muster.ps.updates import deserialized, require_same


class CompiledRowUpdate:
    """An exported update, compiled for each number of rows that it gets: the `RowUpdate` of a table.

    Args:
        exported: A serialized ``jax.export.Exported`` for any number of rows, which takes rows of the columns
            and what is pushed for each, and then other arrays; it returns rows of the columns.
        columns: What is kept for each row.
        pushed: What is pushed for each row.
        others: The other arrays.

    Raises:
        ValueError: It is none, or does not fit; the text is a clause about it.
    """

    def __init__(
        self,
        exported: bytes,
        columns: Sequence[Column],
        pushed: Sequence[Column],
        others: Sequence[ArraySpec],
    ) -> None:
        update = deserialized(exported)
        count = _rows(update)
        rows, given = (
            [_shape((count, *each.shape), each.dtype) for each in some] for some in (columns, pushed)
        )
        whole = [_shape(each.shape, dtype_named(each.dtype)) for each in others]
        require_same("its update of rows takes", update.in_avals, [*rows, *given, *whole], "the function")
        require_same("its update of rows returns", update.out_avals, rows, "the function")
        self._call = jax.jit(update.call)

    def __call__(
        self, rows: Sequence[Array], pushed: Sequence[Array], others: Sequence[Any]
    ) -> Sequence[Array]:
        """Return the new rows of all columns."""
        # Waits for what is computed, so that what was given can be used again.
        made = self._call(*rows, *pushed, *others)
        return [np.asarray(array) for array in jax.tree.leaves(made)]


def _rows(update: jax.export.Exported) -> Any:
    """Return the number of rows that an update takes: any, by its own name."""
    shape = update.in_avals[0].shape if update.in_avals else ()
    if not shape or not jax.export.is_symbolic_dim(shape[0]):
        raise ValueError("its update of rows is not for any number of rows")
    return shape[0]


def _shape(shape: tuple[Any, ...], dtype: np.dtype[Any]) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)
