"""What an iterator has next, or nothing."""

from dataclasses import dataclass
from typing import Any


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
