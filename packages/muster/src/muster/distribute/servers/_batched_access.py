"""Read and write several variables on parameter servers at once, in few messages."""

from collections.abc import Sequence
from typing import Any, Protocol

import jax

from muster.distribute.engine._stored_tables import nbytes_of
from muster.program.variables import like_value_of

# How many bytes of variables that are read or written together go at once.
_TOGETHER_BYTES = 64 << 20


class Stored(Protocol):
    """Variables whose values parameter servers hold."""

    def pull(self, variables: Sequence[Any]) -> list[jax.Array]:
        """Return the values of variables, in one message to each server."""

    def push(self, values: Sequence[tuple[Any, Any]]) -> None:
        """Set variables to values, in one message to each server."""

    def push_added(self, values: Sequence[tuple[Any, Any]]) -> None:
        """Add values to variables, in one message to each server."""


class BatchedAccess:
    """Reads and writes variables in few messages.

    The first of them that is read brings those that follow, up to some bytes. New values wait until `flush`,
    or until they are as many.

    Args:
        stored: Holds the values.
        variables: The variables, in the order in which they are likely to be read.
    """

    def __init__(self, stored: Stored, variables: Sequence[Any]) -> None:
        self._stored = stored
        self._order: dict[int, Any] = {}
        self._values: dict[int, jax.Array] = {}
        self._written: dict[int, tuple[Any, Any]] = {}
        self._added: dict[int, tuple[Any, Any]] = {}
        self._waiting_bytes = 0
        self.expect(variables)

    def expect(self, variables: Sequence[Any]) -> None:
        """Take further variables that are to be read or written."""
        self._order.update({id(variable): variable for variable in variables})

    def read(self, variable: Any) -> jax.Array:
        """Return the value of a variable."""
        key = id(variable)
        if key in self._written:
            return self._written[key][1]  # type: ignore[no-any-return]
        if key in self._added:
            self.flush()
        if key not in self._values:
            wanted = self._following(variable)
            values = self._stored.pull(wanted)
            self._values = {id(each): value for each, value in zip(wanted, values, strict=True)}
        return self._values[key]

    def write(self, variable: Any, value: Any) -> None:
        """Set a variable to a value."""
        self._order.setdefault(id(variable), variable)
        self._written[id(variable)] = variable, value
        self._added.pop(id(variable), None)
        self._values.pop(id(variable), None)
        self._waiting_bytes += value.nbytes
        if self._waiting_bytes > _TOGETHER_BYTES:
            self.flush()

    def add(self, variable: Any, value: Any) -> None:
        """Add a value to a variable."""
        key = id(variable)
        if key in self._written:
            self.write(variable, self._written[key][1] + value)
            return
        if key in self._added:
            self.flush()
        self._added[key] = variable, value
        self._values.pop(key, None)
        self._waiting_bytes += value.nbytes
        if self._waiting_bytes > _TOGETHER_BYTES:
            self.flush()

    def flush(self) -> None:
        """Send new values, and what was added to others."""
        written, self._written, self._waiting_bytes = self._written, {}, 0
        added, self._added = self._added, {}
        if written:
            self._stored.push(list(written.values()))
        if added:
            self._stored.push_added(list(added.values()))

    def _following(self, variable: Any) -> list[Any]:
        """Return a variable, and those that follow it, up to some bytes."""
        keys = list(self._order)
        start = keys.index(id(variable)) if id(variable) in self._order else len(keys)
        wanted, nbytes = [variable], nbytes_of(like_value_of(variable))
        for key in keys[start + 1 :]:
            nbytes += nbytes_of(like_value_of(self._order[key]))
            if nbytes > _TOGETHER_BYTES:
                break
            if key not in self._written and key not in self._added:
                wanted.append(self._order[key])
        return wanted
