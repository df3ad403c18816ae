"""Map objects that cannot be hashed, such as Keras' variables, to values, for as long as they live."""

import weakref
from typing import Generic, TypeVar

Value = TypeVar("Value")


class ByIdentity(Generic[Value]):
    """Maps objects to values, by identity; does not keep the objects alive."""

    def __init__(self) -> None:
        self._values: dict[int, Value] = {}

    def __setitem__(self, key: object, value: Value) -> None:
        if id(key) not in self._values:
            weakref.finalize(key, self._values.pop, id(key), None).atexit = False
        self._values[id(key)] = value

    def __contains__(self, key: object) -> bool:
        return id(key) in self._values

    def get(self, key: object, default: Value) -> Value:
        """Return the value of an object, or the default."""
        return self._values.get(id(key), default)
