"""`VariableShard`: rows of a variable that lies on several parameter servers, as a variable of their own.

A divided variable stays one for layers, optimizers and checkpoints. Programs that were written for
TensorFlow count its shards, read them, and ask for their gradients: those get these.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from muster._keras import keras
from muster.keras_hooks import WHILE_TAPES_ARE_OPEN
from muster.program.variables.keras_internals import is_stateless


class ShardStorage(Protocol):
    """Reads and assigns rows of variables that it holds."""

    def pull_rows(self, variable: Any, start: int, stop: int) -> np.ndarray[Any, Any]:
        """Return rows of a variable, which are a shard."""

    def push_rows(self, variable: Any, start: int, stop: int, rows: np.ndarray[Any, Any]) -> None:
        """Assign rows of a variable, which are a shard."""


class VariableShard(keras.Variable):  # type: ignore[misc]  # keras is untyped
    """Some rows of a variable. It has no value of its own: it reads and assigns those of the whole.

    Args:
        whole: The variable, whose other properties it has.
        storage: Where the rows are.
        number: Which of the shards it is, from 0 on.
        start: Its first row.
        stop: The row after its last.
        place: The number of the server that has the rows.

    Attributes:
        whole: The variable.
        number: Which of the shards it is.
        place: The number of the server.
    """

    def __init__(
        self, whole: Any, storage: ShardStorage, number: int, start: int, stop: int, place: int
    ) -> None:
        # Keras' own would create a value.
        part = f"part_{number}"
        stem, *output = str(whole.name).split(":")
        own = {each: value for each, value in vars(whole).items() if each in _TAKEN_OVER}
        name = ":".join([f"{stem}/{part}", *output])
        self.__dict__.update(own, _name=name, _path=f"{whole.path}/{part}", _initializer=None)
        self._shape = (stop - start, *whole.shape[1:])
        self._ndim = len(self._shape)
        self.whole, self.number, self.place = whole, number, place
        self._rows, self._storage_of_rows = (start, stop), storage

    @property
    def value(self) -> jax.Array:
        start, stop = self._rows
        if is_stateless() or WHILE_TAPES_ARE_OPEN.are_in_use:  # gradients reach the whole
            return self.whole.value[start:stop]  # type: ignore[no-any-return]
        rows = self._storage_of_rows.pull_rows(self.whole, start, stop)
        with jax.core.eval_context():
            return self._maybe_autocast(jax.device_put(rows))  # type: ignore[no-any-return]

    @property
    def _value(self) -> jax.Array:
        return self.value

    @property
    def trainable(self) -> bool:
        return bool(self.whole.trainable)

    @trainable.setter
    def trainable(self, value: bool) -> None:
        self.whole.trainable = value

    def part_of(self, array: Any) -> Any:
        """Return the rows of this shard in an array that has those of the whole."""
        return array[slice(*self._rows)]

    def assign(self, value: Any) -> Any:
        """Set these rows."""
        start, stop = self._rows
        value = self._convert_to_tensor(value, dtype=self._dtype)
        if tuple(value.shape) != tuple(self.shape):
            raise ValueError(
                f"{self.path} has shape {tuple(self.shape)}, got a value of shape {tuple(value.shape)}. Give "
                f"one of the same shape, or assign to all of {self.whole.path}."
            )
        if is_stateless():
            self.whole.assign(self.whole.value.at[start:stop].set(value))
        else:
            self._storage_of_rows.push_rows(self.whole, start, stop, np.asarray(value))
        return value


# What a shard has of the whole, as Keras' class keeps it.
_TAKEN_OVER = {
    "_dtype",
    "_regularizer",
    "_constraint",
    "_autocast",
    "_aggregation",
    "_synchronization",
    "_layout",
    "_overwrite_with_gradient",
    "constraint",
}


def whole_variables(variables: Sequence[Any]) -> list[Any]:
    """Return variables, and for shards the variable that they are of, once, where the first of them was."""
    found = {id(each): each for each in map(whole_of, variables)}
    shards = any(isinstance(each, VariableShard) for each in variables)
    return [*found.values()] if shards else list(variables)


def whole_of(variable: Any) -> Any:
    """Return the variable that a shard is of; any other as it is."""
    return variable.whole if isinstance(variable, VariableShard) else variable


def joined_shards(parts: Sequence[Any]) -> jax.Array:
    """Return arrays of all shards of a variable, in order, as that of the whole."""
    return jnp.concatenate(parts)
