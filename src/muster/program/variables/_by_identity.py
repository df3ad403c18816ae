"""Map objects that cannot be hashed, such as Keras' variables, to values, for as long as they live."""

import weakref
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")


class ByIdentity(Generic[Value]):
    """Maps objects to values, by identity; does not keep the objects alive."""

    def __init__(self) -> None:
        self._values: dict[int, Value] = {}

    def __setitem__(self, key: Any, value: Value) -> None:
        if id(key) not in self._values:
            weakref.finalize(key, self._values.pop, id(key), None).atexit = False
        self._values[id(key)] = value

    def __contains__(self, key: Any) -> bool:
        return id(key) in self._values

    def get(self, key: Any, default: Value) -> Value:
        """Return the value of an object, or the default."""
        return self._values.get(id(key), default)
