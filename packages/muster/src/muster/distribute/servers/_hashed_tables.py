"""Hashed tables of a coordinator's program: variables on servers that add and evict rows."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax

from muster.distribute.engine._hashed_columns import HashedInitializer, slot_number
from muster.program.variables import ByIdentity
from muster.ps.contents import StoredHash
from muster.ps.tables import SlotSpec, TableSpec


@dataclass
class _HashedTable:
    """A hashed table, and its slots so far.

    Attributes:
        name: Its name on servers.
        row: The shape of a row.
        dtype: The name of its dtype.
        initializer: What it was created with.
        slots: The variables of its slots, and what they are.
        created: How many slots servers know; None if they do not have the table.
    """

    name: str
    row: tuple[int, ...]
    dtype: str
    initializer: HashedInitializer
    slots: list[tuple[Any, SlotSpec]] = field(default_factory=list)
    created: int | None = None


class TableColumn(NamedTuple):
    """A variable that stands for what servers keep for each row of a hashed table.

    Attributes:
        table: The name of the table on servers.
        number: 0 for the rows themselves, and from 1 on for slots.
        shape: The shape for one row.
        dtype: The name of the dtype.
        initial: What a slot begins with in every row.
    """

    table: str
    number: int
    shape: tuple[int, ...]
    dtype: str
    initial: float = 0.0


class ProgramHashedTables:
    """Knows the hashed tables of a program, by their variables.

    Servers get a table when it is used first, and slots that come later when it is used next.

    Args:
        servers: The number of servers, each of which has a part of every table.
    """

    def __init__(self, servers: int) -> None:
        self._servers = servers
        self._tables: ByIdentity[_HashedTable | None] = ByIdentity()
        self._of_slots: ByIdentity[_HashedTable | None] = ByIdentity()

    def add(
        self, variable: Any, name: str, like: jax.ShapeDtypeStruct, initializer: HashedInitializer
    ) -> None:
        """Take a table."""
        self._tables[variable] = _HashedTable(name, tuple(like.shape[1:]), like.dtype.name, initializer)

    def are_beside(self, variable: Any, like: jax.ShapeDtypeStruct) -> bool:
        """Return whether a new variable, created beside another one, is a slot of a hashed table."""
        return self._tables.get(variable, None) is not None and tuple(variable.shape) == like.shape

    def add_slot(
        self, table: Any, variable: Any, name: str, like: jax.ShapeDtypeStruct, initial: Any
    ) -> None:
        """Take a slot of a table.

        Args:
            table: The variable of the table.
            variable: The slot's.
            name: Its name.
            like: Its shape and dtype.
            initial: Its initializer.

        Raises:
            ValueError: Rows do not all begin with the same number.
        """
        known = self._tables.get(table, None)
        if known is None:
            raise KeyError(table.path)
        first = slot_number(name, initial, known.row, like.dtype.name)
        known.slots.append((variable, SlotSpec(name, known.row, like.dtype.name, first)))
        self._of_slots[variable] = known

    def name_of(self, variable: Any) -> str | None:
        """Return the name of the table that a variable, or its slot, is of; None if it is none."""
        table = self._tables.get(variable, None) or self._of_slots.get(variable, None)
        return None if table is None else table.name

    def column_of(self, variable: Any) -> TableColumn | None:
        """Return what a variable stands for; None if it is of no hashed table."""
        if (table := self._tables.get(variable, None)) is not None:
            return TableColumn(table.name, 0, table.row, table.dtype)
        if (table := self._of_slots.get(variable, None)) is None:
            return None
        (number,) = (at for at, (slot, _) in enumerate(table.slots, 1) if slot is variable)
        slot = table.slots[number - 1][1]
        return TableColumn(table.name, number, slot.shape, slot.dtype, slot.initial)

    def columns_of(self, variable: Any) -> tuple[Any, ...]:
        """Return a table's variable, and those of its slots, in order; nothing for others."""
        table = self._tables.get(variable, None)
        return () if table is None else (variable, *(slot for slot, _ in table.slots))

    def to_create(self, variable: Any) -> Sequence[StoredHash]:
        """Return the parts of a table that servers do not have yet, or without all slots; they are to be
        created then."""
        table = self._tables.get(variable, None)
        if table is None or table.created == len(table.slots):
            return ()
        table.created = len(table.slots)
        spec = TableSpec(
            name=table.name,
            shape=table.row,
            dtype=table.dtype,
            initial=table.initializer.rows,
            slots=tuple(slot for _, slot in table.slots),
        )
        return [
            StoredHash(
                name=table.name,
                server=server,
                spec=spec,
                keeping=table.initializer.keeping,
                part=server,
                parts=self._servers,
            )
            for server in range(self._servers)
        ]
