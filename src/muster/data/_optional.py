"""What an iterator has next, or nothing."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from muster._errors import OutOfRangeError


@dataclass(frozen=True, eq=False)
class Optional:
    """A value, or none.

    Args:
        values: the value alone, or nothing.

    Source: tensorflow/python/data/ops/optional_ops.py, ``Optional``.
    """

    values: tuple[Any, ...] = ()

    def has_value(self) -> bool:
        """Whether there is one."""
        return bool(self.values)

    def get_value(self) -> Any:
        """The value.

        Raises:
            ValueError: There is none. TensorFlow raises InvalidArgumentError.
        """
        if not self.values:
            raise ValueError("This Optional has no value: ask has_value() first.")
        return self.values[0]


class GetNext(ABC):
    """TensorFlow's other ways to ask an iterator for what is next.

    Source: tensorflow/python/data/ops/iterator_ops.py, ``IteratorBase``.
    """

    @abstractmethod
    def __next__(self) -> Any:
        """Return what is next.

        Raises:
            StopIteration: There is nothing.
        """

    def get_next(self) -> Any:
        """Return what is next.

        Raises:
            OutOfRangeError: There is nothing; a ``StopIteration``.
        """
        try:
            return next(self)
        except StopIteration:
            raise OutOfRangeError("End of sequence: nothing is left.") from None

    def get_next_as_optional(self) -> Optional:
        """Return what is next, or at the end an Optional without a value."""
        try:
            return Optional((next(self),))
        except StopIteration:
            return Optional()
