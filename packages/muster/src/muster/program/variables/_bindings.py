"""The variables that a step has used so far, and the current value of each."""

from collections.abc import Iterable, Mapping
from typing import Any

import jax

from muster.program.variables._trace_keys import TraceKeys
from muster.program.variables._variable_table import VariableTable


class Bindings:
    """Binds variables to values while code runs.

    Args:
        values: The value of each variable by its id, which Keras reads, too; empty.

    Attributes:
        values: As given.
        table: The variables that the code has used so far.
        trace_keys: Tells jit-compiled functions of the code apart by what they read.
        read_by: The variables that are read are added to each of these, by their ids.
    """

    def __init__(self, values: dict[int, jax.Array]) -> None:
        self.values = values
        self.table = VariableTable()
        self.trace_keys = TraceKeys()
        self.read_by: list[dict[int, Any]] = []

    def note_read(self, variable: Any) -> None:
        """Note that code reads a variable."""
        self.trace_keys.note_read()
        for reader in self.read_by:
            reader.setdefault(id(variable), variable)

    def change(self, values: Mapping[int, jax.Array] | Iterable[tuple[int, jax.Array]]) -> None:
        """Give variables other values, by their ids."""
        self.values.update(values)
        self.trace_keys.note_change()

    def restore(self, values: Mapping[int, jax.Array]) -> None:
        """Go back to earlier values, by the ids of the variables; others have none."""
        self.values.clear()
        self.change(values)

    def state(self) -> dict[str, jax.Array]:
        """Return path -> current value of every variable."""
        return {spec.path: self.values[id(variable)] for spec, variable in self.table.pairs}
