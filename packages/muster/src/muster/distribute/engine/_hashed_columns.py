"""The variables of hashed tables in a program: what they begin with, and what servers keep for each id."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from muster._arrays import LazyArray, dtype_named
from muster._keras import keras
from muster._row_ids import HASHED_ROWS
from muster.checkpoint import KeyedPiece, SavedTable
from muster.program.variables import InitialValue
from muster.ps import FirstKeyedRows
from muster.ps.contents import StoredHash
from muster.ps.tables import Constant, Keeping, Normal, SlotSpec, TableSpec, Uniform, owners

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class HashedInitializer:
    """Initializes the variable of a hashed table, whose rows are made one by one.

    Attributes:
        rows: What rows begin with.
        keeping: Which ids get rows, and for how long.
    """

    rows: Constant | Normal | Uniform
    keeping: Keeping

    def __call__(self, shape: Any, dtype: Any = None, **options: Any) -> Any:
        """Refuse to make all rows.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(
            "The rows of a HashEmbedding, or of categorical_column_with_hashed_table, are made by their ids. "
            "Use it in a model of an Estimator, or create and build it within `with strategy.scope():` of "
            "ParameterServerStrategy; elsewhere use keras.layers.Embedding for ids that "
            "keras.layers.Hashing makes."
        )


def hashed_initializer(initializer: Any, keeping: Keeping) -> HashedInitializer:
    """Return what initializes a hashed table, by one of Keras' initializers of a row.

    Raises:
        TypeError: Servers do not know it.
    """
    kinds = keras.initializers
    seed = getattr(initializer, "seed", None)
    seed = seed if isinstance(seed, int) else 0
    rows: Constant | Normal | Uniform
    match initializer:
        case kinds.Zeros():
            rows = Constant(0.0)
        case kinds.Ones():
            rows = Constant(1.0)
        case kinds.Constant():
            rows = Constant(float(initializer.value))
        case kinds.RandomUniform():
            rows = Uniform(initializer.minval, initializer.maxval, seed)
        case kinds.RandomNormal():
            rows = Normal(initializer.mean, initializer.stddev, seed=seed)
        case kinds.TruncatedNormal():
            rows = Normal(initializer.mean, initializer.stddev, truncated=True, seed=seed)
        case _:
            raise TypeError(
                f"The rows of a hashed table cannot be made by {initializer!r}. Give RandomUniform, "
                "RandomNormal, TruncatedNormal, Zeros, Ones or Constant of keras.initializers."
            )
    return HashedInitializer(rows, keeping)


def is_hashed(shape: Sequence[int]) -> bool:
    """Return whether a variable of a shape is of a hashed table: its rows, or a slot of an optimizer."""
    return tuple(shape[:1]) == (HASHED_ROWS,)


class SavedColumn(LazyArray):
    """The rows of a hashed table, or a slot of it, in a checkpoint from which training goes on.

    Args:
        initial: What the variable would begin with otherwise.
        table: The table in the checkpoint.
        name: The name of the variable there.
    """

    def __init__(self, initial: InitialValue, table: SavedTable, name: str) -> None:
        self.shape, self.dtype = initial.shape, initial.dtype
        self.initial, self.table, self.name = initial, table, name

    def pieces(self) -> Iterator[Array]:
        """Refuse to return all rows, which are only those of some ids."""
        raise NotImplementedError(f"{self.name} has rows for some ids alone.")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        raise NotImplementedError(f"{self.name} has rows for some ids alone.")


class ColumnKind(NamedTuple):
    """Describe one value that servers keep for each id of a hashed table: its row, or a slot.

    Attributes:
        name: The name of its variable.
        shape: Its shape for one id.
        dtype: The name of its dtype.
        initial: What it begins with: a number everywhere, but for the rows themselves.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    initial: HashedInitializer | float


def column_kind(path: str, value: Any) -> ColumnKind:
    """Return the kind of a variable of a hashed table, by what it begins with.

    Raises:
        ValueError: It is a slot whose elements do not all begin with the same number.
    """
    initial = value.initial if isinstance(value, SavedColumn) else value
    row = tuple(initial.shape[1:])
    initializer = initial.initializer
    if isinstance(initializer, HashedInitializer):
        return ColumnKind(path, row, initial.dtype.name, initializer)
    return ColumnKind(path, row, initial.dtype.name, slot_number(path, initializer, row, initial.dtype.name))


def slot_number(name: str, initializer: Any, row: tuple[int, ...], dtype: str) -> float:
    """Return what all elements of a slot begin with.

    Raises:
        ValueError: They do not all begin with the same number.
    """
    with jax.core.eval_context():
        first = np.unique(np.asarray(initializer((1, *row), dtype=dtype)))
    if len(first) != 1:
        raise ValueError(f"The slot {name} of a hashed table must begin with the same number everywhere.")
    return float(first[0])


def stored_hash(columns: Sequence[ColumnKind], server: int, servers: int) -> StoredHash:
    """Return a server's part of a hashed table.

    Args:
        columns: Its rows, and its slots.
        server: The server.
        servers: How many there are.
    """
    table, *slots = columns
    if not isinstance(table.initial, HashedInitializer):
        raise ValueError(f"{table.name} is a slot of a hashed table.")
    numbers = [0.0 if isinstance(each.initial, HashedInitializer) else each.initial for each in slots]
    spec = TableSpec(
        name=table.name,
        shape=table.shape,
        dtype=table.dtype,
        initial=table.initial.rows,
        slots=tuple(
            SlotSpec(each.name, each.shape, each.dtype, number)
            for each, number in zip(slots, numbers, strict=True)
        ),
    )
    keeping = table.initial.keeping
    return StoredHash(name=table.name, server=server, spec=spec, keeping=keeping, part=server, parts=servers)


def first_rows(
    columns: Sequence[ColumnKind], values: Mapping[str, Any], server: int, servers: int
) -> Iterator[FirstKeyedRows]:
    """Return the rows with which a server's part of a hashed table begins, some at a time.

    Args:
        columns: The table and its slots.
        values: What they begin with, by their paths.
        server: The server.
        servers: How many there are.
    """
    main = values[columns[0].name]
    saved = main.table if isinstance(main, SavedColumn) else None
    yield no_rows(columns, 0 if saved is None else saved.clock())
    if saved is None:
        return
    names = {
        each.name: value.name
        for each in columns
        if isinstance(value := values[each.name], SavedColumn) and value.table is saved
    }
    for piece in saved.pieces([*names.values()]):
        if (rows := rows_of_part(piece, columns, names, server, servers)) is not None:
            yield rows


def no_rows(columns: Sequence[ColumnKind], clock: int) -> FirstKeyedRows:
    """Return the first piece of a table's rows, which forgets all others.

    Args:
        columns: The table and its slots.
        clock: How many pushes the table has seen.
    """
    blank = [np.empty((0, *each.shape), dtype_named(each.dtype)) for each in columns]
    return FirstKeyedRows(np.empty(0, np.int64), blank, clock=clock)


def rows_of_part(
    piece: KeyedPiece, columns: Sequence[ColumnKind], there: Mapping[str, str], server: int, servers: int
) -> FirstKeyedRows | None:
    """Return those rows of a piece that a server has; None for none.

    Args:
        piece: Rows in a checkpoint.
        columns: The table and its slots.
        there: Those that the piece has, in its order.
        server: The server.
        servers: How many there are.
    """
    chosen = np.flatnonzero(owners(piece.ids, servers) == server)
    if not len(chosen):
        return None
    chosen = chosen[np.argsort(piece.ids[chosen])]
    made = [piece.uses[chosen]]
    if not piece.waiting:
        found = dict(zip(there, piece.columns, strict=True))
        for each in columns:
            dtype = dtype_named(each.dtype)
            if each.name in found:
                made.append(found[each.name][chosen].astype(dtype, copy=False))
            else:
                made.append(np.full((len(chosen), *each.shape), each.initial, dtype))
    return FirstKeyedRows(piece.ids[chosen], made, piece.waiting)
