"""Keep the values of Keras variables elsewhere, such as on parameter servers. Tried on keras 3.15.1.

``tests/program/variables/test_remote_variables.py`` fails when what is used of Keras here changes.

All of Keras reads and writes a variable's attribute ``_value``: ``value``, ``numpy``, operators, ``assign``,
and the saving of models. So a variable whose class has a property of that name lives wherever the property
looks. A variable becomes one by getting a subclass of its own class, before Keras initializes it; Keras'
own variables for NNX have such a property, too. Other variables stay as they are, and cost nothing more.
"""

import functools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from muster._keras import keras
from muster.program.variables.keras_internals import global_state, is_stateless


class Storage(Protocol):
    """Holds the values of variables."""

    def create(self, variable: Any, initial: Any) -> None:
        """Create the value of a variable that has its name, shape and dtype already.

        Args:
            variable: The variable.
            initial: Its value, or a callable (shape, dtype) -> array.
        """

    def read(self, variable: Any) -> jax.Array:
        """Return the value of a variable."""

    def write(self, variable: Any, value: Any) -> None:
        """Set the value of a variable to an array of its shape and dtype."""

    def add(self, variable: Any, value: Any) -> None:
        """Add an array of its shape and dtype to a variable: what others add at the same time counts, too."""

    def together(self, variables: Sequence[Any]) -> AbstractContextManager[None]:
        """Read and write the values of these variables in few messages meanwhile, in this thread."""


def keep_elsewhere(variable: Any, storage: Storage) -> None:
    """Let a variable that Keras is about to initialize have its value in a storage.

    `create_elsewhere` creates the value, once Keras has set the shape and the dtype.
    """
    kind: Any = type(variable)
    variable.__class__ = _remote(kind)
    variable._storage = storage
    variable._waiting = None


def create_elsewhere(variable: Any, initial: Any = None) -> None:
    """Create the value of a variable in its storage, unless it is there or has no initial value yet.

    Args:
        variable: A variable, after `keep_elsewhere`.
        initial: Its value, or a callable (shape, dtype) -> array; None for what Keras initialized it with.
    """
    if "_waiting" not in vars(variable):
        return
    initial = variable._waiting if initial is None else initial
    if initial is not None:
        variable._storage.create(variable, initial)
        del variable._waiting


def move_elsewhere(variable: Any, storage: Storage) -> None:
    """Let a storage have the value of a variable that has had it itself."""
    value = vars(variable).pop("_value")
    keep_elsewhere(variable, storage)
    create_elsewhere(variable, value)


def storage_of(variable: Any) -> Storage | None:
    """Return what holds the value of a variable; None if the variable does itself."""
    return variable._storage if isinstance(variable, _Remote) else None


def like_value_of(variable: Any) -> Any:
    """Return the array of a variable, or what has its shape and dtype where the array is elsewhere."""
    if storage_of(variable) is None:
        return variable._value
    return jax.ShapeDtypeStruct(variable.shape, jax.dtypes.canonicalize_dtype(variable._dtype))


@contextmanager
def together(variables: Iterable[Any]) -> Iterator[None]:
    """Read and write the values of variables that are elsewhere in few messages meanwhile, in this thread."""
    by_storage: dict[Storage, list[Any]] = {}
    for variable in variables:
        if (storage := storage_of(variable)) is not None and "_waiting" not in vars(variable):
            by_storage.setdefault(storage, []).append(variable)
    with ExitStack() as stack:
        for storage, own in by_storage.items():
            stack.enter_context(storage.together(own))
        yield


class _Remote:
    """A mixin for variables whose values are elsewhere, placed before the variable's own class.

    Until the storage has created the value, what Keras initialized it with is in ``_waiting``.
    """

    _storage: Storage
    _waiting: Any
    _initializer: Any
    _dtype: str
    shape: tuple[int, ...]

    @property
    def value(self) -> Any:
        with self._storage.together([self]):  # Keras reads it twice
            return super().value  # type: ignore[misc]

    @property
    def _value(self) -> Any:
        if "_waiting" in vars(self):
            return None if callable(self._waiting) else self._waiting
        if global_state.get_global_attribute("symbolic_scope") is not None:
            return jnp.zeros(self.shape, self._dtype)  # traced: Keras asks for shapes alone
        return self._storage.read(self)

    @_value.setter
    def _value(self, value: Any) -> None:
        if "_waiting" in vars(self):
            self._waiting = value
        elif value is not None:  # as Keras sets while a trainer has the values, to free their memory
            self._storage.write(self, value)

    def assign_add(self, value: Any) -> Any:
        """Add there; returns the variable rather than its value, which would have to be read."""
        if (addend := self._addend(value)) is None:
            return super().assign_add(value)  # type: ignore[misc]
        self._storage.add(self, addend)
        return self

    def assign_sub(self, value: Any) -> Any:
        """Subtract there; returns as `assign_add` does."""
        if (addend := self._addend(value)) is None:
            return super().assign_sub(value)  # type: ignore[misc]
        self._storage.add(self, -addend)
        return self

    def _addend(self, value: Any) -> Any:
        """Return a value as an array of this variable's shape and dtype, if it can be added there.

        It cannot while a program is traced, and where Keras would compute in another dtype.
        """
        if "_waiting" in vars(self) or is_stateless():
            return None
        like, value = like_value_of(self), value if isinstance(value, int | float) else jnp.asarray(value)
        if like.dtype == bool or jnp.result_type(like.dtype, value) != like.dtype:
            return None
        addend = np.asarray(value, like.dtype)
        return np.broadcast_to(addend, like.shape) if addend.size == 1 or addend.shape == like.shape else None

    def _initialize_with_initializer(self, initializer: Any) -> None:
        self._waiting = initializer

    def _deferred_initialize(self) -> None:
        # Keras calls this for variables that were created while it inferred shapes.
        create_elsewhere(self, self._initializer)
        self._initializer = None


@functools.cache
def _remote(kind: Any) -> type[keras.Variable]:
    """Return the class of variables whose values are elsewhere, for variables of some class."""
    return kind if issubclass(kind, _Remote) else type(kind.__name__, (_Remote, kind), {})
