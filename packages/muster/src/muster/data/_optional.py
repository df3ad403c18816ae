"""``get_next`` and ``get_next_as_optional``, TensorFlow's alternatives to ``next(iterator)``."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from muster._errors import OutOfRangeError
from muster.data.pipeline._spec import as_element, spec_of


@dataclass(frozen=True, eq=False)
class Optional:
    """A value that may be absent, such as the next element of an iterator at its end.

    Args:
        values: A tuple of the value; empty if there is none.

    Source: tensorflow/python/data/ops/optional_ops.py, ``Optional``.
    """

    values: tuple[Any, ...] = ()

    @staticmethod
    def from_value(value: Any) -> "Optional":
        """Return one that has a value."""
        return Optional((as_element(value),))

    @staticmethod
    def empty(element_spec: Any) -> "Optional":
        """Return one without a value; ``element_spec`` is unused."""
        return Optional()

    @property
    def element_spec(self) -> Any:
        """The spec of the value; None if there is none."""
        return spec_of(self.values[0]) if self.values else None

    def has_value(self, name: str | None = None) -> bool:
        """Return whether there is a value; ``name`` is unused."""
        return bool(self.values)

    def get_value(self, name: str | None = None) -> Any:
        """Return the value; ``name`` is unused.

        Raises:
            ValueError: There is no value. TensorFlow raises InvalidArgumentError.
        """
        if not self.values:
            raise ValueError("This Optional has no value: ask has_value() first.")
        return self.values[0]


class GetNext(ABC):
    """Mixin that adds `get_next` and `get_next_as_optional` to an iterator.

    Source: tensorflow/python/data/ops/iterator_ops.py, ``IteratorBase``.
    """

    @abstractmethod
    def __next__(self) -> Any:
        """Return the next element.

        Raises:
            StopIteration: There are no more.
        """

    def next(self) -> Any:
        """Return the next element, as ``next(iterator)`` does."""
        return self.__next__()

    def get_next(self) -> Any:
        """Return the next element.

        Raises:
            OutOfRangeError: There are no more. It is a ``StopIteration``, too.
        """
        try:
            return next(self)
        except StopIteration:
            raise OutOfRangeError("End of sequence: nothing is left.") from None

    def get_next_as_optional(self) -> Optional:
        """Return an Optional of the next element; at the end, one without a value."""
        try:
            return Optional((next(self),))
        except StopIteration:
            return Optional()
